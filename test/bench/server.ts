/** One server to load, by its name: a program of its own, with handlers that do nothing. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createNodeMiddleware, Webhooks } from '@octokit/webhooks';
import express from 'express';
import { createReceiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toNodeHandler } from 'stablehooks/node';
import Stripe from 'stripe';
import { expressByHand, nodeByHand } from './by-hand.js';
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
} as const;

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
