import { createReceiver, EVENT_TYPES } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test } from 'vitest';
import { startSandbox } from './sandbox-server.js';

const wallet = { agentId: 'agent', chain: 'base', limits: { perTx: '1', daily: '1' } } as const;

test('a request that is answered 429, 500 or late has no effect before its 2xx answer', async () => {
  const { ask, sandbox } = await startSandbox({
    faults: { apiTooManyRequests: { next: 1 }, apiRetryAfterMs: 1500 },
  });
  const busy = await ask('/v1/wallets', { json: wallet });
  expect(busy.status).toBe(429);
  expect(busy.headers.get('retry-after')).toBe('2');
  await ask('/sandbox/faults', { method: 'PATCH', json: { apiServerError: { next: 1 } } });
  expect((await ask('/v1/wallets', { json: wallet })).status).toBe(500);
  expect(sandbox.wallets.list()).toEqual([]);
  sandbox.faults.set({ apiSlow: { next: 1 }, apiSlowMs: 60_000 });
  const slow = ask('/v1/wallets', { json: wallet });
  await expect.poll(() => sandbox.faults.get().apiSlow).toEqual({ next: 0 });
  expect(sandbox.wallets.list()).toEqual([]);
  await sandbox.clock.advance(60_000);
  expect((await slow).status).toBe(201);
});

test('a malformed response is half of the JSON, and the request took effect', async () => {
  const { ask, sandbox } = await startSandbox({ faults: { apiMalformed: { next: 1 } } });
  const { status, headers, text } = await ask('/v1/wallets', { json: wallet });
  expect(status).toBe(201);
  expect(headers.get('content-type')).toMatch(/json/);
  expect(() => JSON.parse(text)).toThrow();
  expect(sandbox.wallets.list()).toHaveLength(1);
});

test('a reset connection of the API leaves the effect of the request, and the client reports the connection', async () => {
  const { sandbox, url } = await startSandbox({ faults: { apiReset: { next: 1 } } });
  const client = createClient({ baseUrl: url, token: sandbox.token, retries: 0 });
  const created = client.wallets.create({ ...wallet, allowlist: [] });
  await expect(created).rejects.toMatchObject({ code: 'ERR_API_CONNECTION' });
  expect(sandbox.wallets.list()).toHaveLength(1);
  expect(await client.events.list()).toEqual([]);
  sandbox.faults.set({ apiReset: { next: 1 } });
  await expect(client.events.list()).rejects.toMatchObject({ code: 'ERR_API_CONNECTION' });
});

test('an expired token is answered 401 under /v1 only, until it is renewed or the fault is cleared', async () => {
  const { ask, sandbox } = await startSandbox({ clock: 'manual', faults: { tokenExpiryMs: 1000 } });
  const status = async () => (await ask('/v1/webhooks/events')).status;
  await sandbox.clock.advance(999);
  expect(await status()).toBe(200);
  await sandbox.clock.advance(1);
  const expired = await ask('/v1/wallets', { json: wallet });
  expect(expired).toMatchObject({ status: 401, json: { code: 'ERR_SANDBOX_TOKEN' } });
  expect(sandbox.wallets.list()).toEqual([]);
  expect((await ask('/sandbox/token/renew', { method: 'POST' })).status).toBe(204);
  expect(await status()).toBe(200);
  await sandbox.clock.advance(1000);
  expect(await status()).toBe(401);
  sandbox.faults.clear();
  expect(await status()).toBe(200);
});

async function pollerOf({ sandbox, url }: Awaited<ReturnType<typeof startSandbox>>) {
  const handled: string[] = [];
  const handler = (event: { readonly id: string }) => void handled.push(event.id);
  const logger = { warn: () => undefined, error: () => undefined };
  const receiver = createReceiver({
    secret: sandbox.secret,
    logger,
    onOutcome: () => undefined,
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, handler])),
  });
  const client = createClient({ baseUrl: url, token: sandbox.token, retries: 0 });
  const { now } = sandbox.clock;
  const poller = createPoller({
    client,
    receiver,
    logger,
    runtime: { now },
    since: new Date(now()),
    lagMs: 1000,
    onReport: () => {},
  });
  onTestFinished(() => poller.stop());
  return { poller, handled };
}

test('a list with duplicate rows has no more rows than its limit, and a poller handles each event once', async () => {
  const server = await startSandbox({ clock: 'manual', faults: { listDuplicate: 0.5 } });
  const { ask, sandbox } = server;
  const { poller, handled } = await pollerOf(server);
  const ids = Array.from({ length: 20 }, () => sandbox.emit('accept.confirmed').id);
  const rows = async (limit: number) => {
    const { json } = await ask(`/v1/webhooks/events?limit=${limit}`);
    return (Array.isArray(json) ? json : []).map(({ id }) => String(id));
  };
  const all = await rows(100);
  expect(all.length).toBeGreaterThan(20);
  expect(all.length).toBeLessThan(40);
  expect(new Set(all)).toEqual(new Set(ids));
  expect(await rows(10)).toHaveLength(10);
  await sandbox.clock.advance(5000);
  await poller.pollOnce();
  expect(handled.toSorted()).toEqual(ids.toSorted());
});

test('a list that is filtered after it was cut lacks older events of the type', async () => {
  const { sandbox, url } = await startSandbox({ faults: { listFilterAfterCap: true } });
  const client = createClient({ baseUrl: url, token: sandbox.token, retries: 0 });
  const { id } = sandbox.emit('accept.confirmed');
  for (let n = 0; n < 5; n++) sandbox.emit('transfer.settled');
  expect(await client.events.list({ type: 'accept.confirmed', limit: 5 })).toEqual([]);
  expect(await client.events.list({ type: 'accept.confirmed', limit: 6 })).toMatchObject([{ id }]);
  sandbox.faults.clear();
  expect(await client.events.list({ type: 'accept.confirmed', limit: 1 })).toMatchObject([{ id }]);
});

async function listedBy(query: string, options: Parameters<typeof startSandbox>[0]) {
  const { ask, sandbox } = await startSandbox(options);
  const ids = Array.from({ length: 100 }, () => sandbox.emit('accept.confirmed').id);
  const list = async () => {
    const { json } = await ask(`/v1/webhooks/events?${query}`);
    return Array.isArray(json) ? json.map(({ id }) => ids.indexOf(id)) : [];
  };
  return { list, sandbox };
}

test('the list is newest first, oldest first or shuffled, and the limit applies in that order', async () => {
  const { list, sandbox } = await listedBy('limit=3', {});
  expect(await list()).toEqual([99, 98, 97]);
  sandbox.faults.set({ listOrder: 'oldest' });
  expect(await list()).toEqual([0, 1, 2]);
  sandbox.faults.set({ listOrder: 'shuffled' });
  const shuffled = await list();
  expect(new Set(shuffled).size).toBe(3);
  expect(await list()).not.toEqual(shuffled);
});

test('a list cap applies whatever the limit', async () => {
  const { list } = await listedBy('limit=80', { faults: { listCap: 60 } });
  expect(await list()).toHaveLength(60);
});

test('an event is listed only after the lag', async () => {
  const { list, sandbox } = await listedBy('', { clock: 'manual', faults: { listLagMs: 5000 } });
  expect(await list()).toEqual([]);
  expect(sandbox.events()).toHaveLength(100);
  await sandbox.clock.advance(5000);
  expect(await list()).toHaveLength(50);
});

test('listWrongDelivered inverts the listed flag and not the recorded one', async () => {
  const { ask, sandbox } = await startSandbox({ faults: { listWrongDelivered: 1 } });
  sandbox.emit('accept.confirmed');
  expect((await ask('/v1/webhooks/events')).json).toMatchObject([{ delivered: true }]);
  expect(sandbox.events()).toMatchObject([{ delivered: false }]);
});

test.each([
  ['drop', { drop: 1.5 }],
  ['drop.next', { drop: { next: -1 } }],
  ['listCap', { listCap: 0 }],
  ['listOrder', { listOrder: 'random' }],
  ['delayMs', { delayMs: -5 }],
  ['listLagMs', { listLagMs: Number.MAX_SAFE_INTEGER }],
  ['dateSkewMs', { dateSkewMs: -Number.MAX_SAFE_INTEGER }],
  ['tokenExpiryMs', { tokenExpiryMs: -1 }],
  ['listFilterAfterCap', { listFilterAfterCap: 1 }],
  ['dropp', { dropp: 1 }],
])('an invalid fault is refused by its name, %s, and the others stay', async (field, json) => {
  const { ask, sandbox } = await startSandbox({ faults: { duplicate: 0.5 } });
  const before = sandbox.faults.get();
  const answer = await ask('/sandbox/faults', { method: 'PATCH', json });
  expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  expect(sandbox.faults.get()).toEqual(before);
});

test('createSandbox and the control API refuse an unknown name with the valid names', async () => {
  const unknown = (options: object) => () => createSandbox(options);
  expect(unknown({ faults: { dropp: 1 } })).toThrow(/`faults\.dropp` is unknown\. Valid names: .*\bdrop\b/);
  expect(unknown({ endpoints: [{ uri: 'http://127.0.0.1/' }] })).toThrow(
    /`endpoints\.0\.uri` is unknown\. Valid names: .*\burl\b/,
  );
  const { ask } = await startSandbox();
  const { json } = await ask('/sandbox/redemptions', { json: { bnak: 'typo', foo: 1 } });
  expect(json).toMatchObject({
    errors: [{ field: 'bnak', detail: expect.stringMatching(/Valid names: .*\bbank\b/) }, { field: 'foo' }],
  });
});

test('the same requests get the same faults again after a reset', async () => {
  const { ask, sandbox } = await startSandbox({ faults: { apiServerError: 0.5 } });
  const askAll = async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push((await ask('/v1/webhooks/events')).status);
    return statuses;
  };
  const before = await askAll();
  expect(new Set(before)).toEqual(new Set([200, 500]));
  sandbox.reset();
  expect(await askAll()).toEqual(before);
});
