/**
 * Events per second that take effect exactly once in a database: an inbox whose handler writes one row, and the transaction
 * that one would write, over the same driver and settings.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { startPostgres } from '../services/postgres.js';
import { median, perSecond } from './measurement.js';
import { SECRET } from './secret.js';

export interface ExactlyOnceResult {
  readonly store: 'Postgres' | 'SQLite';
  /** How many events were handled at the same time. */
  readonly lanes: number;
  /** Events per second: medians over the rounds. */
  readonly byHand: number;
  readonly own: number;
  /** Of the transaction by hand in the same round: the median over the rounds. */
  readonly ratio: number;
}

export interface ExactlyOnceCounts {
  readonly rounds: number;
  readonly events: number;
}

type Step = (event: UnknownEvent) => Promise<unknown>;

export async function measureExactlyOnce(counts: ExactlyOnceCounts): Promise<readonly ExactlyOnceResult[]> {
  return [...(await inPostgres(counts)), await inSqlite(counts)];
}

const LEDGER = 'CREATE TABLE ledger (id text NOT NULL)';
const SEEN = 'CREATE TABLE seen (id text PRIMARY KEY, event text NOT NULL)';

async function inPostgres(counts: ExactlyOnceCounts): Promise<readonly ExactlyOnceResult[]> {
  const server = await startPostgres({ fsync: true });
  // Connections that are still closing report the end of the server.
  const pool = new pg.Pool({ connectionString: server.url, max: 10 }).on('error', () => undefined);
  const enter = (id: string) => ({ name: 'enter', text: 'INSERT INTO ledger VALUES ($1)', values: [id] });
  try {
    await migratePostgres(pool);
    await pool.query(`${LEDGER}; ${SEEN}`);
    const receiver = createReceiver({
      secret: SECRET,
      inbox: postgresInbox(pool, { transactional: true }),
      handlers: {
        'transfer.settled': async ({ id }, { tx }) => void (await tx.query(enter(id))),
      },
    });
    const byHand: Step = async ({ id, ...rest }) => {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        const values = [id, JSON.stringify({ id, ...rest })];
        const text = 'INSERT INTO seen VALUES ($1, $2) ON CONFLICT DO NOTHING';
        const { rowCount } = await client.query({ name: 'see', text, values });
        if (rowCount === 1) await client.query(enter(id));
        await client.query('COMMIT');
      } finally {
        client.release();
      }
    };
    const results: ExactlyOnceResult[] = [];
    for (const lanes of [1, 10]) {
      results.push({ store: 'Postgres', lanes, ...(await compare(receiver, byHand, { ...counts, lanes })) });
    }
    return results;
  } finally {
    await pool.end();
    await server.stop();
  }
}

async function inSqlite(counts: ExactlyOnceCounts): Promise<ExactlyOnceResult> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-bench-'));
  const db = new Database(join(folder, 'events.db'));
  try {
    db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ${LEDGER}; ${SEEN}`);
    const enter = db.prepare('INSERT INTO ledger VALUES (?)');
    const see = db.prepare('INSERT OR IGNORE INTO seen VALUES (?, ?)');
    const receiver = createReceiver({
      secret: SECRET,
      inbox: sqliteInbox(db, { transactional: true }),
      handlers: { 'transfer.settled': ({ id }) => void enter.run(id) },
    });
    const handle = db.transaction((event: UnknownEvent) => {
      if (see.run(event.id, JSON.stringify(event)).changes === 1) enter.run(event.id);
    });
    const byHand: Step = async (event) => handle(event);
    return { store: 'SQLite', lanes: 1, ...(await compare(receiver, byHand, { ...counts, lanes: 1 })) };
  } finally {
    db.close();
    await rm(folder, { recursive: true });
  }
}

/** Rounds alternate, so a slow minute of the machine affects both candidates. The first round warms up. */
async function compare(
  receiver: { accept(event: UnknownEvent, origin: 'push'): Promise<{ readonly kind: string }> },
  byHand: Step,
  { rounds, ...how }: ExactlyOnceCounts & { readonly lanes: number },
): Promise<Pick<ExactlyOnceResult, 'byHand' | 'own' | 'ratio'>> {
  const own: Step = async (event) => {
    const { kind } = await receiver.accept(event, 'push');
    if (kind !== 'handled') throw new Error(`A new event is ${kind}.`);
  };
  const found: { readonly byHand: number; readonly own: number }[] = [];
  for (let round = 0; round <= rounds; round++) {
    const measured = { byHand: await perSecond(byHand, how), own: await perSecond(own, how) };
    if (round > 0) found.push(measured);
  }
  return {
    byHand: median(found.map((each) => each.byHand)),
    own: median(found.map((each) => each.own)),
    ratio: median(found.map((each) => each.own / each.byHand)),
  };
}
