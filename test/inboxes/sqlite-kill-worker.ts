/** The process that `sqlite-kills.test.ts` kills: handles what is due in an SQLite file, in transactions. */
import { createReceiver } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { drivers } from './sqlite-drivers.js';

/** Short, so that a killed event runs again soon. */
const LEASE_MS = 1_000;

const { DRIVER = '', FILE = '' } = process.env;

const driver = drivers.find(({ name }) => name === DRIVER);
if (driver === undefined) throw new Error(`There is no driver ${DRIVER}.`);
const db = driver.open(FILE);
const inbox = sqliteInbox(db, { transactional: true });
const insert = db.prepare('INSERT INTO ledger VALUES (?) RETURNING id');
let started = false;

const receiver = createReceiver({
  ...{ secret: 'kills', inbox },
  leaseMs: LEASE_MS,
  handlerTimeoutMs: LEASE_MS - 1,
  // Every kill in the middle of an attempt counts as one.
  maxAttempts: 10_000,
  logger: { warn: () => undefined, error: () => undefined },
  handlers: {
    'transfer.settled': ({ id }) => {
      if (!started) process.send?.('started');
      started = true;
      insert.all(id);
      // Synchronous, as the handler is: the kill can come while the transaction is open.
      const until = performance.now() + Math.random() * 3;
      while (performance.now() < until);
    },
  },
});

// The test decides when the process begins.
process.once('message', () => receiver.start({ intervalMs: 5 }));
process.on('disconnect', () => process.exit());
process.send?.('ready');
