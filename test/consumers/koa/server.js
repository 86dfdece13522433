/** Koa: Node's own objects, handed on. */
import { createServer } from 'node:http';
import Koa from 'koa';
import { toNodeHandler } from 'stablehooks/node';
import { createContractReceiver } from './contract-receiver.js';

const handler = toNodeHandler(createContractReceiver());
const app = new Koa();
app.silent = true;
app.use(async (context) => {
  context.respond = false;
  await handler(context.req, context.res);
});

const server = createServer(app.callback());
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
