import { createHmac } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { serve } from '../http-server.js';
import { startSandbox } from './sandbox-server.js';

/** The events of the service's description, in its order. */
const EVENT_TYPES = [
  'accept.confirmed',
  'transfer.settled',
  'transfer.failed',
  'redeem.completed',
  'redeem.failed',
];

const wallet = {
  agentId: 'agent-7',
  label: 'Groceries',
  chain: 'tempo',
  limits: { perTx: '10.50', daily: '100' },
  allowlist: ['0xAbC'],
};

describe('POST /v1/wallets', () => {
  test('POST /v1/wallets answers "Wallet created" with a wallet that has the specified fields and no label', async () => {
    const { ask } = await startSandbox();
    const { status, statusText, headers, json } = await ask('/v1/wallets', { json: wallet });
    expect(status).toBe(201);
    expect(statusText).toBe('Wallet created');
    expect(headers.get('content-type')).toMatch(/^application\/json/);
    const { label: _, ...given } = wallet;
    expect(json).toEqual({
      ...given,
      id: expect.any(String),
      address: expect.stringMatching(/^0x[0-9a-f]{40}$/),
      balance: expect.stringMatching(/^\d+(\.\d+)?$/),
    });
  });

  test.each([
    ['chain', { ...wallet, chain: 'arc' }],
    ['chain', { ...wallet, chain: 'dogecoin' }],
    ['agentId', { ...wallet, agentId: 7 }],
    ['agentId', { ...wallet, agentId: undefined }],
    ['label', { ...wallet, label: 7 }],
    ['limits', { ...wallet, limits: undefined }],
    ['limits.perTx', { ...wallet, limits: { perTx: 10, daily: '1' } }],
    ['limits.perTx', { ...wallet, limits: { perTx: '-1', daily: '1' } }],
    ['limits.daily', { ...wallet, limits: { perTx: '1', daily: '1e3' } }],
    ['limits.daily', { ...wallet, limits: { perTx: '1', daily: '' } }],
    ['allowlist', { ...wallet, allowlist: '0xAbC' }],
    ['allowlist.1', { ...wallet, allowlist: ['0xAbC', 5] }],
    ['alowlist', { ...wallet, alowlist: [] }],
    ['limits.dialy', { ...wallet, limits: { ...wallet.limits, dialy: '1' } }],
    ['body', []],
    ['body', null],
  ])('POST /v1/wallets answers 400 to a wrong field %s and creates nothing', async (field, json) => {
    const { ask, sandbox } = await startSandbox();
    const answer = await ask('/v1/wallets', { json });
    expect(answer.status).toBe(400);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.json).toMatchObject({ status: 400, code: 'ERR_SANDBOX_INPUT', errors: [{ field }] });
    expect(sandbox.wallets.list()).toEqual([]);
  });

  test('POST /v1/wallets answers 400 to invalid JSON, 415 to another content type and 413 to a large body', async () => {
    const { ask, sandbox } = await startSandbox({ maxBodyBytes: 1000 });
    const broken = await ask('/v1/wallets', { body: '{"agentId":' });
    expect(broken).toMatchObject({ status: 400, json: { errors: [{ field: 'body' }] } });
    const plain = await ask('/v1/wallets', { json: wallet, headers: { 'content-type': 'text/plain' } });
    expect(plain).toMatchObject({ status: 415, json: { errors: [{ field: 'content-type' }] } });
    const large = await ask('/v1/wallets', { json: { ...wallet, label: 'x'.repeat(1000) } });
    expect(large).toMatchObject({ status: 413, json: { code: 'ERR_SANDBOX_BODY_TOO_LARGE' } });
    expect(sandbox.wallets.list()).toEqual([]);
  });
});

describe('PATCH /v1/wallets/{id}/limits', () => {
  test('PATCH limits answers 200 with the updated wallet, keeps what is left out and replaces the allowlist', async () => {
    const { ask, sandbox } = await startSandbox();
    const created = sandbox.wallets.create({ ...wallet, chain: 'base' });
    const path = `/v1/wallets/${created.id}/limits`;
    const changed = await ask(path, { method: 'PATCH', json: { limits: { daily: '200' } } });
    expect(changed.status).toBe(200);
    expect(changed.headers.get('content-type')).toMatch(/^application\/json/);
    expect(changed.json).toEqual({ ...created, limits: { perTx: '10.50', daily: '200' } });
    const replaced = await ask(path, { method: 'PATCH', json: { allowlist: ['other'] } });
    expect(replaced.json).toMatchObject({ limits: { daily: '200' }, allowlist: ['other'] });
  });

  test('PATCH limits answers 404 for an unknown wallet and 400 for bad input, without a change', async () => {
    const { ask, sandbox } = await startSandbox();
    const unknown = await ask('/v1/wallets/wal_nobody/limits', { method: 'PATCH', json: {} });
    expect(unknown).toMatchObject({ status: 404, json: { code: 'ERR_SANDBOX_NOT_FOUND' } });
    const { id } = sandbox.wallets.create({ ...wallet, chain: 'base' });
    const before = sandbox.wallets.get(id);
    const json = { limits: { perTx: '1', daily: 5 }, allowlist: [] };
    const path = `/v1/wallets/${id}/limits`;
    const bad = await ask(path, { method: 'PATCH', json });
    expect(bad).toMatchObject({ status: 400, json: { errors: [{ field: 'limits.daily' }] } });
    for (const [field, misspelt] of [
      ['alowlist', { limits: { perTx: '1', daily: '2' }, alowlist: ['0xEf'] }],
      ['limits.dialy', { limits: { dialy: '5' } }],
    ]) {
      const answer = await ask(path, { method: 'PATCH', json: misspelt });
      expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
    }
    expect(sandbox.wallets.get(id)).toEqual(before);
  });
});

describe('GET /v1/webhooks/events', () => {
  test('GET events answers 200 with an array of events that have the specified fields', async () => {
    const { ask, sandbox } = await startSandbox();
    expect(await ask('/v1/webhooks/events')).toMatchObject({ status: 200, json: [] });
    sandbox.accept({ amount: '25.00', chain: 'arc' });
    const { json } = await ask('/v1/webhooks/events');
    expect(json).toEqual([
      {
        id: expect.any(String),
        type: 'accept.confirmed',
        delivered: false,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        payload: expect.objectContaining({ amount: '25.00', chain: 'arc' }),
      },
    ]);
  });

  test('GET events carries the Date of the sandbox clock', async () => {
    const { ask } = await startSandbox({ clock: 'manual', startsAt: '2026-03-01T12:00:00.500Z' });
    const { headers } = await ask('/v1/webhooks/events');
    expect(headers.get('date')).toBe('Sun, 01 Mar 2026 12:00:00 GMT');
  });

  test('GET events filters by type and returns 50 events by default', async () => {
    const { ask, sandbox } = await startSandbox();
    for (let n = 0; n < 60; n++) sandbox.emit(n % 2 === 0 ? 'accept.confirmed' : 'redeem.failed');
    const length = async (query: string) => {
      const { json } = await ask(`/v1/webhooks/events${query}`);
      return Array.isArray(json) ? json.length : -1;
    };
    expect(await length('')).toBe(50);
    expect(await length('?limit=60')).toBe(60);
    expect(await length('?limit=1')).toBe(1);
    expect(await length('?type=redeem.failed')).toBe(30);
    expect(await length('?type=redeem.failed&limit=7')).toBe(7);
    expect(await length('?type=never.heard')).toBe(0);
  });

  test.each(['0', '-1', '99999999999', '1e999', 'ten', '1.5', '', '%20'])(
    'GET events answers 400 to the limit "%s"',
    async (limit) => {
      const { ask } = await startSandbox();
      const answer = await ask(`/v1/webhooks/events?limit=${limit}`);
      expect(answer).toMatchObject({ status: 400, json: { errors: [{ field: 'limit' }] } });
    },
  );

  test('GET events shows whether the event was delivered', async () => {
    const { ask, sandbox } = await startSandbox({ endpoints: [{ fetch: () => new Response() }] });
    sandbox.accept();
    await sandbox.settled();
    expect((await ask('/v1/webhooks/events')).json).toMatchObject([{ delivered: true }]);
  });
});

describe('every endpoint', () => {
  const paths = ['/v1/wallets', '/v1/wallets/x/limits', '/v1/webhooks/events', '/sandbox/clock', '/nowhere'];

  test.each(paths)('%s answers 401 without the right bearer token', async (path) => {
    const { ask, sandbox } = await startSandbox();
    for (const authorization of ['', 'Bearer', 'Bearer wrong', `Basic ${sandbox.token}`, sandbox.token]) {
      const { status, headers, text } = await ask(path, { headers: { authorization } });
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toBe('Bearer');
      expect(headers.get('content-type')).toBe('application/problem+json');
      expect(text).not.toContain(sandbox.token);
    }
  });

  test.each([
    ['DELETE', '/v1/wallets', 'POST'],
    ['GET', '/v1/wallets', 'POST'],
    ['POST', '/v1/wallets/x/limits', 'PATCH'],
    ['POST', '/v1/webhooks/events', 'GET, HEAD'],
    ['PUT', '/sandbox/faults', 'GET, HEAD, PATCH, DELETE'],
    // Its answer would be a stream without a reader, which never ends.
    ['HEAD', '/sandbox/stream', 'GET'],
  ])('%s %s is answered 405 with the allowed methods', async (method, path, allowed) => {
    const { ask } = await startSandbox();
    const { status, headers, json } = await ask(path, { method });
    expect(status).toBe(405);
    // HEAD has no body.
    if (method !== 'HEAD') expect(json).toMatchObject({ code: 'ERR_SANDBOX_METHOD' });
    expect(headers.get('allow')).toBe(allowed);
  });

  test('an unknown path is answered 404', async () => {
    const { ask } = await startSandbox();
    expect(await ask('/v2/wallets')).toMatchObject({ status: 404, json: { code: 'ERR_SANDBOX_NOT_FOUND' } });
  });
});

describe('webhooks', () => {
  test('every movement fires its event, signed over the raw body with the secret', async () => {
    const arrived: { readonly signature: string; readonly body: Buffer }[] = [];
    await using server = await serve(async (request, response) => {
      arrived.push({
        signature: String(request.headers['x-service-signature']),
        body: await buffer(request),
      });
      response.end();
    });
    const { ask, sandbox } = await startSandbox({ secret: 'whsec_one' });
    await ask('/sandbox/endpoints', { json: { url: `${server.url}/hooks` } });

    await ask('/sandbox/accepts', { json: { amount: '1.00' } });
    await ask('/sandbox/transfers', { json: { chain: 'arc' } });
    await ask('/sandbox/transfers', { json: { failsWith: 'routing' } });
    await ask('/sandbox/redemptions', { json: {} });
    await ask('/sandbox/redemptions', { json: { failsWith: 'bank' } });
    await sandbox.settled();

    const events = arrived.map(({ body }) => JSON.parse(body.toString()));
    expect(events.map(({ type }) => type).sort()).toEqual([...EVENT_TYPES].sort());
    for (const { signature, body } of arrived) {
      expect(signature).toBe(createHmac('sha256', 'whsec_one').update(body).digest('hex'));
    }
    const listed = (await ask('/v1/webhooks/events')).json;
    expect(listed).toEqual(expect.arrayContaining(events.map((event) => ({ ...event, delivered: true }))));
  });
});

test('the health of the sandbox is answered without a token, and nothing else is', async () => {
  const { url } = await startSandbox();
  const health = await fetch(`${url}/health`);
  expect(health.status).toBe(200);
  expect(await health.json()).toEqual({ status: 'ok' });
  for (const path of ['/', '/health/', '/v1/webhooks/events', '/sandbox/clock']) {
    expect((await fetch(url + path)).status).toBe(401);
  }
});
