import { INSTALL_REDIS } from './redis.js';
import { describeWith } from './with-program.js';

export const describeWithRedis = describeWith('redis-server', INSTALL_REDIS);
