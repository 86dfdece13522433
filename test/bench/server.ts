/** One server to load, by its name: a program of its own, with handlers that do nothing. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { createNodeMiddleware, Webhooks } from '@octokit/webhooks';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { createReceiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNodeHandler } from 'stablehooks/node';
import Stripe from 'stripe';
import { expressByHand, fastifyByHand, honoByHand, nodeByHand } from './by-hand.js';
import { SECRET } from './secret.js';

export type ServerName = keyof typeof SERVERS;

const receiver = () =>
  createReceiver({ secret: SECRET, handlers: { 'transfer.settled': async () => undefined } });

const header = (request: IncomingMessage, name: string) => String(request.headers[name] ?? '');

const SERVERS = {
  'node by hand': () => listen(nodeByHand()),
  'node stablehooks': () => listen(createServer(toNodeHandler(receiver()))),
  'node octokit': () => {
    const webhooks = new Webhooks({ secret: SECRET });
    webhooks.on('ping', async () => undefined);
    return listen(createServer(createNodeMiddleware(webhooks, { path: '/hooks' })));
  },
  'express by hand': () => listen(expressByHand()),
  'express stablehooks': () => {
    const app = express();
    app.post('/hooks', toExpressHandler(receiver()));
    return listen(createServer(app));
  },
  // As Stripe's documentation writes it for Express.
  'express stripe': () => {
    const stripe = new Stripe('sk_test_none');
    const app = express();
    app.post('/hooks', express.raw({ type: 'application/json' }), (request, response) => {
      try {
        stripe.webhooks.constructEvent(request.body, header(request, 'stripe-signature'), SECRET);
      } catch {
        response.sendStatus(400);
        return;
      }
      response.json({ received: true });
    });
    return listen(createServer(app));
  },
  'fastify by hand': async () => listen(await fastifyByHand()),
  'fastify stablehooks': async () => {
    const app = fastify();
    await app.register(toFastifyPlugin(receiver()), { prefix: '/hooks' });
    await app.ready();
    return listen(app.server);
  },
  'hono by hand': () => serveHono(honoByHand()),
  'hono stablehooks': () => {
    const app = new Hono();
    const handler = toFetchHandler(receiver());
    app.post('/hooks', (context) => handler(context.req.raw));
    return serveHono(app);
  },
} as const;

function serveHono(app: Hono) {
  serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => report(port));
}

function listen(server: ReturnType<typeof createServer>) {
  server.listen(0, '127.0.0.1', () => report((server.address() as AddressInfo).port));
}

/** Sends the address to the benchmark, then the processor time so far, in µs, whenever it asks. */
function report(port: number) {
  process.send?.(`http://127.0.0.1:${port}`);
  process.on('message', () => {
    const { user, system } = process.cpuUsage();
    process.send?.(user + system);
  });
}

const [, , name = ''] = process.argv;
if (Object.hasOwn(SERVERS, name)) await SERVERS[name as ServerName]();
