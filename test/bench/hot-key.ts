/**
 * Whether the steps of an event take longer when many others wait for its ordering key, in every inbox: prints a table of
 * median times. `npm run build && npx tsx test/bench/hot-key.ts`
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import Database from 'libsql';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { type Inbox, type Lease, memoryInbox } from 'stablehooks';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { startMariadb } from '../services/mariadb.js';
import { startPostgres } from '../services/postgres.js';
import { startRedis } from '../services/redis.js';
import { digits, toTable } from './format.js';
import { median } from './measurement.js';

interface Store {
  readonly inbox: Omit<Inbox, 'transaction'>;
  stop(): Promise<unknown>;
}

const STORES: Readonly<Record<string, () => Promise<Store>>> = {
  memory: async () => ({ inbox: memoryInbox(), stop: async () => undefined }),
  async SQLite() {
    const folder = await mkdtemp(join(tmpdir(), 'hot-key-'));
    const inbox = sqliteInbox(new Database(join(folder, 'inbox.db')));
    return { inbox, stop: () => rm(folder, { recursive: true }) };
  },
  async Postgres() {
    const server = await startPostgres();
    const pool = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
    await migratePostgres(pool);
    return { inbox: postgresInbox(pool), stop: () => pool.end().then(() => server.stop()) };
  },
  async MariaDB() {
    const server = await startMariadb();
    const pool = createPool(server.url);
    await migrateMysql(pool);
    return { inbox: mysqlInbox(pool), stop: () => pool.end().then(() => server.stop()) };
  },
  async Redis() {
    const server = await startRedis();
    const client = new Redis(server.url);
    return { inbox: redisInbox(fromIoredis(client)), stop: () => client.quit().then(() => server.stop()) };
  },
};

const KEY = { leaseMs: 3_600_000, origin: 'push', key: 'hot' } as const;
const TURNS = 100;

const newEvent = (_: unknown, index: number) =>
  exampleEvent('transfer.settled', {
    created_at: new Date(Date.UTC(2026, 0, 1) + index).toISOString(),
  });

/** Median µs of each step while so many events wait. */
async function measureSteps(inbox: Store['inbox'], waiting: number): Promise<readonly number[]> {
  const events = Array.from({ length: waiting + TURNS + 1 }, newEvent);
  let lease: Lease | undefined;
  for (const event of events.slice(0, waiting + 1)) {
    const claim = await inbox.claim(event, KEY);
    if (claim.state === 'claimed') lease = claim.lease;
  }
  const times: Record<'again' | 'turn' | 'due', number[]> = { again: [], turn: [], due: [] };
  const timed = async <Value>(name: keyof typeof times, step: () => Promise<Value>): Promise<Value> => {
    const startedAt = performance.now();
    const value = await step();
    times[name].push((performance.now() - startedAt) * 1_000);
    return value;
  };
  const types = ['transfer.settled'];
  for (const [index, next] of events.slice(1, TURNS + 1).entries()) {
    const last = events[waiting + index + 1] ?? next;
    // One more waits, because one stops to wait in each turn.
    await inbox.claim(last, KEY);
    await timed('again', async () => inbox.claim(last, KEY));
    const held = lease;
    if (held === undefined) throw new Error('No event of the key is leased.');
    lease = await timed('turn', async () => {
      await inbox.complete(held);
      const claim = await inbox.claim(next, KEY);
      return claim.state === 'claimed' ? claim.lease : undefined;
    });
    await timed('due', async () => inbox.takeDue({ limit: 100, visibilityTimeoutMs: 60_000, types }));
  }
  return [times.again, times.turn, times.due].map(median);
}

const rows: string[][] = [];
for (const [name, open] of Object.entries(STORES)) {
  for (const waiting of [10, 200, 2_000]) {
    const { inbox, stop } = await open();
    rows.push([name, String(waiting), ...(await measureSteps(inbox, waiting)).map(digits)]);
    await stop();
  }
}
console.log(toTable(['', 'waiting', 'claim again µs', 'complete and claim the next µs', 'takeDue µs'], rows));
