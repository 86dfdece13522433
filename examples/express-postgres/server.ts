import express from 'express';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { health } from 'stablehooks/health';
import { fromDrizzle, postgresInbox } from 'stablehooks/inboxes/postgres';
import { db, pool } from './db.js';
import { handlers } from './handlers.js';

const {
  STABLEHOOKS_SECRET = '',
  STABLEHOOKS_BASE_URL = '',
  STABLEHOOKS_TOKEN = '',
  PORT = '3000',
} = process.env;

const inbox = postgresInbox(fromDrizzle(db), { transactional: true });

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
  inbox,
  handlers,
});
receiver.start(); // runs failed events; any number of processes can do this

const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });
const poller = createPoller({ client, receiver }); // only one process polls at a time
// Poll before listening, so that an event that crashes the process is counted and eventually set aside.
await poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
poller.start();

const app = express();
app.post('/hooks', toExpressHandler(receiver)); // above any body parser, which would change the signed bytes
app.get('/healthz', async (_request, response) => {
  const { healthy } = await health(inbox, { requirePoll: true }).catch(() => ({ healthy: false }));
  response.status(healthy ? 200 : 503).json({ healthy });
});
const server = app.listen(Number(PORT), (error) => {
  if (error) throw error;
  console.log(`Listening on http://localhost:${PORT}/hooks`);
});

async function close() {
  server.close();
  await poller.stop();
  await receiver.close();
  await pool.end();
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, close);
