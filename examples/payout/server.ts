import express from 'express';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { health } from 'stablehooks/health';

const {
  STABLEHOOKS_BASE_URL = '',
  STABLEHOOKS_TOKEN = '',
  PAYOUT_FORM = 'step',
  PORT = '3000',
} = process.env;
const { inbox, receiver, close } = await import(PAYOUT_FORM === 'orders' ? './orders.js' : './step.js');

const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });
const poller = createPoller({ client, receiver });
// Poll before listening, so that an event that crashes the process is counted and eventually set aside.
await poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
poller.start();

const app = express();
app.post('/hooks', toExpressHandler(receiver));
app.get('/healthz', async (_request, response) => {
  const { healthy } = await health(inbox, { requirePoll: true }).catch(() => ({ healthy: false }));
  response.status(healthy ? 200 : 503).json({ healthy });
});
const server = app.listen(Number(PORT), (error) => {
  if (error) throw error;
  console.log(`Listening on http://localhost:${PORT}/hooks`);
});

async function end() {
  server.close();
  await poller.stop();
  await close();
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, end);
