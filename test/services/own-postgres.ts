import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, onTestFinished, vi } from 'vitest';
import { startPostgres } from './postgres.js';
import type { Service } from './service.js';

const unheard = () => undefined;

/**
 * Starts a Postgres with an inbox before the tests of the suite that calls it, and stops it after them. The statements
 * prepare the database.
 */
export function ownPostgres(...statements: readonly string[]) {
  const pool = new pg.Pool().on('error', unheard);
  const own = {
    server: {} as Service,
    /** Connects to the server once it has started. */
    pool,
    /** Opens another pool, which ends with the test. */
    open(options: pg.PoolConfig = {}): pg.Pool {
      const other = new pg.Pool({ connectionString: own.server.url, ...options }).on('error', unheard);
      onTestFinished(() => other.end());
      return other;
    },
    /** Begins a transaction, which is rolled back when the test ends unless it has ended before. */
    async begin(text: string, values: readonly unknown[] = []): Promise<pg.PoolClient> {
      const client = await pool.connect();
      onTestFinished(async () => {
        await client.query('ROLLBACK');
        client.release();
      });
      await client.query('BEGIN');
      await client.query(text, [...values]);
      return client;
    },
    /** How many locks are waited for. */
    waits: async () => (await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rows.length,
    /** Resolves when a statement waits for a lock. */
    untilBlocked: () => vi.waitUntil(async () => (await own.waits()) > 0, { timeout: 60_000, interval: 10 }),
  };
  beforeAll(async () => {
    own.server = await startPostgres();
    pool.options.connectionString = own.server.url;
    await migratePostgres(pool);
    for (const statement of statements) await pool.query(statement);
  });
  afterAll(async () => {
    await pool.end();
    await own.server.stop();
  });
  return own;
}
