/** The body reader of Node's adapters, over streams that are cut in every way. */
import { createServer, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import fc from 'fast-check';
import { createReceiver, type Outcome, sign } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

/** What a body is cut into, and how its stream ends. */
interface Sent {
  readonly chunks: readonly Buffer[];
  /** What the header says; `undefined` without one. */
  readonly declared: number | undefined;
  readonly end: 'end' | 'destroy' | 'error';
}

const MAX_BODY_BYTES = 4_096;

/** Gives a request to the adapter without a socket, so that every cut of its stream can be made. */
async function receive(body: Buffer, { chunks, declared, end }: Sent): Promise<Outcome> {
  const outcomes: Outcome[] = [];
  const receiver = createReceiver({
    secret,
    maxBodyBytes: MAX_BODY_BYTES,
    handlers: { 'transfer.settled': () => undefined },
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: (outcome) => void outcomes.push(outcome),
  });
  const request = new IncomingMessage(new Socket());
  request.method = 'POST';
  request.headers = { 'x-service-signature': await sign(body, { secret }) };
  if (declared !== undefined) request.headers['content-length'] = String(declared);
  // The handler writes no reply to a response that is gone.
  const response = { destroyed: true } as Parameters<ReturnType<typeof toNodeHandler>>[1];

  const handled = toNodeHandler(receiver)(request, response);
  for (const chunk of chunks) {
    request.push(chunk);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (end === 'end') request.push(null);
  else request.destroy(end === 'error' ? new Error('reset') : undefined);
  await handled;

  const [outcome, ...others] = outcomes;
  expect(others).toEqual([]);
  if (outcome === undefined) throw new Error('The receiver reported no outcome.');
  return outcome;
}

/** The bytes cut at these places. */
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
    const ends = fc.constantFrom('destroy' as const, 'error' as const);
    await fc.assert(
      fc.asyncProperty(bodies, places, ends, async (body, at, end) => {
        fc.pre(body.length <= MAX_BODY_BYTES);
        const { error } = await receive(body, { chunks: cut(body, at), declared: undefined, end });

        expect(error?.code).toBe('ERR_BODY_INCOMPLETE');
      }),
      { numRuns: 40 },
    );
  });

  test('a stream that other code begins to decode while it is read is answered 500 ERR_BODY_UNAVAILABLE', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer((request, response) => {
      void handler(request, response);
      request.setEncoding('utf8');
    });

    await expectUnavailable(await deliverTo(server), outcomes);
  });
});
