/** Transactions of handlers over SQLite, on each driver. */
import { statSync } from 'node:fs';
import Database from 'libsql';
import { createReceiver, withPayload } from 'stablehooks';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type SynchronousTransactionsUnderTest, synchronousTransactionContract } from '../contracts/index.js';
import { deferred } from '../receiver/delivery.js';
import { claimed, silent } from './claimed.js';
import { connect, drivers, freshPath } from './sqlite-drivers.js';

const LEDGER = 'CREATE TABLE ledger (id TEXT NOT NULL, number INTEGER CHECK (number > 0))';

function underTest(db: SqliteLike): SynchronousTransactionsUnderTest<SqliteLike> {
  db.exec(LEDGER);
  return {
    inbox: sqliteInbox(db, { transactional: true }),
    effect: (tx, id) => void tx.prepare('INSERT INTO ledger VALUES (?, 1) RETURNING id').all(id),
    fail: (tx) => void tx.prepare('INSERT INTO ledger VALUES (?, -1) RETURNING id').all('wrong'),
    countEffects: (id) => db.prepare('SELECT id FROM ledger WHERE id = ?').all(id).length,
    raw: (tx, text) => void tx.exec(text),
  };
}

for (const { name: driver, open } of drivers) {
  describe(`transactions of handlers over ${driver}`, () => {
    test('a handler is not begun inside of a transaction of the app, which stays as it is', async () => {
      const db = open(freshPath());
      try {
        const { inbox, countEffects, effect } = underTest(db);
        const receiver = createReceiver({
          secret: 's',
          inbox,
          logger: silent,
          handlers: { 'transfer.settled': (event, { tx }) => effect(tx, event.id) },
        });
        const event = exampleEvent('transfer.settled');
        await inbox.record([event], { dueInMs: 0, origin: 'pull' });
        db.exec("BEGIN; INSERT INTO ledger VALUES ('own', 1)");
        const { error } = await receiver.handle(event, 'push');
        expect(String(error?.cause)).toMatch(/its own connection/);
        db.exec('COMMIT');
        expect([countEffects('own'), countEffects(event.id)]).toEqual([1, 0]);
        expect((await receiver.handle(event, 'push')).kind).toBe('handled');
      } finally {
        db.close();
      }
    });

    test.each(synchronousTransactionContract)('$name', async ({ run }) => {
      const db = open(freshPath());
      try {
        await run(underTest(db));
      } finally {
        db.close();
      }
    });
  });
}

test('a savepoint of a handler is rolled back alone', async () => {
  const db = new Database(freshPath());
  db.exec(LEDGER);
  const insert = db.prepare('INSERT INTO ledger VALUES (?, ?)');
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent, inbox: sqliteInbox(db, { transactional: true }) },
    handlers: {
      'transfer.settled': ({ id }, { tx }) => {
        tx.exec('SAVEPOINT mine');
        insert.run(id, 1);
        tx.exec('ROLLBACK TO mine; RELEASE mine');
        insert.run(id, 2);
      },
    },
  });
  expect((await receiver.handle(exampleEvent('transfer.settled'), 'push')).kind).toBe('handled');
  expect(db.prepare('SELECT number FROM ledger').all()).toEqual([{ number: 2 }]);
  db.close();
});

test('a deferred constraint that refuses the COMMIT is a failure of the handler', async () => {
  const db = connect(freshPath());
  db.exec(`PRAGMA foreign_keys = ON; CREATE TABLE account (id TEXT PRIMARY KEY);
    CREATE TABLE entry (account TEXT REFERENCES account DEFERRABLE INITIALLY DEFERRED)`);
  const inbox = sqliteInbox(db, { transactional: true });
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent, inbox },
    handlers: { 'transfer.settled': (_, { tx }) => tx.exec("INSERT INTO entry VALUES ('unknown')") },
  });
  const event = exampleEvent('transfer.settled');
  expect(await receiver.handle(event, 'push')).toMatchObject({
    kind: 'failed',
    error: { code: 'ERR_HANDLER_FAILED' },
  });
  expect(db.prepare('SELECT * FROM entry').all()).toEqual([]);
  expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
});

test('while another connection holds the write lock, events are unavailable, and no attempt counts as failed', async () => {
  const path = freshPath();
  const [db, other] = [connect(path), connect(path)];
  const inbox = sqliteInbox(db, { transactional: true, busyTimeoutMs: 1 });
  let runs = 0;
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent, inbox },
    handlers: {
      'transfer.settled': () => {
        runs += 1;
      },
    },
  });
  const event = exampleEvent('transfer.settled');
  const lease = await claimed(inbox, event, { leaseMs: 0 });
  other.exec('BEGIN IMMEDIATE');
  expect(() => inbox.transaction?.(lease, () => undefined)).toThrow(/locked|busy/i);
  expect((await receiver.handle(event, 'push')).kind).toBe('unavailable');
  other.exec('ROLLBACK');
  expect(runs).toBe(0);
  expect((await receiver.handle(event, 'push')).kind).toBe('handled');
});

test('layers and typed payloads leave a synchronous handler synchronous', async () => {
  const db = connect(freshPath());
  db.exec(LEDGER);
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent, inbox: sqliteInbox(db, { transactional: true }) },
    use: [openTelemetry()],
    maxConcurrency: 2,
    orderingKey: ({ id }) => id,
    handlers: {
      'transfer.settled': withPayload(z.object({}).loose(), ({ id }, { tx }) =>
        tx.prepare('INSERT INTO ledger VALUES (?, 1) RETURNING id').all(id),
      ),
    },
  });
  expect((await receiver.handle(exampleEvent('transfer.settled'), 'push')).kind).toBe('handled');
  expect(db.prepare('SELECT number FROM ledger').all()).toEqual([{ number: 1 }]);
});

test('a record that finds a leased event writes, which makes its commit wait until the claim is on disk', async () => {
  const path = freshPath();
  const inbox = sqliteInbox(connect(path));
  const event = exampleEvent('transfer.settled');
  await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  const before = statSync(`${path}-wal`).size;
  expect(await inbox.record([event], { dueInMs: 0, origin: 'push' })).toEqual(['leased']);
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(before);
});

test('a handler that returns a promise leaves no wait for its commit, which would end the process', async () => {
  const db = connect(freshPath());
  const handler = deferred();
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent, inboxTimeoutMs: 1 },
    inbox: sqliteInbox(db, { transactional: true }),
    // As JavaScript passes it.
    handlers: { 'transfer.settled': () => handler.promise as never },
  });
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => void rejections.push(reason);
  process.on('unhandledRejection', onRejection);
  await receiver.handle(exampleEvent('transfer.settled'), 'push');
  handler.resolve();
  await new Promise((resolve) => setTimeout(resolve, 50));
  process.off('unhandledRejection', onRejection);
  expect(rejections).toEqual([]);
});

test('a step that JavaScript calls in a transaction of SQLite fails the handler', async () => {
  const receiver = createReceiver({
    ...{ secret: 'test', logger: silent },
    inbox: sqliteInbox(new Database(freshPath()), { transactional: true }),
    handlers: {
      'transfer.settled': (_, context) => {
        (context as unknown as { step(name: string, run: () => void): unknown }).step('pay', () => undefined);
      },
    },
  });
  const { kind, error } = await receiver.handle(exampleEvent('transfer.settled'), 'push');
  expect([kind, String(error?.cause)]).toEqual(['failed', expect.stringContaining('Remove `transactional`')]);
});

describe('createReceiver refuses an async handler in a transaction of SQLite at start', () => {
  const schema = z.object({ amount: z.string() });
  const async = async () => {};
  test.each<[string, unknown]>([
    ['itself', async],
    ['behind withPayload', withPayload(schema, async)],
  ])('%s', (_, handler) => {
    const inbox = sqliteInbox(new Database(freshPath()), { transactional: true });
    const handlers = { 'transfer.failed': () => undefined, 'transfer.settled': handler as () => void };
    const options = { secret: 'test', logger: silent, handlers };
    expect(() => createReceiver({ ...options, inbox })).toThrow(
      /handler for transfer\.settled is async.*SQLite handlers must be synchronous\. Remove `async` and `await` from the handler, or remove the option/,
    );
    createReceiver({ ...options, inbox: sqliteInbox(new Database(freshPath())) });
  });
});
