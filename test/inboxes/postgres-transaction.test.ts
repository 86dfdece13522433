/** Transactions of the Postgres inbox: however one ends, nothing half stays and the connection is whole or gone. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import postgres from 'postgres';
import { createReceiver, type Handlers } from 'stablehooks';
import {
  fromPostgresJs,
  migratePostgres,
  type PgPoolLike,
  type PgTransactionsLike,
  type PgTx,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
let admin: pg.Pool;
let pool: pg.Pool;
let sql: postgres.Sql;

beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  // One connection each: whatever is not given back is missed by the next statement.
  pool = new pg.Pool({ connectionString: server.url, max: 1, connectionTimeoutMillis: 5_000 });
  pool.on('error', () => undefined);
  sql = postgres(server.url, { max: 1, onnotice: () => undefined });
  await migratePostgres(admin);
  await admin.query('CREATE TABLE ledger (id text)');
});
afterAll(async () => {
  await Promise.all([admin.end(), pool.end(), sql.end()]);
  await server.stop();
});

type Table = Handlers<Record<never, never>, PgTx>;

const drivers: readonly (readonly [string, () => PgPoolLike | PgTransactionsLike])[] = [
  ['pg', () => pool],
  ['postgres.js', () => fromPostgresJs(sql)],
];

describe.each(drivers)('over %s', (driver, open) => {
  /** Handles one event with this handler; answers the outcome, the ledger's entries of it and its state. */
  async function handle(handler: Table['transfer.settled']) {
    const inbox = postgresInbox(open(), { transactional: true });
    const receiver = createReceiver({
      secret: 'x',
      inbox,
      handlers: { 'transfer.settled': handler } as Table,
      handlerTimeoutMs: 300,
      onOutcome: () => undefined,
    });
    const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
    const { kind, error } = await receiver.handle(event, 'push');
    const { rowCount } = await admin.query('SELECT FROM ledger WHERE id = $1', [event.id]);
    return { kind, code: error?.code, entries: rowCount, state: (await inbox.find(event.id))?.state };
  }
  const write = (id: string, { tx }: { readonly tx: PgTx }) =>
    tx.query('INSERT INTO ledger VALUES ($1)', [id]);

  test('what the handler wrote and "done" commit together', async () => {
    expect(
      await handle(async ({ id }, { tx }) => {
        await write(id, { tx });
        expect((await tx.query<{ one: number }>('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
      }),
    ).toEqual({ kind: 'handled', code: undefined, entries: 1, state: 'done' });
  });

  test('a handler that throws leaves nothing', async () => {
    expect(
      await handle(async ({ id }, { tx }) => {
        await write(id, { tx });
        throw new Error('no');
      }),
    ).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
  });

  test('a handler that timed out leaves nothing, and cannot write any more', async () => {
    const late: Promise<unknown>[] = [];
    let release = () => {};
    const afterwards = new Promise<void>((resolve) => {
      release = resolve;
    });
    const ended = await handle(async ({ id }, { tx, signal }) => {
      await write(id, { tx });
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      const write2 = afterwards.then(() => write(id, { tx }));
      late.push(write2);
      await write2;
    });
    expect(ended).toEqual({ kind: 'failed', code: 'ERR_HANDLER_TIMEOUT', entries: 0, state: 'failed' });
    expect(late).toHaveLength(1);
    release();
    await expect(late[0]).rejects.toThrow('transaction has ended');
  });

  test('a handler that swallowed a failed statement has failed', async () => {
    const swallowed = await handle(async ({ id }, { tx }) => {
      await write(id, { tx });
      await tx.query('SELECT 1 / 0').catch(() => undefined);
    });
    expect(swallowed).toEqual({ kind: 'failed', code: 'ERR_HANDLER_FAILED', entries: 0, state: 'failed' });
  });

  // What a lost connection does inside of postgres.js is postgres.js' own.
  if (driver !== 'pg') return;

  test('a connection that breaks in the middle leaves nothing, and the pool goes on', async () => {
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

  test('a connection that breaks while nothing is sent is no uncaught error', async () => {
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

test('over pg, a statement that outlives the handler does not hold up the answer', async () => {
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
    onOutcome: () => undefined,
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

test('the type of ctx.tx follows the inbox', () => {
  createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool, { transactional: true }),
    handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies PgTx) },
  });
  createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool),
    handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies undefined) },
  });
});
