/** Creates the tables of the inbox in the schema `stablehooks`. `prisma migrate deploy` creates the app's tables. */
import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 5_000 });
await migratePostgres(pool);
await pool.end();
