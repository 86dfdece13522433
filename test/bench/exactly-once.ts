/**
 * Events per second that take effect exactly once in a database: an inbox whose handler writes one row, what people use in
 * its place, and the transaction that one would write, over the same server and settings.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { startPostgres } from '../services/postgres.js';
import { enter, LEDGER, transact } from './ledger.js';
import { median, perSecond } from './measurement.js';
import { PEERS, type Peer } from './peers.js';
import { progressOf } from './progress.js';
import { SECRET } from './secret.js';

export interface ExactlyOnceResult {
  readonly store: 'Postgres' | 'SQLite';
  /** How many events were handled at the same time. */
  readonly lanes: number;
  readonly name: string;
  /** Events per second: the median over the rounds. */
  readonly perSecond: number;
  /** Of the transaction by hand in the same round: the median over the rounds. */
  readonly ratio: number;
}

export interface ExactlyOnceCounts {
  readonly rounds: number;
  readonly events: number;
}

type Step = (event: UnknownEvent) => Promise<unknown>;

interface Candidate {
  readonly name: string;
  readonly step: Step;
}

/** Returns the ids in the ledger, and empties it. */
type TakeLedger = () => Promise<readonly string[]>;

export async function measureExactlyOnce(counts: ExactlyOnceCounts): Promise<readonly ExactlyOnceResult[]> {
  return [...(await inPostgres(counts)), ...(await inSqlite(counts))];
}

const SEEN = 'CREATE TABLE seen (id text PRIMARY KEY, event text NOT NULL)';

async function inPostgres(counts: ExactlyOnceCounts): Promise<readonly ExactlyOnceResult[]> {
  const server = await startPostgres({ fsync: true });
  // Connections that are still closing report the end of the server.
  const pool = new pg.Pool({ connectionString: server.url, max: 10 }).on('error', () => undefined);
  const peers: Peer[] = [];
  try {
    await migratePostgres(pool);
    await pool.query(`${LEDGER}; ${SEEN}`);
    const receiver = createReceiver({
      secret: SECRET,
      inbox: postgresInbox(pool, { transactional: true }),
      handlers: {
        'transfer.settled': async ({ id }, { tx }) => void (await tx.query(enter(id))),
      },
      // The copies of `mustRunOnce` would be reported as busy.
      logger: { warn: () => undefined, error: console.error },
    });
    const byHand: Step = (event) =>
      transact(pool, async (client) => {
        const text = 'INSERT INTO seen VALUES ($1, $2) ON CONFLICT DO NOTHING';
        const { rowCount } = await client.query({
          name: 'see event',
          text,
          values: [event.id, JSON.stringify(event)],
        });
        if (rowCount === 1) await client.query(enter(event.id));
      });
    for (const start of PEERS) peers.push(await start(server.url, pool));
    const takeLedger: TakeLedger = async () => {
      const { rows } = await pool.query<{ id: string }>('SELECT id FROM ledger');
      await pool.query('TRUNCATE ledger');
      return rows.map(({ id }) => id);
    };
    const candidates = [...comparing(byHand, receiver), ...peers];
    const results: ExactlyOnceResult[] = [];
    for (const lanes of [1, 10]) {
      results.push(...(await compare(candidates, takeLedger, { ...counts, store: 'Postgres', lanes })));
    }
    return results;
  } finally {
    for (const peer of peers) await peer.stop();
    await pool.end();
    await server.stop();
  }
}

async function inSqlite(counts: ExactlyOnceCounts): Promise<readonly ExactlyOnceResult[]> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-bench-'));
  const db = new Database(join(folder, 'events.db'));
  try {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${LEDGER}; ${SEEN}`);
    const write = db.prepare('INSERT INTO ledger VALUES (?)');
    const see = db.prepare('INSERT OR IGNORE INTO seen VALUES (?, ?)');
    const receiver = createReceiver({
      secret: SECRET,
      inbox: sqliteInbox(db, { transactional: true }),
      handlers: { 'transfer.settled': ({ id }) => void write.run(id) },
    });
    const handle = db.transaction((event: UnknownEvent) => {
      if (see.run(event.id, JSON.stringify(event)).changes === 1) write.run(event.id);
    });
    const candidates = comparing(async (event) => handle(event), receiver);
    const takeLedger: TakeLedger = async () => {
      const rows = db.prepare('SELECT id FROM ledger').all() as { id: string }[];
      db.exec('DELETE FROM ledger');
      return rows.map(({ id }) => id);
    };
    return await compare(candidates, takeLedger, { ...counts, store: 'SQLite', lanes: 1 });
  } finally {
    db.close();
    await rm(folder, { recursive: true });
  }
}

/** The transaction by hand comes first: the others are compared with it. */
function comparing(
  byHand: Step,
  receiver: { accept(event: UnknownEvent, origin: 'push'): Promise<{ readonly kind: string }> },
): readonly Candidate[] {
  const own: Step = async (event) => {
    const { kind } = await receiver.accept(event, 'push');
    if (kind !== 'handled') throw new Error(`A new event is ${kind}.`);
  };
  return [
    { name: 'by hand', step: byHand },
    { name: 'stablehooks', step: own },
  ];
}

/** The candidates take turns within each round, and each round begins with another one. The first round warms up. */
async function compare(
  candidates: readonly Candidate[],
  takeLedger: TakeLedger,
  { store, rounds, ...how }: ExactlyOnceCounts & Pick<ExactlyOnceResult, 'store' | 'lanes'>,
): Promise<readonly ExactlyOnceResult[]> {
  const { lanes, events } = how;
  for (const { name, step } of candidates) await mustRunOnce(name, step, takeLedger);
  const found: Map<string, number>[] = [];
  for (let round = 0; round <= rounds; round++) {
    progressOf(`Exactly once in ${store}, ${lanes} at a time`, round, rounds);
    const measured = new Map<string, number>();
    const first = round % candidates.length;
    for (const { name, step } of [...candidates.slice(first), ...candidates.slice(0, first)]) {
      measured.set(name, await perSecond(step, how));
      const ids = await takeLedger();
      if (ids.length !== events || new Set(ids).size !== events)
        throw new Error(`${name} wrote ${ids.length} rows for ${events} events.`);
    }
    if (round > 0) found.push(measured);
  }
  const of = (measured: Map<string, number>, name: string) => measured.get(name) ?? Number.NaN;
  return candidates.map(({ name }) => ({
    ...{ store, lanes, name },
    perSecond: median(found.map((each) => of(each, name))),
    ratio: median(found.map((each) => of(each, name) / of(each, 'by hand'))),
  }));
}

/** A candidate that lets a copy through, at the same time or later, does less work than the others. */
async function mustRunOnce(name: string, step: Step, takeLedger: TakeLedger): Promise<void> {
  const event = exampleEvent('transfer.settled');
  // A copy may be refused.
  await Promise.allSettled([step(event), step(event), step(event)]);
  await Promise.allSettled([step(event)]);
  const { length } = await takeLedger();
  if (length !== 1) throw new Error(`${name} wrote ${length} rows for four copies of one event.`);
}
