/** A receiver in Express: `STABLEHOOKS_SECRET=whsec_test PORT=3000 npx tsx examples/express.ts`. */
import type { AddressInfo } from 'node:net';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';

const receiver = createReceiver({
  secret: process.env['STABLEHOOKS_SECRET'] ?? '',
  handlers: {
    'accept.confirmed': (event) => console.log('deposit confirmed', event.id),
    'transfer.failed': (event) => console.log('transfer failed', event.id),
  },
});

const app = express();
// Above express.json(), because the receiver reads the raw body itself.
app.post('/hooks', toExpressHandler(receiver));
app.use(express.json());

const server = app.listen(Number(process.env['PORT'] ?? 3000), () => {
  const { port } = server.address() as AddressInfo;
  console.log(`Listening on http://localhost:${port}/hooks`);
});
