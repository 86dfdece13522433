/** Fastify: the plugin beside a route whose JSON Fastify parses. */
import fastify from 'fastify';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { createContractReceiver } from './contract-receiver.js';

const app = fastify();
app.post('/orders', async (request) => request.body);
await app.register(toFastifyPlugin(createContractReceiver()), { prefix: '/hooks' });
console.log(await app.listen({ port: 0, host: '127.0.0.1' }));
