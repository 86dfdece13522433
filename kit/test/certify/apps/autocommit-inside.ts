/** The handler has a transaction, and writes past it. */
import { createServer } from 'node:http';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';

const { STABLEHOOKS_SECRET = '', PORT, DATABASE_URL } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL });
pool.on('error', console.error);

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: postgresInbox(pool, { transactional: true }),
  handlers: {
    'transfer.settled': async ({ id, payload }) => {
      await pool.query('INSERT INTO ledger (event_id, amount) VALUES ($1, $2)', [id, payload['amount']]); // wrong
    },
  },
});
receiver.start();
createServer(toNodeHandler(receiver)).listen(Number(PORT));
