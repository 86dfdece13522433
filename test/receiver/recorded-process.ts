/** The process that `recorded-kills.test.ts` kills: answers deliveries once they are stored, and runs slow handlers. */
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver, type Inbox, memoryInbox } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';

const { STORE = '', FILE = '', LEDGER = '', URL = '', SECRET = '' } = process.env;

/** How the effect of an event is written; nothing in it prevents a second entry of the same event. */
type Book<Tx> = (id: string, tx: Tx) => unknown;

const appendToFile: Book<undefined> = (id) => appendFileSync(LEDGER, `${id}\n`);

const RECEIVERS: Readonly<Record<string, () => ReturnType<typeof createReceiver>>> = {
  sqlite: () => receiverWith(sqliteInbox(new Database(FILE)), appendToFile),
  postgres: () =>
    receiverWith(postgresInbox(new pg.Pool({ connectionString: URL }), { transactional: true }), (id, tx) =>
      tx.query('INSERT INTO ledger VALUES ($1)', [id]),
    ),
  // It claims to be durable and is not: the test must find that.
  forgetful: () => receiverWith({ ...memoryInbox(), durable: true }, appendToFile),
};

function receiverWith<Tx>(inbox: Inbox<Tx>, book: Book<Tx>) {
  return createReceiver<unknown>({
    secret: SECRET,
    inbox: inbox as Inbox<unknown>,
    answer: 'recorded',
    // Fewer than the deliveries that arrive at once: some are stored with a lease, and some without.
    maxConcurrency: 4,
    orderingKey: ({ payload }) => payload['wallet_id'] as string | undefined,
    // Short, so an event that a kill left leased soon runs again; far longer than any handler here.
    leaseMs: 2_000,
    handlerTimeoutMs: 1_900,
    // Every kill in the middle of an attempt counts as one.
    maxAttempts: 10_000,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': async ({ id }, { tx }) => {
        await pause(Math.random() * 20);
        await book(id, tx as Tx);
        await pause(Math.random() * 20);
      },
    },
  });
}

const receiver = RECEIVERS[STORE]?.();
if (receiver === undefined) throw new Error(`The store ${STORE} is unknown.`);
receiver.start({ intervalMs: 100 });
const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
  process.send?.(server.address());
});
process.on('disconnect', () => process.exit());
