import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { inspect } from 'node:util';
import fc from 'fast-check';
import type { RuntimeOptions } from 'stablehooks';
import { type ClientOptions, createClient, type Retry } from 'stablehooks/client';
import { expect, test } from 'vitest';
import {
  type Answer,
  json,
  misbehavingService,
  selfSignedService,
  TOKEN,
  text,
} from './misbehaving-service.js';

const WALLET = {
  id: 'w/1',
  agentId: 'agent',
  address: '0xAbCd',
  chain: 'base',
  balance: '0.10',
  limits: { perTx: '10.50', daily: '100' },
  allowlist: ['0xEf'],
  newer: 1,
};
const INPUT = {
  agentId: 'agent',
  label: 'main',
  chain: 'base',
  limits: WALLET.limits,
  allowlist: WALLET.allowlist,
} as const;
const EVENT = {
  id: 'e1',
  type: 'transfer.settled',
  delivered: true,
  created_at: '2026-01-01T00:00:00Z',
  payload: {},
  newer: 1,
};

async function setUp(answers: readonly Answer[], options: Partial<ClientOptions> = {}) {
  const service = await misbehavingService(...answers);
  const retries: Retry[] = [];
  const client = createClient({
    baseUrl: service.baseUrl,
    token: TOKEN,
    baseWaitMs: 1,
    maxWaitMs: 5,
    onRetry: (retry) => void retries.push(retry),
    ...options,
  });
  return { ...service, client, retries };
}

async function failure(call: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Error)) throw new Error('the call did not fail with an error');
  expect(inspect(error, { depth: null, showHidden: true })).not.toContain(TOKEN);
  expect(JSON.stringify(error)).not.toContain(TOKEN);
  return error as Error & Record<string, unknown>;
}

test('each call sends the request of its endpoint and keeps unknown fields of the answer', async () => {
  const { client, arrived } = await setUp([json(WALLET, { status: 201 }), json(WALLET), json([EVENT])]);
  expect(await client.wallets.create(INPUT)).toEqual(WALLET);
  expect(await client.wallets.updateLimits('w/1', { limits: INPUT.limits })).toEqual(WALLET);
  expect(await client.events.list({ type: 'transfer.settled', limit: 7 })).toEqual([EVENT]);
  expect(arrived.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'POST /v1/wallets',
    'PATCH /v1/wallets/w%2F1/limits',
    'GET /v1/webhooks/events?type=transfer.settled&limit=7',
  ]);
  expect(JSON.parse(arrived[0]?.body ?? '')).toEqual(INPUT);
  expect(arrived[0]?.headers).toMatchObject({
    authorization: `Bearer ${TOKEN}`,
    'content-type': 'application/json',
  });
});

test.each([
  ['HTML', text('<html>'), 'not JSON'],
  ['an empty 200', text(''), 'empty'],
  ['bytes that are not UTF-8', (response) => response.end(Buffer.from([0x22, 0xff, 0x22])), 'not JSON'],
  ['a huge body', text('x'.repeat(2_000)), 'maxBodyBytes'],
  ['an object for a list', json({ events: [] }), 'the list itself'],
  ['a wrong element', json([EVENT, { ...EVENT, created_at: 1 }]), '[1].created_at'],
  ['null as an element', json([null]), '[0]'],
] satisfies [string, Answer, string][])(
  '%s in the answer is ERR_API_RESPONSE and is not retried',
  async (_, answer, words) => {
    const { client, arrived } = await setUp([answer], { maxBodyBytes: 1_000 });
    const error = await failure(client.events.list());
    expect(error).toMatchObject({ code: 'ERR_API_RESPONSE', message: expect.stringContaining(words) });
    expect(arrived).toHaveLength(1);
  },
);

test('an answer that is not a wallet is ERR_API_RESPONSE and names each wrong field', async () => {
  const { client } = await setUp([json({ ...WALLET, balance: 1, limits: { perTx: '1' } })]);
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({
    code: 'ERR_API_RESPONSE',
    fields: ['balance', 'limits.daily'],
  });
});

test('the answer that is not a wallet is on the error, and in no output of the error', async () => {
  const created = { ...WALLET, balance: 1, echo: 'none' };
  const { client } = await setUp([json(created, { status: 201, headers: { 'x-request-id': 'req_1' } })]);
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ answer: created, requestId: 'req_1' });
  const printed = [inspect(error, { depth: null }), JSON.stringify(error), error.message, error.stack];
  expect(printed.join()).not.toContain(WALLET.address);
});

test.each([
  ['half of its JSON', text('{"id":"w/1","addr'), '{"id":"w/1","addr'],
  ['more than maxBodyBytes', text(`{"id":"w/1"}${' '.repeat(2_000)}`), `{"id":"w/1"}${' '.repeat(988)}`],
] satisfies [string, Answer, string][])(
  'a 2xx answer with %s is on the error as a string',
  async (_, answer, kept) => {
    const { client } = await setUp([answer], { maxBodyBytes: 1_000 });
    const error = await failure(client.wallets.create(INPUT));
    expect(error).toMatchObject({ code: 'ERR_API_RESPONSE', answer: kept });
  },
);

test('a token that a 2xx answer echoes is redacted, also where JSON escapes it, and the answer stays parsed', async () => {
  const token = 'tok/"\\en+x9==';
  const body = JSON.stringify({
    id: 'w/1',
    echo: [`Bearer ${token}`, token],
    [token]: { newer: 1, nested: JSON.stringify({ token }) },
  });
  const escaped = body.replaceAll('/', '\\/').replaceAll('+', '\\u002B').replaceAll('=', '\\u003d');
  for (const sent of [body, escaped]) {
    const { client } = await setUp([text(sent, { status: 201, headers: { 'x-request-id': token } })], {
      token,
    });
    const error = await failure(client.wallets.create(INPUT));
    expect(error).toMatchObject({ code: 'ERR_API_RESPONSE', requestId: '[token]' });
    expect(error['answer']).toEqual({
      id: 'w/1',
      echo: ['Bearer [token]', '[token]'],
      '[token]': { newer: 1, nested: '{"token":"[token]"}' },
    });
  }
  const failed = await setUp([text(escaped, { status: 400 })], { token });
  const { body: kept } = await failure(failed.client.wallets.create(INPUT));
  expect(JSON.parse(String(kept))).toMatchObject({ echo: ['Bearer [token]', '[token]'] });
});

test('an answer that is not JSON is on the error with at most 65,536 bytes', async () => {
  const bytes: Answer = (response) => response.writeHead(201).end(Buffer.alloc(100_000, 0xff));
  const { client } = await setUp([bytes, text('é'.repeat(100_000))]);
  for (const unit of ['\ufffd', 'é']) {
    const answer = String((await failure(client.wallets.create(INPUT)))['answer']);
    expect(answer).toBe(unit.repeat(Math.floor(65_536 / Buffer.byteLength(unit))));
  }
});

test('a list that is malformed is not on the error, because it holds payloads', async () => {
  const { client } = await setUp([json([{ id: 1 }]), text('[{"id":')]);
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_API_RESPONSE', answer: undefined });
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_API_RESPONSE', answer: undefined });
});

test('a wallet on a chain that is newer than this release is accepted', async () => {
  const wallet = { ...WALLET, chain: 'aptos' };
  const { client } = await setUp([json(wallet, { status: 201 }), json(wallet)]);
  expect(await client.wallets.create(INPUT)).toEqual(wallet);
  expect(await client.wallets.updateLimits('w', { allowlist: [] })).toEqual(wallet);
});

test('listWithProblems returns malformed elements apart from the events', async () => {
  const wrong = { ...EVENT, payload: [], id: '' };
  const { client } = await setUp([json([wrong, EVENT, 7])]);
  expect(await client.events.listWithProblems()).toMatchObject({
    events: [EVENT],
    problems: [
      { index: 0, fields: ['id', 'payload'], value: wrong },
      { index: 2, fields: [], value: 7 },
    ],
    size: 3,
  });
});

test.for([
  ['Thu, 01 Jan 2026 00:00:07 GMT', Date.UTC(2026, 0, 1, 0, 0, 7)],
  ['yesterday', null],
  [undefined, null],
] as const)('listWithProblems reads servedAt from the Date header: %s is %s', async ([date, servedAt]) => {
  const dated: Answer = (response, request) => {
    response.sendDate = false;
    json([], { headers: date === undefined ? {} : { date } })(response, request);
  };
  const { client } = await setUp([dated]);
  expect(await client.events.listWithProblems()).toMatchObject({ size: 0, servedAt });
});

test('ERR_API_STATUS holds status, headers, body and Retry-After, and an echoed token is redacted', async () => {
  const echo: Answer = (response, { headers }) =>
    response
      .writeHead(422, { 'x-echo': headers.authorization, 'retry-after': '3' })
      .end(`no: ${headers.authorization}`);
  const { client, baseUrl } = await setUp([echo]);
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({
    code: 'ERR_API_STATUS',
    status: 422,
    body: 'no: Bearer [token]',
    retryAfterMs: 3_000,
  });
  expect((error['headers'] as Headers).get('x-echo')).toBe('Bearer [token]');
  expect(error.message).toContain(`POST ${baseUrl}/v1/wallets was answered 422`);
});

test.each([
  [{ 'x-request-id': 'a', 'cf-ray': 'b' }, 'a'],
  [{ 'request-id': 'c' }, 'c'],
  [{ 'x-amzn-requestid': 'd', traceparent: 'e' }, 'd'],
  [{ 'x-other-id': 'f' }, undefined],
])('the error of an answer with the headers %j has the requestId %s', async (headers, requestId) => {
  const { client } = await setUp([text('', { status: 400, headers })]);
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_API_STATUS', requestId });
});

test('requests name the package and its version as the user agent', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const { client, arrived } = await setUp([json([])]);
  await client.events.list();
  expect(arrived[0]?.headers['user-agent']).toBe(`stablehooks/${version}`);
});

test('a redirect is not followed and is ERR_API_STATUS', async () => {
  const other = await misbehavingService(json([]));
  const { client } = await setUp([text('', { status: 307, headers: { location: other.baseUrl } })]);
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_API_STATUS', status: 307 });
  expect(other.arrived).toHaveLength(0);
});

const reset: Answer = (response) => response.socket?.destroy();
const truncated: Answer = (response) => {
  response.writeHead(200, { 'content-length': '99' }).write('[');
  response.socket?.end();
};
/** The time limit of requests in tests where it passes only when a test says so. */
const HELD_MS = 60_000;
const time = holdTimers();
/** Answers nothing, until the request has taken too long. */
const hang: Answer = () => time.pass();

/** A runtime whose timers of `HELD_MS` fire when the test lets the time pass, however busy the machine is. */
function holdTimers() {
  const held = new Set<unknown>();
  const runtime: RuntimeOptions = {
    setTimeout(callback, ms) {
      if (ms !== HELD_MS) return setTimeout(callback, ms);
      held.add(callback);
      return callback;
    },
    clearTimeout(timer) {
      if (!held.delete(timer)) clearTimeout(timer as NodeJS.Timeout);
    },
  };
  const pass = () => {
    for (const callback of held) if (typeof callback === 'function') callback();
  };
  return { runtime, pass };
}

test.each([
  ['408', text('', { status: 408 })],
  ['429', text('', { status: 429, headers: { 'retry-after': '0' } })],
  ['500', text('', { status: 500 })],
  ['a reset connection', reset],
  ['a truncated body', truncated],
  ['silence', hang],
] satisfies [string, Answer][])(
  'GET and PATCH are sent again after %s, and POST is not',
  async (_, answer) => {
    const options = { timeoutMs: HELD_MS, runtime: time.runtime };
    const list = await setUp([answer, answer, json([EVENT])], options);
    expect(await list.client.events.list()).toEqual([EVENT]);
    expect(list.retries.map(({ attempt }) => attempt)).toEqual([1, 2]);
    const patch = await setUp([answer, json(WALLET)], options);
    expect(await patch.client.wallets.updateLimits('w', { allowlist: [] })).toEqual(WALLET);
    const post = await setUp([answer, json(WALLET)], options);
    expect((await failure(post.client.wallets.create(INPUT)))['code']).toMatch(/ERR_API_(STATUS|CONNECTION)/);
    expect(post.arrived).toHaveLength(1);
  },
);

test('a request is sent again at most `retries` times, and never when it is 0', async () => {
  const some = await setUp([text('', { status: 503 })], { retries: 2 });
  expect(await failure(some.client.events.list())).toMatchObject({ status: 503 });
  expect(some.arrived).toHaveLength(3);
  const none = await setUp([text('', { status: 503 })], { retries: 0 });
  await failure(none.client.events.list());
  expect(none.arrived).toHaveLength(1);
});

test('the client waits for Retry-After, in seconds or as a date, at most maxWaitMs', async () => {
  for (const value of ['9999', new Date(Date.now() + 9e6).toUTCString()]) {
    const { client, retries } = await setUp([
      text('', { status: 429, headers: { 'retry-after': value } }),
      json([]),
    ]);
    await client.events.list();
    expect(retries).toMatchObject([{ waitMs: 5, error: { status: 429 } }]);
  }
});

test('POST is sent again when the connection was refused', async () => {
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  await once(closed, 'close');
  const down = `http://127.0.0.1:${port}`;
  const targets = [down, down];
  const { client, arrived, retries } = await setUp([json(WALLET)], {
    fetch: (url, init) => fetch(targets.pop() ?? url, init),
  });
  expect(await client.wallets.create(INPUT)).toEqual(WALLET);
  expect(retries).toMatchObject([{ error: { unsent: true } }, { error: { unsent: true } }]);
  expect(arrived).toHaveLength(1);
});

test('POST is sent again after a certificate that is not trusted, and the error names the fix', async () => {
  const untrusted = await selfSignedService({}, json(WALLET));
  const { client, retries } = await setUp([], { baseUrl: untrusted.baseUrl, retries: 1 });
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ code: 'ERR_API_CONNECTION', unsent: true });
  expect(error.message).toMatch(/The request was not sent\. .*NODE_EXTRA_CA_CERTS/);
  expect(retries).toMatchObject([{ error: { unsent: true } }]);
  expect(untrusted.arrived).toEqual([]);
});

test('a TLS handshake that fails is unsent: no TLS on the port, or no TLS version in common', async () => {
  const plain = await misbehavingService(json(WALLET));
  const old = await selfSignedService({ minVersion: 'TLSv1', maxVersion: 'TLSv1.1' }, json(WALLET));
  for (const baseUrl of [plain.baseUrl.replace('http:', 'https:'), old.baseUrl]) {
    const { client } = await setUp([], { baseUrl, retries: 0 });
    const error = await failure(client.wallets.create(INPUT));
    expect(error).toMatchObject({ unsent: true, message: expect.stringContaining('handshake failed') });
  }
  expect([...plain.arrived, ...old.arrived]).toEqual([]);
});

test('a port that fetch refuses is unsent, and the error says so', async () => {
  const { client } = await setUp([], { baseUrl: 'http://127.0.0.1:6666', retries: 0 });
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ unsent: true, message: expect.stringContaining('refuses this port') });
});

/** What the fetch of each runtime throws, as it was observed. */
const failed = (message: string, code?: string) => Object.assign(new Error(message), code && { code });
test.each([
  [true, failed('certificate has expired', 'CERT_HAS_EXPIRED')],
  [true, failed('not in the list', 'ERR_TLS_CERT_ALTNAME_INVALID')],
  [true, failed('self-signed certificate in chain', 'SELF_SIGNED_CERT_IN_CHAIN')],
  [true, failed('unable to verify the first certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE')],
  [true, failed('EPROTO: The TLS handshake failed. Does the server speak TLS on this port?', 'EPROTO')],
  [true, failed('Client network socket disconnected before secure TLS connection', 'ECONNRESET')],
  [true, failed('client error (Connect): invalid peer certificate: UnknownIssuer')],
  [true, failed('client error (Connect): tcp connect error: Connection refused (os error 111)')],
  [true, failed('Fetch failed: Requests to port 6666 are blocked')],
  [false, failed('client error (SendRequest): connection closed before message completed')],
  [false, failed('bad record mac', 'ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC')],
  [false, failed('write EPROTO', 'EPROTO')],
  [false, failed('read ECONNRESET', 'ECONNRESET')],
])('unsent is %s after the failure "%s" of fetch', async (unsent, cause) => {
  const fetch = async () => {
    throw new TypeError('fetch failed', { cause });
  };
  const { client } = await setUp([], { retries: 0, fetch });
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({ unsent });
});

test('requests that are refused with one token renew it once, also when one is refused later', async () => {
  const held: (() => void)[] = [];
  // Nine are refused together, and the tenth after the first of them has come again with the new token.
  const { baseUrl, arrived } = await misbehavingService((response, request) => {
    const refuse = () => text('', { status: 401 })(response, request);
    if (request.headers.authorization === `Bearer ${TOKEN}`) {
      json([])(response, request);
      held.pop()?.();
    } else if (held.push(refuse) === 10) for (const one of held.splice(0, 9)) one();
  });
  const asked: boolean[] = [];
  const token = async ({ renew }: { readonly renew: boolean }) => {
    asked.push(renew);
    return renew ? TOKEN : 'old';
  };
  const client = createClient({ baseUrl, token });
  await Promise.all(Array.from({ length: 10 }, () => client.events.list()));
  expect(arrived).toHaveLength(20);
  // From now on, the new token stands in for the one that was refused.
  await client.events.list();
  expect(arrived).toHaveLength(21);
  expect(asked.filter((renew) => renew)).toHaveLength(1);
});

test('a renewed token that is refused later is renewed again', async () => {
  let valid = 'token-1';
  const answer: Answer = (response, request) => {
    const accepted = request.headers.authorization === `Bearer ${valid}`;
    (accepted ? json([]) : text('', { status: 401 }))(response, request);
  };
  const service = await misbehavingService(answer);
  let cached = 'token-0';
  const token = ({ renew }: { readonly renew: boolean }) => {
    if (renew) cached = valid;
    return cached;
  };
  const client = createClient({ baseUrl: service.baseUrl, token });
  for (const next of ['token-1', 'token-2', 'token-3']) {
    valid = next;
    expect(await client.events.list()).toEqual([]);
  }
  expect(service.arrived).toHaveLength(6);
});

/** A token that does not come, until its time is over. */
function neverInTime(): Promise<string> {
  setImmediate(time.pass);
  return new Promise(() => undefined);
}

test('a renewal that never settles does not block the calls after it', async () => {
  let renewals = 0;
  const token = ({ renew }: { readonly renew: boolean }) => {
    if (!renew) return 'old';
    renewals += 1;
    return renewals === 1 ? neverInTime() : TOKEN;
  };
  const refuse = text('', { status: 401 });
  const { client } = await setUp([refuse, refuse, json([])], {
    ...{ token, retries: 0 },
    ...{ timeoutMs: HELD_MS, runtime: time.runtime },
  });
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_SECRET_UNAVAILABLE' });
  expect(await client.events.list()).toEqual([]);
});

test('a token that does not come in time is ERR_SECRET_UNAVAILABLE, and nothing was sent in that attempt', async () => {
  const never = new Promise<string>(() => undefined);
  const first = await setUp([json(WALLET)], { token: () => never, timeoutMs: 50 });
  const error = await failure(first.client.wallets.create(INPUT));
  expect(error).toMatchObject({ name: 'UnavailableError', code: 'ERR_SECRET_UNAVAILABLE' });
  expect(error.message).toContain('within 50 ms (timeoutMs), so nothing was sent in this attempt. Check');
  expect(first.arrived).toHaveLength(0);

  const token = ({ renew }: { readonly renew: boolean }) => (renew ? neverInTime() : 'old');
  const renewal = await setUp([text('', { status: 401 })], {
    ...{ token, timeoutMs: HELD_MS, runtime: time.runtime },
  });
  const refused = await failure(renewal.client.wallets.create(INPUT));
  expect(refused).toMatchObject({ code: 'ERR_SECRET_UNAVAILABLE' });
  expect(refused.message).toContain('The attempt before was answered 401, so it was not carried out.');
  expect(renewal.arrived).toHaveLength(1);
});

test('a token function is called once more after a 401, and a token string is not sent again', async () => {
  const asked: boolean[] = [];
  const token = ({ renew }: { readonly renew: boolean }) => {
    asked.push(renew);
    return renew ? TOKEN : 'old';
  };
  const ok = await setUp([text('', { status: 401 }), json(WALLET)], { token });
  await ok.client.wallets.create(INPUT);
  expect(ok.arrived.map(({ headers }) => headers.authorization)).toEqual(['Bearer old', `Bearer ${TOKEN}`]);
  const never = await setUp([text('', { status: 401 })], { token });
  expect(await failure(never.client.events.list())).toMatchObject({ status: 401 });
  expect(never.arrived).toHaveLength(2);
  expect(asked).toEqual([false, true, false, true]);
  const fixed = await setUp([text('', { status: 401 })]);
  await failure(fixed.client.events.list());
  expect(fixed.arrived).toHaveLength(1);
});

test('a call ends when its signal aborts before, during and between attempts', async () => {
  const before = await setUp([json([])]);
  await expect(before.client.events.list({ signal: AbortSignal.abort('gone') })).rejects.toBe('gone');
  expect(before.arrived).toHaveLength(0);

  const controller = new AbortController();
  const during = await setUp([() => controller.abort('gone')]);
  await expect(during.client.events.list({ signal: controller.signal })).rejects.toBe('gone');

  const waiting = new AbortController();
  const between = await setUp([text('', { status: 500 })], {
    baseWaitMs: 60_000,
    maxWaitMs: 60_000,
    onRetry: () => waiting.abort('gone'),
  });
  await expect(between.client.events.list({ signal: waiting.signal })).rejects.toBe('gone');
  expect(between.arrived).toHaveLength(1);
});

test('the error of a fetch that throws its request does not hold the token', async () => {
  const { client } = await setUp([json([])], {
    retries: 0,
    fetch: async (url, init) => {
      throw Object.assign(new Error(`sent ${JSON.stringify(init.headers)}`), { url, init });
    },
  });
  expect(await failure(client.events.list())).toMatchObject({ code: 'ERR_API_CONNECTION', unsent: false });
});

test('the error of a fetch whose error is its own cause is ERR_API_CONNECTION', async () => {
  const cyclic = new Error('cut');
  cyclic.cause = cyclic;
  const { client } = await setUp([], { retries: 0, fetch: () => Promise.reject(cyclic) });
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({
    code: 'ERR_API_CONNECTION',
    unsent: false,
    cause: { message: 'cut' },
  });
});

test('wrong input is ERR_CONFIG_INVALID and nothing is sent', async () => {
  const { client, arrived } = await setUp([json(WALLET)]);
  const wrong: unknown[] = [
    { limits: { perTx: 1, daily: '1' } },
    { chain: 'arc' },
    { agentId: '' },
    { allowlist: new Array(2) },
  ];
  for (const part of wrong) {
    const input = Object.assign({}, INPUT, part);
    expect(await failure(client.wallets.create(input))).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  }
  const misspelt: [unknown, string][] = [
    [{ ...INPUT, lable: 'main' }, 'unknown option `lable`. The options are '],
    [{ ...INPUT, limits: { ...INPUT.limits, dialy: '1' } }, '`dialy`. The options are perTx, daily.'],
    [null, 'must be an object'],
  ];
  for (const [input, words] of misspelt) {
    await expect(client.wallets.create(input as typeof INPUT)).rejects.toThrow(words);
  }
  const change = { limit: INPUT.limits, allowlist: [] };
  await expect(client.wallets.updateLimits('w', change)).rejects.toThrow(
    'unknown option `limit`. The options are limits, allowlist.',
  );
  expect(await failure(client.wallets.updateLimits('w', {}))).toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  for (const id of ['', '.', '..']) {
    await expect(client.wallets.updateLimits(id, { allowlist: [] })).rejects.toThrow('id');
  }
  for (const limit of [0, -1, 1.5, Number.NaN]) {
    await expect(client.events.list({ limit })).rejects.toThrow('limit');
  }
  expect(arrived).toHaveLength(0);
});

test.each([
  [{ baseUrl: 'ftp://x' }, 'baseUrl'],
  [{ baseUrl: 'http://u:p@x' }, 'baseUrl'],
  [{ token: `${TOKEN}\n` }, 'token'],
  [{ timeoutMs: 0 }, 'timeoutMs'],
  [{ retries: -1 }, 'retries'],
])('createClient refuses the option %j by name', (part, name) => {
  const options = { baseUrl: 'http://x', token: TOKEN, ...part };
  expect(() => createClient(options)).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  expect(() => createClient(options)).toThrow(name);
  expect(() => createClient(options)).not.toThrow(TOKEN);
});

test('a baseUrl that is a function is called at the first call, once, and checked then', async () => {
  const service = await misbehavingService(json([]));
  let calls = 0;
  const client = createClient({
    baseUrl: () => {
      calls++;
      return `${service.baseUrl}/`;
    },
    token: TOKEN,
  });
  expect(calls).toBe(0);
  await client.events.list({ type: undefined, limit: undefined, signal: undefined });
  await client.events.list();
  expect(calls).toBe(1);
  for (const wrong of ['', 'ftp://x', 'http://u:p@x']) {
    const broken = createClient({ baseUrl: () => wrong, token: TOKEN });
    expect(await failure(broken.events.list())).toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringContaining('createClient: `baseUrl` must'),
    });
  }
});

test('listWithProblems resolves to a list or rejects with ERR_API_RESPONSE for any JSON', async () => {
  await fc.assert(
    fc.asyncProperty(fc.json(), async (body) => {
      const client = createClient({
        baseUrl: 'http://x',
        token: TOKEN,
        fetch: async () => new Response(body),
      });
      const list = await client.events.listWithProblems().catch((error: unknown) => error);
      if (list instanceof Error) expect(list).toMatchObject({ code: 'ERR_API_RESPONSE' });
      else expect(list).toMatchObject({ size: JSON.parse(body).length });
    }),
  );
});

test.each([
  [{ typ: 'transfer.settled' }, /unknown option `typ`\. The options are type, limit, signal\./],
  [{ type: '' }, /`type` must be a string/],
  [{ limit: 0 }, /`limit` must be an integer from 1/],
  [{ limit: 1.5 }, /`limit`/],
])('listing with the options %j is refused, and nothing is sent', async (query, message) => {
  const { client, arrived } = await setUp([]);
  for (const list of [client.events.list, client.events.listWithProblems]) {
    const listed = list(query as object);
    await expect(listed).rejects.toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
    await expect(listed).rejects.toThrow(message);
  }
  expect(arrived).toEqual([]);
});
