import { createServer, type IncomingMessage, type Server, request as sendRequest } from 'node:http';
import { PassThrough, type Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { toExpressHandler } from 'stablehooks/express';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, onTestFinished, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { createFetchServer, toListener } from './fetch-server.js';
import { SERVERS, serveFastify } from './frameworks.js';
import { listen } from './listening.js';
import { createObserved, deliverTo, expectUnavailable } from './observed.js';

/** Other code that observes a request before the adapter, such as instrumentation, and the bytes that it sees. */
const OBSERVERS: Readonly<Record<string, (request: IncomingMessage, see: (chunk: Buffer) => void) => void>> =
  {
    'listens for data': (request, see) => request.on('data', see),
    'pipes it to another stream': (request, see) => void request.pipe(new PassThrough()).on('data', see),
  };

describe.each(SERVERS)('$name', ({ serve }) => {
  test.each(Object.entries(OBSERVERS))(
    'a delivery is handled when other code %s, which sees every byte',
    async (_, observe) => {
      const { receiver, outcomes } = createObserved();
      const server = await serve(receiver);
      let seen = 0;
      server.prependListener('request', (request: IncomingMessage) =>
        observe(request, ({ length }) => {
          seen += length;
        }),
      );

      expect((await deliverTo(server)).status).toBe(200);
      expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
      expect(seen).toBeGreaterThan(100);
    },
  );
});

describe('a body that was read before, or that something else ends', () => {
  const PARSED: Readonly<
    Record<string, (handler: ReturnType<typeof toFetchHandler>) => Parameters<typeof createServer>[1]>
  > = {
    Hono: (handler) => {
      const app = new Hono().all('/hooks', (context) => handler(context.req.raw));
      return getRequestListener(app.fetch, { overrideGlobalObjects: false });
    },
    ...Object.fromEntries(
      (['React Router 7', 'SvelteKit'] as const).map((bridge) => [
        bridge,
        (handler) => toListener(handler, bridge),
      ]),
    ),
  };

  test.each(Object.entries(PARSED))(
    'express.json above %s is answered 500 ERR_BODY_UNAVAILABLE with the fix',
    async (_, toServed) => {
      const { receiver, outcomes } = createObserved({ bodyTimeoutMs: 200 });
      const app = express().use(express.json());
      const listener = toServed(toFetchHandler(receiver));
      app.use((request, response) => void listener?.(request, response as never));

      const message = await expectUnavailable(await deliverTo(createServer(app)), outcomes);

      expect(message).toMatch(/parser.*before any body parser, such as express\.json/);
    },
  );

  test.each<{
    readonly name: string;
    readonly serve: (error: Error) => (receiver: never) => Server | Promise<Server>;
  }>([
    {
      name: 'a hook of Fastify',
      serve: (error) => async (receiver) => {
        const app = fastify();
        app.addHook('preParsing', (_request, _reply, payload, done) => {
          const limited = new PassThrough();
          payload.once('data', () => limited.destroy(error));
          done(null, payload.pipe(limited));
        });
        return serveFastify(receiver, app);
      },
    },
    {
      name: 'a framework with web streams',
      serve: (error) => (receiver) => {
        const handler = toFetchHandler(receiver);
        return createFetchServer((request) => {
          const body = new ReadableStream({ start: (controller) => controller.error(error) });
          return handler(
            new Request(request.url, {
              method: 'POST',
              headers: request.headers,
              body,
              duplex: 'half',
            } as RequestInit),
          );
        });
      },
    },
  ])('the error that $name gives the stream is the cause of ERR_BODY_UNAVAILABLE', async ({ serve }) => {
    const { receiver, outcomes } = createObserved();
    const limit = new Error('The body is over the limit of 10 bytes.');

    const message = await expectUnavailable(await deliverTo(await serve(limit)(receiver as never)), outcomes);

    expect(message).toMatch(/Reading the body failed.*a size limit/);
    expect(outcomes[0]?.error?.cause).toBe(limit);
  });
});

describe('a property that throws when it is read', () => {
  /** As on Vercel, where `body` parses when it is read. */
  const toThrowing = (request: IncomingMessage) =>
    Object.defineProperty(request, 'body', {
      get: () => {
        throw new SyntaxError('Invalid JSON');
      },
    });

  test('a signed delivery is handled, and one that was read before is answered 500 ERR_BODY_UNAVAILABLE', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const signed = createServer((request, response) => void handler(toThrowing(request), response));
    const read = createServer(async (request, response) => {
      for await (const _ of request);
      await handler(toThrowing(request), response);
    });

    expect((await deliverTo(signed)).status).toBe(200);
    expect((await deliverTo(read)).status).toBe(500);
    expect(outcomes.map(({ kind, error }) => error?.code ?? kind)).toEqual([
      'handled',
      'ERR_BODY_UNAVAILABLE',
    ]);
  });
});

describe('bytes of another realm, as in Jest and Vitest with jsdom', () => {
  test.each(['body', 'rawBody'])('the bytes that a parser left in `%s` are verified', async (name) => {
    const { receiver } = createObserved();
    const app = express().use(express.raw({ type: '*/*' }), (request, _response, next) => {
      const bytes = runInNewContext('Uint8Array.from(numbers)', { numbers: [...request.body] });
      expect(bytes).not.toBeInstanceOf(Uint8Array);
      Object.assign(request, { body: undefined, [name]: bytes });
      next();
    });
    app.post('/hooks', toExpressHandler(receiver));

    expect((await deliverTo(createServer(app))).status).toBe(200);
  });
});

describe('the stream that the preParsing hooks of Fastify return', () => {
  /** Fastify with a hook that returns this stream for the request's, and a hook that runs before the handler. */
  async function serveWith(toStream: (payload: Readable) => Readable, options = {}) {
    const observed = createObserved(options);
    const app = fastify();
    app.addHook('preParsing', (_request, _reply, payload, done) => done(null, toStream(payload as Readable)));
    app.addHook('preHandler', async () => void (await setImmediate()));
    return { ...observed, server: await serveFastify(observed.receiver, app) };
  }

  test.each<[string, (payload: Readable) => Readable]>([
    ['the request piped through a PassThrough', (payload) => payload.pipe(new PassThrough())],
    ['the request, to which another listener listens,', (payload) => payload.on('data', () => undefined)],
    ['the request', (payload) => payload],
  ])('%s is read after the asynchronous hooks before the handler', async (_, toStream) => {
    const { server, outcomes } = await serveWith(toStream);

    expect((await deliverTo(server)).status).toBe(200);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
  });

  test('a body that is cut off half way fails with ERR_BODY_INCOMPLETE behind a PassThrough', async () => {
    const ended = deferred();
    const { server, outcomes } = await serveWith((payload) => payload.pipe(new PassThrough()), {
      logger: { warn: () => undefined, error: () => ended.resolve() },
    });
    const { url, close } = await listen(server);
    onTestFinished(close);
    const headers = { 'x-service-signature': '0'.repeat(64), 'content-length': 100 };
    const sent = sendRequest(url, { method: 'POST', headers }).on('error', () => undefined);
    sent.write('{"id":', () => sent.destroy());
    await ended.promise;
    await server.close();

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });
});

test('`receive` in place of an adapter, which its type refuses, handles nothing', async () => {
  const { receiver, outcomes } = createObserved();
  const request = new Request('http://hooks.test/', { method: 'POST', body: '{}' });
  const app = express().post('/hooks', (...given) => {
    // As `app.post('/hooks', receiver.receive)` in JavaScript.
    void Reflect.apply(receiver.receive, undefined, given).then(() => given[1].end());
  });
  const hono = new Hono().post('/', async (given) => {
    await Reflect.apply(receiver.receive, undefined, [given]);
    return given.body(null);
  });
  await deliverTo(createServer(app));
  await hono.request(request.clone());
  await receiver.receive(request as never);
  await receiver.receive(undefined as never);

  expect(outcomes).toHaveLength(4);
  for (const { kind } of outcomes) expect(['failed', 'rejected']).toContain(kind);
});
