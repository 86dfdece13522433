/** A receiver in Hono: `STABLEHOOKS_SECRET=whsec_test PORT=3000 npx tsx examples/fetch.ts`. */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { createReceiver } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';

const receiver = createReceiver({
  secret: process.env['STABLEHOOKS_SECRET'] ?? '',
  handlers: {
    'redeem.completed': (event) => console.log('paid out', event.id),
    'redeem.failed': (event) => console.log('not paid out', event.id),
  },
});
const handler = toFetchHandler(receiver);

const app = new Hono();
// Workers, Deno and Bun use the handler itself: `export default { fetch: handler }`.
app.post('/hooks', (context) => handler(context.req.raw));

serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000) }, ({ port }) => {
  console.log(`Listening on http://localhost:${port}/hooks`);
});
