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

/** An endpoint with one fault, the check that finds it, and the sentence that says what to change. */
interface Fault {
  readonly receiver: WrongReceiver | { readonly start: (secret: string) => Promise<RunningServer> };
  readonly check: string;
  readonly fix: string | RegExp;
  readonly verdict?: 'not shown';
  /** Counts effects, as with `--effects`. @default false */
  readonly counted?: boolean;
  /** How long doctor waits for an answer; short for an endpoint that gives none. @default 60,000 */
  readonly timeoutMs?: number;
}

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

const FAULTS: Readonly<Record<string, Fault>> = {
  // Authentication
  'does not verify': {
    receiver: wrong(() => ({ authentic: () => true })),
    check: 'forged',
    fix: 'Verify before anything else, over the raw bytes, and answer 401',
  },
  'verifies only if there is a signature': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) => signature === '' || verifyRaw(secret)(body, signature),
    })),
    check: 'unsigned',
    fix: 'Verify before anything else',
  },
  'accepts an empty signature': {
    receiver: wrong((secret) => ({
      before: (request, response) => {
        const isMissing = request.method === 'POST' && request.headers['x-service-signature'] === undefined;
        if (isMissing) request.resume().on('end', () => answer(response, 401));
        return isMissing;
      },
      authentic: (body, signature) => signature === '' || verifyRaw(secret)(body, signature),
    })),
    check: 'short signature',
    fix: 'It accepts an empty signature, or the beginning of the right one.',
  },
  'compares as many characters as it is sent': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) => signature !== '' && hmac(secret, body).startsWith(signature),
    })),
    check: 'short signature',
    fix: 'It accepts an empty signature, or the beginning of the right one.',
  },
  'verifies the body without its amount': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) => {
        const text = body.toString().replace(/"amount":"9.99"/, '"amount":"1.00"');
        return signature === hmac(secret, text);
      },
    })),
    check: 'tampered',
    fix: 'Verify before anything else',
  },
  'prints the expected signature when it refuses one': {
    receiver: wrong((secret) => ({
      refuse: (response, body) => answer(response, 401, `expected ${hmac(secret, body)}`),
    })),
    check: 'no secrets',
    fix: 'Its replies contain the expected signature, so any sender can sign events.',
  },
  'prints its secret when it refuses a signature': {
    receiver: wrong((secret) => ({
      refuse: (response) => answer(response, 401, JSON.stringify({ error: 'mismatch', secret })),
    })),
    check: 'no secrets',
    fix: 'Its replies contain the secret, so any sender can sign events.',
  },
  'answers 500 to a forgery': {
    receiver: wrong(() => ({ refuse: (response) => answer(response, 500, 'TypeError: no match') })),
    check: 'forged',
    fix: 'Answer 401 to a forged delivery: 5xx asks for a retry, and any sender can cause an error or a timeout. Its reply: "TypeError: no match".',
  },
  'answers 400 to a forgery': {
    receiver: wrong(() => ({ refuse: (response) => answer(response, 400) })),
    check: 'forged',
    fix: 'Answer 401 or 403 to a forged delivery',
  },
  'acts before it verifies': {
    receiver: actsBeforeVerify,
    check: 'forged',
    fix: 'It acted on an event whose signature it refused',
    counted: true,
  },
  'acts on half a body': {
    receiver: actsBeforeVerify,
    check: 'cut off',
    fix: 'It acted on half a body',
    counted: true,
  },
  'enqueues what it refuses': {
    receiver: wrong(() => ({
      takeForged: (id, ledger) => void wait(200).then(() => takeOnce(id, ledger)),
    })),
    check: 'tampered',
    fix: 'It acted on an event whose signature it refused',
    counted: true,
  },
  // The form of a delivery
  'reads a header that the service does not send': {
    receiver: (secret) => createListener({ secret, signature: { header: 'x-acme-digest' } }),
    check: 'genuine',
    fix: 'It finds no signature in X-SERVICE-Signature: set `signature: { header }` of the receiver to the header that the service sends, or pass its name with --header',
  },
  'reads a usual header': {
    receiver: (secret) => createListener({ secret, signature: { header: 'x-webhook-signature' } }),
    check: 'genuine',
    fix: 'It reads the signature from x-webhook-signature, and this check sends it in ',
  },
  'has another secret': {
    receiver: () => createListener({ secret: 'whsec_of_another_endpoint' }),
    check: 'genuine',
    fix: 'It has another secret than this one',
  },
  'has another secret and says nothing': {
    receiver: () => createPlainReceiver('whsec_of_another_endpoint'),
    check: 'genuine',
    fix: 'It refuses a genuine delivery (401), and every other form of its signature. Its reply is empty. Compare the secret',
  },
  'has a newline at the end of its secret': {
    receiver: (secret) => createListener({ secret: async () => `${secret}\n` }),
    check: 'genuine',
    fix: 'A setting of the receiver is wrong, and its log names it. If the secret comes from a function or a file, it may end with a newline: use .trim().',
  },
  'compares the string of the signature with base64': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) => signature === hmac(secret, body, 'base64'),
    })),
    check: 'genuine',
    fix: 'It accepts the signature as base64 only.',
  },
  'needs a prefix': {
    receiver: (secret) => createListener({ secret, signature: { prefix: 'sha256=' } }),
    check: 'genuine',
    fix: 'It accepts the signature only with the prefix sha256=.',
  },
  'has a body parser in front and refuses': {
    receiver: parserFirst,
    check: 'genuine',
    fix: 'A body parser before the receiver consumed the bytes',
  },
  'has a body parser in front and waits for the body': {
    receiver: parserFirstHanging,
    check: 'genuine',
    fix: 'A body parser before the receiver consumed the bytes',
    timeoutMs: 4_000,
  },
  'serializes the body again': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) => signature === hmac(secret, JSON.stringify(JSON.parse(body.toString()))),
    })),
    check: 'pretty-printed',
    fix: 'The body is parsed and serialized again before it is verified',
  },
  'is behind a proxy that indents JSON': {
    receiver: { start: startPrettyPrintingProxy },
    check: 'genuine',
    fix: 'The body is changed before it is verified: it arrives as JSON that is indented by 2 spaces. Let proxies pass the body on byte for byte',
  },
  'changes the body in a way that is not known': {
    receiver: wrong((secret) => ({
      authentic: (body, signature) =>
        verifyRaw(secret)(Buffer.from(body.toString().toUpperCase()), signature),
    })),
    check: 'genuine',
    fix: 'The body is changed before it is verified: the signature of an empty object is accepted',
  },
  'accepts GET': {
    receiver: wrong(() => ({ methods: ['POST', 'GET'] })),
    check: 'wrong method',
    fix: 'Accept deliveries by POST only',
  },
  'reads bodies of any size': {
    receiver: wrong(() => ({ limitBytes: 100_000_000 })),
    check: 'oversized',
    fix: 'Limit the body (2000000 bytes were read)',
  },
  'answers 422 to a large body, as to each that its schema does not accept': {
    receiver: answering(200, '', { large: 422 }),
    check: 'oversized',
    verdict: 'not shown',
    fix: 'The reply does not say that the size was the reason: the endpoint may have read the whole body. Answer 413',
  },
  'refuses a body without a length': {
    receiver: wrong(() => ({
      before(request, response) {
        const isChunked = request.headers['transfer-encoding'] !== undefined;
        if (isChunked) request.resume().on('end', () => answer(response, 411));
        return isChunked;
      },
    })),
    check: 'chunked',
    fix: 'It cannot read a body in chunks, which has no Content-Length.',
  },
  // Events
  'refuses unknown fields of the event': {
    receiver: wrong(() => ({ check: (event) => (Object.keys(event).length > 4 ? 422 : undefined) })),
    check: 'unknown fields',
    fix: 'It refuses events with fields that it does not know.',
  },
  'refuses unknown fields of the payload': {
    receiver: handling(withPayload(ONLY_KNOWN_FIELDS, () => undefined)),
    check: 'genuine',
    fix: 'It refuses events with fields that it does not know.',
  },
  'has a schema of its own': {
    receiver: handling(withPayload(AMOUNT_IN_CENTS, () => undefined)),
    check: 'genuine',
    fix: 'The example payload does not match its schema: pass a payload that does with --payload FILE.',
  },
  'refuses events that are older than five minutes': {
    receiver: wrong(() => ({
      check: ({ created_at }) => (Date.now() - Date.parse(created_at) > 300_000 ? 400 : undefined),
    })),
    check: 'old event',
    fix: 'It refuses an event that is seven days old.',
  },
  'fails on new types': {
    receiver: wrong(() => ({
      takeUnknown() {
        throw new Error('unknown type');
      },
    })),
    check: 'unknown type',
    fix: 'Accept types that are newer than this release',
  },
  'has no handler': {
    receiver: (secret) => createListener({ secret, handlers: {} }),
    check: 'genuine',
    verdict: 'not shown',
    fix: 'No handler ran, whatever the type of the test event was: accept.confirmed, transfer.settled, transfer.failed, redeem.completed, redeem.failed. Register a handler.',
  },
  // Faults in front of it
  'is behind a rate limit': {
    receiver: always(429, 'Too many requests, slow down.', { 'retry-after': '60' }),
    check: 'genuine',
    fix: 'It refuses so many requests (429). Its reply: "Too many requests, slow down.".',
  },
  'is down for maintenance': {
    receiver: always(503, '<html><body><h1>Back at noon</h1></body></html>'),
    check: 'genuine',
    fix: 'It, or a proxy in front of it, is not available (503). Its reply: "Back at noon".',
  },
  'is behind a log-in': {
    receiver: always(401, 'Unauthorized', { 'www-authenticate': 'Basic' }),
    check: 'genuine',
    fix: 'Something in front of the receiver asks for a log-in (401). Its reply: "Unauthorized".',
  },
  redirects: {
    receiver: () => (_, response) => void response.writeHead(307, { location: '/login?next=token' }).end(),
    check: 'genuine',
    fix: 'It redirects (307) with Location: URL/login?…. Deliveries do not follow redirects: register that URL if the receiver is there',
  },
  'is at another path': {
    receiver: (secret) => {
      const receive = createPlainReceiver(secret);
      return (request, response) =>
        request.url === '/api/webhooks' ? receive(request, response) : answer(response, 404);
    },
    check: 'genuine',
    fix: 'Nothing accepts a POST at /hooks. An unsigned POST is answered at /api/webhooks (401): check the path.',
  },
  'never answers': {
    receiver: () => () => undefined,
    check: 'genuine',
    fix: 'It answers no POST in that time',
    timeoutMs: 3_000,
  },
  // Work
  'fails on each event': {
    receiver: answering(500, 'Cannot read properties of undefined'),
    check: 'genuine',
    fix: 'It fails on a genuine delivery (500). Its reply: "Cannot read properties of undefined". See its log',
  },
  'fails on its first event': {
    receiver: startsBadly,
    check: 'genuine',
    fix: 'It refused a genuine delivery (500) and accepted a later one of the same form.',
  },
  'gives up on each event': {
    receiver: handling(() => {
      throw new PermanentError('never');
    }),
    check: 'genuine',
    fix: 'Its handler gave up on the test event (PermanentError)',
  },
  'is slow': {
    receiver: slow,
    check: 'genuine',
    fix: /^It answers after [\d.]+ s \(200\), and this check waits for 4 s \(--timeout\)\. A forged delivery is refused after \d+ ms, so the handler is slow: enqueue the work durably and answer 202, or make it faster\.$/,
    timeoutMs: 4_000,
  },
  'answers before the work': {
    receiver: wrong(() => ({
      take(id, ledger) {
        // If the work fails, as it does for one event, that event is not delivered again.
        setImmediate(() => {
          if (!id.endsWith('_failing-handler')) takeOnce(id, ledger);
        });
      },
    })),
    check: 'failing handler',
    fix: 'It answers 2xx before the work is done: do the work first or enqueue it durably',
    counted: true,
  },
  'verifies, and does nothing': {
    receiver: wrong(() => ({ take: () => undefined })),
    check: 'genuine',
    fix: 'It answers 2xx before the work is done',
    counted: true,
  },
  'puts events into a queue that nothing runs': {
    receiver: answering(202, '{"outcome":"queued"}'),
    check: 'genuine',
    verdict: 'not shown',
    fix: 'The event is queued, and nothing has run it within the time limit (--timeout): see the log of the worker.',
    counted: true,
    timeoutMs: 5_000,
  },
  'records an event as done before the work': {
    receiver: wrong(() => ({
      take(id, ledger) {
        if (ledger.has(id)) return;
        ledger.apply(id);
        if (id.endsWith('failing-handler')) throw new Error('the work failed');
      },
    })),
    check: 'failing handler',
    fix: 'Record it as done after the work, not before.',
    counted: true,
  },
  // Once
  'is not idempotent': {
    receiver: wrong(() => ({ take: (id, ledger) => ledger.apply(id) })),
    check: 'doubled',
    fix: 'Claim each event by its id in one atomic step before the work',
    counted: true,
  },
  'checks and inserts in two steps': {
    receiver: checkThenInsert,
    check: 'concurrent',
    fix: 'Claim each event by its id in one atomic step before the work',
    counted: true,
  },
  'forgets ids after a second': {
    receiver: forgetsIds,
    check: 'remembered',
    fix: 'It handled the first event of this run again.',
    counted: true,
  },
  'refuses an event that is done': {
    receiver: refusesDuplicates,
    check: 'doubled',
    fix: 'Answer 2xx to a done event, or the service retries it forever.',
  },
  'is a cluster whose workers have a memory inbox each': {
    receiver: { start: startClusterWithMemory },
    check: 'concurrent',
    fix: 'Two deliveries of one event were handled: this inbox remembers only one process. Pass a durable one to all processes',
  },
  'is one process that replies handled to each delivery': {
    receiver: answering(200, '{"outcome":"handled"}'),
    check: 'concurrent',
    fix: 'Two deliveries of one event were handled. If several processes run, pass a durable inbox to all of them (sqliteInbox, postgresInbox or redisInbox); otherwise claim each event by its id in one atomic step before the work.',
  },
};

/** The rows of doctor for a server. */
async function examine(server: RunningServer, { counted = false, timeoutMs = 60_000 }: Partial<Fault> = {}) {
  const rows: Row[] = [];
  await examineEndpoint({
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

describe.concurrent('one fault per endpoint', () => {
  test.for(Object.entries(FAULTS))('doctor names the fault of an endpoint that %s', async ([, fault]) => {
    const { receiver, check, fix, verdict = 'fail' } = fault;
    await using server = await ('start' in receiver ? receiver.start(SECRET) : serve(receiver(SECRET)));
    const found = (await examine(server, fault)).find(({ name }) => name === check);
    expect({ ...found, fix: found?.fix?.replace(server.url, 'URL') }).toMatchObject({
      verdict,
      fix: typeof fix === 'string' ? expect.stringContaining(fix) : expect.stringMatching(fix),
    });
    expect(JSON.stringify(found)).not.toContain(SECRET);
  });
});
