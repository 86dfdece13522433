/** Ordering keys in Postgres: many events of one key, plans and deadlocks. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { EVENT_TYPES } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, someEvent } from './claimed.js';
import { explainingPool, type Plan, readsOf } from './explaining-pool.js';

const postgres = ownPostgres('CREATE TABLE ledger (id text)');
const { pool } = postgres;

const HOUR_MS = 3_600_000;
const LONG = { leaseMs: HOUR_MS, origin: 'push' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: EVENT_TYPES };

/** An inbox over new tables. */
async function openInbox(schema: string) {
  await migratePostgres(pool, { schema });
  return postgresInbox(pool, { schema, transactional: true });
}

/**
 * Inserts this number of events of a key that have been due for an hour. They were created in another order than they
 * are due in: 7 has no common divisor with the count.
 */
async function fillKey(schema: string, key: string | null, count: number) {
  await pool.query(
    `INSERT INTO ${schema}.events (id, state, source, type, event, due_at, key, created_at)
SELECT 'evt_' || coalesce($1, 'none') || '_' || (n * 7) % $2, 'received', 'push', 'transfer.settled',
  json_build_object('id', 'evt_' || coalesce($1, 'none') || '_' || (n * 7) % $2),
  now() - interval '1 hour' + n * interval '1 ms', $1,
  CASE WHEN $1 IS NOT NULL THEN now() - interval '2 hours' + (n * 7) % $2 * interval '1 ms' END
FROM generate_series(0, $2::int - 1) AS n`,
    [key, count],
  );
}

const claimedOf = (inbox: Awaited<ReturnType<typeof openInbox>>, id: string, key?: string) =>
  claimed(inbox, someEvent({ id }), { ...LONG, key });

const idsOf = (taken: readonly { readonly id: string }[]) => taken.map(({ id }) => id);

test('a claim repeated while its event waits needs no lock of its key, also when another lease of the key has begun', async () => {
  const schema = 'lock_free';
  const inbox = await openInbox(schema);
  const first = await claimedOf(inbox, 'evt_1', 'a');
  const [event, older] = [someEvent(), { ...someEvent(), created_at: '2026-01-01T00:00:00Z' }];
  for (const waiting of [event, older]) {
    expect((await inbox.claim(waiting, { ...LONG, key: 'a' })).state).toBe('waiting');
  }
  const repeat = async () => {
    const client = await postgres.begin(
      `SELECT pg_advisory_xact_lock(hashtextextended('stablehooks "${schema}" a', 0)), id FROM ${schema}.events FOR UPDATE`,
    );
    expect((await inbox.claim(event, { ...LONG, key: 'a' })).state).toBe('waiting');
    await client.query('ROLLBACK');
  };
  await repeat();
  await inbox.complete(first);
  const second = await claimedOf(inbox, older.id, 'a');
  await repeat();
  await inbox.complete(second);
  expect(idsOf(await inbox.takeDue(TAKE))).toEqual([event.id]);
});

test('an event that waits for a shorter lease than the last one of its key waits no longer than that lease', async () => {
  const inbox = await openInbox('shorter');
  const first = await claimedOf(inbox, 'evt_1', 'a');
  const [event, next] = [someEvent(), someEvent()];
  await inbox.claim(next, { ...LONG, key: 'a' });
  await inbox.claim(event, { ...LONG, key: 'a' });
  await inbox.complete(first);
  expect((await inbox.claim(next, { leaseMs: 60_000, origin: 'push', key: 'a' })).state).toBe('claimed');
  expect((await inbox.claim(event, { ...LONG, key: 'a' })).state).toBe('waiting');
  const [waiting, holder] = await Promise.all([event, next].map(({ id }) => inbox.find(id)));
  expect(waiting?.dueAt).toBe(holder?.dueAt);
});

test('an end makes the next event due when the first that waited is claimed without its key at that time', async () => {
  const schema = 'left_meanwhile';
  const inbox = await openInbox(schema);
  const lease = await claimedOf(inbox, 'evt_1', 'a');
  const [first, next] = [1, 2].map((day) => ({ ...someEvent(), created_at: `2026-01-0${day}T00:00:00Z` }));
  if (first === undefined || next === undefined) throw new Error('There are two.');
  for (const event of [first, next]) await inbox.claim(event, { ...LONG, key: 'a' });
  const client = await postgres.begin(
    `SELECT ${schema}.claim_event($1, 'x', 'push', 60000, gen_random_uuid(), '{}', false, NULL, NULL)`,
    [first.id],
  );
  const ended = inbox.complete(lease);
  await postgres.untilBlocked();
  await client.query('COMMIT');
  expect(await ended).toBe(true);
  expect(idsOf(await inbox.takeDue(TAKE))).toEqual([next.id]);
});

test('an event that waits and is claimed with another key that is leased waits for that lease', async () => {
  const inbox = await openInbox('moved');
  await claimedOf(inbox, 'of a', 'a');
  const event = someEvent();
  expect((await inbox.claim(event, { ...LONG, key: 'a' })).state).toBe('waiting');
  const longer = await claimed(inbox, someEvent(), { leaseMs: 2 * HOUR_MS, key: 'b' });
  expect((await inbox.claim(event, { ...LONG, key: 'b' })).state).toBe('waiting');
  const [record, holder] = await Promise.all([event.id, longer.id].map((id) => inbox.find(id)));
  expect(record).toMatchObject({ key: 'b', dueAt: holder?.dueAt });
});

test('of simultaneous claims of one event with different keys exactly one is answered claimed', async () => {
  const inbox = await openInbox('one_event');
  for (let round = 0; round < 20; round += 1) {
    const event = someEvent();
    await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    const claims = await Promise.allSettled(
      Array.from({ length: 8 }, (_, key) => inbox.claim(event, { ...LONG, key: `${round} ${key}` })),
    );
    const states = claims.map((claim) => (claim.status === 'fulfilled' ? claim.value.state : 'rejected'));
    expect(states.filter((state) => state === 'claimed')).toHaveLength(1);
  }
});

test('the time that is left of a lease of a thousand hours is exact to a minute', async () => {
  const inbox = await openInbox('exact');
  const leaseMs = 1_000 * HOUR_MS;
  const long = { leaseMs, origin: 'push', key: 'a' } as const;
  const holder = someEvent();
  const waiting = someEvent();
  expect((await inbox.claim(holder, long)).state).toBe('claimed');
  // The first claim of the event that waits stores it, and the second one only reads.
  for (const event of [holder, waiting, waiting]) {
    const claim = await inbox.claim(event, long);
    if (claim.state !== 'leased' && claim.state !== 'waiting') throw new Error(claim.state);
    expect(claim.retryAfterMs).toBeGreaterThan(leaseMs - 60_000);
    expect(claim.retryAfterMs).toBeLessThanOrEqual(leaseMs);
  }
});

describe.each(['read committed', 'repeatable read', 'serializable'])('at %s', (level) => {
  const GATE = 4_711;
  const schema = `gate_${level.replace(' ', '_')}`;
  let own: pg.Pool;
  beforeAll(async () => {
    own = new pg.Pool({
      connectionString: postgres.server.url,
      options: `-c default_transaction_isolation=${level.replace(' ', '\\ ')}`,
    }).on('error', () => undefined);
    await migratePostgres(pool, { schema });
    // Whatever makes an event wait, or ends an attempt, stops before it commits until the gate is open.
    await pool.query(`CREATE FUNCTION ${schema}.stop_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared(${GATE}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR UPDATE ON ${schema}.events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (NEW.waiting OR NEW.state IN ('done', 'dead')) EXECUTE FUNCTION ${schema}.stop_at_gate()`);
  });
  afterAll(() => own.end());

  /** Runs one call up to its commit, then the other until it ends, waits or is sent again; then both to their ends. */
  async function interleave(one: () => Promise<unknown>, other: () => Promise<unknown>, sent: () => number) {
    const gate = await postgres.begin('SELECT pg_advisory_xact_lock($1)', [GATE]);
    const first = one();
    await postgres.untilBlocked();
    const sentBefore = sent();
    let hasEnded = false;
    const second = other().finally(() => {
      hasEnded = true;
    });
    const isStopped = async () => hasEnded || sent() > sentBefore + 1 || (await postgres.waits()) > 1;
    await vi.waitUntil(isStopped, { timeout: 60_000, interval: 10 });
    await gate.query('COMMIT');
    await Promise.all([first, second]);
  }

  test.each(
    (['complete', 'fail', 'transaction'] as const).flatMap((way) =>
      (['a new', 'a recorded'] as const).flatMap((kind) => [
        [way, kind, 'end'] as const,
        [way, kind, 'claim'] as const,
      ]),
    ),
  )(
    'after a lease ended by %s and the claim of %s event of its key at that time, the %s first, the event does not wait',
    async (way, kind, first) => {
      const key = randomUUID();
      let sent = 0;
      const counting = {
        query(text: string, values?: unknown[]) {
          sent += 1;
          return own.query(text, values);
        },
      };
      const inbox = postgresInbox(counting, { schema });
      const lease = await claimedOf(postgresInbox(own, { schema, transactional: true }), `evt_${key}`, key);
      const event = someEvent();
      if (kind === 'a recorded')
        await inbox.record([event], { dueInMs: HOUR_MS, origin: 'pull', keys: [key] });
      const end = {
        complete: () => inbox.complete(lease),
        fail: () => inbox.fail(lease, { retryAfterMs: null, error: 'no' }),
        transaction: async () =>
          postgresInbox(own, { schema, transactional: true }).transaction?.(lease, async () => undefined),
      }[way];
      let state = '';
      let hasEnded: boolean | 'dead' | undefined = false;
      const claiming = async () => {
        ({ state } = await inbox.claim(event, { ...LONG, key }));
      };
      const ending = async () => {
        hasEnded = await end();
      };
      const [one, other] = first === 'claim' ? [claiming, ending] : [ending, claiming];
      await interleave(one, other, () => sent);
      expect(hasEnded).toBe(true);
      if (state === 'claimed') return;
      expect(state).toBe('waiting');
      expect(idsOf(await inbox.takeDue(TAKE))).toEqual([event.id]);
    },
  );
});

test.each([
  ['before', 'no_statistics'],
  ['after', 'statistics'],
])(
  'each step of an event with a key reads a few rows of 80,000 by an index, %s ANALYZE',
  async (when, schema) => {
    const inbox = await openInbox(schema);
    await pool.query(`ALTER TABLE ${schema}.events SET (autovacuum_enabled = false)`);
    await fillKey(schema, 'hot', 20_000);
    await pool.query(`UPDATE ${schema}.events SET due_at = now() + interval '1 hour', waiting = true`);
    await fillKey(schema, null, 60_000);
    await pool.query(`UPDATE ${schema}.events SET due_at = now() + interval '1 hour' WHERE key IS NULL`);
    if (when === 'after') await pool.query(`VACUUM ANALYZE ${schema}.events`);

    let plans: Plan[] = [];
    const measured = postgresInbox(
      explainingPool(postgres.server.url, (plan) => plans.push(plan)),
      { schema },
    );
    const reads = async (step: () => unknown) => {
      plans = [];
      await step();
      const each = plans.map(readsOf);
      return {
        scans: each.reduce((sum, { scans }) => sum + scans, 0),
        rows: each.reduce((sum, { rows }) => sum + rows, 0),
      };
    };
    const few = { scans: 0, rows: expect.toSatisfy((rows: number) => rows < 20) };
    const first = await claimedOf(inbox, 'evt_hot_0', 'hot');
    // The first operation of an inbox also reads the version of its tables.
    await measured.find('evt_hot_0');
    // More often than a function needs to choose a plan for any value.
    for (let round = 1; round < 9; round++) {
      const fresh = someEvent();
      expect(await reads(() => measured.claim(fresh, { ...LONG, key: 'hot' }))).toEqual(few);
      expect(await reads(() => measured.claim(fresh, { ...LONG, key: 'hot' }))).toEqual(few);
    }
    expect(await reads(() => measured.complete(first))).toEqual(few);
    for (let round = 1; round < 9; round++) {
      const id = `evt_hot_${round}`;
      expect(await reads(() => measured.takeDue(TAKE))).toEqual(few);
      const lease = await claimedOf(inbox, id, 'hot');
      const end = () =>
        round % 2 ? measured.complete(lease) : measured.fail(lease, { retryAfterMs: HOUR_MS, error: 'no' });
      expect(await reads(end)).toEqual(few);
    }

    const last = await claimedOf(inbox, 'evt_hot_9', 'hot');
    await pool.query(`DROP INDEX ${schema}.events_waiting`);
    expect((await reads(() => measured.complete(last))).rows).toBeGreaterThan(10_000);
  },
);

async function deadlocks(): Promise<number> {
  const { rows } = await pool.query(
    "SELECT deadlocks::int AS deadlocks FROM pg_stat_database WHERE datname = 'postgres'",
  );
  return rows[0].deadlocks;
}

test('claims, ends, transactions, pages, takers and requeues of few keys at the same time do not deadlock', async () => {
  const schema = 'mixed';
  await migratePostgres(pool, { schema });
  const inboxes = Array.from({ length: 4 }, () => {
    return postgresInbox(postgres.open({ max: 4 }), { schema, transactional: true });
  });
  const keys = ['a', 'b', 'c', undefined];
  const events = Array.from({ length: 120 }, () => someEvent());
  const keyOf = (index: number) => keys[index % keys.length];
  const before = await deadlocks();

  let failures = 0;
  const effects: string[] = [];
  /** Claims an event and ends its attempt in one of the ways. */
  async function run(inbox: (typeof inboxes)[number], index: number): Promise<void> {
    const event = events[index];
    if (event === undefined) return;
    // Short leases lapse meanwhile.
    const leaseMs = index % 5 === 0 ? 1 : 60_000;
    const claim = await inbox.claim(event, { leaseMs, origin: 'push', key: keyOf(index) });
    if (claim.state !== 'claimed') return;
    const { lease } = claim;
    failures += 1;
    if (failures % 4 === 0) await inbox.fail(lease, { retryAfterMs: failures % 8 ? 1 : null, error: 'no' });
    else if (index % 2) await inbox.complete(lease);
    else {
      const effect = async (tx: pg.PoolClient) =>
        void (await tx.query('INSERT INTO ledger VALUES ($1)', [lease.id]));
      if (await inbox.transaction?.(lease, effect)) effects.push(lease.id);
    }
  }
  const isOver = async () => {
    const counts = await inboxes[0]?.count();
    return counts?.find(({ state }) => state === 'done')?.count === events.length;
  };
  let over = false;
  await Promise.all([
    ...inboxes.map(async (inbox, offset) => {
      const shifted = events.map((_, index) => (index + offset * 30) % events.length);
      for (const index of shifted) await run(inbox, index);
      for (; !over; over = await isOver()) {
        for (const { id: taken } of await inbox.takeDue({ ...TAKE, visibilityTimeoutMs: 10 })) {
          await run(
            inbox,
            events.findIndex(({ id }) => id === taken),
          );
        }
        for (const { id } of await inbox.list({ state: 'dead', limit: 9 })) await inbox.requeue(id);
      }
    }),
    ...inboxes.map(async (inbox) => {
      const page = events.map((_, index) => index).sort(() => Math.random() - 0.5);
      for (let rest = page; rest.length > 0; rest = rest.slice(40)) {
        const part = rest.slice(0, 40);
        await inbox.record(
          part.map((index) => events[index] ?? someEvent()),
          { dueInMs: 0, origin: 'pull', keys: part.map(keyOf) },
        );
      }
    }),
  ]);
  const { rows } = await pool.query('SELECT id FROM ledger ORDER BY id');
  expect(rows.map(({ id }) => id)).toEqual(effects.sort());
  expect(new Set(effects).size).toBe(effects.length);

  // The server counts late: one deadlock that is made after them is counted after them.
  await makeDeadlock();
  await vi.waitUntil(async () => (await deadlocks()) > before, { timeout: 60_000, interval: 50 });
  expect(await deadlocks()).toBe(before + 1);
});

/** Two transactions that wait for each other. */
async function makeDeadlock(): Promise<void> {
  const [one, other] = await Promise.all([pool.connect(), pool.connect()]);
  const lock = (client: pg.PoolClient, number: number) =>
    client.query('SELECT pg_advisory_xact_lock($1)', [number]);
  await Promise.all([one.query('BEGIN'), other.query('BEGIN')]);
  await Promise.all([lock(one, 1), lock(other, 2)]);
  const results = await Promise.allSettled([
    lock(one, 2).finally(() => one.query('ROLLBACK')),
    lock(other, 1).finally(() => other.query('ROLLBACK')),
  ]);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  for (const client of [one, other]) client.release();
}
