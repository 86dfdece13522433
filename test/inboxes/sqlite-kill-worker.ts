/** The process that `sqlite-kills.test.ts` kills: handles what is due in an SQLite file, in transactions. */
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { drivers } from './sqlite-drivers.js';
import { workUntilKilled } from './work-until-killed.js';

const { DRIVER = '', FILE = '' } = process.env;

const driver = drivers.find(({ name }) => name === DRIVER);
if (driver === undefined) throw new Error(`There is no driver ${DRIVER}.`);
const db = driver.open(FILE);
const inbox = sqliteInbox(db, { transactional: true });
const insert = db.prepare('INSERT INTO ledger VALUES (?) RETURNING id');

workUntilKilled(inbox, ({ id }) => {
  insert.all(id);
  // Synchronous, as the handler is: the kill can come while the transaction is open.
  const until = performance.now() + Math.random() * 3;
  while (performance.now() < until);
});
