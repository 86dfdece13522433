/** Creates the tables of the inbox and of the app. You can run this at every deployment. */
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { pool } from './db.js';

await migratePostgres(pool);
await pool.query(
  'CREATE TABLE IF NOT EXISTS ledger (event_id text PRIMARY KEY, type text NOT NULL, amount numeric NOT NULL)',
);
await pool.end();
