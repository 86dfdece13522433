/** A receiver on node:http: `STABLEHOOKS_SECRET=whsec_test PORT=3000 npx tsx examples/node.ts`. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createReceiver } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';

const receiver = createReceiver({
  secret: process.env['STABLEHOOKS_SECRET'] ?? '',
  handlers: {
    'transfer.settled': (event) => console.log('transfer settled', event.id),
  },
});
const handler = toNodeHandler(receiver);

const server = createServer((request, response) => {
  if (request.url === '/hooks') handler(request, response);
  else response.writeHead(404).end();
});

server.listen(Number(process.env['PORT'] ?? 3000), () => {
  const { port } = server.address() as AddressInfo;
  console.log(`Listening on http://localhost:${port}/hooks`);
});

process.once('SIGTERM', async () => {
  server.close();
  // Waits for running handlers.
  await receiver.close();
});
