import { ConfigError } from 'stablehooks';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';
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

test('a shuffled list that no limit cuts holds every event once', async () => {
  const { list } = await listedBy('limit=1000', { faults: { listOrder: 'shuffled' } });
  const places = await list();
  expect(places.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n));
  expect(places).not.toEqual(places.toSorted((a, b) => a - b));
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
  ['dropp', { dropp: 1 }],
])('an invalid fault is refused by its name, %s, and the others stay', async (field, json) => {
  const { ask, sandbox } = await startSandbox({ faults: { duplicate: 0.5 } });
  const before = sandbox.faults.get();
  const answer = await ask('/sandbox/faults', { method: 'PATCH', json });
  expect(answer).toMatchObject({ status: 400, json: { errors: [{ field }] } });
  expect(sandbox.faults.get()).toEqual(before);
});

test('createSandbox refuses an invalid fault, endpoint or option by its name', () => {
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

test('createSandbox and the control API refuse an unknown name with the nearest valid name', async () => {
  const unknown = (options: object) => () => createSandbox(options);
  expect(unknown({ timoutMs: 1 })).toThrow(
    'createSandbox: unknown option `timoutMs`. Did you mean `timeoutMs`?',
  );
  expect(unknown({ maxEvents: 10, keepEverything: true })).toThrow(
    /^createSandbox: unknown option `keepEverything`. Valid names: token, secret, seed, /,
  );
  expect(unknown({ faults: { dropp: 1 } })).toThrow('`faults.dropp` is unknown. Did you mean `drop`?');
  expect(unknown({ endpoints: [{ uri: 'http://127.0.0.1/' }] })).toThrow(
    '`endpoints.0.uri` is unknown. Did you mean `url`?',
  );
  const { ask } = await startSandbox();
  const { json } = await ask('/sandbox/redemptions', { json: { bnak: 'typo', foo: 1 } });
  expect(json).toMatchObject({
    errors: [{ field: 'bnak', detail: 'is unknown. Did you mean `bank`?' }, { field: 'foo' }],
  });
});

test('an option that is undefined has its default', () => {
  const sandbox = createSandbox({ token: undefined, faults: { drop: undefined }, endpoints: undefined });
  expect(sandbox.token).toBe('sandbox-token');
  expect(sandbox.faults.get().drop).toBe(0);
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

test('100,000 events are kept and listed in every order', () => {
  const sandbox = createSandbox();
  for (let n = 0; n < 100_000; n++) sandbox.emit('transfer.settled', { amount: '1.00' });
  for (const order of ['newest', 'oldest', 'shuffled'] as const) {
    expect(sandbox.events({ order, limit: 1000, type: 'transfer.settled' })).toHaveLength(1000);
  }
});
