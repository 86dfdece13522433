/** Hono on Node. */
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { toFetchHandler } from 'stablehooks/fetch';
import { createContractReceiver } from './contract-receiver.js';

const handler = toFetchHandler(createContractReceiver());
const app = new Hono();
app.all('/hooks', (context) => handler(context.req.raw));

serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
});
