/** An inbox of each store, over a file or server of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import Database from 'libsql';
import pg from 'pg';
import { type Inbox, memoryInbox } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { startPostgres } from '../services/postgres.js';
import { startRedis } from '../services/redis.js';

/** A store that is open. */
export interface Store {
  readonly inbox: Omit<Inbox, 'transaction'>;
  /** Where a process opens it: a path or a URL. */
  readonly address: string;
  close(): Promise<void>;
}

export type StoreName = 'memory' | 'SQLite' | 'Postgres' | 'Redis';

/** How many connections a pool of Postgres has. */
export const CONNECTIONS = 10;

export const STORES: Readonly<Record<StoreName, () => Promise<Store>>> = {
  memory: async () => ({ inbox: memoryInbox(), address: '', close: async () => undefined }),

  async SQLite() {
    const folder = await mkdtemp(join(tmpdir(), 'stablehooks-bench-'));
    const address = join(folder, 'inbox.db');
    const db = new Database(address);
    return {
      inbox: sqliteInbox(db),
      address,
      async close() {
        db.close();
        await rm(folder, { recursive: true });
      },
    };
  },

  async Postgres() {
    const server = await startPostgres();
    // Connections that are still closing hear of the server's end; nobody waits for them.
    const pool = new pg.Pool({ connectionString: server.url, max: CONNECTIONS }).on('error', () => undefined);
    await migratePostgres(pool);
    return {
      inbox: postgresInbox(pool),
      address: server.url,
      async close() {
        await pool.end();
        await server.stop();
      },
    };
  },

  async Redis() {
    const server = await startRedis();
    const client = new Redis(server.url);
    return {
      inbox: redisInbox(fromIoredis(client)),
      address: server.url,
      async close() {
        await client.quit();
        await server.stop();
      },
    };
  },
};
