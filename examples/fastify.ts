/** A receiver in Fastify: `STABLEHOOKS_SECRET=whsec_test PORT=3000 npx tsx examples/fastify.ts`. */
import fastify from 'fastify';
import { createReceiver } from 'stablehooks';
import { toFastifyPlugin } from 'stablehooks/fastify';

const receiver = createReceiver({
  secret: process.env['STABLEHOOKS_SECRET'] ?? '',
  handlers: {
    'accept.confirmed': (event) => console.log('deposit confirmed', event.id),
    'transfer.failed': (event) => console.log('transfer failed', event.id),
  },
});

const app = fastify();
await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
// Other routes keep Fastify's own parsers.
app.post('/orders', async (request) => ({ received: request.body }));
// Waits for running handlers before the process ends.
app.addHook('onClose', () => receiver.close());

const address = await app.listen({ port: Number(process.env['PORT'] ?? 3000) });
console.log(`Listening on ${address}/hooks`);
