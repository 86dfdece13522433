/** Objects of a framework in place of Node's own request and response: the answer names what to pass, and nothing is thrown. */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  request as sendRequest,
} from 'node:http';
import express from 'express';
import fastify from 'fastify';
import Koa from 'koa';
import { toExpressHandler } from 'stablehooks/express';
import { toNextApiRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { listen } from './listening.js';
import { createObserved, deliverTo, secret } from './observed.js';

const ADAPTERS = { toExpressHandler, toNextApiRoute, toNodeHandler };

type AnyHandler = (...args: readonly unknown[]) => Promise<unknown>;

/** How an app passes wrong objects. */
const MISTAKES: Readonly<Record<string, (handler: AnyHandler) => Server | Promise<Server>>> = {
  "Fastify's request and reply": async (handler) => {
    const app = fastify();
    app.post('/hooks', async (request, reply) => {
      await handler(request, reply);
      return reply;
    });
    await app.ready();
    return app.server;
  },
  "Koa's request and response": (handler) =>
    createServer(new Koa().use((context) => handler(context.request, context.response)).callback()),
  "Koa's context": (handler) => createServer(new Koa().use((context) => handler(context)).callback()),
  "Express's response without its request": (handler) =>
    createServer(express().use((_, response) => void handler(undefined, response))),
};

test.each(Object.entries(MISTAKES))(
  '%s in place of those of Node are answered 500 by every adapter',
  async (_, serve) => {
    for (const toHandler of Object.values(ADAPTERS)) {
      const { receiver, outcomes } = createObserved();
      const server = await serve(toHandler(receiver) as unknown as AnyHandler);
      const reply = await deliverTo(server);
      expect(reply.status).toBe(500);
      expect(await reply.json()).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
      expect(outcomes.map(({ error }) => error?.message)).toEqual([
        expect.stringMatching(/Node's own request and response\. In Koa.*In Fastify.*toFetchHandler/),
      ]);
    }
  },
);

test('a Request, and nothing at all, are answered with a Response', async () => {
  for (const toHandler of Object.values(ADAPTERS)) {
    const { receiver } = createObserved();
    const handler = toHandler(receiver) as unknown as AnyHandler;
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    for (const given of [[signed.toRequest()], [], [null, null], ['request', 7]]) {
      expect(await handler(...given)).toMatchObject({ status: 500 });
    }
  }
});

test('a response that throws is logged, and the promise of the handler resolves', async () => {
  const error = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  onTestFinished(() => error.mockRestore());
  const broken = () => {
    throw new Error('headers of another middleware');
  };
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  for (const toHandler of Object.values(ADAPTERS)) {
    const { receiver, outcomes } = createObserved();
    const handler = toHandler(receiver) as unknown as AnyHandler;
    const request = { method: 'POST', headers: signed.headers, pause: true };
    for (const response of [{ writeHead: broken, end: broken }, { writeHead: () => undefined }])
      expect(await handler(request, response)).toBeUndefined();
    expect(outcomes).toHaveLength(2);
    expect(error.mock.calls.map(String).filter((line) => line.includes('could not be written'))).toEqual([
      expect.stringContaining('headers of another middleware'),
      expect.stringContaining('end is not a function'),
    ]);
    error.mockClear();
  }
});

test('an unsigned request of a wrong object does not end the process, which serves the next one', async () => {
  const { receiver } = createObserved();
  const handler = toNodeHandler(receiver) as unknown as AnyHandler;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    // As the wrapper of a framework: it has the headers of the request, and none of its methods.
    const { method, url, headers } = request;
    void handler({ method, url, headers, raw: request }, { raw: response });
  });
  const { url, close } = await listen(server);
  onTestFinished(close);
  for (let time = 0; time < 3; time += 1) {
    const status = await new Promise((resolve, reject) => {
      sendRequest(url, { method: 'POST' }, (reply) => resolve(reply.resume().statusCode))
        .on('error', reject)
        .end('{}');
    });
    expect(status).toBe(500);
  }
});
