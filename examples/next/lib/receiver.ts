/**
 * The receiver of the Node routes. Next bundles each router and each worker separately, so each has a receiver of its
 * own; all of them share one inbox in the database, and so does the cron route.
 */
import pg from 'pg';
import { createReceiver, memoryInbox, type Receiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { handlers } from './handlers';

function makeInbox() {
  const connectionString = process.env['DATABASE_URL'];
  // To try it without a database: this inbox loses its events at a restart, and the cron route refuses it.
  if (connectionString === undefined) return memoryInbox();
  const pool = new pg.Pool({ connectionString, connectionTimeoutMillis: 5_000 });
  return postgresInbox(pool.on('error', (error) => console.error(error.message)));
}

let made: Receiver | undefined;

/** Made at the first delivery: `next build` loads this module without a secret and a database. */
export function receiver(): Receiver {
  made ??= createReceiver({ secret: process.env['STABLEHOOKS_SECRET'] ?? '', inbox: makeInbox(), handlers });
  return made;
}
