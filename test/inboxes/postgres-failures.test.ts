/** How the Postgres inbox fails, and that it recovers without a restart. */
import createKnex from 'knex';
import pg from 'pg';
import postgres from 'postgres';
import { createReceiver, type Inbox, type InboxOperations, type UnknownEvent } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { fromKnex, fromPostgresJs, migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { startProxy } from '../services/proxy.js';
import { claimed, silent, someEvent } from './claimed.js';

const own = ownPostgres();
const { pool: admin } = own;

/** A pool of `pg` that the test ends. */
function openPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config).on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  // A silent connection never ends by itself.
  onTestFinished(() => void pool.end());
  return pool;
}

test.each([false, true])(
  'after a server that was silent, deliveries, start() and the poller go on (transactional: %s)',
  async (transactional) => {
    const proxy = await startProxy(own.server.port);
    const url = new URL(own.server.url);
    url.port = String(proxy.port);
    // As docs/inboxes.md says: without it, silent connections keep their places in the pool.
    const pool = openPool({ connectionString: url.href, max: 8, query_timeout: 500 });
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    const inbox = transactional ? postgresInbox(pool, { transactional }) : postgresInbox(pool);
    const ran: string[] = [];
    const receiver = createReceiver({
      secret: 'x',
      inbox: inbox as ReturnType<typeof postgresInbox>,
      inboxTimeoutMs: 200,
      handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
      logger: { warn: log, error: log },
    });
    onTestFinished(() => receiver.close());
    const list = async () => ({ events: [], problems: [], size: 0 });
    const client = { events: { listWithProblems: list } };
    const poller = createPoller({ client, receiver, intervalMs: 20, logger: { warn: log, error: log } });
    onTestFinished(() => poller.stop());
    receiver.start({ intervalMs: 20 });
    poller.start();
    const handles = async () => expect((await receiver.handle(someEvent(), 'push')).kind).toBe('handled');
    // On a busy machine the first connections can take longer than the limit.
    await vi.waitFor(handles, { timeout: 60_000 });

    // So that every loop has a silent connection.
    await Promise.all(Array.from({ length: 8 }, () => pool.query('SELECT pg_sleep(0.01)')));
    proxy.silence();
    const says = (pattern: RegExp) =>
      vi.waitFor(() => expect(lines.join('\n')).toMatch(pattern), { timeout: 60_000 });
    await says(/cannot read due events[^\n]*did not respond within 200 ms/);
    await says(/the poll failed. ERR_INBOX_FAILED/);
    await says(/the receiver can read due events from the inbox again/);
    await says(/polls succeed again/);
    await vi.waitFor(handles, { timeout: 60_000 });
    const after = someEvent();
    await inbox.record([after], { dueInMs: 0, origin: 'pull' });
    await vi.waitFor(() => expect(ran).toContain(after.id), { timeout: 60_000 });
  },
);

/** A role, and a pool of it on a database. */
async function openAs(role: string, database = 'postgres') {
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p'`);
  const url = new URL(own.server.url);
  Object.assign(url, { username: role, password: 'p', pathname: database });
  return openPool({ connectionString: url.href });
}

test('migratePostgres needs no right to create a schema where one exists, and none at all once it has run', async () => {
  const [schema, role] = ['made_by_a_dba', 'app_role'];
  const pool = await openAs(role);
  await expect(migratePostgres(pool, { schema })).rejects.toThrow('permission denied for database');
  await admin.query(`CREATE SCHEMA ${schema}; GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role}`);
  await migratePostgres(pool, { schema });
  await admin.query(`REVOKE CREATE ON SCHEMA ${schema} FROM ${role}`);
  await migratePostgres(pool, { schema });
  const claim = await postgresInbox(pool, { schema }).claim(someEvent(), { leaseMs: 1_000, origin: 'push' });
  expect(claim.state).toBe('claimed');
});

test.each([false, true])(
  'a role without a right gets ERR_INBOX_FAILED with the right and the table (transactional: %s)',
  async (transactional) => {
    const [schema, role] = [`narrow_${transactional}`, `narrow_role_${transactional}`];
    await migratePostgres(admin, { schema });
    const pool = await openAs(role);
    const inbox = transactional
      ? postgresInbox(pool, { schema, transactional: true })
      : postgresInbox(pool, { schema });
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: inbox as ReturnType<typeof postgresInbox> },
      handlers: { 'transfer.settled': () => undefined },
      logger: { warn: () => undefined, error: () => undefined },
    });
    const refused = async (message: string) =>
      expect(await receiver.handle(someEvent(), 'push')).toMatchObject({
        error: { code: 'ERR_INBOX_FAILED', message: expect.stringContaining(message) },
      });
    await refused(`lacks USAGE on schema ${schema}`);
    await admin.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    await admin.query(`GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`);
    await refused(`INSERT on ${schema}.events`);
    await admin.query(`GRANT INSERT ON ALL TABLES IN SCHEMA ${schema} TO ${role}`);
    expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
  },
);

test('an inbox whose migration was forgotten says which function to call, in an outcome that is retried', async () => {
  const pool = openPool({ connectionString: own.server.url });
  await admin.query('CREATE SCHEMA empty_schema');
  for (const schema of ['no_schema', 'empty_schema']) {
    const lines: string[] = [];
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: postgresInbox(pool, { schema }) },
      handlers: { 'transfer.settled': () => undefined },
      logger: { warn: (line) => lines.push(line), error: (line) => lines.push(line) },
    });
    const outcome = await receiver.handle(someEvent(), 'push');
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(lines.join()).toContain('migratePostgres(pool)');
  }
});

test.each([false, true])(
  'tables of another release are refused with what to do, within a minute after it wrote them (transactional: %s)',
  async (transactional) => {
    const [schema, clock] = [`released_${transactional}`, { elapsed: 0 }];
    await migratePostgres(admin, { schema });
    const options = { schema, runtime: { elapsed: () => clock.elapsed } };
    const inbox = transactional
      ? postgresInbox(admin, { ...options, transactional: true })
      : postgresInbox(admin, options);
    const ran: string[] = [];
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: inbox as ReturnType<typeof postgresInbox>, logger: silent },
      handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
    });
    expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
    for (const [version, fix] of [
      ["'stablehooks, version 2'", /newer release .* version 2, .* version 1\. Upgrade stablehooks/],
      ['NULL', /older release .* migratePostgres/],
    ] as const) {
      await admin.query(`COMMENT ON TABLE ${schema}.events IS ${version}`);
      clock.elapsed += 60_000;
      expect(await receiver.handle(someEvent(), 'push')).toMatchObject({
        ...{ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID', message: expect.stringMatching(fix) } },
      });
    }
    expect(ran).toHaveLength(1);
    await admin.query(`COMMENT ON TABLE ${schema}.events IS 'stablehooks, version 1'`);
    expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
  },
);

test('a database whose encoding cannot store every event is refused by the migration', async () => {
  await admin.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
  const url = new URL(own.server.url);
  url.pathname = 'latin';
  const pool = openPool({ connectionString: url.href });
  await expect(migratePostgres(pool)).rejects.toThrow(/LATIN1.*UTF8/);
});

test('what an app does to the values that its driver reads does not change what the inbox decides', async () => {
  const schema = 'believed';
  await migratePostgres(admin, { schema });
  const sql = postgres(own.server.url, {
    max: 2,
    // Both are in the docs of postgres.js: NULL becomes undefined, booleans stay the text of Postgres.
    transform: { value: { from: (value: unknown) => (value === null ? undefined : value) } },
    types: { bool: { to: 16, from: [16], serialize: String, parse: (text: string) => text } },
  });
  onTestFinished(() => sql.end({ timeout: 0 }));
  await expectUnchanged(postgresInbox(fromPostgresJs(sql), { schema, transactional: true }));
  const knex = createKnex({
    ...{ client: 'pg', connection: own.server.url },
    postProcessResponse: (result: { rows?: Record<string, unknown>[] }) => {
      for (const row of result.rows ?? []) {
        for (const [name, value] of Object.entries(row)) {
          if (value === null) delete row[name];
          if (typeof value === 'boolean') row[name] = value ? 't' : 'f';
          if (typeof value === 'number') row[name] = String(value);
        }
      }
      return result;
    },
  });
  onTestFinished(() => knex.destroy());
  await expectUnchanged(postgresInbox(fromKnex(knex), { schema, transactional: true }));
});

async function expectUnchanged(inbox: Inbox<unknown> & InboxOperations): Promise<void> {
  const claim = (event: UnknownEvent) => inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  const [event, due, undone] = [someEvent(), someEvent(), someEvent()];
  const lease = await claimed(inbox, event);
  expect(lease.attempt).toBe(1);
  expect(await claim(event)).toMatchObject({ state: 'leased', retryAfterMs: expect.any(Number) });
  expect(await inbox.transaction?.(lease, async () => undefined)).toBe(true);
  expect(await claim(event)).toEqual({ state: 'done' });
  const record = await inbox.find(event.id);
  expect(record).toMatchObject({ attempts: 1, key: null, dueAt: null, lastError: null });
  expect(record?.updatedAt).toBeGreaterThan(1e12);

  const lost = await claimed(inbox, undone, { leaseMs: 0 });
  await claim(undone);
  expect(await inbox.transaction?.(lost, async () => undefined)).toBe(false);

  await inbox.record([due], { dueInMs: 0, origin: 'pull' });
  const take = { limit: 10, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] };
  expect((await inbox.takeDue(take)).map((taken) => taken.id)).toContain(due.id);
  const count = (await inbox.count({ ids: [event.id] })).find(({ state }) => state === 'done');
  expect(count).toMatchObject({ count: 1 });
  expect(await inbox.leaseNote('a note', { holder: 'a', leaseMs: 0 })).toBe(true);
  expect(await inbox.writeNote('a note', 'text', { holder: 'a' })).toBe(true);
  expect(await inbox.readNote('a note')).toBe('text');
  expect(await inbox.requeue(event.id)).toBe(0);
}
