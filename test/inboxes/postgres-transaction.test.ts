import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { createReceiver, type Handler } from 'stablehooks';
import {
  migratePostgres,
  type PgLike,
  type PgTransactionsLike,
  type PgTx,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
let admin: pg.Pool;
let pool: pg.Pool;
let neon: ReturnType<typeof neonPool>;

beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  // One connection each: the next statement fails if a connection is not returned.
  pool = new pg.Pool({ connectionString: server.url, max: 1, connectionTimeoutMillis: 5_000 });
  pool.on('error', () => undefined);
  neon = neonPool(server.url);
  await migratePostgres(admin);
  await admin.query('CREATE TABLE ledger (id text)');
});
afterAll(async () => {
  await Promise.all([admin.end(), pool.end(), neon.end()]);
  await server.stop();
});

const logger = { warn: () => undefined, error: () => undefined };

const drivers: readonly (readonly [string, () => PgTransactionsLike])[] = [
  // Typed as a data layer whose transaction has `query` alone, so that one handler fits both.
  ['pg', () => pool as PgLike as PgTransactionsLike],
  ['neon', () => neon as PgLike as PgTransactionsLike],
];

describe.each(drivers)('transactions over %s', (driver, open) => {
  /** A receiver with this handler, and an event for it. */
  function receiverOf(handler: Handler<'transfer.settled', PgTx>, { handlerTimeoutMs = 30_000 } = {}) {
    const inbox = postgresInbox(open(), { transactional: true });
    const receiver = createReceiver<PgTx>({
      secret: 'x',
      inbox,
      handlers: { 'transfer.settled': handler },
      handlerTimeoutMs,
      logger,
    });
    const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
    return { receiver, event, find: async () => (await inbox.find(event.id))?.state };
  }

  async function countEntries(id: string): Promise<number | null> {
    return (await admin.query('SELECT FROM ledger WHERE id = $1', [id])).rowCount;
  }

  /** Handles one event with this handler; returns the outcome, its ledger entries and its state. */
  async function handle(handler: Handler<'transfer.settled', PgTx>) {
    const { receiver, event, find } = receiverOf(handler);
    const { kind, error } = await receiver.handle(event, 'push');
    return { kind, code: error?.code, entries: await countEntries(event.id), state: await find() };
  }

  const write = (id: string, { tx }: { readonly tx: PgTx }) =>
    tx.query('INSERT INTO ledger VALUES ($1)', [id]);

  test('the writes of a handler and the done mark commit together', async () => {
    expect(
      await handle(async ({ id }, { tx }) => {
        await write(id, { tx });
        expect((await tx.query<{ one: number }>('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
      }),
    ).toEqual({ kind: 'handled', code: undefined, entries: 1, state: 'done' });
  });

  test('a handler that throws writes nothing', async () => {
    expect(
      await handle(async ({ id }, { tx }) => {
        await write(id, { tx });
        throw new Error('no');
      }),
    ).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
  });

  test('a handler that ends after handlerTimeoutMs and within its lease is answered in time, and its event is done', async () => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const { event, receiver, find } = receiverOf(
      async ({ id }, { tx, signal }) => {
        await write(id, { tx });
        if (!signal.aborted) await once(signal, 'abort');
        await ended;
        await write(id, { tx });
      },
      { handlerTimeoutMs: 50 },
    );
    const rests: Promise<unknown>[] = [];
    const { kind, error } = await receiver.handle(event, 'push', {
      waitUntil: (rest) => void rests.push(rest),
    });
    expect([kind, error?.code]).toEqual(['failed', 'ERR_HANDLER_TIMEOUT']);
    expect(await countEntries(event.id)).toBe(0);
    end();
    await Promise.all(rests);
    expect(await countEntries(event.id)).toBe(2);
    expect(await find()).toBe('done');
  });

  test('a transaction of a lease that another claim has replaced does not run its effect', async () => {
    const inbox = postgresInbox(open(), { transactional: true });
    const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
    const claim = () => inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    const replaced = await claim();
    await admin.query('UPDATE stablehooks.events SET due_at = now() WHERE id = $1', [event.id]);
    expect(await claim()).toMatchObject({ state: 'claimed' });
    if (replaced.state !== 'claimed') throw new Error(`The claim was answered ${replaced.state}.`);
    let ran = false;
    const effect = async () => {
      ran = true;
    };
    expect(await inbox.transaction?.(replaced.lease, effect)).toBe(false);
    expect(ran).toBe(false);
  });

  test('a statement of a handler ends with the lease, or at a shorter statement_timeout of its connection', async () => {
    const limits: unknown[] = [];
    const readLimit = async (_: unknown, { tx }: { readonly tx: PgTx }) => {
      const { rows } = await tx.query(
        "SELECT extract(epoch FROM current_setting('statement_timeout')::interval)::int AS seconds",
      );
      limits.push((rows as readonly { readonly seconds: number }[])[0]?.seconds);
    };
    for (const timeout of ['0', '5s', '5h']) {
      await open().query(`SET statement_timeout = '${timeout}'`);
      await handle(readLimit);
    }
    await open().query('RESET statement_timeout');
    const [unlimited, shorter, longer] = limits;
    expect(shorter).toBe(5);
    for (const limit of [unlimited, longer]) {
      expect(limit).toBeGreaterThan(5);
      expect(limit).toBeLessThan(3_600);
    }
  });

  test('a handler that catches the error of a failed statement fails', async () => {
    const swallowed = await handle(async ({ id }, { tx }) => {
      await write(id, { tx });
      await tx.query('SELECT 1 / 0').catch(() => undefined);
    });
    expect(swallowed).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
  });

  // postgres.js handles a lost connection in its own way.
  if (driver !== 'pg') return;

  test('a handler whose connection breaks writes nothing, and the pool works afterwards', async () => {
    const broken = await handle(async ({ id }, { tx }) => {
      await write(id, { tx });
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      await admin.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
      await write(id, { tx });
    });
    expect(broken).toMatchObject({ kind: 'failed', entries: 0, state: 'failed' });
    expect(await handle(async ({ id }, { tx }) => void (await write(id, { tx })))).toMatchObject({
      kind: 'handled',
      entries: 1,
    });
  });

  test('a connection that breaks between two statements causes no uncaught error', async () => {
    const broken = await handle(async ({ id }, { tx, signal }) => {
      await write(id, { tx });
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      await admin.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
      await pause(50, undefined, { signal });
    });
    expect(broken).toEqual({ kind: 'unavailable', code: 'ERR_INBOX_FAILED', entries: 0, state: 'leased' });
    expect((await handle(async ({ id }, { tx }) => void (await write(id, { tx })))).kind).toBe('handled');
  });
});

test('a statement over pg that still runs after the handler timed out does not delay the outcome', async () => {
  const wide = new pg.Pool({ connectionString: server.url, max: 2 }).on('error', () => undefined);
  const inbox = postgresInbox(wide, { transactional: true });
  const receiver = createReceiver({
    secret: 'x',
    inbox,
    handlers: {
      'transfer.settled': async (_, { tx }) => {
        await tx.query('SELECT pg_sleep(30)');
      },
    },
    handlerTimeoutMs: 200,
    logger,
  });
  const event = exampleEvent('transfer.settled');
  expect(await receiver.handle(event, 'push')).toMatchObject({
    kind: 'failed',
    error: { code: 'ERR_HANDLER_TIMEOUT' },
  });
  await admin.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(30)'",
  );
  await wide.end();
});

test('the server ends the transaction of a handler that sends nothing more when its lease has lapsed', async () => {
  const inbox = postgresInbox(pool, { transactional: true });
  const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
  const claim = await inbox.claim(event, { leaseMs: 0, origin: 'push' });
  if (claim.state !== 'claimed') throw new Error(`The claim was answered ${claim.state}.`);
  let pid: unknown;
  let end = () => {};
  const running = inbox.transaction?.(claim.lease, async (tx) => {
    // Postgres 17 has a second limit, which would end it as well.
    await tx.query("SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'");
    pid = (await tx.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    await new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  const failure = Promise.resolve(running).catch((error: unknown) => error);
  try {
    await expect.poll(() => pid).toBeDefined();
    await expect
      .poll(async () => (await admin.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount)
      .toBe(0);
  } finally {
    end();
  }
  expect(await failure).toBeInstanceOf(Error);
  expect((await inbox.find(event.id))?.state).toBe('leased');
});

test('the type of ctx.tx is the client of the pool only with a transactional inbox', () => {
  createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool, { transactional: true }),
    handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies pg.PoolClient) },
  });
  createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool),
    handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies undefined) },
  });
});
