/** Claims a second in Postgres against a bare INSERT … ON CONFLICT of the same rows, and what a pruned event takes. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import type { UnknownEvent } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { startPostgres } from '../services/postgres.js';
import { median, perSecond } from './measurement.js';

/** What so many connections at once managed; medians over the rounds. */
export interface ClaimsResult {
  readonly connections: number;
  readonly claimsPerSecond: number;
  readonly insertsPerSecond: number;
  readonly ratio: number;
}

/** What a done event takes once it is pruned, its id of 36 characters; bytes. */
export interface PrunedSize {
  readonly row: number;
  readonly primaryKey: number;
  readonly otherIndexes: number;
}

export interface Counts {
  readonly rounds: number;
  /** How many events a round claims. */
  readonly events: number;
  /** How many pruned events the size is averaged over. */
  readonly pruned: number;
}

const BARE = `INSERT INTO bare (id, type, state, attempts, source, due_at, token, event)
VALUES ($1, $2, 'leased', 1, $3, now() + $4::float8 * interval '1 ms', $5, $6) ON CONFLICT (id) DO NOTHING`;

export async function measureClaims({ rounds, events, pruned }: Counts): Promise<{
  readonly claims: readonly ClaimsResult[];
  readonly prunedSize: PrunedSize;
}> {
  const server = await startPostgres();
  // Connections that are still closing hear of the server's end; nobody waits for them.
  const open = (max: number) =>
    new pg.Pool({ connectionString: server.url, max }).on('error', () => undefined);
  const admin = open(1);
  try {
    await migratePostgres(admin);
    // The same columns, types and primary key; none of the inbox's other indexes.
    await admin.query(
      'CREATE TABLE bare (LIKE stablehooks.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (id))',
    );
    const claims: ClaimsResult[] = [];
    for (const connections of [1, 4, 16]) {
      const pool = open(connections);
      claims.push({ connections, ...(await compare(pool, { rounds, events, connections })) });
      await pool.end();
    }
    return { claims, prunedSize: await weighPruned(admin, pruned) };
  } finally {
    await admin.end();
    await server.stop();
  }
}

async function compare(
  pool: pg.Pool,
  { rounds, events, connections }: Omit<Counts, 'pruned'> & { readonly connections: number },
): Promise<Omit<ClaimsResult, 'connections'>> {
  const inbox = postgresInbox(pool);
  const claim = (event: UnknownEvent) => inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  const insert = (event: UnknownEvent) =>
    pool.query(BARE, [event.id, event.type, 'push', 60_000, randomUUID(), JSON.stringify(event)]);
  const measured: { readonly bare: number; readonly claimed: number }[] = [];
  // In turns, so that whatever slows the machine down slows both; the first round warms up.
  for (let round = 0; round <= rounds; round++) {
    const bare = await perSecond(insert, { events, lanes: connections });
    const claimed = await perSecond(claim, { events, lanes: connections });
    if (round > 0) measured.push({ bare, claimed });
  }
  return {
    claimsPerSecond: median(measured.map(({ claimed }) => claimed)),
    insertsPerSecond: median(measured.map(({ bare }) => bare)),
    ratio: median(measured.map(({ bare, claimed }) => claimed / bare)),
  };
}

async function weighPruned(admin: pg.Pool, count: number): Promise<PrunedSize> {
  await admin.query('TRUNCATE stablehooks.events');
  await admin.query(
    `INSERT INTO stablehooks.events (id, attempts, state, source, type)
SELECT 'evt_' || md5(n::text), 1, 'done', 'push', 'transfer.settled' FROM generate_series(1, $1::int) AS n`,
    [count],
  );
  await admin.query('VACUUM stablehooks.events');
  const { rows } = await admin.query<PrunedSize>(
    `SELECT pg_table_size('stablehooks.events') / $1::float8 AS row,
  pg_relation_size('stablehooks.events_pkey') / $1::float8 AS "primaryKey",
  (pg_indexes_size('stablehooks.events') - pg_relation_size('stablehooks.events_pkey')) / $1::float8 AS "otherIndexes"`,
    [count],
  );
  const [size] = rows;
  if (size === undefined) throw new Error('Postgres did not tell the size of its table.');
  return size;
}
