import type { RequestListener } from 'node:http';
import express from 'express';
import { createReceiver, PermanentError, type ReceiverOptions } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toNodeHandler } from 'stablehooks/node';
import { createSandbox, type Faults, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { findClosedUrl, serve } from '../http-server.js';
import { SILENT } from '../service.js';

const SECRET = 'whsec_of_the_verdict';
const RIGHT = 'The signature is correct.';

function receiver(options: Partial<ReceiverOptions> = {}): RequestListener {
  const handlers = { 'accept.confirmed': () => undefined };
  return toNodeHandler(createReceiver({ secret: SECRET, logger: SILENT, handlers, ...options }));
}

/** Delivers an event to a URL once, and explains the attempt. */
async function explainAt(url: string, options: SandboxOptions = {}, type = 'accept.confirmed') {
  const sandbox = createSandbox({ secret: SECRET, maxAttempts: 1, endpoints: [{ url }], ...options });
  onTestFinished(() => sandbox.close());
  sandbox.emit(type);
  await sandbox.settled();
  const [attempt] = sandbox.attempts();
  if (attempt === undefined) throw new Error('No attempt was made.');
  return sandbox.explain(attempt);
}

async function explain(listener: RequestListener, options?: SandboxOptions, type?: string) {
  await using server = await serve(listener);
  return await explainAt(`${server.url}/hooks`, options, type);
}

/** The JSON of every delivery is consumed before the receiver gets it. */
const parserInFront: RequestListener = express()
  .use(express.json())
  .post(
    '/hooks',
    toExpressHandler(
      createReceiver({ secret: SECRET, logger: SILENT, handlers: { 'accept.confirmed': () => undefined } }),
    ),
  );

const answering =
  (status: number, headers: Record<string, string> = {}, body = ''): RequestListener =>
  (request, response) => {
    request.resume().on('end', () => response.writeHead(status, headers).end(body));
  };

const failing = (error: Error) =>
  receiver({
    handlers: {
      'accept.confirmed': () => {
        throw error;
      },
    },
  });
const slow = receiver({
  handlerTimeoutMs: 1,
  handlers: { 'accept.confirmed': (_, { signal }) => aborted(signal) },
});

/** What happened to the attempt, and its fix; `null` if nothing is wrong. */
type Case = readonly [when: string, listener: RequestListener, what: string, fix: string | null];

const CASES: readonly Case[] = [
  ['was handled', receiver(), 'The handler completed.', null],
  ['met another secret', receiver({ secret: 'another' }), 'uses a different secret', 'doctor URL'],
  ['met another header', receiver({ signature: { header: 'x-a' } }), 'found no signature', '{ header }'],
  ['met a prefix', receiver({ signature: { prefix: 'sha256=' } }), 'does not recognise', 'encoding, prefix'],
  ['was refused without a reason', answering(403), 'does not say why', 'doctor URL'],
  ['was dead-lettered', failing(new PermanentError('closed')), 'dead-lettered', 'inbox requeue'],
  ['met a handler that throws', failing(new Error('No such account.')), 'The handler threw an error.', 'log'],
  ['met a handler that is too slow', slow, 'did not finish in time', 'handlerTimeoutMs'],
  ['met a body parser in front', parserInFront, 'consumed the body', 'before the parser'],
  ['was too large for the receiver', receiver({ maxBodyBytes: 10 }), 'maxBodyBytes', 'Raise maxBodyBytes'],
  ['was too large for a proxy', answering(413), 'a proxy in front of it', 'limit of the proxy'],
  ['met a path where nothing is', answering(404), 'There is nothing at this path.', 'Check the path'],
  ['met a path that does not accept POST', answering(405), 'does not accept POST', 'Check the path'],
  ['was redirected', answering(307, { location: '/login' }), 'redirects (307)', 'without a redirect'],
  ['was accepted by another receiver', answering(204), 'accepted the event (204)', null],
  ['met a failure without a reason', answering(502), 'responded with 502', "endpoint's log"],
  ['met an outcome and a failure', answering(500, {}, '{"outcome":"handled"}'), 'responded with 500', 'log'],
  ['met an error with 2xx', answering(200, {}, '{"code":"ERR_HANDLER_FAILED"}'), 'ERR_HANDLER_FAILED', '5xx'],
];

/** Attempts that a fault of the sandbox changed. */
const FAULTS: readonly (readonly [...Case, keyof Faults])[] = [
  ['refused', receiver(), 'its JSON was serialized again', null, 'reserialise'],
  [
    'accepted',
    answering(200),
    'accepted the delivery anyway',
    'must verify the signature of each delivery',
    'reserialise',
  ],
  ['refused', receiver(), 'correctly refused the delivery', null, 'corruptSignature'],
  ['dropped', receiver(), 'before it arrived', null, 'drop'],
  ['cut', receiver(), 'halfway through the body', null, 'cut'],
  ['reset', receiver(), 'the handler may have run', null, 'reset'],
];

/** A verdict with these parts. */
const verdictOf = (what: string, fix: string | null) => ({
  what: expect.stringContaining(what),
  fix: fix === null ? null : expect.stringContaining(fix),
});

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
}

test.concurrent.for(CASES)('an attempt that %s is explained', async ([, listener, what, fix]) => {
  const verdict = await explain(listener);
  expect(verdict).toEqual(verdictOf(what, fix));
  expect(verdict.what).toContain(RIGHT);
});

test.concurrent.for(FAULTS)('an attempt that was %s is explained by its fault', async (row) => {
  const [, listener, what, fix, fault] = row;
  const verdict = await explain(listener, { faults: { [fault]: 1 } });
  expect(verdict).toEqual(verdictOf(what, fix));
  expect(verdict.what).toContain(`(fault ${fault})`);
});

test.concurrent.for([
  ['redeem.failed', 'no handler for this type', 'Add a handler.'],
  ['wallet.frozen', 'did not know this type', 'redrive'],
] as const)('an attempt of the type %s, which no handler ran, is explained', async ([type, what, fix]) => {
  expect(await explain(receiver(), {}, type)).toEqual(verdictOf(what, fix));
});

test('an attempt whose connection the endpoint cut is explained by that', async () => {
  const verdict = await explain((request) => request.socket.destroy());
  expect(verdict).toEqual(verdictOf('the connection was cut', 'https:'));
});

test('an attempt at an endpoint that never answers is explained by the time limit', async () => {
  const verdict = await explain(() => undefined, { timeoutMs: 20 });
  expect(verdict).toEqual(verdictOf('did not respond within', 'a body parser'));
});

test('an attempt at a port where nothing listens is explained by that', async () => {
  expect(await explainAt(await findClosedUrl())).toEqual(verdictOf('nothing is listening there', 'the port'));
});

const EARLIER = 'signed with an earlier secret';

/** Delivers an event once, and gives its secret another value. */
async function rotate(listener: RequestListener, options: SandboxOptions = {}, next = 'whsec_next') {
  await using server = await serve(listener);
  const endpoint = { url: server.url, encoding: 'base64' } as const;
  const sandbox = createSandbox({ secret: SECRET, maxAttempts: 1, endpoints: [endpoint], ...options });
  onTestFinished(() => sandbox.close());
  sandbox.emit('accept.confirmed');
  await sandbox.settled();
  const [attempt] = sandbox.attempts();
  const [{ id } = { id: '' }] = sandbox.endpoints.list();
  if (attempt === undefined) throw new Error('No attempt was made.');
  const before = await sandbox.explain(attempt);
  sandbox.endpoints.rotateSecret(id, next);
  return { before, after: await sandbox.explain(attempt), sandbox, id, attempt };
}

test('an attempt that was accepted before the secret was changed needs no fix, in each encoding', async () => {
  const { before, after, sandbox, id, attempt } = await rotate(
    receiver({ signature: { encoding: 'base64' } }),
  );
  expect(before).toEqual(verdictOf(RIGHT, null));
  expect(after).toEqual(verdictOf(EARLIER, null));
  sandbox.endpoints.remove(id);
  expect(await sandbox.explain(attempt)).toEqual({ what: 'The handler completed.', fix: null });
});

test('an attempt is not explained by a change that the new secret happens to look like', async () => {
  const { after } = await rotate(receiver({ signature: { encoding: 'base64' } }), {}, `"${SECRET}"`);
  expect(after).toEqual(verdictOf(EARLIER, null));
});

test('an attempt that was refused before the secret was changed needs no fix', async () => {
  const { after } = await rotate(answering(401));
  expect(after).toEqual(verdictOf(EARLIER, null));
});

test('an attempt that a fault made wrong is explained by the fault also after the secret was changed', async () => {
  const { after } = await rotate(answering(200), { faults: { reserialise: 1 } });
  expect(after).toEqual(verdictOf('fault reserialise', 'must verify the signature of each delivery'));
});

test('a sandbox answers other requests while it explains a wrong signature of 1 MiB', async () => {
  await using server = await serve(answering(401));
  const sandbox = createSandbox({
    ...{ secret: SECRET, maxAttempts: 1, endpoints: [{ url: server.url }] },
    faults: { reserialise: 1 },
  });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen(0);
  const rows = Array.from({ length: 14_000 }, (_, index) => ({
    index,
    name: 'a "quoted" näme\n',
    url: 'a/b',
  }));
  sandbox.emit('accept.confirmed', { rows });
  await sandbox.settled();
  const [attempt] = sandbox.attempts();
  const [endpoint] = sandbox.endpoints.list();
  if (attempt === undefined || endpoint === undefined) throw new Error('No attempt was made.');
  sandbox.endpoints.rotateSecret(endpoint.id, 'whsec_next');
  let isExplained = false;
  const explained = sandbox.explain(attempt).then((verdict) => {
    isExplained = true;
    return verdict;
  });
  expect((await fetch(`${url}/health`)).status).toBe(200);
  expect(isExplained).toBe(false);
  expect((await explained).what).toContain('(fault reserialise)');
});
