/** The trace context of events in Postgres: the migration, and processes of the release before beside those of this one. */
import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { migratePostgres, postgresInbox, postgresMigrations } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
let pool: pg.Pool;
beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
});
afterAll(async () => {
  await pool.end();
  await server.stop();
});

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const OTHER = '00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01';
const LONG = { leaseMs: 3_600_000, origin: 'push' } as const;

const someEvent = (id = `evt_${randomUUID()}`) => ({ ...exampleEvent('transfer.settled'), id });

/** Creates the tables of the release before trace contexts, with events in each state. */
async function createPreviousRelease(schema: string, count = 1) {
  const released = postgresMigrations({ schema }).slice(0, 11);
  // Statements that were released do not change.
  expect(createHash('sha256').update(released.join(';').replaceAll(schema, 'x')).digest('hex')).toBe(
    '36289d685bd07b70d965cbb2634a2ef0370021290800ad4bb6fee86667256c4a',
  );
  for (const statement of released) await pool.query(statement);
  await pool.query(
    `INSERT INTO ${schema}.events (id, state, source, type, event, due_at, token, attempts, key, created_at)
SELECT 'evt_' || state || '_' || n, state, 'push', 'transfer.settled', '{"n":' || n || '}',
  CASE WHEN state IN ('received', 'failed', 'leased') THEN now() END,
  CASE WHEN state = 'leased' THEN gen_random_uuid() END, 1, state || n, now()
FROM generate_series(1, $1::int) AS n, unnest('{received,leased,failed,done,dead,parked}'::text[]) AS state`,
    [count],
  );
}

/** One connection, with which a process of the release before sends what that release sent. */
async function connectPrevious(schema: string) {
  const client = await pool.connect();
  onTestFinished(() => client.release());
  const returned = 'state, attempts, won, left_ms';
  const send = async (name: string, text: string, values: readonly unknown[]) =>
    (await client.query({ name: `${schema} ${name}`, text, values: [...values] })).rows;
  return {
    async claim(id: string, key?: string) {
      const values = [id, 'transfer.settled', 'push', 0, randomUUID(), '{}', false];
      const [row] = await (key === undefined
        ? send('claim', `SELECT ${returned} FROM ${schema}.claim($1, $2, $3, $4, $5, $6, $7)`, values)
        : send(
            'claimKeyed',
            `SELECT ${returned} FROM ${schema}.claim_keyed($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
            [...values, key, 0],
          ));
      return { token: values[4], ...row };
    },
    complete: (id: string, token: string, key: string) =>
      send('complete', `SELECT ${schema}.end_keyed($1, $2, $3, 'done', NULL, NULL) AS ended`, [
        id,
        token,
        key,
      ]),
    take: (id: string) =>
      send('take', `SELECT event_json FROM ${schema}.take_keyed($1::text[], $2, $3::double precision)`, [
        [id],
        0,
        null,
      ]),
    record: (id: string) =>
      send(
        'record',
        `INSERT INTO ${schema}.events (id, type, state, source, due_at, event, key, created_at, received_at)
VALUES ($1, 'transfer.settled', 'received', 'pull', now(), '{}', NULL, NULL, now()) ON CONFLICT (id) DO NOTHING RETURNING id`,
        [id],
      ),
    find: (id: string) =>
      send('find', `SELECT id, state, key, last_error, event FROM ${schema}.events WHERE id = $1`, [id]),
  };
}

test('the tables of the release before get the trace context, and no row is rewritten', async () => {
  const schema = 'before_traces';
  await createPreviousRelease(schema, 500);
  const shape = async () => {
    const { rows } = await pool.query(
      `SELECT pg_relation_filenode('${schema}.events') AS file, md5(string_agg(ctid || event || state, ',' ORDER BY id)) AS rows
FROM ${schema}.events`,
    );
    return rows;
  };
  const before = await shape();
  await migratePostgres(pool, { schema });
  await migratePostgres(pool, { schema });
  for (const statement of postgresMigrations({ schema })) await pool.query(statement);
  expect(await shape()).toEqual(before);

  const inbox = postgresInbox(pool, { schema });
  for (const { state, count } of await inbox.count()) expect({ state, count }).toEqual({ state, count: 500 });
  expect(await inbox.find('evt_dead_7')).toMatchObject({ key: 'dead7', traceparent: null, event: { n: 7 } });
  for (const [id, key] of [
    ['evt_received_1', undefined],
    ['evt_leased_1', undefined],
    ['evt_failed_1', 'failed1'],
    ['evt_parked_1', 'parked1'],
  ] as const) {
    const claim = await inbox.claim(someEvent(id), { ...LONG, key, traceparent: TRACEPARENT });
    expect(claim).toMatchObject({ state: 'claimed', lease: { attempt: 2, key, traceparent: undefined } });
    expect(await inbox.find(id)).toMatchObject({ traceparent: null });
  }
});

test('a process of the release before goes on during the migration and after it, and changes no trace context', async () => {
  const schema = 'beside_traces';
  await createPreviousRelease(schema);
  const previous = await connectPrevious(schema);
  // Each of its statements and functions has a plan from before the migration.
  expect(await previous.claim('evt_1')).toMatchObject({ state: 'leased', attempts: 1, won: true });
  expect(await previous.claim('evt_2', 'a')).toMatchObject({ state: 'leased', attempts: 1, won: true });
  const again = await previous.claim('evt_2', 'a');
  expect(again).toMatchObject({ attempts: 2, won: true });
  expect(await previous.complete('evt_2', again.token, 'a')).toEqual([{ ended: true }]);
  expect(await previous.record('evt_3')).toHaveLength(1);
  expect(await previous.take('evt_received_1')).toHaveLength(1);
  expect(await previous.find('evt_3')).toHaveLength(1);

  await migratePostgres(pool, { schema });
  const inbox = postgresInbox(pool, { schema });
  const [plain, keyed] = ['evt_plain', 'evt_keyed'];
  const push = { ...LONG, leaseMs: 0, traceparent: TRACEPARENT };
  expect((await inbox.claim(someEvent(plain), push)).state).toBe('claimed');
  expect((await inbox.claim(someEvent(keyed), { ...push, key: 'b' })).state).toBe('claimed');
  expect(await previous.claim(plain)).toMatchObject({ attempts: 2, won: true });
  expect(await previous.record(plain)).toEqual([]);
  const lease = await previous.claim(keyed, 'b');
  expect(lease).toMatchObject({ attempts: 2, won: true });
  expect(await previous.find(keyed)).toMatchObject([{ id: keyed, state: 'leased', key: 'b' }]);
  expect(await previous.take(keyed)).toMatchObject([{ event_json: JSON.stringify(someEvent(keyed)) }]);
  for (const [id, key] of [
    [plain, undefined],
    [keyed, 'b'],
  ] as const) {
    const claim = await inbox.claim(someEvent(id), { ...LONG, leaseMs: 0, key, traceparent: OTHER });
    expect(claim).toMatchObject({ state: 'claimed', lease: { attempt: 3, traceparent: TRACEPARENT } });
  }
  const last = await previous.claim(keyed, 'b');
  expect(await previous.complete(keyed, last.token, 'b')).toEqual([{ ended: true }]);
  expect(await inbox.find(keyed)).toMatchObject({ state: 'done', traceparent: TRACEPARENT });

  // What it stores has none, now and later.
  expect(await previous.claim('evt_4')).toMatchObject({ attempts: 1, won: true });
  expect(await previous.claim('evt_5', 'c')).toMatchObject({ attempts: 1, won: true });
  expect(await previous.record('evt_6')).toHaveLength(1);
  for (const id of ['evt_1', 'evt_3', 'evt_4', 'evt_5', 'evt_6']) {
    const claim = await inbox.claim(someEvent(id), { ...LONG, traceparent: OTHER });
    expect(claim).toMatchObject({ state: 'claimed', lease: { traceparent: undefined } });
  }
});

test('the migration waits for a handler in a transaction of the release before, and both end', async () => {
  const schema = 'handler_runs';
  await createPreviousRelease(schema);
  const event = someEvent('evt_received_1');
  const previous = await connectPrevious(schema);
  const { token } = await previous.claim(event.id);
  // As its transactions begin: with a read of the event and the row of the fence.
  const client = await pool.connect();
  onTestFinished(() => client.release());
  await client.query('BEGIN');
  await client.query(
    `WITH leased AS (SELECT FROM ${schema}.events WHERE id = $1 AND token = $2)
INSERT INTO ${schema}.fences SELECT $2::uuid FROM leased`,
    [event.id, token],
  );
  const migrated = migratePostgres(pool, { schema });
  const locks = `SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
AND relation = '${schema}.events'::regclass`;
  await vi.waitUntil(async () => (await pool.query(locks)).rows.length > 0, {
    timeout: 60_000,
    interval: 10,
  });
  const fenced = await client.query(
    `WITH fenced AS (DELETE FROM ${schema}.fences WHERE token = $2 RETURNING 1)
UPDATE ${schema}.events SET state = 'done', token = NULL, due_at = NULL WHERE id = $1 AND token = $2 AND EXISTS (SELECT FROM fenced)`,
    [event.id, token],
  );
  expect(fenced.rowCount).toBe(1);
  await client.query('COMMIT');
  await migrated;
  expect(await postgresInbox(pool, { schema }).find(event.id)).toMatchObject({
    state: 'done',
    traceparent: null,
  });
});

test.each(['read committed', 'repeatable read', 'serializable'])(
  'the release before is migrated by ten processes at the same time under %s',
  async (level) => {
    const schema = `traces_${level.replace(' ', '_')}`;
    await createPreviousRelease(schema);
    const options = `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`;
    const strict = new pg.Pool({ connectionString: server.url, options }).on('error', () => undefined);
    onTestFinished(() => strict.end());
    const blocker = await pool.connect();
    await blocker.query(`BEGIN; LOCK TABLE ${schema}.events IN ACCESS SHARE MODE`);
    const migrations = Promise.all(Array.from({ length: 10 }, () => migratePostgres(strict, { schema })));
    // One waits for the lock, and the others for the one.
    const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${schema}%'`;
    await vi.waitUntil(async () => (await pool.query(waiting)).rows.length === 10, {
      timeout: 60_000,
      interval: 10,
    });
    await blocker.query('ROLLBACK');
    blocker.release();
    await migrations;
    const claim = await postgresInbox(strict, { schema }).claim(someEvent(), {
      ...LONG,
      traceparent: TRACEPARENT,
    });
    expect(claim).toMatchObject({ state: 'claimed', lease: { traceparent: TRACEPARENT } });
  },
);
