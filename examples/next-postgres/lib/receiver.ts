/** The only inbox and the only receiver of this app. Every route imports them. */
import pg from 'pg';
import { createReceiver, type Receiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { handlers } from './handlers';

// The pool connects at its first query, so `next build` needs no database.
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  query_timeout: 15_000, // else statements wait for a silent server
});
pool.on('error', console.error);
export const inbox = postgresInbox(pool, { transactional: true });

let made: Receiver | undefined;

/** Created at the first delivery or poll, because `next build` loads this module without a secret. */
export function receiver(): Receiver {
  made ??= createReceiver({
    secret: process.env.STABLEHOOKS_SECRET ?? '',
    signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
    inbox,
    handlers,
  });
  return made;
}
