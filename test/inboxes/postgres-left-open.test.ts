/** Connections that an app returns to its pool with a transaction open. */
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { beforeEach, expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, silent, someEvent } from './claimed.js';

const postgres = ownPostgres('CREATE TABLE ledger (id text)');
const { pool: admin } = postgres;
beforeEach(async () => {
  await admin.query('TRUNCATE ledger, stablehooks.events');
});

/** How an app leaves a transaction open. */
const LEFTOVERS = {
  'that has written': ['BEGIN', "INSERT INTO ledger VALUES ('left over')"],
  'that has read': ['BEGIN', 'SELECT FROM ledger'],
  'that has done nothing': ['BEGIN'],
  'that has failed': ['BEGIN', 'SELECT 1 / 0'],
};

/** A pool each of whose connections has a transaction open. */
async function openPool(connections: number, leftover: readonly string[]) {
  const pool = postgres.open({ max: connections });
  const clients = await Promise.all(Array.from({ length: connections }, () => pool.connect()));
  for (const client of clients) {
    for (const text of leftover) await client.query(text).catch(() => undefined);
    client.release();
  }
  return pool;
}

const inboxOver = (pool: pg.Pool, transactional: boolean) =>
  (transactional ? postgresInbox(pool, { transactional }) : postgresInbox(pool)) as ReturnType<
    typeof postgresInbox
  >;

const CASES = [true, false].flatMap((transactional) =>
  Object.entries(LEFTOVERS).map(([name, leftover]) => ({ transactional, name, leftover })),
);

test.each(CASES)(
  'with a transaction $name left open on each connection, a delivery is answered 200 only if its event is stored (transactional: $transactional)',
  async ({ transactional, leftover }) => {
    const pool = await openPool(3, leftover);
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: inboxOver(pool, transactional), logger: silent },
      handlers: { 'transfer.settled': () => undefined },
    });
    const events = Array.from({ length: 40 }, () => someEvent());
    const kinds = new Map<string, string>();
    for (const event of events) {
      const { kind, error } = await receiver.handle(event, 'push');
      if (kind !== 'handled') expect([kind, error?.code]).toEqual(['unavailable', 'ERR_INBOX_FAILED']);
      kinds.set(event.id, kind);
    }
    const { rows } = await admin.query("SELECT id FROM stablehooks.events WHERE state = 'done'");
    const handled = [...kinds].filter(([, kind]) => kind === 'handled').map(([id]) => id);
    expect(rows.map(({ id }) => id).sort()).toEqual(handled.sort());
    // The connections were closed, and the pool has new ones.
    expect(handled.length).toBeGreaterThan(30);
    expect((await admin.query('SELECT FROM ledger')).rowCount).toBe(0);
  },
);

test('with a transaction left open, no step of an inbox says that it has stored something', async () => {
  const event = someEvent();
  const inbox = postgresInbox(admin);
  const holder = randomUUID();
  const lease = await claimed(inbox, event);
  await inbox.leaseNote('a note', { holder, leaseMs: 60_000 });
  const steps: Readonly<Record<string, (over: typeof inbox) => unknown>> = {
    complete: (over) => over.complete(lease),
    fail: (over) => over.fail(lease, { retryAfterMs: null, error: 'no' }),
    record: (over) => over.record([someEvent()], { dueInMs: 0, origin: 'pull' }),
    ignore: (over) => over.ignore([someEvent()], { origin: 'pull' }),
    takeDue: (over) => over.takeDue({ limit: 1, visibilityTimeoutMs: 1, types: ['transfer.settled'] }),
    leaseNote: (over) => over.leaseNote('a note', { holder, leaseMs: 60_000 }),
    writeNote: (over) => over.writeNote('a note', 'text'),
    'writeNote with a holder': (over) => over.writeNote('a note', 'text', { holder }),
    requeue: (over) => over.requeue(event.id),
    discard: (over) => over.discard({ ids: [event.id], by: 'ana', reason: 'test' }),
    importDone: (over) => over.importDone(['evt_old']),
    prune: (over) => over.prune({ olderThanMs: 0 }),
  };
  for (const [name, step] of Object.entries(steps)) {
    const pool = await openPool(1, LEFTOVERS['that has written']);
    await expect(Promise.resolve(step(postgresInbox(pool))), name).rejects.toThrow('had an open transaction');
    expect((await pool.query("SELECT FROM ledger WHERE id = 'left over'")).rowCount, name).toBe(0);
  }
  expect(await inbox.find(event.id)).toMatchObject({ state: 'leased' });
});
