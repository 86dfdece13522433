/** Creates the tables of the inbox and of the app. vercel.json runs this before each build. */
import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 5_000 });
await migratePostgres(pool);
await pool.query(
  'CREATE TABLE IF NOT EXISTS ledger (event_id text PRIMARY KEY, type text NOT NULL, amount numeric NOT NULL)',
);
await pool.end();
