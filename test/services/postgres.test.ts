import { once } from 'node:events';
import pg from 'pg';
import { test } from 'vitest';
import { startPostgres } from './postgres.js';

test('a Postgres of the tests that stops sends no error to pools that have ended', async () => {
  const server = await startPostgres();
  const pools = Array.from({ length: 20 }, () => new pg.Pool({ connectionString: server.url, max: 1 }));
  for (const pool of pools) await pool.query('SELECT 1');
  // Rejects when a pool emits an error.
  const closed = Promise.all(pools.map((pool) => once(pool, 'remove')));
  await Promise.all(pools.map((pool) => pool.end()));
  await server.stop();
  await closed;
});
