import type { RequestListener } from 'node:http';
import express from 'express';
import { createReceiver, PermanentError, type ReceiverOptions } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toNodeHandler } from 'stablehooks/node';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { describe, expect, onTestFinished, test } from 'vitest';
import { findClosedUrl, serve } from '../http-server.js';
import { SILENT } from '../service.js';

const SECRET = 'whsec_of_the_verdict';
const RIGHT = 'The signature is right.';
const AS_IT_MUST = 'The endpoint refused it, as it must.';

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

interface Case {
  readonly when: string;
  readonly listener: RequestListener;
  readonly options?: SandboxOptions;
  readonly type?: string;
  readonly what: string;
  /** `null`: nothing is wrong. */
  readonly fix: string | null;
}

const failing = (error: Error) =>
  receiver({
    handlers: {
      'accept.confirmed': () => {
        throw error;
      },
    },
  });

const CASES: readonly Case[] = [
  { when: 'was handled', listener: receiver(), what: `${RIGHT} The handler ran to its end.`, fix: null },
  {
    when: 'met another secret',
    listener: receiver({ secret: 'whsec_another' }),
    what: `${RIGHT} The endpoint refused it all the same. It has another secret, or none for this path, or verifies other bytes than those of the delivery.`,
    fix: 'Set both sides to the same secret, and verify the raw bytes. `stablehooks doctor URL` finds out which it is.',
  },
  {
    when: 'met a receiver that reads another header',
    listener: receiver({ signature: { header: 'x-other-signature' } }),
    what: `${RIGHT} The endpoint refused it all the same. The endpoint found no signature.`,
    fix: 'Set `signature: { header }` of the receiver to the header that the service sends, and let proxies pass it on.',
  },
  {
    when: 'met a receiver that wants a prefix',
    listener: receiver({ signature: { prefix: 'sha256=' } }),
    what: `${RIGHT} The endpoint refused it all the same. The endpoint cannot read the form of the signature.`,
    fix: 'Set `signature: { encoding, prefix }` of the receiver to the format of the service.',
  },
  {
    when: 'was refused by an endpoint that does not say why',
    listener: answering(403),
    what: `${RIGHT} The endpoint refused it all the same. Its reply does not say why: it has another secret, reads another header, does not verify the raw bytes, or asks for a login.`,
    fix: 'Set both sides to the same secret, and verify the raw bytes. `stablehooks doctor URL` finds out which it is.',
  },
  {
    when: 'was pretty-printed after signing, and refused',
    listener: receiver(),
    options: { faults: { reserialise: 1 } },
    what: `The signature does not match because of the body: its JSON was serialized again, and was compact (fault reserialise). ${AS_IT_MUST}`,
    fix: null,
  },
  {
    when: 'was pretty-printed after signing, and accepted',
    listener: answering(200),
    options: { faults: { reserialise: 1 } },
    what: 'The signature does not match because of the body: its JSON was serialized again, and was compact (fault reserialise). The endpoint accepted it all the same.',
    fix: 'The endpoint must verify each delivery over the bytes that it received.',
  },
  {
    when: 'had a corrupted signature, and was refused',
    listener: receiver(),
    options: { faults: { corruptSignature: 1 } },
    what: `The sandbox made the signature wrong (fault corruptSignature). ${AS_IT_MUST}`,
    fix: null,
  },
  {
    when: 'was dead-lettered',
    listener: failing(new PermanentError('The account is closed.')),
    what: `${RIGHT} The endpoint dead-lettered the event.`,
    fix: 'Read its last error (`stablehooks inbox show`), correct the cause, and requeue it (`stablehooks inbox requeue`).',
  },
  {
    when: 'was ignored',
    listener: receiver(),
    type: 'redeem.failed',
    what: `${RIGHT} The endpoint has no handler for this type, so nothing ran.`,
    fix: 'Add a handler.',
  },
  {
    when: 'was parked',
    listener: receiver(),
    type: 'wallet.frozen',
    what: `${RIGHT} The endpoint did not know this type when the event came, so nothing ran.`,
    fix: 'The event runs once a receiver that knows the type and has a handler for it redrives.',
  },
  {
    when: 'met a handler that throws',
    listener: failing(new Error('No such account.')),
    what: `${RIGHT} The handler threw.`,
    fix: 'The log of the endpoint shows the error. Correct the handler; the event runs again.',
  },
  {
    when: 'met a handler that is too slow',
    listener: receiver({
      handlerTimeoutMs: 1,
      handlers: { 'accept.confirmed': (_, { signal }) => aborted(signal) },
    }),
    what: `${RIGHT} The handler did not end in time.`,
    fix: 'Make it faster, raise handlerTimeoutMs, or enqueue the work.',
  },
  {
    when: 'met a body parser in front of the receiver',
    listener: parserInFront,
    what: `${RIGHT} A body parser before the receiver consumed the bytes.`,
    fix: 'Mount the receiver before the parser.',
  },
  {
    when: 'was too large for the receiver',
    listener: receiver({ maxBodyBytes: 10 }),
    what: `${RIGHT} The body is larger than maxBodyBytes of the receiver.`,
    fix: 'Raise maxBodyBytes if the service sends such bodies.',
  },
  {
    when: 'was too large for a proxy',
    listener: answering(413),
    what: `${RIGHT} The body is larger than the endpoint, or a proxy in front of it, accepts.`,
    fix: 'Raise the limit of the proxy or the parser, or maxBodyBytes of the receiver.',
  },
  {
    when: 'met a path where nothing is',
    listener: answering(404),
    what: `${RIGHT} Nothing is at this path.`,
    fix: 'Check the path, and that the receiver is mounted there.',
  },
  {
    when: 'met a path that accepts no POST',
    listener: answering(405),
    what: `${RIGHT} This path accepts no POST.`,
    fix: 'Check the path, and that the receiver is mounted there.',
  },
  {
    when: 'was redirected',
    listener: answering(307, { location: '/login' }),
    what: `${RIGHT} The endpoint redirects (307), and deliveries do not follow redirects.`,
    fix: 'Deliver to the URL of the receiver itself, or answer there without a redirect, or a login.',
  },
  {
    when: 'was accepted by a receiver of another make',
    listener: answering(204),
    what: `${RIGHT} The endpoint accepted it (204).`,
    fix: null,
  },
  {
    when: 'met an endpoint that fails and does not say why',
    listener: answering(502),
    what: `${RIGHT} The endpoint answered 502.`,
    fix: 'The log of the endpoint may say why.',
  },
  {
    when: 'met an endpoint that names an outcome and fails',
    listener: answering(500, {}, '{"outcome":"handled"}'),
    what: `${RIGHT} The endpoint answered 500.`,
    fix: 'The log of the endpoint may say why.',
  },
  {
    when: 'met an endpoint that names an error and accepts',
    listener: answering(200, {}, '{"code":"ERR_HANDLER_FAILED"}'),
    what: `${RIGHT} The endpoint answered 2xx with a reply that reports ERR_HANDLER_FAILED.`,
    fix: 'If the event did not take effect, answer 5xx: after a 2xx the service does not send it again.',
  },
  {
    when: 'was dropped',
    listener: receiver(),
    options: { faults: { drop: 1 } },
    what: 'The sandbox dropped the delivery before it arrived (fault drop).',
    fix: null,
  },
  {
    when: 'was cut',
    listener: receiver(),
    options: { faults: { cut: 1 } },
    what: 'The sandbox cut the connection halfway through the body (fault cut), so no handler ran.',
    fix: null,
  },
  {
    when: 'was reset',
    listener: receiver(),
    options: { faults: { reset: 1 } },
    what: 'The sandbox reset the connection before the answer (fault reset), so the handler may have run.',
    fix: null,
  },
  {
    when: 'lost its connection at the endpoint',
    listener: (request) => request.socket.destroy(),
    what: 'There was no answer: the connection was cut.',
    fix: 'See the log of the other side. If its port expects TLS, the URL begins with https:.',
  },
];

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
}

describe.concurrent('an attempt is explained', () => {
  test.for(CASES)('that $when', async ({ listener, options, type, what, fix }) => {
    expect(await explain(listener, options, type)).toEqual({ what, fix });
  });
});

test('an attempt at an endpoint that never answers is explained by the time limit', async () => {
  const verdict = await explain(() => undefined, { timeoutMs: 20 });
  expect(verdict.what).toMatch(/^The endpoint did not answer within \d+ ms\.$/);
  expect(verdict.fix).toContain('a body parser before the receiver may have consumed the body');
});

test('an attempt at a port where nothing listens is explained by that', async () => {
  expect(await explainAt(await findClosedUrl())).toEqual({
    what: 'There was no answer: nothing listens there.',
    fix: 'Check that it is started, and the port.',
  });
});

const EARLIER = 'The delivery was signed with an earlier secret: the secret has changed since.';

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
  expect(before).toEqual({ what: `${RIGHT} The handler ran to its end.`, fix: null });
  expect(after).toEqual({ what: `${EARLIER} The handler ran to its end.`, fix: null });
  sandbox.endpoints.remove(id);
  expect(await sandbox.explain(attempt)).toEqual({ what: 'The handler ran to its end.', fix: null });
});

test('an attempt is not explained by a change that the new secret happens to look like', async () => {
  const { after } = await rotate(receiver({ signature: { encoding: 'base64' } }), {}, `"${SECRET}"`);
  expect(after).toEqual({ what: `${EARLIER} The handler ran to its end.`, fix: null });
});

test('an attempt that was refused before the secret was changed needs no fix', async () => {
  const { after } = await rotate(answering(401));
  expect(after).toEqual({ what: `${EARLIER} The endpoint refused it.`, fix: null });
});

test('an attempt that a fault made wrong is explained by the fault also after the secret was changed', async () => {
  const { after } = await rotate(answering(200), { faults: { reserialise: 1 } });
  expect(after).toEqual({
    what: 'The sandbox changed the signed body (fault reserialise). The endpoint accepted it all the same.',
    fix: 'The endpoint must verify each delivery over the bytes that it received.',
  });
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
  expect((await explained).what).toContain('The sandbox changed the signed body (fault reserialise).');
});
