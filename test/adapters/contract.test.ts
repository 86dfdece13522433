import { createServer } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { createContractReceiver } from 'stablehooks/conformance';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNodeHandler } from 'stablehooks/node';
import { createFetchServer } from './fetch-server.js';
import { describeContract, listen } from './listening.js';

describeContract('Express 5', () => {
  const app = express();
  app.all('/hooks', toExpressHandler(createContractReceiver()));
  return listen(createServer(app));
});

describeContract('Express 4', () => {
  const app = express4();
  app.all('/hooks', toExpressHandler(createContractReceiver()));
  return listen(createServer(app));
});

describeContract('Fastify', async () => {
  const app = fastify();
  await app.register(toFastifyPlugin(createContractReceiver()), { prefix: '/hooks' });
  await app.ready();
  return listen(app.server);
});

describeContract('node:http', () => listen(createServer(toNodeHandler(createContractReceiver()))));

describeContract('Koa', () => {
  const app = new Koa();
  // Koa logs each sender that disconnects.
  app.silent = true;
  const handler = toNodeHandler(createContractReceiver());
  app.use(async (context) => {
    context.respond = false;
    await handler(context.req, context.res);
  });
  return listen(createServer(app.callback()));
});

describeContract('Hono', () => {
  const app = new Hono();
  const handler = toFetchHandler(createContractReceiver());
  app.all('/hooks', (context) => handler(context.req.raw));
  return listen(
    createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as ReturnType<
      typeof createServer
    >,
  );
});

describeContract("the platform's own Request and Response", () => {
  return listen(createFetchServer(toFetchHandler(createContractReceiver())));
});
