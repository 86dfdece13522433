/** Wiring in node:http and Koa: whoever touched the stream first, the answer is at once. */
import { createServer, type IncomingMessage, request as sendRequest } from 'node:http';
import Koa from 'koa';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listen } from './listening.js';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

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
        onTestFinished(listening.close);
        const lengthy = { ...headers, 'content-length': body.length };
        const sent = sendRequest(listening.url, { method: 'POST', headers: lengthy });
        sent.on('error', () => undefined);
        sent.write(body.subarray(0, 10), () => sent.destroy());
      });
    });

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });

  test('a reply that something else has sent stands, and the promise resolves', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer(async (request, response) => {
      const handled = handler(request, response);
      response.writeHead(504).flushHeaders();
      await handled;
      response.end('too late');
    });

    const reply = await deliverTo(server);

    expect([reply.status, await reply.text()]).toEqual([504, 'too late']);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
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

    expect(message).toContain('in Koa, mount it before the body parser');
  });
});
