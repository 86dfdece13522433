import {
  createReceiver,
  type Outcome,
  type ReceiverOptions,
  type SecretRequest,
  sign,
  toWebhookResponse,
  type WebhookRequest,
} from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, bytesOf, delivery, secret } from './delivery.js';

const quiet = { warn: () => undefined, error: () => undefined };

function setUp(options: Partial<ReceiverOptions> = {}) {
  const ran: string[] = [];
  const receiver = createReceiver({
    secret,
    logger: quiet,
    handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
    ...options,
  });
  return { receiver, ran };
}

/** A receiver that keeps what its secret function saw. */
function setUpSeen() {
  const seen: SecretRequest[] = [];
  const { receiver } = setUp({
    secret: (request) => {
      seen.push(request);
      return secret;
    },
  });
  return { receiver, seen };
}

/** A delivery to this URL, signed with the secret of a tenant. */
async function tenantDelivery(url: string | undefined, tenantSecret: string, event = anEvent()) {
  const signature = await sign(bytesOf(event), { secret: tenantSecret });
  const request = await delivery(event, { headers: { 'X-SERVICE-Signature': signature } });
  return { ...request, url };
}

const SECRETS: Readonly<Record<string, string>> = { '/hooks/a': 'secret-a', '/hooks/b': 'secret-b' };
const byPath = { secret: ({ path }: SecretRequest) => SECRETS[path] ?? null };

test.each<[string, string | undefined, string, [string, string][]]>([
  ['path', '/hooks/a', '/hooks/a', []],
  [
    'path and query',
    '/hooks?tenant=a%20b&x=1&x=2',
    '/hooks',
    [
      ['tenant', 'a b'],
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
  ['empty URL', '', '', []],
  ['request of an adapter that hands in no URL', undefined, '', []],
])('a secret function sees the path and the query of a %s', async (_name, url, path, query) => {
  const { receiver, seen } = setUpSeen();
  const outcome = await receiver.receive({ ...(await delivery(anEvent())), url });
  expect(outcome.kind).toBe('handled');
  expect(seen.map((request) => [request.path, [...request.query]])).toEqual([[path, query]]);
});

test('a secret function sees headers by any case of their names, null for others, and no body', async () => {
  const { receiver, seen } = setUpSeen();
  await receiver.receive(await delivery(anEvent(), { headers: { 'X-Tenant': 'a' } }));
  const [request] = seen;
  expect(['x-tenant', 'X-TENANT', 'x-other'].map((name) => request?.headers.get(name))).toEqual([
    'a',
    'a',
    null,
  ]);
  expect(Object.keys(request ?? {})).toEqual(['path', 'query', 'headers']);
  expect(Object.isFrozen(request) && Object.isFrozen(request?.headers)).toBe(true);
});

test('a delivery is verified with the secret of its path, and not with that of another path', async () => {
  const { receiver, ran } = setUp(byPath);
  const kinds: string[] = [];
  for (const [path, tenantSecret] of [
    ['/hooks/a', 'secret-a'],
    ['/hooks/b', 'secret-b'],
    ['/hooks/b', 'secret-a'],
    ['/hooks/a', 'secret-b'],
  ] as const) {
    const { kind, error } = await receiver.receive(await tenantDelivery(path, tenantSecret));
    kinds.push(error?.code ?? kind);
  }
  expect(kinds).toEqual(['handled', 'handled', 'ERR_SIGNATURE_MISMATCH', 'ERR_SIGNATURE_MISMATCH']);
  expect(ran).toHaveLength(2);
});

test('secretIndex counts in the list that the secret function gave for the request', async () => {
  const lists: Readonly<Record<string, string[]>> = { '/a': ['new-a', 'old-a'], '/b': ['b'] };
  const { receiver } = setUp({ secret: ({ path }) => lists[path] ?? null });
  const outcomes = [
    await receiver.receive(await tenantDelivery('/a', 'old-a')),
    await receiver.receive(await tenantDelivery('/b', 'b')),
  ];
  expect(outcomes.map(({ secretIndex }) => secretIndex)).toEqual([1, 0]);
});

test.each(['secret-a', 'decoy'])(
  'a delivery signed with %s to a path without a secret is rejected with ERR_SECRET_UNKNOWN, and is answered as a forged one',
  async (tenantSecret) => {
    const { receiver, ran } = setUp(byPath);
    const unknown = await receiver.receive(await tenantDelivery('/hooks/c', tenantSecret));
    const forged = await receiver.receive(await tenantDelivery('/hooks/a', 'secret-b'));
    expect(unknown).toMatchObject({ kind: 'rejected', error: { code: 'ERR_SECRET_UNKNOWN' } });
    expect(toWebhookResponse(unknown)).toEqual(toWebhookResponse(forged));
    expect(toWebhookResponse(unknown)).toMatchObject({
      status: 401,
      body: '{"title":"Unauthorized","status":401,"code":"ERR_SIGNATURE_MISMATCH","outcome":"rejected"}',
    });
    expect(ran).toEqual([]);
  },
);

test('a secret function that gives undefined is a mistake that is answered 5xx, so that the service tries again', async () => {
  const outcomes: Outcome[] = [];
  for (const give of [() => undefined as never, async () => undefined as never]) {
    const { receiver } = setUp({ secret: give });
    outcomes.push(await receiver.receive(await delivery(anEvent())));
  }
  expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_CONFIG_INVALID', 'ERR_CONFIG_INVALID']);
  expect(outcomes.map((outcome) => toWebhookResponse(outcome).status)).toEqual([500, 500]);
});

test('a secret function that throws for one path is unavailable there, and works for others', async () => {
  const { receiver } = setUp({
    secret: async ({ path }) => {
      if (path === '/down') throw new Error('no answer');
      return secret;
    },
  });
  const down = await receiver.receive({ ...(await delivery(anEvent())), url: '/down' });
  expect(down).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_SECRET_UNAVAILABLE' } });
  expect((await receiver.receive({ ...(await delivery(anEvent())), url: '/up' })).kind).toBe('handled');
});

test.each<[string, (request: WebhookRequest) => WebhookRequest]>([
  ['another method', (request) => ({ ...request, method: 'GET' })],
  ['a content-encoding', (request) => withHeader(request, 'content-encoding', 'gzip')],
  ['no signature', (request) => withHeader(request, 'x-service-signature', undefined)],
  ['a malformed signature', (request) => withHeader(request, 'x-service-signature', 'zz')],
  [
    'a body that cannot be read',
    (request) => ({ ...request, body: () => Promise.reject(new Error('gone')) }),
  ],
])('a request with %s is refused without a call of the secret function', async (_name, change) => {
  const { receiver, seen } = setUpSeen();
  const { error } = await receiver.receive(change(await delivery(anEvent())));
  expect(error).toBeDefined();
  expect(seen).toEqual([]);
});

function withHeader(request: WebhookRequest, name: string, value: string | undefined): WebhookRequest {
  return { ...request, header: (wanted) => (wanted.toLowerCase() === name ? value : request.header(wanted)) };
}

test('a secret function can take its time by default, and one that does not is named in the cause', async () => {
  const later = () => new Promise<string>((resolve) => setTimeout(resolve, 30, secret));
  expect((await setUp({ secret: later }).receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
  const never = () => new Promise<string>(() => undefined);
  const slow = await setUp({ secret: never, secretTimeoutMs: 5 }).receiver.receive(await delivery(anEvent()));
  expect(slow.error).toMatchObject({
    code: 'ERR_SECRET_UNAVAILABLE',
    cause: { message: 'It gave no secret within 5 ms.' },
  });
});
