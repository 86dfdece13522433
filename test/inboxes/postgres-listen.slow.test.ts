/** LISTEN: what it wakes, when it must refuse, and that no connection of the pool is lost. */
import { randomUUID } from 'node:crypto';
import { PGlite } from '@electric-sql/pglite';
import createKnex from 'knex';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { fromKnex, migratePostgres, type PgLike, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
let admin: pg.Pool;
beforeAll(async () => {
  server = await startPostgres();
  admin = openPool();
  await migratePostgres(admin);
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const HOUR_MS = 3_600_000;
const LONG = { leaseMs: HOUR_MS, origin: 'push' } as const;

const openPool = (options: pg.PoolConfig = {}) =>
  new pg.Pool({ connectionString: server.url, ...options }).on('error', () => undefined);

const someEvent = () => ({ ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` });

/** Claims an event of a new key, and makes another wait for it. */
async function leaseAndWait() {
  const inbox = postgresInbox(admin);
  const key = `account_${randomUUID()}`;
  const [running, waiting] = [someEvent(), someEvent()];
  const claim = await inbox.claim(running, { ...LONG, key });
  if (claim.state !== 'claimed') throw new Error(claim.state);
  expect((await inbox.claim(waiting, { ...LONG, key })).state).toBe('waiting');
  return { waiting, complete: () => inbox.complete(claim.lease) };
}

/** Listens over this pool, and counts what it hears. */
async function listen(pool: PgLike, schema?: string) {
  const ends: unknown[] = [];
  let heard = 0;
  const stop = await postgresInbox(pool, { schema }).listen?.(
    () => {
      heard += 1;
    },
    (error) => void ends.push(error),
  );
  if (stop === undefined) throw new Error('This inbox cannot listen.');
  return { stop, ends, heard: () => heard };
}

const until = (holds: () => boolean | Promise<boolean>) =>
  vi.waitUntil(holds, { timeout: 60_000, interval: 5 });

/** The connections that listen. */
async function listeners() {
  const { rows } = await admin.query(
    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'",
  );
  return rows.map(({ pid }) => Number(pid));
}

test('a runner runs an event at once when another process ends the one that it waits for', async () => {
  const { waiting, complete } = await leaseAndWait();
  const pool = openPool({ max: 4 });
  const ran: string[] = [];
  const receiver = createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool),
    handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
  });
  // So long that only a message can wake it.
  const running = receiver.run({ intervalMs: HOUR_MS });
  await until(async () => (await listeners()).length === 1);
  expect(ran).toEqual([]);
  await complete();
  await until(() => ran.length > 0);
  expect(ran).toEqual([waiting.id]);
  await receiver.close();
  await running;
  await until(() => pool.idleCount === pool.totalCount);
  await pool.end();
});

test.each([
  ['a pool of pg', () => openPool({ max: 2 })],
  ['a pool of neon', () => neonPool(server.url) as unknown as pg.Pool],
])('%s lends one client, which hears, and gets it back', async (_, open) => {
  const pool = open();
  const { stop, ends, heard } = await listen(pool);
  await until(() => pool.totalCount - pool.idleCount === 1);
  const { complete } = await leaseAndWait();
  expect(heard()).toBe(0);
  await complete();
  await until(() => heard() > 0);
  await stop();
  await stop();
  await until(() => pool.idleCount === pool.totalCount);
  expect(ends).toEqual([]);
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  for (const client of clients) {
    expect((await client.query('SELECT pg_listening_channels()')).rows).toEqual([]);
    expect(client.listenerCount('notification')).toBe(0);
    client.release();
  }
  await pool.end();
});

test('each schema has a channel of its own, whatever its name', async () => {
  const schema = `Own_${'x'.repeat(59)}`;
  await migratePostgres(admin, { schema });
  const pool = openPool();
  const own = await listen(pool, schema);
  const other = await listen(pool);
  const inbox = postgresInbox(admin, { schema });
  const claim = await inbox.claim(someEvent(), { ...LONG, key: 'a' });
  await inbox.claim(someEvent(), { ...LONG, key: 'a' });
  if (claim.state !== 'claimed') throw new Error(claim.state);
  await inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
  await until(() => own.heard() === 1);
  // A message of its own channel arrives after what was sent before.
  const { complete } = await leaseAndWait();
  await complete();
  await until(() => other.heard() > 0);
  expect([own.heard(), other.heard()]).toEqual([1, 1]);
  await Promise.all([own.stop(), other.stop()]);
  await pool.end();
});

test('a connection that is lost while it listens is told once, leaves the pool, and another can listen', async () => {
  const pool = openPool({ max: 2 });
  const before = new Set(await listeners());
  const lost = await listen(pool);
  const [pid] = (await listeners()).filter((one) => !before.has(one));
  await admin.query('SELECT pg_terminate_backend($1)', [pid]);
  await until(() => lost.ends.length > 0);
  expect(lost.ends).toEqual([expect.any(Error)]);
  await lost.stop();
  const again = await listen(pool);
  const { complete } = await leaseAndWait();
  await complete();
  await until(() => again.heard() > 0);
  await again.stop();
  expect(lost.ends).toHaveLength(1);
  expect(lost.heard()).toBe(0);
  await until(() => pool.idleCount === pool.totalCount);
  await pool.end();
});

/** What a pooler in transaction mode does with statements: each goes over whichever connection is free. */
function pooled(): { pool: PgLike; lent: () => number; end: () => Promise<void> } {
  const servers = openPool({ max: 3 });
  let lent = 0;
  const query: PgLike['query'] = (text, values) => servers.query(text, values);
  const connect = async () => {
    lent += 1;
    return {
      query,
      on: () => undefined,
      removeListener: () => undefined,
      release: () => {
        lent -= 1;
      },
    };
  };
  return { pool: { query, connect } as PgLike, lent: () => lent, end: () => servers.end() };
}

test('listening behind a pooler in transaction mode is refused, and frees the client', async () => {
  const { pool, lent, end } = pooled();
  onTestFinished(end);
  await expect(listen(pool)).rejects.toThrow('PgBouncer');
  expect(lent()).toBe(0);
});

test('a pool of one connection is not used up by listening', async () => {
  const pool = openPool({ max: 1 });
  await expect(listen(pool)).rejects.toThrow('Raise its `max`');
  expect(pool.totalCount).toBe(0);
  await pool.end();
});

test('a client on which LISTEN fails is closed, and the error is passed on', async () => {
  const pool = openPool({ max: 2 });
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    const refuse = (text: unknown, ...rest: unknown[]) =>
      query(String(text).startsWith('LISTEN') ? 'LISTEN' : text, ...rest);
    Object.assign(client, { query: refuse });
  });
  await expect(listen(pool)).rejects.toMatchObject({ code: '42601' });
  await until(() => pool.totalCount === 0);
  await pool.end();
});

test('inboxes over clients that cannot listen have no listen', async () => {
  const lite = await PGlite.create();
  const knex = createKnex({ client: 'pg', connection: server.url });
  expect(postgresInbox(lite)).not.toHaveProperty('listen');
  expect(postgresInbox(fromKnex(knex))).not.toHaveProperty('listen');
  await Promise.all([lite.close(), knex.destroy()]);
});
