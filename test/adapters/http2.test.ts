/** What HTTP/2 adds to the contract: the end of one delivery is that of its stream, and not that of the connection. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import http2, { type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import fastify from 'fastify';
import { Hono } from 'hono';
import type { Receiver } from 'stablehooks';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, type TestContext, test } from 'vitest';
import { createObserved, secret } from './observed.js';

const SERVERS: readonly {
  readonly name: string;
  readonly serve: (receiver: Receiver) => Http2Server | Promise<Http2Server>;
}[] = [
  {
    name: 'node:http2',
    serve(receiver) {
      const handler = toNodeHandler(receiver);
      // What Node's own types keep apart, frameworks pass on as the request and response of HTTP/1.1.
      return http2.createServer((request, response) => {
        void handler(request as unknown as IncomingMessage, response as unknown as ServerResponse);
      });
    },
  },
  {
    name: 'Fastify',
    async serve(receiver) {
      const app = fastify({ http2: true });
      await app.register(toFastifyPlugin(receiver));
      await app.ready();
      return app.server;
    },
  },
  {
    name: 'Hono',
    serve(receiver) {
      const app = new Hono();
      const handler = toFetchHandler(receiver);
      app.all('/', (context) => handler(context.req.raw));
      const options = { fetch: app.fetch, createServer: http2.createServer, overrideGlobalObjects: false };
      return createAdaptorServer(options) as Http2Server;
    },
  },
];

/** Serves the receiver, and connects to it. `post` begins a delivery; `closed` resolves when its stream is closed. */
async function connectTo(server: Http2Server, { onTestFinished }: TestContext) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => {
    session.destroy();
    server.close();
  });
  return {
    session,
    post(headers: Readonly<Record<string, string>>) {
      const stream = session.request({ ...headers, ':method': 'POST', ':path': '/' }).setEncoding('utf8');
      let text = '';
      stream.on('data', (part) => {
        text += part;
      });
      const closed = once(stream, 'close').then(() => ({
        code: JSON.parse(text).code,
        reset: stream.rstCode,
      }));
      return { stream, closed };
    },
  };
}

// At the same time: each test waits for a time limit.
describe.concurrent.each(SERVERS)('$name over HTTP/2', ({ serve }) => {
  const forged = { 'x-service-signature': '0'.repeat(64) };

  test('the stream of a body that never ends is closed after the answer, and other streams go on', async (context) => {
    const { receiver, outcomes } = createObserved({ bodyTimeoutMs: 1_000 });
    const { session, post } = await connectTo(await serve(receiver), context);
    const stalled = post(forged);
    stalled.stream.write('{"id":');

    expect(await stalled.closed).toEqual({
      code: 'ERR_BODY_TIMEOUT',
      reset: http2.constants.NGHTTP2_NO_ERROR,
    });

    expect(session.closed).toBe(false);
    const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const whole = post(headers);
    whole.stream.end(body);
    await whole.closed;
    expect(outcomes.map(({ kind, error }) => error?.code ?? kind)).toEqual(['ERR_BODY_TIMEOUT', 'handled']);
  });

  test('the stream of a body that is too large and does not end is closed after the answer', async (context) => {
    const { receiver } = createObserved({ maxBodyBytes: 10 });
    const { session, post } = await connectTo(await serve(receiver), context);
    const large = post(forged);
    large.stream.write('x'.repeat(11));

    expect(await large.closed).toEqual({
      code: 'ERR_BODY_TOO_LARGE',
      reset: http2.constants.NGHTTP2_NO_ERROR,
    });

    expect(session.closed).toBe(false);
  });
});
