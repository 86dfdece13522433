/** One server to load, by its name: a program of its own. All verify, parse, and do nothing with the event. */
import { createHmac, timingSafeEqual } from 'node:crypto';
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
import { SECRET } from './secret.js';

export type ServerName = keyof typeof SERVERS;

const receiver = () =>
  createReceiver({ secret: SECRET, handlers: { 'transfer.settled': async () => undefined } });

/** What a careful hand writes: the same verdict over the same bytes, and no inbox. */
function take(body: Uint8Array, signature: string | undefined): boolean {
  const given = Buffer.from(signature ?? '', 'hex');
  const mac = createHmac('sha256', SECRET).update(body).digest();
  if (given.length !== mac.length || !timingSafeEqual(given, mac)) return false;
  return typeof JSON.parse(Buffer.from(body).toString()).id === 'string';
}

async function readAll(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const header = (request: IncomingMessage, name: string) => String(request.headers[name] ?? '');
const OK = '{"outcome":"handled"}';
const JSON_TYPE = { 'content-type': 'application/json' };

const SERVERS = {
  'node by hand': () =>
    listen(
      createServer(async (request, response) => {
        const taken = take(await readAll(request), header(request, 'x-service-signature'));
        response.writeHead(taken ? 200 : 401, JSON_TYPE).end(OK);
      }),
    ),
  'node stablehooks': () => listen(createServer(toNodeHandler(receiver()))),
  'node octokit': () => {
    const webhooks = new Webhooks({ secret: SECRET });
    webhooks.on('ping', async () => undefined);
    return listen(createServer(createNodeMiddleware(webhooks, { path: '/hooks' })));
  },
  'express by hand': () => {
    const app = express();
    app.post('/hooks', express.raw({ type: '*/*' }), (request, response) => {
      const taken = take(request.body, header(request, 'x-service-signature'));
      response.writeHead(taken ? 200 : 401, JSON_TYPE).end(OK);
    });
    return listen(createServer(app));
  },
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
  'fastify by hand': async () => {
    const app = fastify();
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.post('/hooks', async (request, reply) => {
      const taken = take(request.body as Buffer, header(request.raw, 'x-service-signature'));
      return reply
        .code(taken ? 200 : 401)
        .headers(JSON_TYPE)
        .send(OK);
    });
    await app.ready();
    return listen(app.server);
  },
  'fastify stablehooks': async () => {
    const app = fastify();
    await app.register(toFastifyPlugin(receiver()), { prefix: '/hooks' });
    await app.ready();
    return listen(app.server);
  },
  'hono by hand': () => {
    const app = new Hono();
    app.post('/hooks', async (context) => {
      const body = new Uint8Array(await context.req.arrayBuffer());
      const taken = take(body, context.req.header('x-service-signature'));
      return new Response(OK, { status: taken ? 200 : 401, headers: JSON_TYPE });
    });
    return serveHono(app);
  },
  'hono stablehooks': () => {
    const app = new Hono();
    const handler = toFetchHandler(receiver());
    app.post('/hooks', (context) => handler(context.req.raw));
    return serveHono(app);
  },
} as const;

function serveHono(app: Hono) {
  serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => print(port));
}

function listen(server: ReturnType<typeof createServer>) {
  server.listen(0, '127.0.0.1', () => print((server.address() as AddressInfo).port));
}

function print(port: number) {
  console.log(`http://127.0.0.1:${port}`);
}

const [, , name = ''] = process.argv;
if (Object.hasOwn(SERVERS, name)) await SERVERS[name as ServerName]();
