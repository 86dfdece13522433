import { setTimeout as wait } from 'node:timers/promises';
import { type Handlers, PermanentError, withPayload } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import * as z from 'zod/mini';
import { examineEndpoint, type Row } from '../../src/doctor/examination.js';
import { SECRET } from '../command.js';
import { type RunningServer, serve } from '../http-server.js';
import { answer, createPlainReceiver, hmac, takeOnce, verifyRaw } from './plain-receiver.js';
import { createListener } from './stablehooks-receiver.js';
import {
  actsBeforeVerify,
  always,
  answering,
  checkThenInsert,
  parserFirst,
  parserFirstHanging,
  slow,
  startClusterWithMemory,
  startPrettyPrintingProxy,
  type WrongReceiver,
  wrong,
} from './wrong-receivers.js';

interface FaultOptions {
  /** @default 'fail' */
  readonly verdict?: 'not shown';
  /** Counts effects, as with `--effects`. @default false */
  readonly counted?: boolean;
  /** How long doctor waits for an answer; short for an endpoint that gives none. @default 60,000 */
  readonly timeoutMs?: number;
}

/** An endpoint with one fault, and a part of the sentence that says what to change. */
type Fault = readonly [
  receiver: WrongReceiver | { readonly start: (secret: string) => Promise<RunningServer> },
  fix: string,
  options?: FaultOptions,
];

type Handler = NonNullable<Handlers['transfer.settled']>;

const AMOUNT_IN_CENTS = z.object({ cents: z.int() });
const ONLY_KNOWN_FIELDS = z.strictObject(
  Object.fromEntries(
    ['transfer_id', 'amount', 'currency', 'chain', 'wallet_id', 'from', 'to', 'tx_hash', 'settled_at'].map(
      (name) => [name, z.string()],
    ),
  ),
);

const handling =
  (handler: Handler): WrongReceiver =>
  (secret) =>
    createListener({ secret, handlers: { 'transfer.settled': handler } });

/** Remembers the ids of done events for one second. */
const forgetsIds: WrongReceiver = (secret) => {
  const seenAt = new Map<string, number>();
  return createPlainReceiver(secret, {
    take(id, ledger) {
      if (performance.now() - (seenAt.get(id) ?? Number.NEGATIVE_INFINITY) < 1_000) return;
      seenAt.set(id, performance.now());
      ledger.apply(id);
    },
  });
};

/** Fails on its first delivery, and on no other one. */
const startsBadly: WrongReceiver = (secret) => {
  let count = 0;
  return createPlainReceiver(secret, {
    take(id, ledger) {
      count += 1;
      if (count === 1) throw new Error('not ready');
      takeOnce(id, ledger);
    },
  });
};

/** Answers 409 to an event that is done. */
const refusesDuplicates: WrongReceiver = (secret) => {
  const seen = new Set<string>();
  return createPlainReceiver(secret, {
    check: ({ id }) => (seen.has(id) ? 409 : void seen.add(id)),
  });
};

/** The faults, by the check that finds them. */
const FAULTS: Readonly<Record<string, Readonly<Record<string, Fault>>>> = {
  genuine: {
    'reads a header that the service does not send': [
      (secret) => createListener({ secret, signature: { header: 'x-acme-digest' } }),
      'finds no signature in X-SERVICE-Signature',
    ],
    'reads a usual header': [
      (secret) => createListener({ secret, signature: { header: 'x-webhook-signature' } }),
      'from x-webhook-signature',
    ],
    'has another secret': [
      () => createListener({ secret: 'whsec_of_another_endpoint' }),
      'uses a different secret',
    ],
    'has another secret and says nothing': [
      () => createPlainReceiver('whsec_of_another_endpoint'),
      'The response is empty. Compare the secret',
    ],
    'has a newline at the end of its secret': [
      (secret) => createListener({ secret: async () => `${secret}\n` }),
      '.trim()',
    ],
    'compares the string of the signature with base64': [
      wrong((secret) => ({
        authentic: (body, signature) => signature === hmac(secret, body, 'base64'),
      })),
      'only as base64',
    ],
    'needs a prefix': [
      (secret) => createListener({ secret, signature: { prefix: 'sha256=' } }),
      'the prefix sha256=',
    ],
    'has a body parser in front and refuses': [
      parserFirst,
      'A body parser consumed the body before the receiver',
    ],
    'has a body parser in front and waits for the body': [
      parserFirstHanging,
      'A body parser consumed the body before the receiver',
      { timeoutMs: 4_000 },
    ],
    'is behind a proxy that indents JSON': [{ start: startPrettyPrintingProxy }, 'indented by 2 spaces'],
    'changes the body in a way that is not known': [
      wrong((secret) => ({
        authentic: (body, signature) =>
          verifyRaw(secret)(Buffer.from(body.toString().toUpperCase()), signature),
      })),
      'The body is changed before it is verified',
    ],
    'refuses unknown fields of the payload': [
      handling(withPayload(ONLY_KNOWN_FIELDS, () => undefined)),
      'refuses events with unknown fields',
    ],
    'has a schema of its own': [handling(withPayload(AMOUNT_IN_CENTS, () => undefined)), '--payload FILE'],
    'has no handler': [
      (secret) => createListener({ secret, handlers: {} }),
      'Register a handler for at least one of them.',
      { verdict: 'not shown' },
    ],
    'is behind a rate limit': [
      always(429, 'Too many requests, slow down.', { 'retry-after': '60' }),
      '(429). The response: "Too many',
    ],
    'is down for maintenance': [
      always(503, '<html><body><h1>Back at noon</h1></body></html>'),
      'The response: "Back at noon"',
    ],
    'is behind a log-in': [always(401, 'Unauthorized', { 'www-authenticate': 'Basic' }), 'requires a login'],
    redirects: [
      () => (_, response) => void response.writeHead(307, { location: '/login?next=token' }).end(),
      'Location: URL/login?…',
    ],
    'is at another path': [
      () => (_, response) => answer(response, 404),
      'Nothing accepts a POST at /hooks (404). Check the path',
    ],
    'never answers': [
      () => () => undefined,
      'does not respond to any POST within the time limit',
      { timeoutMs: 3_000 },
    ],
    'fails on each event': [
      answering(500, 'Cannot read properties of undefined'),
      'The response: "Cannot read',
    ],
    'fails on its first event': [startsBadly, 'accepted a later one'],
    'gives up on each event': [
      handling(() => {
        throw new PermanentError('never');
      }),
      '(PermanentError)',
    ],
    'is slow': [slow, 'the handler is slow. Enqueue the work', { timeoutMs: 4_000 }],
    'verifies, and does nothing': [
      wrong(() => ({ take: () => undefined })),
      '2xx before the work is done',
      { counted: true },
    ],
    'puts events into a queue that nothing runs': [
      answering(202, '{"outcome":"queued"}'),
      'the log of the worker',
      { verdict: 'not shown', counted: true, timeoutMs: 5_000 },
    ],
  },
  forged: {
    'does not verify': [
      wrong(() => ({ authentic: () => true })),
      'Verify the signature over the raw bytes before anything else',
    ],
    'answers 500 to a forgery': [
      wrong(() => ({ refuse: (response) => answer(response, 500, 'TypeError: no match') })),
      'The response: "TypeError: no match"',
    ],
    'answers 400 to a forgery': [
      wrong(() => ({ refuse: (response) => answer(response, 400) })),
      'Return 401 or 403',
    ],
    'acts before it verifies': [actsBeforeVerify, 'although it refused the signature', { counted: true }],
  },
  unsigned: {
    'verifies only if there is a signature': [
      wrong((secret) => ({
        authentic: (body, signature) => signature === '' || verifyRaw(secret)(body, signature),
      })),
      'Verify the signature over the raw bytes before anything else',
    ],
  },
  'short signature': {
    'accepts an empty signature': [
      wrong((secret) => ({
        before: (request, response) => {
          const isMissing = request.method === 'POST' && request.headers['x-service-signature'] === undefined;
          if (isMissing) request.resume().on('end', () => answer(response, 401));
          return isMissing;
        },
        authentic: (body, signature) => signature === '' || verifyRaw(secret)(body, signature),
      })),
      'accepts an empty signature',
    ],
    'compares as many characters as it is sent': [
      wrong((secret) => ({
        authentic: (body, signature) => signature !== '' && hmac(secret, body).startsWith(signature),
      })),
      'beginning of the correct one',
    ],
  },
  tampered: {
    'verifies the body without its amount': [
      wrong((secret) => ({
        authentic: (body, signature) => {
          const text = body.toString().replace(/"amount":"9.99"/, '"amount":"1.00"');
          return signature === hmac(secret, text);
        },
      })),
      'Verify the signature over the raw bytes before anything else',
    ],
    'enqueues what it refuses': [
      wrong(() => ({
        takeForged: (id, ledger) => void wait(200).then(() => takeOnce(id, ledger)),
      })),
      'although it refused the signature',
      { counted: true },
    ],
  },
  'no secrets': {
    'prints the expected signature when it refuses one': [
      wrong((secret) => ({
        refuse: (response, body) => answer(response, 401, `expected ${hmac(secret, body)}`),
      })),
      'contain the expected signature',
    ],
    'prints its secret when it refuses a signature': [
      wrong((secret) => ({
        refuse: (response) => answer(response, 401, JSON.stringify({ error: 'mismatch', secret })),
      })),
      'contain the secret',
    ],
  },
  'cut off': {
    'acts on half a body': [actsBeforeVerify, 'half a body', { counted: true }],
  },
  'pretty-printed': {
    'serializes the body again': [
      wrong((secret) => ({
        authentic: (body, signature) =>
          signature === hmac(secret, JSON.stringify(JSON.parse(body.toString()))),
      })),
      'parsed and serialized again',
    ],
  },
  'wrong method': {
    'accepts GET': [wrong(() => ({ methods: ['POST', 'GET'] })), 'only by POST'],
  },
  oversized: {
    'reads bodies of any size': [wrong(() => ({ limitBytes: 100_000_000 })), 'read 2000000 bytes'],
    'answers 422 to a large body, as to each that its schema does not accept': [
      answering(200, '', { large: 422 }),
      'Return 413',
      { verdict: 'not shown' },
    ],
  },
  chunked: {
    'refuses a body without a length': [
      wrong(() => ({
        before(request, response) {
          const isChunked = request.headers['transfer-encoding'] !== undefined;
          if (isChunked) request.resume().on('end', () => answer(response, 411));
          return isChunked;
        },
      })),
      'a chunked body',
    ],
  },
  'unknown fields': {
    'refuses unknown fields of the event': [
      wrong(() => ({ check: (event) => (Object.keys(event).length > 4 ? 422 : undefined) })),
      'refuses events with unknown fields',
    ],
  },
  'old event': {
    'refuses events that are older than five minutes': [
      wrong(() => ({
        check: ({ created_at }) => (Date.now() - Date.parse(created_at) > 300_000 ? 400 : undefined),
      })),
      'seven days old',
    ],
  },
  'unknown type': {
    'fails on new types': [
      wrong(() => ({
        takeUnknown() {
          throw new Error('unknown type');
        },
      })),
      'types that are newer',
    ],
  },
  'failing handler': {
    'answers before the work': [
      wrong(() => ({
        take(id, ledger) {
          // If the work fails, as it does for one event, that event is not delivered again.
          setImmediate(() => {
            if (!id.endsWith('_failing-handler')) takeOnce(id, ledger);
          });
        },
      })),
      '2xx before the work is done',
      { counted: true },
    ],
    'records an event as done before the work': [
      wrong(() => ({
        take(id, ledger) {
          if (ledger.has(id)) return;
          ledger.apply(id);
          if (id.endsWith('failing-handler')) throw new Error('the work failed');
        },
      })),
      'done after the work',
      { counted: true },
    ],
  },
  doubled: {
    'is not idempotent': [
      wrong(() => ({ take: (id, ledger) => ledger.apply(id) })),
      'in one atomic step',
      { counted: true },
    ],
    'refuses an event that is done': [refusesDuplicates, 'Return a 2xx for an event that is already done'],
  },
  concurrent: {
    'checks and inserts in two steps': [checkThenInsert, 'in one atomic step', { counted: true }],
    'is a cluster whose workers have a memory inbox each': [
      { start: startClusterWithMemory },
      'works only within one process',
    ],
    'is one process that replies handled to each delivery': [
      answering(200, '{"outcome":"handled"}'),
      'If you run several processes',
    ],
  },
  remembered: {
    'forgets ids after a second': [
      forgetsIds,
      'handled the first event of this run again',
      { counted: true },
    ],
  },
};

/** The rows of doctor for a server. */
async function examine(server: RunningServer, { counted = false, timeoutMs = 60_000 }: FaultOptions) {
  const rows: Row[] = [];
  await examineEndpoint({
    runHandlers: true,
    url: `${server.url}/hooks`,
    secret: SECRET,
    signature: { header: 'X-SERVICE-Signature', encoding: undefined, prefix: '' },
    timeoutMs,
    oversizeBytes: 2_000_000,
    effectsUrl: counted ? `${server.url}/effects/{id}` : undefined,
    signal: new AbortController().signal,
    onRow: (row) => rows.push(row),
  });
  return rows;
}

// Most of the time is waiting.
vi.setConfig({ maxConcurrency: 30 });

describe.concurrent.each(Object.entries(FAULTS))('the check %s', (check, faults) => {
  test.for(Object.entries(faults))('finds the fault of an endpoint that %s', async ([, fault]) => {
    const [receiver, fix, options = {}] = fault;
    await using server = await ('start' in receiver ? receiver.start(SECRET) : serve(receiver(SECRET)));
    const found = (await examine(server, options)).find(({ name }) => name === check);
    expect({ ...found, fix: found?.fix?.replace(server.url, 'URL') }).toMatchObject({
      verdict: options.verdict ?? 'fail',
      fix: expect.stringContaining(fix),
    });
    expect(JSON.stringify(found)).not.toContain(SECRET);
  });
});
