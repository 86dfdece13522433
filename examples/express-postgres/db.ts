import { drizzle } from 'drizzle-orm/node-postgres';
import { numeric, pgTable, text } from 'drizzle-orm/pg-core';
import pg from 'pg';

export const ledger = pgTable('ledger', {
  eventId: text('event_id').primaryKey(),
  type: text('type').notNull(),
  amount: numeric('amount').notNull(),
});

const { DATABASE_URL } = process.env;
export const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  query_timeout: 15_000,
});
// Without these listeners, a broken connection crashes the process.
pool.on('error', console.error).on('connect', (client) => client.on('error', console.error));

export const db = drizzle(pool, { schema: { ledger } });

/** The transaction of a handler. */
export type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
