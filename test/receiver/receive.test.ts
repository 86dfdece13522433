/** A request until its event is known, its response, and what is logged and observed. */
import { inspect } from 'node:util';
import { pino } from 'pino';
import {
  createReceiver,
  logOutcome,
  memoryInbox,
  type Outcome,
  type ReceiverOptions,
  StablehooksError,
  sign,
  toWebhookResponse,
  type WebhookRequest,
} from 'stablehooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { anEvent, bytesOf, deferred, delivery, secret } from './delivery.js';
import { down, never, settled, setUp as setUpReceiver } from './set-up.js';

afterEach(() => vi.restoreAllMocks());

function setUp(options: Partial<ReceiverOptions> = {}) {
  const ran: string[] = [];
  return { ...setUpReceiver(({ id }) => void ran.push(id), options), ran };
}

const SIGNATURE = 'X-SERVICE-Signature';

function missing(): never {
  throw new Error('It is not there.');
}

test('a delivery is handled once, and is a duplicate from then on', async () => {
  const { deliver, ran } = setUp();
  const event = anEvent();
  expect(await deliver(event)).toEqual({
    ...{ kind: 'handled', origin: 'push', event, secretIndex: 0, attempt: 1 },
    handlerMs: expect.any(Number),
  });
  expect(await deliver(event)).toEqual({ kind: 'duplicate', origin: 'push', event, secretIndex: 0 });
  expect(ran).toEqual([event.id]);
});

describe('a request that is not a delivery', () => {
  test.each<[string, number, string, Parameters<typeof delivery>[1]]>([
    ['GET', 405, 'ERR_METHOD_NOT_ALLOWED', { method: 'GET' }],
    ['HEAD', 405, 'ERR_METHOD_NOT_ALLOWED', { method: 'HEAD' }],
    ['gzip', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'gzip' } }],
    ['gzip after identity', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'identity, GZIP' } }],
    ['br', 415, 'ERR_BODY_ENCODED', { headers: { 'content-encoding': 'br' } }],
    ['no signature', 401, 'ERR_SIGNATURE_MISSING', { headers: { [SIGNATURE]: undefined } }],
    ['an empty signature', 401, 'ERR_SIGNATURE_MISSING', { headers: { [SIGNATURE]: '' } }],
    ['a malformed signature', 401, 'ERR_SIGNATURE_MALFORMED', { headers: { [SIGNATURE]: 'abc' } }],
  ])('because of %s is rejected before its body is read', async (_name, status, code, how) => {
    const { receiver, ran } = setUp();
    const request = await delivery(anEvent(), how);
    const outcome = await receiver.receive(request);
    expect(outcome).toMatchObject({ kind: 'rejected', origin: 'push', error: { code } });
    // Two sentences: the failure and its fix.
    expect(outcome.error?.message).toMatch(/^(?:The|A delivery) .+\. C.+\.$/);
    expect(toWebhookResponse(outcome)).toMatchObject({
      status,
      headers: status === 405 ? { allow: 'POST' } : {},
    });
    expect([request.reads, ran]).toEqual([0, []]);
  });

  test.each(['identity', 'Identity ', '', 'utf-8', undefined])(
    'is not one with the content-encoding %j, which is no compression',
    async (encoding) => {
      const { receiver } = setUp();
      const request = await delivery(anEvent(), { headers: { 'content-encoding': encoding } });
      expect((await receiver.receive(request)).kind).toBe('handled');
    },
  );

  test.each(['method', 'url', 'header', 'body', 'logger', 'waitUntil'] as const)(
    'because its %s cannot be read is answered 500, and never rejects',
    async (name) => {
      const { receiver, lines } = setUp({ secret: () => secret });
      const request = Object.defineProperty(await delivery(anEvent()), name, { get: missing });
      const outcome = await receiver.receive(request);
      // A receiver with a logger does not read the request's; waitUntil is read for work that goes on.
      const isUnread = name === 'logger' || name === 'waitUntil';
      expect(outcome.kind).toBe(isUnread ? 'handled' : name === 'url' ? 'unavailable' : 'failed');
      expect(lines).toHaveLength(isUnread ? 0 : 1);
    },
  );

  test.each<[string, Partial<WebhookRequest>]>([
    ['header throws', { header: missing }],
    ['body throws', { body: missing }],
    ['body rejects', { body: () => Promise.reject(new Error('It is not there.')) }],
    ['body is a string', { body: () => '{}' as never }],
  ])('because its %s is answered 500 with the cause', async (_name, change) => {
    const { receiver, lines } = setUp();
    const outcome = await receiver.receive({ ...(await delivery(anEvent())), ...change });
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(lines.join()).toMatch(/It is not there|raw bytes/);
  });

  test.each<[string, unknown]>([
    ['it is null', null],
    ['its logger cannot be read', Object.defineProperty({ method: 'POST' }, 'logger', { get: missing })],
  ])('because %s is logged by console', async (_name, request) => {
    const error = vi.spyOn(console, 'error').mockReturnValue();
    const receiver = createReceiver({ secret, handlers: {}, onOutcome: missing });
    expect((await receiver.receive(request as WebhookRequest)).error?.code).toBe('ERR_CONFIG_INVALID');
    expect(error.mock.calls).toEqual([
      [expect.stringContaining('failed (push) ERR_CONFIG_INVALID')],
      [expect.stringContaining('onOutcome threw an error')],
    ]);
  });

  test.each([
    ['a wrong signature', 'not even JSON', '0'.repeat(64), 'ERR_SIGNATURE_MISMATCH', 401],
    ['an authentic body that is not an event', '{"hello":"world"}', undefined, 'ERR_EVENT_MALFORMED', 400],
  ])('because of %s is rejected', async (_name, body, signature, code, status) => {
    const { receiver } = setUp();
    const request = await delivery(
      body,
      signature === undefined ? {} : { headers: { [SIGNATURE]: signature } },
    );
    const outcome = await receiver.receive(request);
    expect(outcome).toMatchObject({ kind: 'rejected', error: { code } });
    expect(toWebhookResponse(outcome).status).toBe(status);
  });
});

describe('the body', () => {
  test('is asked for in the first synchronous step, with a limit of 1 MiB by default', async () => {
    const { receiver } = setUp();
    const request = await delivery(anEvent());
    const limits: number[] = [];
    const outcome = receiver.receive({
      ...request,
      body(maxBytes) {
        limits.push(maxBytes);
        return request.body(maxBytes);
      },
    });
    expect(limits).toEqual([1_048_576]);
    expect((await outcome).kind).toBe('handled');
  });

  test('that does not arrive within bodyTimeoutMs is answered 500, and the connection closes', async () => {
    const { receiver } = setUp({ bodyTimeoutMs: 5 });
    const outcome = await receiver.receive({ ...(await delivery(anEvent())), body: never });
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_BODY_TIMEOUT' } });
    expect(toWebhookResponse(outcome)).toMatchObject({ status: 500, headers: { connection: 'close' } });
  });

  test('that still arrives is not waited for by close, and refused when it has arrived; others are not read', async () => {
    const { receiver, ran } = setUp();
    const arrived = deferred();
    const request = await delivery(anEvent());
    const receiving = receiver.receive({
      ...request,
      body: async (maxBytes) => {
        await arrived.promise;
        return request.body(maxBytes);
      },
    });
    await receiver.close();
    arrived.resolve();
    expect((await receiving).error?.code).toBe('ERR_RECEIVER_CLOSED');
    const late = await delivery(anEvent());
    expect((await receiver.receive(late)).error?.code).toBe('ERR_RECEIVER_CLOSED');
    expect([ran, late.reads]).toEqual([[], 0]);
  });
});

test('a signature is accepted only in the configured header, prefix and encoding', async () => {
  const { receiver } = setUp({
    signature: { header: 'X-Acme-Signature', prefix: 'v1=', encoding: 'base64' },
  });
  const event = anEvent();
  const withSignature = async (encoding: 'base64' | 'hex', name = 'X-Acme-Signature') => {
    const signature = await sign(bytesOf(event), { secret, prefix: 'v1=', encoding });
    const { kind, error } = await receiver.receive(await delivery(event, { headers: { [name]: signature } }));
    return error?.code ?? kind;
  };
  expect(await withSignature('base64')).toBe('handled');
  expect(await withSignature('hex')).toBe('ERR_SIGNATURE_MALFORMED');
  expect(await withSignature('base64', SIGNATURE)).toBe('ERR_SIGNATURE_MISSING');
});

/** A delivery to this URL, signed with the secret of a tenant. */
async function tenantDelivery(url: string | undefined, tenantSecret: string, event = anEvent()) {
  const signature = await sign(bytesOf(event), { secret: tenantSecret });
  return { ...(await delivery(event, { headers: { [SIGNATURE]: signature } })), url };
}

describe('a secret', () => {
  test.each<[string, ReceiverOptions['secret'], number]>([
    ['bytes', bytesOf(secret), 0],
    ['a list', ['old', secret], 1],
    ['a function', () => secret, 0],
    ['an async function', async () => ['new', bytesOf(secret)], 1],
    ['a function that takes its time', () => new Promise((resolve) => setImmediate(resolve, secret)), 0],
  ])('can be %s, and the outcome says which one matched', async (_name, given, secretIndex) => {
    expect(await setUp({ secret: given }).deliver()).toMatchObject({ kind: 'handled', secretIndex });
  });

  test.each([
    ['a Buffer', (bytes: Uint8Array) => Buffer.from(bytes)],
    ['a Uint8Array', (bytes: Uint8Array) => new Uint8Array(bytes)],
  ])('is kept when %s is overwritten after createReceiver', async (_name, copy) => {
    const cleared = copy(bytesOf(secret));
    const list = [cleared];
    const { receiver, codeOf } = setUp({ secret: list });
    cleared.fill(7);
    list.pop();
    expect(await codeOf()).toBe('handled');
    const overwritten = await sign(bytesOf(anEvent()), { secret: cleared });
    const forged = await delivery(anEvent(), { headers: { [SIGNATURE]: overwritten } });
    expect((await receiver.receive(forged)).error?.code).toBe('ERR_SIGNATURE_MISMATCH');
  });

  test('of a path verifies its deliveries and no others; an unknown path is answered as a forged delivery', async () => {
    const lists: Readonly<Record<string, string[]>> = { '/a': ['new-a', 'old-a'], '/b': ['b'] };
    const { receiver, codes, outcomes, ran } = setUp({ secret: ({ path }) => lists[path] ?? null });
    for (const [path, tenantSecret] of [
      ['/a', 'old-a'],
      ['/b', 'b'],
      ['/b', 'old-a'],
      ['/c', 'b'],
      ['/c', 'decoy'],
    ] as const) {
      await receiver.receive(await tenantDelivery(path, tenantSecret));
    }
    expect(codes()).toEqual([
      ...['handled', 'handled', 'ERR_SIGNATURE_MISMATCH', 'ERR_SECRET_UNKNOWN', 'ERR_SECRET_UNKNOWN'],
    ]);
    expect(outcomes.slice(0, 2).map(({ secretIndex }) => secretIndex)).toEqual([1, 0]);
    const [forged, ...unknown] = outcomes.slice(2).map(toWebhookResponse);
    for (const response of unknown) expect(response).toEqual(forged);
    expect(ran).toHaveLength(2);
  });

  test.each<[string, ReceiverOptions['secret'], string, number]>([
    ['throws', missing, 'ERR_SECRET_UNAVAILABLE', 503],
    ['rejects', down, 'ERR_SECRET_UNAVAILABLE', 503],
    ['does not settle within secretTimeoutMs', never, 'ERR_SECRET_UNAVAILABLE', 503],
    [
      // As of a promise library, or of another realm: no instance of Promise.
      'returns a thenable that does not settle',
      () => Object.defineProperty({}, 'then', { value: () => undefined }) as never,
      'ERR_SECRET_UNAVAILABLE',
      503,
    ],
    ['returns an empty secret', () => '', 'ERR_CONFIG_INVALID', 500],
    ['returns undefined', () => undefined as never, 'ERR_CONFIG_INVALID', 500],
    [
      'returns a list with a hole, which is no empty key',
      () => Object.assign(new Array<string>(2), { 1: 'new' }),
      'ERR_CONFIG_INVALID',
      500,
    ],
    ['resolves to undefined', async () => undefined as never, 'ERR_CONFIG_INVALID', 500],
  ])('function that %s is answered 5xx, so the service tries again', async (_name, given, code, status) => {
    const outcome = await setUp({ secret: given, secretTimeoutMs: 5 }).deliver();
    expect([outcome.error?.code, toWebhookResponse(outcome).status]).toEqual([code, status]);
    if (given === never)
      expect(inspect(outcome.error?.cause)).toContain('The function returned no secret within 5 ms.');
  });

  test.each<[string, string | undefined, string, [string, string][]]>([
    ['path', '/hooks/a', '/hooks/a', []],
    [
      'path and query',
      '/hooks?a=b%20c&x=1&x=2',
      '/hooks',
      [
        ['a', 'b c'],
        ['x', '1'],
        ['x', '2'],
      ],
    ],
    ['path that is encoded', '/hooks/%61%2Fb', '/hooks/%61%2Fb', []],
    ['path with dots', '/hooks/../a', '/hooks/../a', []],
    ['path that begins with two slashes', '//host/a?b=c', '//host/a', [['b', 'c']]],
    ['query with a second question mark', '/a?b=c?d', '/a', [['b', 'c?d']]],
    ['absolute URL', 'https://user@example.test:8443/hooks/a?b=c', '/hooks/a', [['b', 'c']]],
    ['URL in its query', '/a?to=https://example.test/b', '/a', [['to', 'https://example.test/b']]],
    ['fragment', '/a#b?c=d', '/a', []],
    ['request of an adapter that hands in no URL', undefined, '', []],
  ])(
    'function sees the path and the query of a %s, headers by any case, and nothing else',
    async (_name, url, path, query) => {
      const seen: unknown[] = [];
      const { receiver } = setUp({
        secret(request) {
          const headers = ['x-tenant', 'X-TENANT', 'x-other'].map((name) => request.headers.get(name));
          seen.push([
            request.path,
            [...request.query],
            headers,
            Object.keys(request),
            Object.isFrozen(request),
          ]);
          return secret;
        },
      });
      await receiver.receive({ ...(await delivery(anEvent(), { headers: { 'X-Tenant': 'a' } })), url });
      expect(seen).toEqual([[path, query, ['a', 'a', null], ['path', 'query', 'headers'], true]]);
    },
  );

  test.each<[string, Parameters<typeof delivery>[1], Partial<WebhookRequest>]>([
    ['another method', { method: 'GET' }, {}],
    ['no signature', { headers: { [SIGNATURE]: undefined } }, {}],
    ['a malformed signature', { headers: { [SIGNATURE]: 'zz' } }, {}],
    ['a body that cannot be read', {}, { body: down }],
  ])('function is not called for a request with %s', async (_name, how, change) => {
    const given = vi.fn(() => secret);
    const { receiver } = setUp({ secret: given });
    expect((await receiver.receive({ ...(await delivery(anEvent(), how)), ...change })).error).toBeDefined();
    expect(given).not.toHaveBeenCalled();
  });
});

describe('responses', () => {
  test.each([
    ['handled', 200],
    ['ignored', 200],
    ['parked', 200],
    ['duplicate', 200],
    ['dead', 200],
    ['queued', 202],
  ] as const)('%s is answered %i with JSON that names it', (kind, status) => {
    expect(toWebhookResponse({ kind, origin: 'push' } as Outcome)).toEqual({
      status,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ outcome: kind }),
    });
  });

  test('a failure is answered with a problem and its code, and nothing else', async () => {
    const { deliver } = setUpReceiver(() => Promise.reject(new Error('planted message')));
    expect(toWebhookResponse(await deliver())).toEqual({
      status: 500,
      headers: { 'content-type': 'application/problem+json' },
      body: '{"status":500,"code":"ERR_HANDLER_FAILED","outcome":"failed"}',
    });
  });
});

describe('onOutcome', () => {
  test.each<[string, () => void | Promise<void>]>([
    ['throws', missing],
    ['rejects', down],
  ])('that %s is logged under its name and changes nothing', async (_name, onOutcome) => {
    const { codeOf, lines } = setUp({ onOutcome });
    expect(await codeOf()).toBe('handled');
    await settled();
    expect(lines).toEqual([expect.stringMatching(/^stablehooks: onOutcome threw an error/)]);
  });

  test('that changes its outcome or the code of the error does not change the response', async () => {
    const { deliver } = setUpReceiver(down, {
      onOutcome(outcome) {
        expect(() => Object.assign(outcome, { kind: 'handled' })).toThrow(TypeError);
        Object.assign(outcome.error ?? {}, { code: 'handled' });
      },
    });
    expect(toWebhookResponse(await deliver())).toMatchObject({
      status: 500,
      body: expect.stringContaining('ERR_HANDLER_FAILED'),
    });
  });
});

describe('logging', () => {
  const event = anEvent({ id: 'evt_logged' });

  test.each<[Outcome['kind'], Outcome['error'], Partial<Outcome>, string]>([
    [
      'rejected',
      new StablehooksError('ERR_BODY_TOO_LARGE', 'Too large.'),
      {},
      'warn stablehooks: rejected (push) ERR_BODY_TOO_LARGE: Too large.',
    ],
    [
      'busy',
      new StablehooksError('ERR_EVENT_BUSY', 'Runs already.', { retryAfterMs: 1 }),
      { event },
      'warn stablehooks: busy transfer.settled evt_logged (push) ERR_EVENT_BUSY: Runs already.',
    ],
    [
      'unavailable',
      new StablehooksError('ERR_INBOX_FAILED', 'Down.', { cause: 'no route' }),
      { event },
      'error stablehooks: unavailable transfer.settled evt_logged (push) ERR_INBOX_FAILED: Down.\ncaused by no route',
    ],
  ])('%s is one line, with its event and its cause if it has them', (kind, error, more, line) => {
    const lines: string[] = [];
    const logger = {
      warn: (text: string) => void lines.push(`warn ${text}`),
      error: (text: string) => void lines.push(`error ${text}`),
    };
    logOutcome({ kind, origin: 'push', error, ...more } as Outcome, logger);
    expect(lines).toEqual([line]);
  });

  test('the lines name the event and the fix, and no line holds the payload or the secret', async () => {
    const { receiver, deliver, lines } = setUpReceiver(() => Promise.reject(new Error('ledger down')));
    await receiver.receive(await delivery(event, { headers: { [SIGNATURE]: '0'.repeat(64) } }));
    await deliver(event);
    expect(lines[0]).toMatch(/^stablehooks: rejected.*ERR_SIGNATURE_MISMATCH.*Check the secret/);
    expect(lines[1]).toMatch(
      /^stablehooks: failed transfer\.settled evt_logged .*ERR_HANDLER_FAILED.*ledger down/s,
    );
    expect(lines.join()).not.toMatch(/planted payload|whsec_/);
  });

  test.each(['throws', 'rejects'])(
    'a logger that %s changes no outcome and leaves no unhandled rejection',
    async (how) => {
      const unhandled = vi.fn();
      process.on('unhandledRejection', unhandled);
      const refuse = () => (how === 'throws' ? missing() : down());
      const { receiver } = setUp({ logger: { warn: refuse, error: refuse } });
      expect((await receiver.receive(await delivery('', { method: 'GET' }))).kind).toBe('rejected');
      await settled();
      expect(unhandled).not.toHaveBeenCalled();
      process.off('unhandledRejection', unhandled);
    },
  );

  test("pino takes the lines as it is, and the request's logger if the receiver has none", async () => {
    const written: string[] = [];
    const logger = pino({}, { write: (line: string) => void written.push(line) });
    const request = { ...(await delivery(event, { headers: { [SIGNATURE]: '0'.repeat(64) } })), logger };
    await createReceiver({ secret, handlers: {} }).receive(request);
    expect(JSON.parse(written.join())).toMatchObject({
      level: 40,
      msg: expect.stringContaining('ERR_SIGNATURE_MISMATCH'),
    });
    const own = setUp();
    await own.receiver.receive(request);
    expect([own.lines.length, written.length]).toEqual([1, 1]);
  });

  const params = { params: ['planted payload'] };
  const drizzle = Object.assign(
    new Error('Failed query: insert\nparams: planted payload', { cause: new Error('duplicate key') }),
    params,
  );
  const prisma = Object.assign(
    new Error('Invalid invocation:\n{ data: { memo: "planted payload" } }\nArgument `id` is missing.'),
    { name: 'PrismaClientValidationError' },
  );
  test.each([
    ['Drizzle', drizzle, 'duplicate key'],
    ['Prisma', prisma, 'Argument `id` is missing.'],
  ])(
    'the parameters that %s quotes in its errors are in no line and not in the inbox',
    async (_name, error, message) => {
      const inbox = memoryInbox();
      const { deliver, lines } = setUpReceiver(() => Promise.reject(error), { inbox });
      const { id } = (await deliver()).event ?? event;
      expect(lines.join()).toContain(message);
      expect(lines.join()).not.toContain('planted');
      expect((await inbox.find(id))?.lastError).toBe(`ERR_HANDLER_FAILED: ${message}`);
    },
  );
});
