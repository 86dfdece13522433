/** The body reader of Node's adapters, over streams that are cut in every way. */
import { once } from 'node:events';
import { Agent, createServer, IncomingMessage, request as sendRequest } from 'node:http';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as slowSender } from 'node:timers/promises';
import fc from 'fast-check';
import { createReceiver, type Outcome, sign } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listen } from './listening.js';
import { createObserved, secret } from './observed.js';

type NodeRequest = Parameters<ReturnType<typeof toNodeHandler>>[0];

/** What a body is cut into, and how its stream ends. */
interface Sent {
  readonly chunks: readonly Buffer[];
  /** What the header says; `undefined` without one. */
  readonly declared: number | undefined;
  readonly end: 'end' | 'destroy' | 'reset' | 'error';
}

const MAX_BODY_BYTES = 4_096;

/** A request without a socket, so that every cut of its stream can be made, and the outcome of its delivery. */
function createDelivery(parsers: Partial<NodeRequest> = {}) {
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    maxBodyBytes: MAX_BODY_BYTES,
    handlers: { 'transfer.settled': () => undefined },
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: (outcome) => void outcomes.push(outcome),
  });
  const request = Object.assign(new IncomingMessage(new Socket()), parsers);
  request.method = 'POST';
  request.headers = { 'x-service-signature': '0'.repeat(64) };
  // The handler writes no reply to a response that is gone.
  const response = { destroyed: true } as Parameters<ReturnType<typeof toNodeHandler>>[1];
  const handle = async () => {
    await toNodeHandler(receiver)(request, response);
    const [outcome, ...others] = outcomes;
    expect(others).toEqual([]);
    if (outcome === undefined) throw new Error('The receiver reported no outcome.');
    return outcome;
  };
  return { request, handle };
}

async function receive(body: Buffer, { chunks, declared, end }: Sent): Promise<Outcome> {
  const { request, handle } = createDelivery();
  request.headers = { 'x-service-signature': await sign(body, { secret }) };
  if (declared !== undefined) request.headers['content-length'] = String(declared);
  const before = listenersOf(request);

  const handled = handle();
  for (const chunk of chunks) {
    request.push(chunk);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (end === 'end') request.push(null);
  else request.destroy(end === 'destroy' ? undefined : toError(end));
  const outcome = await handled;

  expect(listenersOf(request)).toEqual(before);
  return outcome;
}

/** The error of a connection that is reset, or one that other code gives the stream. */
const toError = (end: 'reset' | 'error') =>
  Object.assign(new Error(end), end === 'reset' && { code: 'ECONNRESET' });

/** A request can be kept longer than its delivery, and what listens to it is kept with it. */
const listenersOf = (request: Readable) =>
  ['data', 'end', 'error', 'close'].map((name) => request.listenerCount(name));

function cut(bytes: Buffer, places: readonly number[]): readonly Buffer[] {
  const at = [...new Set(places.map((place) => place % bytes.length))].sort((a, b) => a - b);
  return [0, ...at].map((from, index) => bytes.subarray(from, at[index] ?? bytes.length));
}

const bodies = fc
  .string({ unit: 'binary', maxLength: 6_000 })
  .map((memo) => Buffer.from(JSON.stringify(exampleEvent('transfer.settled', { payload: { memo } }))));
const places = fc.array(fc.nat(), { maxLength: 12 });

describe('the body of a Node request', () => {
  test('a body within the limit is verified byte for byte however it is cut, and a longer one is refused', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, places, fc.boolean(), async (body, at, isDeclared) => {
        const declared = isDeclared ? body.length : undefined;
        const { kind, error } = await receive(body, { chunks: cut(body, at), declared, end: 'end' });

        const expected = body.length > MAX_BODY_BYTES ? 'ERR_BODY_TOO_LARGE' : 'handled';
        expect(error?.code ?? kind).toBe(expected);
      }),
      { numRuns: 60 },
    );
  });

  test('a body that is not as long as it declares is never handled, wherever it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, places, fc.integer({ min: -50, max: 50 }), async (body, at, difference) => {
        fc.pre(difference !== 0 && body.length <= MAX_BODY_BYTES - 50);
        const declared = body.length + difference;
        const { error } = await receive(body, { chunks: cut(body, at), declared, end: 'end' });

        expect(error?.code).toBe('ERR_BODY_INCOMPLETE');
      }),
      { numRuns: 40 },
    );
  });

  test('a stream that is destroyed before its end is never handled, though all of its bytes have arrived', async () => {
    const ends = fc.constantFrom('destroy' as const, 'reset' as const, 'error' as const);
    await fc.assert(
      fc.asyncProperty(bodies, places, ends, async (body, at, end) => {
        fc.pre(body.length <= MAX_BODY_BYTES);
        const { error } = await receive(body, { chunks: cut(body, at), declared: undefined, end });

        expect(error?.code).toBe(end === 'error' ? 'ERR_BODY_UNAVAILABLE' : 'ERR_BODY_INCOMPLETE');
        expect((error?.cause as Error | undefined)?.message).toBe(end === 'destroy' ? undefined : end);
      }),
      { numRuns: 40 },
    );
  });

  test.each([
    [undefined, 'ERR_BODY_INCOMPLETE'],
    [toError('reset'), 'ERR_BODY_INCOMPLETE'],
    [toError('error'), 'ERR_BODY_UNAVAILABLE'],
  ])('a request that was destroyed with %s before it is handled has %s', async (cause, code) => {
    const { request, handle } = createDelivery();
    request.on('error', () => undefined).destroy(cause);
    const { error } = await handle();
    expect(error).toMatchObject({ code });
    expect(error?.cause).toBe(cause);
  });

  test.each(['body', 'rawBody'])(
    'the bytes that a parser left in `%s` can be as many as maxBodyBytes',
    async (name) => {
      for (const size of [MAX_BODY_BYTES, MAX_BODY_BYTES + 1]) {
        const text = JSON.stringify(exampleEvent('transfer.settled'));
        const bytes = Buffer.from(text.padEnd(size));
        const { request, handle } = createDelivery({ [name]: bytes });
        request.headers = { 'x-service-signature': await sign(bytes, { secret }) };
        const { kind, error } = await handle();
        expect(error?.code ?? kind).toBe(size > MAX_BODY_BYTES ? 'ERR_BODY_TOO_LARGE' : 'handled');
      }
    },
  );

  test.each([
    ['a text', '{}'],
    ['an object', {}],
    ['null', null],
    ['nothing', undefined],
    ['a number', 7],
  ])('a body whose reader left %s is answered ERR_BODY_UNAVAILABLE', async (_, body) => {
    const { request, handle } = createDelivery({ body });
    request.push('{}');
    request.push(null);
    for await (const _chunk of request);
    const { error } = await handle();
    expect(error?.code).toBe('ERR_BODY_UNAVAILABLE');
    expect(error?.message).toMatch('read or decoded the body first');
    expect(error?.message).toContain('In Koa, mount the receiver before the body parser');
  });

  test('a sender that needs more than a second for a refused body keeps its connection for the next delivery', async () => {
    const handler = toNodeHandler(createObserved().receiver);
    const sockets = new Set<Socket>();
    const { url, close } = await listen(
      createServer((request, response) => {
        sockets.add(request.socket);
        void handler(request, response);
      }),
    );
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => {
      agent.destroy();
      return close();
    });
    const body = Buffer.alloc(200_000, 'x');
    const forged = { 'x-service-signature': '0', 'content-length': 2 * body.length };
    const slow = sendRequest(url, { method: 'POST', headers: forged, agent });
    slow.write(body);
    const [refused] = await once(slow, 'response');
    refused.resume();
    await slowSender(1_500);
    slow.end(body);
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const next = sendRequest(url, { method: 'POST', headers: signed.headers, agent }).end(signed.body);
    const [handled] = await once(next, 'response');
    handled.resume();
    expect([refused.statusCode, handled.statusCode]).toEqual([401, 200]);
    expect(sockets.size).toBe(1);
  });

  test('a secret function gets a header that Node keeps as a list as one text', async () => {
    const values: (string | null)[] = [];
    const { receiver } = createObserved({
      secret: ({ headers }) => {
        values.push(headers.get('Set-Cookie'));
        return secret;
      },
    });
    const handler = toNodeHandler(receiver);
    const { url, close } = await listen(createServer((request, response) => void handler(request, response)));
    onTestFinished(close);
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'set-cookie': ['a=1', 'b=2'] };
    const sent = sendRequest(url, { method: 'POST', headers }).end(signed.body);
    const [response] = await once(sent, 'response');
    response.resume();
    expect(values).toEqual(['a=1, b=2']);
  });

  test.each<[string, unknown]>([
    ['strings', '{}'],
    ['objects', { id: 'evt_1' }],
    ['an ArrayBuffer', new ArrayBuffer(2)],
  ])(
    'a stream that gives %s is answered 500 ERR_BODY_UNAVAILABLE, and keeps no listener',
    async (_, chunk) => {
      const { request, handle } = createDelivery();
      const before = listenersOf(request);
      const handled = handle();
      // What other code does to a stream in object mode.
      request.emit('data', chunk);
      const { kind, error } = await handled;
      expect([kind, error?.code]).toEqual(['failed', 'ERR_BODY_UNAVAILABLE']);
      expect(error?.message).toMatch(/nothing reads the request before the receiver/);
      expect(listenersOf(request)).toEqual(before);
    },
  );
});
