import { randomUUID } from 'node:crypto';
import { createReceiver, EVENT_TYPES } from 'stablehooks';
import { migratePostgres, postgresInbox, postgresMigrations } from 'stablehooks/inboxes/postgres';
import { expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, silent, someEvent } from './claimed.js';
import { explainingPool } from './explaining-pool.js';
import { expectOutageSurvived } from './outage.js';

const postgres = ownPostgres();
const { pool } = postgres;

/** An inbox over tables of its own. */
async function openInbox(schema: string) {
  await migratePostgres(pool, { schema });
  return postgresInbox(pool, { schema });
}

const receive = (inbox: ReturnType<typeof postgresInbox>) =>
  createReceiver({ secret: 'x', inbox, handlers: {}, onOutcome: () => undefined });

test.each(['read committed', 'repeatable read', 'serializable'])(
  'migratePostgres can run ten times at the same time, and again, under %s',
  async (level) => {
    const schema = `together_${level.replace(' ', '_')}`;
    const options = `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`;
    const strict = postgres.open({ options });
    await Promise.all(Array.from({ length: 10 }, () => migratePostgres(strict, { schema })));
    await migratePostgres(strict, { schema });
    expect((await postgresInbox(strict, { schema }).count()).length).toBe(6);
  },
);

test('the statements of postgresMigrations create the tables and can run again', async () => {
  const schema = 'By_Hand';
  for (const statement of [...postgresMigrations({ schema }), ...postgresMigrations({ schema })]) {
    await pool.query(statement);
  }
  const inbox = postgresInbox(pool, { schema });
  expect((await inbox.claim(someEvent(), { leaseMs: 1_000, origin: 'push' })).state).toBe('claimed');
});

test('over a connection with another client_encoding nothing is stored, and the log says why', async () => {
  const schema = 'latin';
  await migratePostgres(pool, { schema });
  const own = postgres.open({ max: 2 });
  own.on('connect', (client) => client.query("SET client_encoding TO 'LATIN1'"));
  const inbox = postgresInbox(own, { schema, transactional: true });
  const handlers = { 'transfer.settled': () => undefined };
  const receiver = createReceiver({ secret: 'x', inbox, handlers, logger: silent });
  const { kind, error } = await receiver.handle(someEvent({ id: 'evt_ö' }), 'push');
  expect([kind, String(error?.cause)]).toEqual([
    'unavailable',
    expect.stringContaining('client_encoding of this connection is LATIN1'),
  ]);
  expect((await pool.query(`SELECT id FROM ${schema}.events`)).rows).toEqual([]);
});

test.each([
  ['off', 'on'],
  ['local', 'local'],
])(
  'with synchronous_commit = %s, every step of the inbox that is the last before an answer is committed with %s',
  async (setting, expected) => {
    const schema = `committed_${setting}`;
    await migratePostgres(pool, { schema });
    // Deferred triggers run at COMMIT, in the transaction that ends.
    await pool.query(`CREATE TABLE ${schema}.commits (setting text);
      CREATE FUNCTION ${schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO ${schema}.commits VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`);
    for (const table of ['events', 'notes']) {
      await pool.query(`CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON ${schema}.${table}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ${schema}.note()`);
    }
    const options = `-c synchronous_commit=${setting}`;
    const own = postgres.open({ max: 1, options });
    const inbox = postgresInbox(own, { schema, transactional: true });
    const plain = postgresInbox(own, { schema });
    /** The settings with which a step is committed. */
    const settingsOf = async (step: () => unknown) => {
      await pool.query(`TRUNCATE ${schema}.commits`);
      expect(await step()).toBeTruthy();
      const { rows } = await pool.query(`SELECT DISTINCT setting FROM ${schema}.commits`);
      return rows.map((row) => row.setting);
    };
    const claim = (key?: string) => claimed(inbox, someEvent(), { key });
    const take = { limit: 9, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] };
    for (const keyed of [false, true]) {
      const key = () => (keyed ? randomUUID() : undefined);
      const keys = keyed ? [randomUUID()] : [];
      const leases = [await claim(key()), await claim(key()), await claim(key())] as const;
      const [completed, committed, failed] = leases;
      const steps = {
        claim: () => plain.claim(someEvent(), { leaseMs: 60_000, origin: 'push', key: key() }),
        complete: () => inbox.complete(completed),
        transaction: () => inbox.transaction?.(committed, async () => undefined),
        fail: () => inbox.fail(failed, { retryAfterMs: null, error: 'no' }),
        requeue: () => inbox.requeue(failed.id),
        park: () => inbox.record([someEvent()], { dueInMs: null, origin: 'pull', keys }),
        record: () => inbox.record([someEvent()], { dueInMs: 0, origin: 'pull', keys }),
        ignore: () => inbox.ignore([someEvent()], { origin: 'push' }),
        takeDue: async () => (await inbox.takeDue(take)).length,
        prune: () => inbox.prune({ olderThanMs: 0 }),
        leaseNote: () => inbox.leaseNote('a note', { holder: 'a', leaseMs: 60_000 }),
        writeNote: () => inbox.writeNote('a note', randomUUID(), { holder: 'a' }),
      };
      for (const [name, step] of Object.entries(steps)) {
        expect({ [name]: await settingsOf(step) }).toEqual({ [name]: [expected] });
      }
    }
    expect((await own.query('SHOW synchronous_commit')).rows).toEqual([{ synchronous_commit: setting }]);
  },
);

test('migratePostgres waits for no lock when the tables are migrated', async () => {
  const schema = 'migrated';
  await migratePostgres(pool, { schema });
  const impatient = postgres.open({ options: '-c lock_timeout=1000' });
  // Everything but a read waits for this lock.
  await postgres.begin(`LOCK TABLE ${schema}.notes, ${schema}.events IN EXCLUSIVE MODE`);
  await migratePostgres(impatient, { schema });
});

test('recording rejects when two ids are the same to Postgres', async () => {
  const schema = 'hidden';
  const inbox = await openInbox(schema);
  const due = { dueInMs: 0, origin: 'pull' } as const;
  const half = (id: string) => ({ ...someEvent(), id });
  await expect(inbox.record([half('evt_\ud800'), half('evt_\ud801')], due)).rejects.toThrow(
    'changed the id of an event',
  );
});

test.each(['', 'a-b', 'a"b', "a'b", '1st', 'x'.repeat(64), 'a;b'])(
  'postgresInbox and postgresMigrations refuse the schema %j',
  (schema) => {
    expect(() => postgresInbox(pool, { schema })).toThrow('`schema` must be');
    expect(() => postgresMigrations({ schema })).toThrow('`schema` must be');
  },
);

test('handle is unavailable while Postgres is down, and done events are still done afterwards', async () => {
  await expectOutageSurvived(await openInbox('away'), postgres.server);
});

test('handle is unavailable when the pool has no free connection or a statement times out', async () => {
  const schema = 'busy';
  await migratePostgres(pool, { schema });
  const small = postgres.open({ max: 1, statement_timeout: 100 });
  const receiver = receive(postgresInbox(small, { schema }));
  const unavailable = { kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } };

  const taken = await small.connect();
  // Set after the connection is open, which can take longer than this on a busy machine.
  small.options.connectionTimeoutMillis = 100;
  expect(await receiver.handle(someEvent(), 'push')).toMatchObject(unavailable);
  taken.release();

  const blocker = await postgres.begin(`LOCK TABLE ${schema}.events`);
  expect(await receiver.handle(someEvent(), 'push')).toMatchObject(unavailable);
  await blocker.query('ROLLBACK');
  small.options.connectionTimeoutMillis = 0;
  const handle = async () => (await receiver.handle(someEvent(), 'push')).kind;
  let kind = await handle();
  // On a busy machine a statement can still take longer than the limit.
  while (kind === 'unavailable') kind = await handle();
  expect(kind).toBe('ignored');
});

test('prune does not wait for an event that another transaction has locked', async () => {
  const schema = 'pruned_beside';
  const inbox = await openInbox(schema);
  const [locked, free] = [someEvent(), someEvent()];
  for (const event of [locked, free]) await receive(inbox).handle(event, 'push');
  await lockRow(schema, locked.id);
  expect(await inbox.prune({ olderThanMs: 0 })).toBe(1);
  expect(await inbox.find(free.id)).toMatchObject({ event: null });
});

test('takeDue takes parked events one by one in the order in which they came, whatever their types', async () => {
  const schema = 'parked';
  const inbox = await openInbox(schema);
  const parked = ['b', 'a', 'b', 'a', 'a'].map((type) => ({ ...someEvent(), type: `new.${type}` }));
  for (const event of parked) await inbox.record([event], { dueInMs: null, origin: 'push' });
  const take = { limit: 1, visibilityTimeoutMs: 60_000, types: ['new.a', 'new.b'] };
  const taken: (readonly string[])[] = [];
  for (let left = parked.length; left > 0; left--) {
    taken.push((await inbox.takeDue(take)).map(({ id }) => id));
  }
  expect(taken).toEqual(parked.map(({ id }) => [id]));
});

test('takeDue does not wait for a parked event that another transaction has locked', async () => {
  const schema = 'parked_locked';
  const inbox = await openInbox(schema);
  const [locked, free] = [1, 2].map(() => ({ ...someEvent(), type: 'new.type' }));
  if (locked === undefined || free === undefined) throw new Error('There are two.');
  await inbox.record([locked, free], { dueInMs: null, origin: 'push' });
  await lockRow(schema, locked.id);
  const taken = await inbox.takeDue({ limit: 16, visibilityTimeoutMs: 60_000, types: ['new.type'] });
  expect(taken.map(({ id }) => id)).toEqual([free.id]);
});

test('takeDue does not read the 50,000 events of another type that have been due for longer', async () => {
  const schema = 'other_types';
  await migratePostgres(pool, { schema });
  await fill(schema, { parked: 50_000 });
  await pool.query(`UPDATE ${schema}.events SET state = 'received', due_at = received_at WHERE id LIKE '%5'`);
  await fill(schema, { received: 20, failed: 20 });
  await pool.query(`INSERT INTO ${schema}.steps (event_id, name, attempt, stored_at, result)
SELECT 'evt_done_' || n, 'payout', 1, now(), '1' FROM generate_series(1, 50000) AS n`);
  await pool.query(`VACUUM ANALYZE ${schema}.events`);
  await pool.query(`VACUUM ANALYZE ${schema}.steps`);
  let read = 0;
  const explaining = explainingPool(postgres.server.url, (plan) => {
    if (JSON.stringify(plan).includes('"events_due"'))
      read = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  });
  const inbox = postgresInbox(explaining, { schema });
  const take = { limit: 16, visibilityTimeoutMs: 60_000, types: ['transfer.settled', 'deposit.settled'] };
  const taken = await inbox.takeDue(take);
  expect(taken).toHaveLength(16);
  // The rows of the other type fill more than 3,000 blocks.
  expect(read).toBeLessThan(500);
});

test('each statement of the Postgres inbox finds its rows by an index among 80,000', async () => {
  const schema = 'plans';
  await migratePostgres(pool, { schema });
  await fill(schema, { done: 50_000, received: 5_000, failed: 5_000, parked: 20_000, dead: 500 });
  await pool.query(`INSERT INTO ${schema}.steps (event_id, name, attempt, stored_at, result)
SELECT 'evt_done_' || n, name, 1, now(), '1' FROM generate_series(1, 50000) AS n, (VALUES (''), ('payout')) AS names (name)`);
  await pool.query(`VACUUM ANALYZE ${schema}.events, ${schema}.steps`);

  const indexes = new Set<string>();
  const tables = new Set<string>();
  const explaining = explainingPool(postgres.server.url, (found) => {
    const plan = JSON.stringify(found);
    for (const [, index = ''] of plan.matchAll(/"(?:Index Name|Conflict Arbiter Indexes)":\[?"(\w+)"/g))
      indexes.add(index);
    for (const [, table = ''] of plan.matchAll(/"Seq Scan",[^{}]*"Relation Name":"(\w+)"/g))
      tables.add(table);
  });
  const inbox = postgresInbox(explaining, { schema });
  // The first operation reads the version of the tables as well.
  await inbox.readNote('none');
  const used = async (step: () => unknown) => {
    indexes.clear();
    tables.clear();
    await step();
    return [...[...tables].map((table) => `all of ${table}`), ...indexes].sort();
  };
  const event = someEvent();
  const lease = { id: event.id, token: randomUUID(), attempt: 1 };
  const plans = {
    complete: await used(() => inbox.complete(lease)),
    fail: await used(() => inbox.fail(lease, { retryAfterMs: 1_000, error: 'no' })),
    record: await used(() => inbox.record([someEvent(), someEvent()], { dueInMs: 0, origin: 'pull' })),
    ignore: await used(() => inbox.ignore([someEvent()], { origin: 'push' })),
    takeDue: await used(() => inbox.takeDue({ limit: 16, visibilityTimeoutMs: 1_000, types: EVENT_TYPES })),
    find: await used(() => inbox.find(event.id)),
    list: await used(() => inbox.list({ state: 'done', limit: 50 })),
    listAfter: await used(() => inbox.list({ state: 'done', limit: 50, after: 'evt_done_40000' })),
    listNewest: await used(() => inbox.list({ state: 'done', limit: 50, order: 'newest' })),
    listNewestAfter: await used(() =>
      inbox.list({ state: 'done', limit: 50, order: 'newest', after: 'evt_done_40000' }),
    ),
    listAll: await used(() => inbox.list({ limit: 50, after: 'evt_done_40000' })),
    count: await used(() => inbox.count()),
    countDead: await used(() => inbox.count({ state: 'dead', error: '503' })),
    requeue: await used(() => inbox.requeue('evt_dead_1')),
    discard: await used(() => inbox.discard({ state: 'dead', error: '503', by: 'ana', reason: 'test' })),
    importDone: await used(() => inbox.importDone(['evt_dead_1'])),
    readSteps: await used(() => inbox.readSteps?.(lease)),
    saveStep: await used(() => inbox.saveStep?.(lease, 'payout', '1')),
    forgetStep: await used(() => inbox.saveStep?.(lease, 'payout', undefined)),
    steps: await used(() => inbox.steps('evt_done_1')),
    prune: await used(() => inbox.prune({ olderThanMs: 0 })),
  };
  console.log(plans);
  expect(plans).toEqual({
    complete: ['events_pkey'],
    fail: ['events_pkey'],
    record: ['events_pkey'],
    ignore: ['events_pkey'],
    takeDue: ['events_due', 'events_pkey'],
    find: ['events_pkey'],
    list: ['events_state'],
    listAfter: ['events_pkey', 'events_state'],
    listNewest: ['events_state'],
    listNewestAfter: ['events_pkey', 'events_state'],
    listAll: ['events_pkey', 'events_state'],
    count: ['events_state'],
    countDead: ['events_state'],
    requeue: ['events_pkey', 'events_state', 'steps_unknown'],
    discard: ['events_pkey', 'events_state'],
    importDone: ['events_pkey'],
    readSteps: ['events_pkey', 'steps_pkey'],
    saveStep: ['events_pkey', 'steps_pkey'],
    forgetStep: ['events_pkey', 'steps_pkey', 'steps_unknown'],
    steps: ['events_pkey', 'steps_pkey'],
    prune: ['events_pkey', 'events_state', 'steps_owned', 'steps_pkey'],
  });
});

/** Locks the row of an event by another transaction until the test ends. */
const lockRow = (schema: string, id: string) =>
  postgres.begin(`SELECT FROM ${schema}.events WHERE id = $1 FOR UPDATE`, [id]);

/** Inserts this number of events of each state, from an hour ago and one ms apart. */
async function fill(schema: string, counts: Readonly<Record<string, number>>) {
  for (const [state, count] of Object.entries(counts)) {
    await pool.query(
      `INSERT INTO ${schema}.events (id, received_at, updated_at, due_at, state, source, type, event)
SELECT 'evt_' || $1 || '_' || n, at, at, CASE WHEN $1 IN ('received', 'failed') THEN at END, $1, 'push',
  CASE WHEN $1 = 'parked' THEN 'mint.completed' ELSE 'transfer.settled' END, '{"id":"evt_' || $1 || '_' || n || '","payload":{"text":"' || repeat('x', 400) || '"}}'
FROM generate_series(1, $2::int) AS n, LATERAL (SELECT now() - interval '1 hour' + n * interval '1 ms' AS at) AS t`,
      [state, count],
    );
  }
}
