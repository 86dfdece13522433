import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { inspect } from 'node:util';
import type { RuntimeOptions } from 'stablehooks';
import { type ClientOptions, createClient } from 'stablehooks/client';
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
  const client = createClient({
    baseUrl: service.baseUrl,
    token: TOKEN,
    baseWaitMs: 1,
    maxWaitMs: 5,
    ...options,
  });
  return { ...service, client };
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
  ['an empty 200', text(''), 'not JSON'],
  ['bytes that are not UTF-8', (response) => response.end(Buffer.from([0x22, 0xff, 0x22])), 'not JSON'],
  ['an object for a list', json({ events: [] }), 'it is not an array'],
  ['a wrong element', json([EVENT, { ...EVENT, created_at: 1 }]), '[1].created_at'],
  ['null as an element', json([null]), '[0]'],
] satisfies [string, Answer, string][])(
  '%s in the answer is ERR_API_RESPONSE and is not retried',
  async (_, answer, words) => {
    const { client, arrived } = await setUp([answer]);
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
  const { client } = await setUp([json(created, { status: 201 })]);
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ answer: created });
  const printed = [inspect(error, { depth: null }), JSON.stringify(error), error.message, error.stack];
  expect(printed.join()).not.toContain(WALLET.address);
});

test('a 2xx answer with half of its JSON is on the error as a string', async () => {
  const { client } = await setUp([text('{"id":"w/1","addr')]);
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ code: 'ERR_API_RESPONSE', answer: '{"id":"w/1","addr' });
});

test('a token that a 2xx answer echoes is redacted, and the answer stays parsed', async () => {
  const echo = { id: 'w/1', echo: [`Bearer ${TOKEN}`, TOKEN] };
  const { client } = await setUp([json(echo, { status: 201 })]);
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({
    code: 'ERR_API_RESPONSE',
    answer: { id: 'w/1', echo: ['Bearer [token]', '[token]'] },
  });
});

test('errors hold the first 2,000 characters of a body, without a token that is cut there', async () => {
  const body = `${'x'.repeat(1_990)}${TOKEN}${'x'.repeat(100_000)}`;
  const { client } = await setUp([text(body, { status: 201 }), text(body, { status: 400 })]);
  const start = `${'x'.repeat(1_990)}[token]xxx`;
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({ answer: start });
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({ body: start });
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

test('servedAt is null without a Date header', async () => {
  const undated: Answer = (response, request) => {
    response.sendDate = false;
    json([])(response, request);
  };
  const { client } = await setUp([undated]);
  expect(await client.events.listWithProblems()).toMatchObject({ size: 0, servedAt: null });
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
  expect(error.message).toMatch(new RegExp(`POST ${baseUrl}/v1/wallets .*422`));
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
/** A time limit that passes only when a test lets it. */
const HELD_MS = 60_000;
const time = holdTimers();
/** Lets the time of the request run out. */
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
    expect(list.arrived).toHaveLength(3);
    const patch = await setUp([answer, json(WALLET)], options);
    expect(await patch.client.wallets.updateLimits('w', { allowlist: [] })).toEqual(WALLET);
    const post = await setUp([answer, json(WALLET)], options);
    const error = await failure(post.client.wallets.create(INPUT));
    expect(error['code']).toMatch(/ERR_API_(STATUS|CONNECTION)/);
    expect(error.message).toMatch(/may have carried out the request/);
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
    const waits: number[] = [];
    const runtime: RuntimeOptions = {
      setTimeout(callback, ms) {
        waits.push(ms);
        return setTimeout(callback, ms);
      },
    };
    const answers = [text('', { status: 429, headers: { 'retry-after': value } }), json([])];
    const { client } = await setUp(answers, { runtime, timeoutMs: HELD_MS });
    await client.events.list();
    expect(waits.filter((ms) => ms !== HELD_MS)).toEqual([5]);
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
  const { client, arrived } = await setUp([json(WALLET)], {
    fetch: (url, init) => fetch(targets.pop() ?? url, init),
  });
  expect(await client.wallets.create(INPUT)).toEqual(WALLET);
  expect(targets).toEqual([]);
  expect(arrived).toHaveLength(1);
});

test('POST is not sent again after a certificate that is not trusted, and the cause names the reason', async () => {
  const untrusted = await selfSignedService(json(WALLET));
  let sent = 0;
  const { client } = await setUp([], {
    baseUrl: untrusted.baseUrl,
    fetch(url, init) {
      sent += 1;
      return fetch(url, init);
    },
  });
  const error = await failure(client.wallets.create(INPUT));
  expect(error).toMatchObject({ code: 'ERR_API_CONNECTION', unsent: false });
  expect(inspect(error)).toContain('DEPTH_ZERO_SELF_SIGNED_CERT');
  expect(sent).toBe(1);
});

/** What the fetch of each runtime throws, as it was observed. */
const failed = (message: string, code?: string) => Object.assign(new Error(message), code && { code });
test.each([
  [true, failed('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED')],
  [true, failed('getaddrinfo ENOTFOUND api.test', 'ENOTFOUND')],
  [true, failed('Unable to connect. Is the computer able to access the url?', 'ConnectionRefused')],
  [false, failed('certificate has expired', 'CERT_HAS_EXPIRED')],
  [true, failed('client error (Connect): tcp connect error: Connection refused (os error 111)')],
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

test('a token function that rejects is ERR_SECRET_UNAVAILABLE, and nothing is sent', async () => {
  const { client, arrived } = await setUp([json(WALLET)], {
    token: () => Promise.reject(new Error('vault')),
  });
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({ code: 'ERR_SECRET_UNAVAILABLE' });
  expect(arrived).toHaveLength(0);
});

test('timeoutMs limits a token function as well', async () => {
  const { client, arrived } = await setUp([json(WALLET)], {
    token: () => new Promise<string>(() => setImmediate(time.pass)),
    timeoutMs: HELD_MS,
    runtime: time.runtime,
  });
  expect(await failure(client.wallets.create(INPUT))).toMatchObject({
    code: 'ERR_API_CONNECTION',
    message: expect.stringContaining('timeoutMs'),
  });
  expect(arrived).toHaveLength(0);
});

test('a token function is called for every attempt, and a 401 is not sent again', async () => {
  const tokens = [TOKEN, 'old'];
  const { client, arrived } = await setUp([text('', { status: 503 }), text('', { status: 401 })], {
    token: () => tokens.pop() ?? '',
  });
  expect(await failure(client.events.list())).toMatchObject({ status: 401 });
  expect(arrived.map(({ headers }) => headers.authorization)).toEqual(['Bearer old', `Bearer ${TOKEN}`]);
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
    baseWaitMs: HELD_MS,
    maxWaitMs: HELD_MS,
    runtime: {
      random: () => 1,
      setTimeout(callback, ms) {
        if (ms === HELD_MS) queueMicrotask(() => waiting.abort('gone'));
        return setTimeout(callback, ms);
      },
    },
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

test.each([
  [{ baseUrl: 'ftp://x' }, 'baseUrl'],
  [{ baseUrl: 'http://u:p@x' }, 'baseUrl'],
  [{ baseUrl: 'http://x/?a=1' }, 'baseUrl'],
  [{ token: `${TOKEN}\n` }, 'token'],
  [{ timeoutMs: 0 }, 'timeoutMs'],
  [{ retries: -1 }, 'retries'],
])('createClient refuses the option %j by name', (part, name) => {
  const options = { baseUrl: 'http://x', token: TOKEN, ...part };
  expect(() => createClient(options)).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  expect(() => createClient(options)).toThrow(name);
  expect(() => createClient(options)).not.toThrow(TOKEN);
});
