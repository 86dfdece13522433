/** Faults of the API and of the list, set at creation, in process and over HTTP while running. */
import { ConfigError } from 'stablehooks';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';
import { startSandbox } from './sandbox-server.js';

const wallet = { agentId: 'agent', chain: 'base', limits: { perTx: '1', daily: '1' } } as const;

test('429 with Retry-After, 500 and a slow answer change nothing that they should not', async () => {
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

test('a malformed answer is cut JSON, and what was asked has happened', async () => {
  const { ask, sandbox } = await startSandbox({ faults: { apiMalformed: { next: 1 } } });
  const { status, headers, text } = await ask('/v1/wallets', { json: wallet });
  expect(status).toBe(201);
  expect(headers.get('content-type')).toMatch(/json/);
  expect(() => JSON.parse(text)).toThrow();
  expect(sandbox.wallets.list()).toHaveLength(1);
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

test('the list is newest first, oldest first or shuffled, and the limit cuts in that order', async () => {
  const { list, sandbox } = await listedBy('limit=3', {});
  expect(await list()).toEqual([99, 98, 97]);
  sandbox.faults.set({ listOrder: 'oldest' });
  expect(await list()).toEqual([0, 1, 2]);
  sandbox.faults.set({ listOrder: 'shuffled' });
  const shuffled = await list();
  expect(new Set(shuffled).size).toBe(3);
  expect(await list()).not.toEqual(shuffled);
});

test('a shuffled list without a cut holds every event once', async () => {
  const { list } = await listedBy('limit=1000', { faults: { listOrder: 'shuffled' } });
  const places = await list();
  expect(places.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(places).not.toEqual(places.toSorted((a, b) => a - b));
});

test('a cap is silent, whatever the limit', async () => {
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

test('a lie turns the listed flag round, and leaves the truth alone', async () => {
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
  ['dropp', { dropp: 1 }],
])('refuses a fault that is not one, naming %s, and keeps the others', async (field, json) => {
  const { ask, sandbox } = await startSandbox({ faults: { duplicate: 0.5 } });
  const before = sandbox.faults.get();
  const answer = await ask('/sandbox/faults', { method: 'PATCH', json });
  expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  expect(sandbox.faults.get()).toEqual(before);
});

test('at creation a wrong fault or option says which one it is', () => {
  for (const [options, name] of [
    [{ faults: { drop: 2 } }, /drop/],
    [{ endpoints: [{}] }, /url/],
    [{ endpoints: [{ url: 'http://user:hush@127.0.0.1/' }] }, /url/],
    [{ token: 'two words' }, /token/],
  ] as const) {
    expect(() => createSandbox(options)).toThrow(ConfigError);
    expect(() => createSandbox(options)).toThrow(name);
    expect(() => createSandbox(options)).not.toThrow(/hush/);
  }
  expect(() => createSandbox({ timeoutMs: -1 })).toThrow(/timeoutMs/);
  expect(() => createSandbox({ movementMs: Number.MAX_SAFE_INTEGER })).toThrow(/movementMs/);
});

test('a reset makes the fate of requests the same again', async () => {
  const { ask, sandbox } = await startSandbox({ faults: { apiServerError: 0.5 } });
  const fates = async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 12; n++) statuses.push((await ask('/v1/webhooks/events')).status);
    return statuses;
  };
  const before = await fates();
  expect(new Set(before)).toEqual(new Set([200, 500]));
  sandbox.reset();
  expect(await fates()).toEqual(before);
});

test('holds 100,000 events, and pages them in every order', () => {
  const sandbox = createSandbox();
  for (let n = 0; n < 100_000; n++) sandbox.emit('transfer.settled', { amount: '1.00' });
  for (const order of ['newest', 'oldest', 'shuffled'] as const) {
    expect(sandbox.events({ order, limit: 1000, type: 'transfer.settled' })).toHaveLength(1000);
  }
});
