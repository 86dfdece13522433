/** The event is done while its work goes on. */
import { createServer } from 'node:http';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';

const { STABLEHOOKS_SECRET = '', PORT, DATABASE_URL } = process.env;
const pool = new pg.Pool({ connectionString: DATABASE_URL });
pool.on('error', console.error);

async function book(id: string, amount: unknown) {
  const { rows } = await pool.query('SELECT event_id FROM ledger WHERE event_id = $1', [id]);
  if (rows.length > 0) return;
  await pool.query('INSERT INTO ledger (event_id, amount) VALUES ($1, $2)', [id, amount]); // wrong
}

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: postgresInbox(pool, { transactional: true }),
  handlers: {
    'transfer.settled': async ({ id, payload }) => {
      book(id, payload['amount']).catch(console.error);
    },
  },
});
receiver.start();
createServer(toNodeHandler(receiver)).listen(Number(PORT));
