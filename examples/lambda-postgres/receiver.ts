/** The only inbox and the only receiver of this app. Every function imports them. */
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { pool } from './db.js';
import { handlers } from './handlers.js';

const { STABLEHOOKS_SECRET = '' } = process.env;

export const inbox = postgresInbox(pool, { transactional: true });

export const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
  inbox,
  handlers,
});
