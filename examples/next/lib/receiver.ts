/**
 * The receiver of the Node routes. Next bundles each router and each worker separately, so each has a receiver of its
 * own; all of them share one inbox in the database, and so does the cron route.
 */
import pg from 'pg';
import { createReceiver, memoryInbox } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { handlers, payloads, secret } from './handlers';

// A function, because `next build` loads this module where no database exists. It is called at the first event.
function inbox() {
  const connectionString = process.env['DATABASE_URL'];
  // To try it without a database: this inbox forgets at a restart, and the cron route refuses it.
  if (connectionString === undefined) return memoryInbox();
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 5_000 });
  return postgresInbox(pool.on('error', (error) => console.error(error.message)));
}

export const receiver = createReceiver({ secret, inbox, payloads, handlers });
