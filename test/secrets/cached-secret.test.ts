import { cachedSecret, createReceiver, type Secrets, sign } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { anEvent, bytesOf, deferred, delivery } from '../receiver/delivery.js';

const TTL_MS = 60_000;
const DOWN = new Error('manager down');

/** Runs everything that waits for nothing from outside. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

const requestTo = (path: string) => ({ path, query: new URLSearchParams(), headers: { get: () => null } });

/** A secret manager with these answers, after which each call hangs until the test answers it. */
function setUp(answers: readonly unknown[], options: Partial<Parameters<typeof cachedSecret>[1]> = {}) {
  const left = [...answers];
  const asked: string[] = [];
  const hanging: ((answer: Secrets) => void)[] = [];
  const lines: string[] = [];
  let time = 1_800_000_000_000;
  const timers = new Map<object, { readonly at: number; readonly callback: () => void }>();
  const fetchSecret = (key: string) => {
    asked.push(key);
    if (left.length === 0) {
      const { promise, resolve } = deferred<Secrets>();
      hanging.push(resolve);
      return promise;
    }
    const answer = left.shift();
    if (answer instanceof Error) throw answer;
    return answer as Secrets | null;
  };
  const settings = {
    ttlMs: TTL_MS,
    logger: {
      warn: (line: string) => void lines.push(`warn ${line}`),
      error: (line: string) => void lines.push(`error ${line}`),
    },
    runtime: {
      now: () => time,
      setTimeout(callback: () => void, ms: number) {
        const timer = {};
        timers.set(timer, { at: time + ms, callback });
        return timer;
      },
      clearTimeout: (timer: unknown) => void timers.delete(timer as object),
    },
    ...options,
  };
  const keyed = cachedSecret(fetchSecret, { ...settings, key: ({ path }) => path || null });
  return {
    ...{ asked, hanging, lines, settings },
    single: cachedSecret(() => fetchSecret(''), settings),
    byPath: async (path: string) => keyed(requestTo(path)),
    async advance(ms: number) {
      time += ms;
      for (const { at, callback } of timers.values()) if (at <= time) callback();
      await settled();
    },
  };
}

describe('one secret', () => {
  test('is fetched once until its ttlMs is over, including by calls at the same time', async () => {
    const { advance, asked, single } = setUp(['s1']);
    expect(await Promise.all([single(), single(), single()])).toEqual([['s1'], ['s1'], ['s1']]);
    await advance(TTL_MS - 1);
    expect(single()).toEqual(['s1']);
    expect(asked).toHaveLength(1);
  });

  test('is fetched again after ttlMs before it is used, so a new secret works then', async () => {
    const { advance, asked, single } = setUp(['s1', ['s2', 's1']]);
    await single();
    await advance(TTL_MS);
    expect(await Promise.all([single(), single()])).toEqual([
      ['s2', 's1'],
      ['s2', 's1'],
    ]);
    expect(asked).toHaveLength(2);
  });

  test('is used for maxStaleMs more while calls fail, with one call per second and one line in the log', async () => {
    const { advance, asked, lines, single } = setUp(['s1', DOWN, DOWN, DOWN, 's2'], { maxStaleMs: 2_000 });
    await single();
    await advance(TTL_MS);
    for (const calls of [2, 2, 3, 3]) {
      expect(await single()).toEqual(['s1']);
      expect(asked).toHaveLength(calls);
      await advance(500);
    }
    expect(lines).toEqual([expect.stringMatching(/^error stablehooks: cachedSecret: .*manager down/s)]);
    await expect(single()).rejects.toThrow('manager down');
    await advance(1_000);
    expect(await single()).toEqual(['s2']);
    expect(lines[1]).toBe('warn stablehooks: cachedSecret: a secret could be fetched again.');
  });

  test.each([
    ['an empty string', ''],
    ['a string that ends with a newline', 's2\n'],
    ['undefined', undefined],
    ['an empty list', []],
    ['an object', { SecretString: 's2' }],
  ])('stays when the function returns %s in its place', async (_name, answer) => {
    const { advance, lines, single } = setUp(['s1', answer]);
    await single();
    await advance(TTL_MS);
    expect(await single()).toEqual(['s1']);
    expect(lines).toEqual([expect.stringContaining('must be a string that is not empty')]);
  });

  test('is copied if it is bytes', async () => {
    const bytes = bytesOf('s1');
    const { single } = setUp([[bytes]]);
    await single();
    bytes.fill(0);
    expect(single()).toEqual([bytesOf('s1')]);
  });

  test('that is fetched by a hanging call is shared until timeoutMs, then used as it was without a wait', async () => {
    const { advance, asked, hanging, lines, single } = setUp(['s1'], { timeoutMs: 2_000 });
    await single();
    await advance(TTL_MS);
    const waiting = Array.from({ length: 50 }, () => single());
    await advance(2_000);
    expect(new Set((await Promise.all(waiting)).flat())).toEqual(new Set(['s1']));
    expect(lines).toEqual([expect.stringContaining('did not answer within 2000 ms')]);
    expect(single()).toEqual(['s1']);
    await settled();
    expect(asked).toHaveLength(3);
    hanging[1]?.('s3');
    await settled();
    hanging[0]?.('s2');
    await settled();
    expect(single()).toEqual(['s3']);
  });

  test('that was never fetched fails with the error of the call, and is asked for again a second after it began', async () => {
    const { advance, asked, single } = setUp([DOWN], { timeoutMs: 2_000 });
    await expect(single()).rejects.toThrow('manager down');
    await expect(single()).rejects.toThrow('manager down');
    expect(asked).toHaveLength(1);
    await advance(1_000);
    const hung = expect(single()).rejects.toThrow('did not answer within 2000 ms');
    await advance(3 * 3_600_000);
    await hung;
    void single();
    await settled();
    expect(asked).toHaveLength(3);
  });

  test('is not kept for longer because the clock was set back', async () => {
    const { advance, single } = setUp(['s1', 's2']);
    await single();
    await advance(-86_400_000);
    expect(await single()).toEqual(['s2']);
  });
});

describe('secrets by key', () => {
  test('are cached apart, under names of Object.prototype as well', async () => {
    const { asked, byPath } = setUp(['a', 'b']);
    const given = [await byPath('__proto__'), await byPath('/b'), await byPath('__proto__')];
    expect(given).toEqual([['a'], ['b'], ['a']]);
    expect(asked).toEqual(['__proto__', '/b']);
  });

  test('a request without a key has no secret, and causes no call', async () => {
    const { asked, byPath } = setUp([]);
    expect(await byPath('')).toBeNull();
    expect(asked).toEqual([]);
  });

  test('a key without a secret is asked for again after 10 s, so a new tenant works soon', async () => {
    const { advance, asked, byPath } = setUp([null, null, 'a']);
    for (const calls of [1, 1, 2, 2]) {
      expect(await byPath('/a')).toBeNull();
      expect(asked).toHaveLength(calls);
      await advance(5_000);
    }
    expect(await byPath('/a')).toEqual(['a']);
  });

  test('a secret that was removed is refused after ttlMs', async () => {
    const { advance, byPath } = setUp(['a', null]);
    await byPath('/a');
    await advance(TTL_MS);
    expect(await byPath('/a')).toBeNull();
    expect(await byPath('/a')).toBeNull();
  });

  test('made-up keys evict no secret, and at most maxEntries of their answers are kept', async () => {
    const made = Array.from({ length: 8 }, (_, n) => `/made-up-${n}`);
    const { asked, byPath } = setUp(['a', ...made.map(() => null), null, null], { maxEntries: 2 });
    await byPath('/a');
    for (const path of made) expect(await byPath(path)).toBeNull();
    expect(await byPath('/a')).toEqual(['a']);
    expect(asked).toHaveLength(9);
    await byPath('/made-up-7');
    expect(asked).toHaveLength(9);
    await byPath('/made-up-0');
    expect(asked).toHaveLength(10);
  });

  test('made-up keys have at most maxEntries calls running, which a cached secret does not wait for', async () => {
    const { advance, asked, byPath, hanging } = setUp(['a'], { maxEntries: 2 });
    await byPath('/a');
    const flood = Promise.allSettled(['/x', '/y', '/z'].map(byPath));
    await advance(TTL_MS);
    expect((await flood).map((result) => String(result.status === 'rejected' && result.reason))).toEqual([
      expect.stringContaining('did not answer within 5000 ms'),
      expect.stringContaining('did not answer within 5000 ms'),
      expect.stringContaining('2 calls are running'),
    ]);
    const again = ['/x', '/y', '/a'].map(byPath);
    await settled();
    expect(asked.slice(-3)).toEqual(['/x', '/y', '/a']);
    for (const answer of hanging) answer('s');
    expect(await Promise.all(again)).toEqual([['s'], ['s'], ['s']]);
  });

  test('the least recently used secret is evicted above maxEntries', async () => {
    const { asked, byPath } = setUp(['a', 'b', 'c', 'b'], { maxEntries: 2 });
    for (const path of ['/a', '/b', '/a', '/c', '/a', '/b']) await byPath(path);
    expect(asked).toEqual(['/a', '/b', '/c', '/b']);
  });

  test('a key of more than 512 characters is that of an unknown sender', async () => {
    const { asked, byPath } = setUp(['a']);
    expect(await byPath('k'.repeat(513))).toBeNull();
    expect(asked).toEqual([]);
    expect(await byPath('k'.repeat(512))).toEqual(['a']);
  });
});

test('a receiver verifies with the secret of the tenant, with a new one after ttlMs, and refuses unknown tenants', async () => {
  const store = new Map([['a', 's1']]);
  const { advance, settings } = setUp([]);
  const receiver = createReceiver({
    secret: cachedSecret(async (tenant) => store.get(tenant) ?? null, {
      ...settings,
      key: ({ path }) => /^\/hooks\/([a-z]+)$/.exec(path)?.[1] ?? null,
    }),
    handlers: { 'transfer.settled': () => undefined },
    logger: { warn: () => undefined, error: () => undefined },
  });
  const deliver = async (url: string, secret: string) => {
    const event = anEvent();
    const signature = await sign(bytesOf(event), { secret });
    const request = await delivery(event, { headers: { 'X-SERVICE-Signature': signature } });
    const { kind, error } = await receiver.receive({ ...request, url });
    return error?.code ?? kind;
  };

  expect(await deliver('/hooks/a', 's1')).toBe('handled');
  store.set('a', 's2');
  expect(await deliver('/hooks/a', 's2')).toBe('ERR_SIGNATURE_MISMATCH');
  await advance(TTL_MS);
  expect(await deliver('/hooks/a', 's2')).toBe('handled');
  expect(await deliver('/hooks/a', 's1')).toBe('ERR_SIGNATURE_MISMATCH');
  for (const path of ['/hooks/b', '/hooks/B2']) {
    expect(await deliver(path, 's1')).toBe('ERR_SECRET_UNKNOWN');
  }
});
