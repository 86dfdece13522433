/** Claims a second in Postgres against a bare INSERT … ON CONFLICT of the same rows: `npx tsx test/bench/claims.ts`. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { UnknownEvent } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { startPostgres } from '../services/postgres.js';

const EVENTS = 2_000;
const ROUNDS = 7;
const BUDGET = 0.5;

const server = await startPostgres();
// Connections that are still closing hear of the server's end; nobody waits for them.
const ignore = () => undefined;
const admin = new pg.Pool({ connectionString: server.url }).on('error', ignore);
await migratePostgres(admin);
// The same columns, types and primary key; none of the inbox's other indexes.
await admin.query(
  'CREATE TABLE bare (LIKE stablehooks.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (id))',
);

const BARE = `INSERT INTO bare (id, type, state, attempts, source, due_at, token, event)
VALUES ($1, $2, 'leased', 1, $3, now() + $4::float8 * interval '1 ms', $5, $6) ON CONFLICT (id) DO NOTHING`;

/** Runs one step for each event over so many lanes; answers steps a second. */
async function measure(lanes: number, step: (event: UnknownEvent) => Promise<unknown>): Promise<number> {
  const events = Array.from({ length: EVENTS }, () => ({
    ...exampleEvent('transfer.settled'),
    id: `evt_${randomUUID()}`,
  }));
  const waiting = events[Symbol.iterator]();
  const startedAt = performance.now();
  const lane = async () => {
    for (const event of waiting) await step(event);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return (EVENTS * 1_000) / (performance.now() - startedAt);
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

for (const lanes of [1, 4, 16]) {
  const pool = new pg.Pool({ connectionString: server.url, max: lanes }).on('error', ignore);
  const inbox = postgresInbox(pool);
  const claim = (event: UnknownEvent) => inbox.claim(event, { leaseMs: 60_000, source: 'push' });
  const insert = (event: UnknownEvent) =>
    pool.query(BARE, [event.id, event.type, 'push', 60_000, randomUUID(), JSON.stringify(event)]);
  const claims: number[] = [];
  const inserts: number[] = [];
  const ratios: number[] = [];
  // In turns, so that whatever slows the machine down slows both; the first round warms up.
  for (let round = 0; round <= ROUNDS; round++) {
    const [bare, claimed] = [await measure(lanes, insert), await measure(lanes, claim)];
    if (round === 0) continue;
    inserts.push(bare);
    claims.push(claimed);
    ratios.push(claimed / bare);
  }
  const ratio = median(ratios);
  console.log(
    `${String(lanes).padStart(2)} connections: ${median(claims).toFixed(0)} claims/s, ${median(inserts).toFixed(0)} bare inserts/s, ratio ${ratio.toFixed(2)} (budget ${BUDGET}) ${ratio >= BUDGET ? 'ok' : 'MISSED'}`,
  );
  await pool.end();
}

/** What a done event costs once it is pruned. */
await admin.query('TRUNCATE stablehooks.events');
await admin.query(`INSERT INTO stablehooks.events (id, attempts, state, source, type)
SELECT 'evt_' || md5(n::text), 1, 'done', 'push', 'transfer.settled' FROM generate_series(1, 500000) AS n`);
await admin.query('VACUUM stablehooks.events');
const { rows } = await admin.query<{ table_bytes: number; key_bytes: number; other_bytes: number }>(`
SELECT pg_table_size('stablehooks.events') / 500000.0::float8 AS table_bytes,
  pg_relation_size('stablehooks.events_pkey') / 500000.0::float8 AS key_bytes,
  (pg_indexes_size('stablehooks.events') - pg_relation_size('stablehooks.events_pkey')) / 500000.0::float8 AS other_bytes`);
const [size] = rows;
if (size !== undefined) {
  const all = size.table_bytes + size.key_bytes + size.other_bytes;
  const [table, key, other] = [size.table_bytes, size.key_bytes, size.other_bytes].map(Math.round);
  console.log(
    `a pruned done event (id of 36 characters): ${Math.round(all)} bytes = ${table} row + ${key} primary key + ${other} other indexes; 100 million: ${(all / 10).toFixed(1)} GB`,
  );
}
await admin.end();
await server.stop();
