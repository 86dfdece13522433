import { INSTALL_MARIADB } from './mariadb.js';
import { describeWith } from './with-program.js';

export const describeWithMariadb = describeWith('mariadbd', INSTALL_MARIADB);
