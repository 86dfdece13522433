import { SandboxError } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';
import { startSandbox } from './sandbox-server.js';

const wallet = {
  agentId: 'agent',
  chain: 'solana',
  limits: { perTx: '5', daily: '9' },
  allowlist: ['shop'],
} as const;

test('every operation of the control API works over HTTP', async () => {
  const { ask, sandbox } = await startSandbox({ clock: 'manual', movementMs: 1000 });
  const { id } = sandbox.wallets.create(wallet);
  const endpoint = await ask('/sandbox/endpoints', { json: { url: 'http://127.0.0.1:1/', secret: 'whsec' } });
  expect(endpoint).toMatchObject({ status: 201, json: { encoding: 'hex' } });
  expect(endpoint.text).not.toContain('whsec');
  const sent = await ask(`/sandbox/wallets/${id}/sends`, { json: { amount: '2.5', to: 'shop' } });
  expect(sent).toMatchObject({ status: 201, json: { kind: 'transfer', state: 'pending', walletId: id } });
  expect((await ask(`/sandbox/wallets/${id}`)).json).toMatchObject({ spentToday: '2.5' });
  const { json: clock } = await ask('/sandbox/clock/advance', { json: { ms: 1000 } });
  expect(clock).toEqual({ mode: 'manual', now: '2026-01-01T00:00:01.000Z' });
  expect((await ask('/sandbox/movements')).json).toMatchObject([{ state: 'settled' }]);
  expect((await ask('/sandbox/settled', { method: 'POST' })).status).toBe(204);
  expect((await ask('/sandbox/deliveries?state=exhausted')).json).toMatchObject([{ attempts: 8 }]);
  const [event] = sandbox.events();
  const attempts = await ask(`/sandbox/attempts?event=${event?.id}&limit=3`);
  expect(attempts.json).toMatchObject([{ number: 6 }, { number: 7 }, { number: 8, response: null }]);
  expect((await ask(`/sandbox/events/${event?.id}/redeliver`, { method: 'POST' })).status).toBe(202);
  const [added] = sandbox.endpoints.list();
  const rotated = await ask(`/sandbox/endpoints/${added?.id}/secret`, { json: { secret: 'new' } });
  expect(rotated.status).toBe(200);
  expect((await ask(`/sandbox/endpoints/${added?.id}`, { method: 'DELETE' })).status).toBe(204);
  expect((await ask(`/sandbox/endpoints/${added?.id}`, { method: 'DELETE' })).status).toBe(404);
  expect((await ask('/sandbox/reset', { method: 'POST' })).status).toBe(204);
  expect((await ask('/sandbox/events')).json).toEqual([]);
  expect((await ask('/sandbox/wallets')).json).toEqual([]);
});

test('a completed redemption is returned as redeem.failed once, at its time or on request', async () => {
  const { ask, sandbox } = await startSandbox({ clock: 'manual' });
  const { id } = sandbox.redeem({ returnsAfterMs: 3_600_000 });
  await sandbox.settled();
  expect(sandbox.events().map(({ type }) => type)).toEqual(['redeem.completed']);
  await sandbox.clock.advance(3_600_000);
  expect(sandbox.events()).toMatchObject([
    { type: 'redeem.failed', payload: { redeem_id: id, reason: 'bank' } },
    { type: 'redeem.completed', payload: { redeem_id: id } },
  ]);
  const again = await ask(`/sandbox/redemptions/${id}/return`, { method: 'POST' });
  expect(again).toMatchObject({ status: 409, json: { code: 'ERR_SANDBOX_STATE' } });
  const other = sandbox.redeem({ returnsAfterMs: 1000 });
  expect(sandbox.returnRedemption(other.id)).toMatchObject({ state: 'failed', reason: 'bank' });
  await sandbox.clock.advance(1000);
  expect(sandbox.events({ type: 'redeem.failed' })).toHaveLength(2);
});

test.each([
  ['/sandbox/accepts', { amount: '-1' }, 'amount'],
  ['/sandbox/accepts', { chain: 'dogecoin' }, 'chain'],
  ['/sandbox/transfers', { failsWith: 'weather' }, 'failsWith'],
  ['/sandbox/redemptions', { amount: 5 }, 'amount'],
  ['/sandbox/events', { payload: {} }, 'type'],
  ['/sandbox/endpoints', {}, 'url'],
  ['/sandbox/endpoints', { url: 'ftp://host/' }, 'url'],
  ['/sandbox/clock/advance', { ms: -1 }, 'ms'],
])('%s answers 400, names the wrong field and changes nothing', async (path, json, field) => {
  const { ask, sandbox } = await startSandbox();
  expect(await ask(path, { json })).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  expect([sandbox.events(), sandbox.movements(), sandbox.endpoints.list()]).toEqual([[], [], []]);
});

test.each([Number.MAX_SAFE_INTEGER, Number.NaN, -1, 0.5])(
  'a clock refuses to advance by %d and keeps its time',
  async (ms) => {
    const { ask, sandbox } = await startSandbox({ clock: 'manual' });
    const before = sandbox.clock.now();
    await expect(sandbox.clock.advance(ms)).rejects.toThrow(SandboxError);
    expect((await ask('/sandbox/clock/advance', { json: { ms } })).status).toBe(400);
    expect(sandbox.clock.now()).toBe(before);
    expect(sandbox.emit('accept.confirmed').created_at).toBe(new Date(before).toISOString());
  },
);

test('advancing the real clock runs the retries that become due', async () => {
  let answers = 0;
  const fetch = () => new Response(null, { status: ++answers < 3 ? 500 : 200 });
  const { sandbox } = await startSandbox({ endpoints: [{ fetch }], retryBaseMs: 60_000 });
  sandbox.emit('accept.confirmed');
  await sandbox.clock.advance(300_000);
  await sandbox.settled();
  expect(answers).toBe(3);
  expect(sandbox.clock.now()).toBeGreaterThan(Date.now() + 200_000);
});

test('an attempt that a reset aborts before it is sent never arrives', async () => {
  let arrivals = 0;
  const fetch = () => {
    arrivals += 1;
    return new Response();
  };
  const { sandbox } = await startSandbox({ endpoints: [{ fetch }] });
  sandbox.emit('accept.confirmed');
  sandbox.reset();
  sandbox.emit('transfer.settled');
  await sandbox.settled();
  expect(arrivals).toBe(1);
});

test('a reset forgets attempts under way and gives the same ids again', async () => {
  const release: (() => void)[] = [];
  const fetch = () => new Promise<Response>((resolve) => release.push(() => resolve(new Response())));
  const { sandbox } = await startSandbox({ clock: 'manual', settleTimeoutMs: 10, endpoints: [{ fetch }] });
  const before = sandbox.emit('accept.confirmed');
  await sandbox.clock.advance(0);
  sandbox.reset();
  for (const answer of release) answer();
  await sandbox.settled();
  expect([sandbox.attempts(), sandbox.deliveries(), sandbox.events()]).toEqual([[], [], []]);
  expect(sandbox.emit('accept.confirmed')).toEqual(before);
});

test('the sandbox listens on loopback and reports a port that is in use', async () => {
  const { url, sandbox } = await startSandbox();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  await expect(sandbox.listen(Number(new URL(url).port))).rejects.toThrow(/no other process uses the port/);
  await expect(sandbox.listen(99_999)).rejects.toThrow(/from 0 to 65535/);
});

test('a field named __proto__ of a payload is delivered and listed as any other', async () => {
  const bodies: string[] = [];
  const endpoint = async (request: Request) => {
    bodies.push(await request.text());
    return new Response();
  };
  const { ask, sandbox } = await startSandbox({ endpoints: [{ fetch: endpoint }] });
  const payload = '{"__proto__":{"a":1},"items":[{"__proto__":"x"}]}';
  const body = `{"type":"transfer.settled","payload":${payload}}`;
  const fired = await ask('/sandbox/events', { body, headers: { 'content-type': 'application/json' } });
  expect(fired.status).toBe(201);
  expect(fired.text).toContain(`"payload":${payload}`);
  await sandbox.settled();
  expect(bodies).toEqual([expect.stringContaining(`"payload":${payload}`)]);
  expect((await ask('/v1/webhooks/events')).text).toContain(`"payload":${payload}`);
});

test('a payload with a number that JSON cannot hold is refused, because it would arrive as null', async () => {
  const { ask, sandbox } = await startSandbox();
  const refused = await ask('/sandbox/events', {
    body: '{"type":"transfer.settled","payload":{"items":[1e999]}}',
    headers: { 'content-type': 'application/json' },
  });
  const detail = 'must not contain NaN or a number that is too large for JavaScript';
  expect(refused).toMatchObject({ status: 400, json: { errors: [{ field: 'payload', detail }] } });
  expect(() => sandbox.emit('transfer.settled', { amount: Number.NaN })).toThrow(detail);
  expect(sandbox.events()).toEqual([]);
});
