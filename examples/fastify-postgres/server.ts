import Fastify from 'fastify';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { health } from 'stablehooks/health';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { pool } from './db.js';
import { handlers } from './handlers.js';

const {
  STABLEHOOKS_SECRET = '',
  STABLEHOOKS_BASE_URL = '',
  STABLEHOOKS_TOKEN = '',
  PORT = '3000',
} = process.env;

const inbox = postgresInbox(pool, { transactional: true });

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

const app = Fastify();
app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
app.get('/healthz', async (_request, reply) => {
  const { healthy } = await health(inbox, { requirePoll: true }).catch(() => ({ healthy: false }));
  return reply.status(healthy ? 200 : 503).send({ healthy });
});
await app.listen({ port: Number(PORT), host: '0.0.0.0' });
console.log(`Listening on http://localhost:${PORT}/hooks`);

async function close() {
  await app.close();
  await poller.stop();
  await receiver.close();
  await pool.end();
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, close);
