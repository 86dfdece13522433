import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, request as sendRequest } from 'node:http';
import { runInNewContext } from 'node:vm';
import { createAdaptorServer, getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { memoryInbox, type Receiver } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listen } from './listening.js';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

describe('fetch', () => {
  test('a delivery whose body a Hono middleware has parsed is answered 500 ERR_BODY_UNAVAILABLE', async () => {
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
    { name: 'was read', disturb: (request: Request) => request.text() },
    { name: 'is locked by a reader', disturb: async (request: Request) => request.body?.getReader() },
  ])(
    'a Request whose body $name is answered 500 ERR_BODY_UNAVAILABLE, with and without a content-length',
    async ({ disturb }) => {
      const { receiver, outcomes } = createObserved();
      const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
      for (const length of [{}, { 'content-length': String(signed.body.length) }]) {
        const request = new Request(signed.toRequest(), { headers: { ...signed.headers, ...length } });
        await disturb(request);
        expect((await toFetchHandler(receiver)(request)).status).toBe(500);
      }
      expect(outcomes.map(({ error }) => error?.code)).toEqual([
        'ERR_BODY_UNAVAILABLE',
        'ERR_BODY_UNAVAILABLE',
      ]);
    },
  );

  test('a Request that throws once its body was read, as that of Elysia on Node does, is answered 500 ERR_BODY_UNAVAILABLE', async () => {
    const { receiver, outcomes } = createObserved();
    const request = (await signedRequest(exampleEvent('transfer.settled'), { secret })).toRequest();
    Object.defineProperty(request, 'bodyUsed', {
      get: () => {
        throw new TypeError('Response body object should not be disturbed or locked');
      },
    });
    expect((await toFetchHandler(receiver)(request)).status).toBe(500);
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_UNAVAILABLE']);
  });

  describe.each(['declared', 'chunked'])('of a %s body over Hono on Node', (kind) => {
    const send = async (body: Uint8Array, headers: Readonly<Record<string, string>>, server: Server) => {
      const { url, close } = await listen(server);
      onTestFinished(close);
      const length = kind === 'declared' ? { 'content-length': body.length } : {};
      const sent = sendRequest(url, { method: 'POST', headers: { ...headers, ...length } });
      // In two pieces, the first of which arrives with the headers.
      sent.write(body.subarray(0, 50));
      sent.end(body.subarray(50));
      const [response] = await once(sent, 'response');
      response.resume();
      return response.statusCode;
    };
    const serve = (receiver: Receiver, middleware?: Parameters<typeof createServer>[1]) => {
      const app = new Hono();
      const handler = toFetchHandler(receiver);
      app.post('/hooks', (context) => handler(context.req.raw));
      const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
      return createServer((request, response) => {
        middleware?.(request, response);
        void listener(request, response);
      });
    };

    test('the receiver gets every byte that another listener for data sees as well', async () => {
      const { receiver, outcomes } = createObserved();
      const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
      const observe = (request: IncomingMessage) => void request.on('data', () => undefined);
      expect(await send(signed.body, signed.headers, serve(receiver, observe))).toBe(200);
      expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
    });

    test('a body over the limit is refused, observed or not', async () => {
      const signed = await signedRequest(Buffer.alloc(200_000, '{'), { secret });
      for (const observe of [
        undefined,
        (request: IncomingMessage) => void request.on('data', () => undefined),
      ]) {
        const { receiver, outcomes } = createObserved({ maxBodyBytes: 1_000 });
        expect(await send(signed.body, signed.headers, serve(receiver, observe))).toBe(413);
        expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_TOO_LARGE']);
      }
    });
  });

  test('a Request whose stream gives Uint8Array of another realm is verified byte for byte', async () => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const body = new ReadableStream({
      start(controller) {
        for (const piece of [signed.body.subarray(0, 10), signed.body.subarray(10)]) {
          const chunk: unknown = runInNewContext('Uint8Array.from(numbers)', { numbers: [...piece] });
          expect(chunk).not.toBeInstanceOf(Uint8Array);
          controller.enqueue(chunk);
        }
        controller.close();
      },
    });
    const init = { method: 'POST', headers: signed.headers, body, duplex: 'half' };

    expect((await toFetchHandler(receiver)(new Request(signed.url, init))).status).toBe(200);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
  });

  test.each<[string, (bytes: Uint8Array<ArrayBuffer>) => unknown]>([
    ['strings', (bytes) => new TextDecoder().decode(bytes)],
    ['an ArrayBuffer', ({ buffer }) => buffer],
    ['a DataView', ({ buffer }) => new DataView(buffer)],
    ['numbers of two bytes', () => new Uint16Array(4)],
    ['null', () => null],
  ])(
    'a Request whose stream gives %s is answered 500 ERR_BODY_UNAVAILABLE, and is cancelled',
    async (_, toChunk) => {
      const { receiver, outcomes } = createObserved();
      const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
      let isCancelled = false;
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(toChunk(new Uint8Array(signed.body))),
        cancel() {
          isCancelled = true;
          throw new Error('A stream that cannot be cancelled changes nothing.');
        },
      });
      const init = { method: 'POST', headers: signed.headers, body, duplex: 'half' };

      const reply = await toFetchHandler(receiver)(new Request(signed.url, init));

      const message = await expectUnavailable(reply, outcomes);
      expect(message).toMatch(/If you create the stream yourself, its chunks must be Uint8Arrays\.$/);
      expect(message).toContain('handler(c.req.raw)');
      expect(isCancelled).toBe(true);
    },
  );

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['an object without headers, such as the request of Hono', { method: 'POST', raw: {} }],
    ['an object whose headers have no `get`', { method: 'POST', headers: {} }],
  ])('a handler that gets %s in place of a Request answers 500 ERR_CONFIG_INVALID', async (_, request) => {
    const { receiver, outcomes } = createObserved();

    const reply = await toFetchHandler(receiver)(request as Request);

    expect(reply.status).toBe(500);
    expect(await reply.json()).toMatchObject({ code: 'ERR_CONFIG_INVALID', outcome: 'failed' });
    expect(outcomes.map(({ error }) => error?.message)).toEqual([
      'toFetchHandler: the first argument of the handler must be a Request. In Hono, write `handler(c.req.raw)`.',
    ]);
  });

  test.each(['many', '5, 5', '-1'])(
    'a Request with the invalid content-length %j is still subject to maxBodyBytes',
    async (length) => {
      const { receiver, outcomes } = createObserved({ maxBodyBytes: 1_000 });
      const headers = { 'x-service-signature': '0'.repeat(64), 'content-length': length };
      let sent = 0;
      const body = new ReadableStream({
        pull(controller) {
          sent += 500;
          controller.enqueue(new Uint8Array(500));
          if (sent >= 1_000_000) controller.close();
        },
      });
      const init = { method: 'POST', headers, body, duplex: 'half' };
      await toFetchHandler(receiver)(new Request('http://hooks.test/', init));
      expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_TOO_LARGE']);
    },
  );

  /** A delivery with a forged signature whose body is this stream. `cancelled` resolves when the stream is cancelled. */
  function forgedRequest(source: UnderlyingDefaultSource<Uint8Array>, headers: Record<string, string> = {}) {
    let cancel: () => void = () => undefined;
    const cancelled = new Promise<void>((resolve) => {
      cancel = resolve;
    });
    const init = {
      method: 'POST',
      headers: { 'x-service-signature': '0'.repeat(64), ...headers },
      body: new ReadableStream({ ...source, cancel }),
      duplex: 'half',
    };
    return { request: new Request('http://hooks.test/', init), cancelled };
  }

  test.each([
    { declares: 'its first 5 bytes', headers: { 'content-length': '5' }, code: 'ERR_BODY_INCOMPLETE' },
    { declares: 'no byte', headers: { 'content-length': '0' }, code: 'ERR_BODY_INCOMPLETE' },
    { declares: 'nothing', headers: {}, code: 'ERR_BODY_TOO_LARGE' },
    { declares: 'no signature', headers: { 'x-service-signature': '' }, code: 'ERR_SIGNATURE_MISSING' },
  ])(
    'a Request that declares $declares of a stream without end is refused, and the stream is cancelled within 5 MiB',
    async ({ headers, code }) => {
      const { receiver, outcomes } = createObserved({ maxBodyBytes: 1_000 });
      const chunk = new Uint8Array(65_536);
      let sent = 0;
      const pull = (controller: ReadableStreamDefaultController) => {
        sent += chunk.length;
        controller.enqueue(chunk);
      };
      const { request, cancelled } = forgedRequest({ pull }, headers);

      await toFetchHandler(receiver)(request);
      await cancelled;

      expect(outcomes.map(({ error }) => error?.code)).toEqual([code]);
      expect(sent).toBeLessThan(5 * 2 ** 20);
    },
  );

  test.concurrent('a Request whose body does not arrive is answered 500 ERR_BODY_TIMEOUT, and its stream is cancelled', async () => {
    const { receiver, outcomes } = createObserved({ bodyTimeoutMs: 20 });
    const { request, cancelled } = forgedRequest({
      start: (controller) => controller.enqueue(new Uint8Array(100)),
    });

    const reply = await toFetchHandler(receiver)(request);
    await cancelled;

    expect([reply.status, reply.headers.get('connection')]).toEqual([500, 'close']);
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_TIMEOUT']);
  });

  const part = new Uint8Array(100);
  test.each<[string, UnderlyingDefaultSource<Uint8Array>, Record<string, string>, RegExp]>([
    ['is empty', { start: (stream) => stream.close() }, {}, /a proxy or the framework dropped .*SvelteKit/],
    ['does not arrive', {}, {}, /a parser or middleware read .* or a proxy .* dropped/i],
    [
      'does not end',
      { start: (stream) => stream.enqueue(part) },
      {},
      /proxies forward it \(in nginx, remove `proxy_pass_request_body off`\)/,
    ],
    [
      'is shorter than its length',
      {
        start(stream) {
          stream.enqueue(part);
          stream.close();
        },
      },
      { 'content-length': '200' },
      /a proxy truncated the body\. Next's proxy truncates bodies at 10 MB \(proxyClientMaxBodySize\)/,
    ],
  ])('the error of a body that %s names what may have taken it', async (_, source, headers, message) => {
    const { receiver, outcomes } = createObserved({ bodyTimeoutMs: 20 });
    expect((await toFetchHandler(receiver)(forgedRequest(source, headers).request)).status).toBe(500);
    expect(outcomes.map(({ error }) => error?.message)).toEqual([expect.stringMatching(message)]);
  });

  test.each([
    { fault: Object.assign(new Error('aborted'), { code: 'ECONNRESET' }), code: 'ERR_BODY_INCOMPLETE' },
    // Of Deno.
    { fault: Object.assign(new Error('unexpected EOF'), { name: 'Http' }), code: 'ERR_BODY_INCOMPLETE' },
    { fault: Object.assign(new Error('unavailable'), { name: 'BadResource' }), code: 'ERR_BODY_INCOMPLETE' },
    { fault: new TypeError('Body is unusable'), code: 'ERR_BODY_UNAVAILABLE' },
    { fault: new Error('over the limit'), code: 'ERR_BODY_UNAVAILABLE' },
  ])('a request of a framework that fails with $fault is answered 500 $code', async ({ fault, code }) => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'content-length': String(signed.body.length) };
    const request = new Request(signed.toRequest(), { headers });
    // As the requests of @hono/node-server, which read the connection themselves.
    Object.defineProperty(request, 'arrayBuffer', { value: () => Promise.reject(fault) });

    expect((await toFetchHandler(receiver)(request)).status).toBe(500);
    expect(outcomes.map(({ error }) => error?.code)).toEqual([code]);
  });
});

describe('fetch, for handlers that run after the answer', () => {
  const createRecording = () => {
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    const inbox = { ...memoryInbox(), durable: true };
    const observed = createObserved({ answer: 'recorded', inbox, logger: { warn: log, error: log } });
    return { ...observed, lines };
  };

  /** As the ExecutionContext of Workers: its method refuses to be called without its object. */
  class Lifetime {
    readonly #works: Promise<unknown>[] = [];
    waitUntil(work: Promise<unknown>): void {
      this.#works.push(work);
    }
    async ended(): Promise<number> {
      await Promise.all(this.#works);
      return this.#works.length;
    }
  }

  const signed = async () => (await signedRequest(exampleEvent('transfer.settled'), { secret })).toRequest();

  test.each([
    ['the second, as in Hono', (lifetime: Lifetime) => [lifetime]],
    ['the third, after the bindings, as in Workers', (lifetime: Lifetime) => [{ DB: {} }, lifetime]],
  ])('the argument with waitUntil is %s: it gets the work', async (_, toContext) => {
    const { receiver, outcomes } = createRecording();
    const lifetime = new Lifetime();

    const reply = await toFetchHandler(receiver)(await signed(), ...toContext(lifetime));

    expect(reply.status).toBe(202);
    expect(await lifetime.ended()).toBe(1);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
  });

  test('the option waitUntil gets the work where no argument has such a method', async () => {
    const { receiver, outcomes } = createRecording();
    const lifetime = new Lifetime();
    const handler = toFetchHandler(receiver, { waitUntil: (work) => lifetime.waitUntil(work) });

    expect((await handler(await signed(), { params: {} })).status).toBe(202);
    expect(await lifetime.ended()).toBe(1);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
  });

  test.each([
    ['undefined', undefined],
    ['null', null],
    ['the context of a Next route', { params: Promise.resolve({}) }],
    ['the info of Deno', { remoteAddr: { transport: 'tcp', hostname: '127.0.0.1', port: 1 } }],
    ['an object whose waitUntil is no function', { waitUntil: true }],
    ['a number', 7],
  ])('%s as the second argument changes nothing', async (_, context) => {
    const { receiver, outcomes, lines } = createRecording();

    expect((await toFetchHandler(receiver)(await signed(), context)).status).toBe(202);
    await receiver.close();
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
    expect(lines).toEqual([]);
  });

  test('a context whose waitUntil cannot be read does not change the answer, and the handler runs', async () => {
    const { receiver, outcomes, lines } = createRecording();
    const context = Object.defineProperty({}, 'waitUntil', {
      get: () => {
        throw new Error('The context is gone.');
      },
    });

    expect((await toFetchHandler(receiver)(await signed(), context)).status).toBe(202);
    await receiver.close();
    expect(outcomes.map(({ kind }) => kind)).toEqual(['queued', 'handled']);
    expect(lines).toEqual([expect.stringMatching(/waitUntil threw an error.*The context is gone/s)]);
  });
});
