/** The handler has a transaction of Drizzle, and writes past it. */
import { createServer } from 'node:http';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { fromDrizzle, postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';

const { STABLEHOOKS_SECRET = '', PORT, DATABASE_URL } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL });
pool.on('error', console.error);
const db = drizzle(pool);
const ledger = pgTable('ledger', { eventId: text('event_id'), amount: text('amount') });

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: postgresInbox(fromDrizzle(db), { transactional: true }),
  handlers: {
    'transfer.settled': async ({ id, payload }) => {
      await db.insert(ledger).values({ eventId: id, amount: String(payload['amount']) }); // wrong
    },
  },
});
receiver.start();
createServer(toNodeHandler(receiver)).listen(Number(PORT));
