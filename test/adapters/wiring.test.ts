/** Wiring mistakes: whatever reads the body first, the answer is at once, 500, and its message says the cure. */
import { createServer, type Server, request as sendRequest } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import { createReceiver, type Outcome, type Receiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import supertest from 'supertest';
import { afterEach, describe, expect, test } from 'vitest';
import { listen, type Running } from './listening.js';

const secret = 'whsec_wiring';

let running: Running | undefined;
afterEach(() => running?.close());

/** A receiver, and how its deliveries ended. */
function createObserved(): { readonly receiver: Receiver; readonly outcomes: Outcome[] } {
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': () => undefined },
    onOutcome: (outcome) => {
      outcomes.push(outcome);
    },
  });
  return { receiver, outcomes };
}

async function deliverTo(server: Server, contentType = 'application/json') {
  running = await listen(server);
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  const headers = { ...signed.headers, 'content-type': contentType };
  return fetch(running.url, { method: 'POST', headers, body: signed.body });
}

/** The delivery got 500 and nothing ran; answers the message for the log. */
async function expectUnavailable(reply: Response, outcomes: readonly Outcome[]): Promise<string> {
  expect(reply.status).toBe(500);
  expect(await reply.json()).toMatchObject({ code: 'ERR_BODY_UNAVAILABLE', outcome: 'failed' });
  expect(outcomes).toHaveLength(1);
  return outcomes[0]?.error?.message ?? '';
}

describe.each([
  { name: 'Express 4', framework: express4 },
  { name: 'Express 5', framework: express },
])('the $name handler', ({ framework }) => {
  test('a handler takes what supertest sends', async () => {
    const { receiver } = createObserved();
    const app = framework();
    app.post('/hooks', toExpressHandler(receiver));
    app.use(framework.json());
    const { url, headers, body } = await signedRequest(exampleEvent('transfer.settled'), {
      secret,
      url: '/hooks',
    });

    const post = (text: string) => supertest(app).post(url).set(headers).send(text);

    await post(body.toString()).expect(200, { outcome: 'handled' });
    await post(body.toString()).expect(200, { outcome: 'duplicate' });
    await post(`${body} `).expect(401);
  });

  test.each([
    { parser: framework.json(), type: 'application/json', words: /express\.json/ },
    {
      parser: framework.urlencoded(),
      type: 'application/x-www-form-urlencoded',
      words: /express\.urlencoded/,
    },
    { parser: framework.text({ type: '*/*' }), type: 'text/plain', words: /express\.text/ },
  ])('a parser of $type before the receiver is named in the error', async ({ parser, type, words }) => {
    const { receiver, outcomes } = createObserved();
    const app = framework();
    app.use(parser);
    app.post('/hooks', toExpressHandler(receiver));

    const message = await expectUnavailable(await deliverTo(createServer(app), type), outcomes);

    expect(message).toMatch(words);
    expect(message).toContain("app.post('/hooks', toExpressHandler(receiver)); app.use(express.json());");
  });

  test('express.raw before the receiver leaves the bytes', async () => {
    const { receiver } = createObserved();
    const app = framework();
    app.post('/hooks', framework.raw({ type: '*/*' }), toExpressHandler(receiver));

    expect((await deliverTo(createServer(app))).status).toBe(200);
  });

  test('express.json that keeps rawBody, as in Nest, leaves the bytes', async () => {
    const { receiver } = createObserved();
    const app = framework();
    const keep = (request: object, _: unknown, bytes: Buffer) => Object.assign(request, { rawBody: bytes });
    app.use(framework.json({ verify: keep }));
    app.post('/hooks', toExpressHandler(receiver));

    expect((await deliverTo(createServer(app))).status).toBe(200);
  });

  test('a parser that skipped the body, as it is of another type, is no matter', async () => {
    const { receiver } = createObserved();
    const app = framework();
    app.use(framework.json(), framework.urlencoded());
    app.post('/hooks', toExpressHandler(receiver));

    expect((await deliverTo(createServer(app), 'text/plain')).status).toBe(200);
  });
});

describe('node:http', () => {
  test.each<{
    readonly name: string;
    readonly meddle: (request: IncomingMessage) => void;
  }>([
    { name: 'is being read by somebody else', meddle: (request) => request.on('data', () => undefined) },
    { name: 'is decoded to text', meddle: (request) => request.setEncoding('utf8') },
    { name: 'is read by readable events', meddle: (request) => request.on('readable', () => request.read()) },
  ])('a stream that $name is unavailable', async ({ meddle }) => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer((request, response) => {
      meddle(request);
      void handler(request, response);
    });

    const message = await expectUnavailable(await deliverTo(server), outcomes);

    expect(message).toContain('rawBody: true');
  });

  test('a stream that was read to its end is unavailable', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer(async (request, response) => {
      for await (const _ of request);
      await handler(request, response);
    });

    await expectUnavailable(await deliverTo(server), outcomes);
  });

  test('a stream that was only paused is read', async () => {
    const { receiver } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer((request, response) => {
      request.pause();
      void handler(request, response);
    });

    expect((await deliverTo(server)).status).toBe(200);
  });

  test('a body cut off half way is incomplete, and nothing runs', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
    await new Promise<void>((resolve) => {
      const server = createServer((request, response) => handler(request, response).then(resolve));
      void listen(server).then((listening) => {
        running = listening;
        const lengthy = { ...headers, 'content-length': body.length };
        const sent = sendRequest(listening.url, { method: 'POST', headers: lengthy });
        sent.on('error', () => undefined);
        sent.write(body.subarray(0, 10), () => sent.destroy());
      });
    });

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });

  test('bytes that a parser kept are held to the limit, too', async () => {
    const outcomes: Outcome[] = [];
    const receiver = createReceiver({
      secret,
      handlers: {},
      limitBytes: 10,
      onOutcome: (outcome) => void outcomes.push(outcome),
    });
    const app = express();
    app.post('/hooks', express.raw({ type: '*/*' }), toExpressHandler(receiver));

    expect((await deliverTo(createServer(app))).status).toBe(413);
  });
});

describe('Koa', () => {
  test('a parser before the receiver gets an answer at once', async () => {
    const { receiver, outcomes } = createObserved();
    const app = new Koa();
    const handler = toNodeHandler(receiver);
    app.use(async (context, next) => {
      for await (const _ of context.req);
      await next();
    });
    app.use(async (context) => {
      context.respond = false;
      await handler(context.req, context.res);
    });

    const message = await expectUnavailable(await deliverTo(createServer(app.callback())), outcomes);

    expect(message).toContain('in Koa mount it before the body parser');
  });
});

describe('Fastify', () => {
  test('siblings and parents keep their parsers, and the receiver its own limit', async () => {
    const { receiver } = createObserved();
    const app = fastify({ bodyLimit: 20 });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    app.post('/orders', async (request) => ({ got: request.body }));
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url: '/hooks' });

    const taken = await app.inject(signed);
    const order = await app.inject({ method: 'POST', url: '/orders', payload: { a: 1 } });
    const large = await app.inject({ method: 'POST', url: '/orders', payload: { a: 'x'.repeat(50) } });
    const odd = await app.inject({
      method: 'POST',
      url: '/orders',
      headers: { 'content-type': 'x/y' },
      body: 'z',
    });

    expect(taken.statusCode).toBe(200);
    expect(order.json()).toEqual({ got: { a: 1 } });
    expect(large.statusCode).toBe(413);
    expect(odd.statusCode).toBe(415);
  });

  test('replies pass through the hooks of the app', async () => {
    const { receiver } = createObserved();
    const app = fastify();
    const seen: string[] = [];
    app.addHook('onSend', async (_, reply, payload) => {
      seen.push(`${reply.statusCode} ${payload}`);
      reply.header('x-seen', 'yes');
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url: '/hooks' });

    const reply = await app.inject(signed);

    expect(reply.headers['x-seen']).toBe('yes');
    expect(seen).toEqual(['200 {"outcome":"handled"}']);
  });

  test('a hook that reads the stream first gets an answer at once', async () => {
    const { receiver, outcomes } = createObserved();
    const app = fastify();
    app.addHook('preParsing', async (_request, _reply, payload) => {
      for await (const _ of payload);
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    await app.ready();

    const message = await expectUnavailable(await deliverTo(app.server), outcomes);

    expect(message).toContain('fastify-raw-body');
  });

  test('bytes that a hook kept are used', async () => {
    const { receiver } = createObserved();
    const app = fastify();
    app.addHook('preParsing', async (request, _reply, payload) => {
      const chunks: Buffer[] = [];
      for await (const chunk of payload) chunks.push(chunk);
      Object.assign(request, { rawBody: Buffer.concat(chunks) });
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    await app.ready();

    expect((await deliverTo(app.server)).status).toBe(200);
  });
});

describe('fetch', () => {
  test('a Hono middleware that parsed the body gets an answer at once', async () => {
    const { receiver, outcomes } = createObserved();
    const app = new Hono();
    const handler = toFetchHandler(receiver);
    app.use(async (context, next) => {
      await context.req.json();
      await next();
    });
    app.post('/hooks', (context) => handler(context.req.raw));
    const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });

    const message = await expectUnavailable(await deliverTo(server as Server), outcomes);

    expect(message).toContain('handler(c.req.raw)');
  });

  test.each([
    { name: 'was read', meddle: (request: Request) => request.text() },
    { name: 'is held by a reader', meddle: async (request: Request) => request.body?.getReader() },
  ])('a Request whose body $name is unavailable, with and without a length', async ({ meddle }) => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    for (const length of [{}, { 'content-length': String(signed.body.length) }]) {
      const request = new Request(signed.toRequest(), { headers: { ...signed.headers, ...length } });
      await meddle(request);
      expect((await toFetchHandler(receiver)(request)).status).toBe(500);
    }
    expect(outcomes.map(({ error }) => error?.code)).toEqual([
      'ERR_BODY_UNAVAILABLE',
      'ERR_BODY_UNAVAILABLE',
    ]);
  });

  test('a stream that breaks off is incomplete', async () => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(signed.body.subarray(0, 10));
        controller.error(new Error('gone'));
      },
    });
    const init = { method: 'POST', headers: signed.headers, body, duplex: 'half' };

    expect((await toFetchHandler(receiver)(new Request(signed.url, init))).status).toBe(500);
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });

  test('a body shorter than its declared length is incomplete', async () => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'content-length': String(signed.body.length + 1) };

    await toFetchHandler(receiver)(new Request(signed.toRequest(), { headers }));

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });
});
