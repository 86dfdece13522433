import fc from 'fast-check';
import {
  type CachedSecretOptions,
  cachedSecret,
  createReceiver,
  type SecretRequest,
  type Secrets,
  sign,
  verifySignature,
} from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { anEvent, bytesOf, deferred, delivery } from './delivery.js';

const TTL_MS = 60_000;
const START_MS = 1_800_000_000_000;

/** A clock that only the test moves. */
function aClock() {
  let time = START_MS;
  return {
    now: () => time,
    advance: (ms: number) => {
      time += ms;
    },
  };
}

/** Lets everything run that waits for nothing from outside. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A secret manager: each call waits for the test, unless `answers` has what it gives. */
function aManager(...answers: unknown[]) {
  const waiting: { readonly key: string; answer(given: Secrets | null): void; fail(error: Error): void }[] =
    [];
  const asked: string[] = [];
  const fetchSecret = async (key: string): Promise<Secrets | null> => {
    asked.push(key);
    if (answers.length > 0) {
      const next = answers.shift();
      if (next instanceof Error) throw next;
      return next as Secrets | null;
    }
    const { promise, resolve } = deferred<() => Secrets | null>();
    waiting.push({
      key,
      answer: (given) => resolve(() => given),
      fail: (error) =>
        resolve(() => {
          throw error;
        }),
    });
    return (await promise)();
  };
  return { fetchSecret, waiting, asked };
}

function setUp(answers: readonly unknown[], options: Partial<CachedSecretOptions> = {}) {
  const clock = aClock();
  const manager = aManager(...answers);
  const lines: string[] = [];
  const logger = {
    warn: (line: string) => void lines.push(`warn ${line}`),
    error: (line: string) => void lines.push(`error ${line}`),
  };
  const settings = { ttlMs: TTL_MS, logger, runtime: { now: clock.now }, ...options };
  const single = cachedSecret(() => manager.fetchSecret(''), settings);
  const keyed = cachedSecret(manager.fetchSecret, { ...settings, key: ({ path }) => path || null });
  const byPath = async (path: string) => keyed(requestTo(path));
  return { clock, manager, lines, single, keyed, byPath };
}

function requestTo(path: string): SecretRequest {
  return { path, query: new URLSearchParams(), headers: { get: () => null } };
}

describe('one secret', () => {
  test('is fetched once until its ttlMs is over, also by calls at the same time', async () => {
    const { clock, manager, single } = setUp(['s1']);
    expect(await Promise.all([single(), single(), single()])).toEqual([['s1'], ['s1'], ['s1']]);
    clock.advance(TTL_MS - 1);
    expect(single()).toEqual(['s1']);
    expect(manager.asked).toHaveLength(1);
  });

  test('is given without a wait while one call fetches it again', async () => {
    const { clock, manager, single } = setUp(['s1']);
    await single();
    clock.advance(TTL_MS);
    expect([single(), single()]).toEqual([['s1'], ['s1']]);
    await settled();
    expect(single()).toEqual(['s1']);
    expect(manager.asked).toHaveLength(2);
    manager.waiting[0]?.answer('s2');
    await settled();
    expect(single()).toEqual(['s2']);
    expect(manager.asked).toHaveLength(2);
  });

  test('is given for maxStaleMs more while it cannot be fetched, with one call in a second and one line in the log', async () => {
    const down = new Error('manager down');
    const { clock, manager, lines, single } = setUp(['s1', down, down, down, 's2'], { maxStaleMs: 5_000 });
    await single();
    clock.advance(TTL_MS);
    for (const expected of [2, 2, 3]) {
      expect(single()).toEqual(['s1']);
      await settled();
      expect(manager.asked).toHaveLength(expected);
      clock.advance(500);
    }
    expect(lines).toEqual([expect.stringMatching(/^error stablehooks: cachedSecret: .*manager down/s)]);
    clock.advance(4_000);
    await expect(single()).rejects.toThrow('manager down');
    await expect(single()).rejects.toThrow('manager down');
    expect(manager.asked).toHaveLength(4);
    clock.advance(1_000);
    expect(await single()).toEqual(['s2']);
    expect(lines[1]).toBe(
      'warn stablehooks: cachedSecret: a secret that could not be fetched was fetched again.',
    );
  });

  test('that is older than maxStaleMs is waited for, and never given', async () => {
    const { clock, manager, single } = setUp(['s1'], { maxStaleMs: 0 });
    await single();
    clock.advance(TTL_MS);
    const answer = single();
    expect(answer).toBeInstanceOf(Promise);
    await settled();
    manager.waiting[0]?.answer('s2');
    expect(await answer).toEqual(['s2']);
  });

  test.each([
    ['an empty string', ''],
    ['a string that ends with a newline', 's2\n'],
    ['undefined', undefined],
    ['an empty list', []],
    ['an object', { SecretString: 's2' }],
  ])('stays when the function gives %s in its place', async (_name, given) => {
    const { clock, lines, single } = setUp(['s1', given]);
    await single();
    clock.advance(TTL_MS);
    single();
    await settled();
    expect(single()).toEqual(['s1']);
    expect(lines).toEqual([expect.stringContaining('must be a string that is not empty')]);
  });

  test('that is given as bytes is copied', async () => {
    const bytes = bytesOf('s1');
    const { single } = setUp([[bytes]]);
    await single();
    bytes.fill(0);
    expect(single()).toEqual([bytesOf('s1')]);
  });

  test('is fetched again by a later call when a call has hung for timeoutMs, and the late answer replaces nothing newer', async () => {
    const { clock, manager, lines, single } = setUp(['s1'], { timeoutMs: 2_000 });
    await single();
    clock.advance(TTL_MS);
    single();
    await settled();
    clock.advance(2_000);
    expect(single()).toEqual(['s1']);
    expect(lines).toEqual([expect.stringContaining('did not answer within 2000 ms')]);
    clock.advance(1_000);
    single();
    await settled();
    manager.waiting[1]?.answer('s3');
    await settled();
    manager.waiting[0]?.answer('s2');
    await settled();
    expect(single()).toEqual(['s3']);
  });

  test('is fetched by the first call after a process was frozen for hours with a call that never ends', async () => {
    const { clock, manager, single } = setUp([], { timeoutMs: 2_000 });
    void single();
    await settled();
    clock.advance(2_000);
    await expect(single()).rejects.toThrow('did not answer within 2000 ms');
    clock.advance(1_000);
    void single();
    await settled();
    clock.advance(3 * 3_600_000);
    const answer = single();
    await settled();
    expect(manager.asked).toHaveLength(3);
    manager.waiting[2]?.answer('s1');
    expect(await answer).toEqual(['s1']);
  });

  test('is fetched by the first call after a process was frozen for hours with a call that then fails', async () => {
    const { clock, manager, single } = setUp([], { timeoutMs: 2_000 });
    const frozen = single();
    await settled();
    clock.advance(3 * 3_600_000);
    manager.waiting[0]?.fail(new Error('socket hang up'));
    await expect(frozen).rejects.toThrow('socket hang up');
    const answer = single();
    await settled();
    expect(manager.asked).toHaveLength(2);
    manager.waiting[1]?.answer('s1');
    expect(await answer).toEqual(['s1']);
  });

  test('is not kept for longer because the clock was set back', async () => {
    const { clock, single } = setUp(['s1', 's2']);
    await single();
    clock.advance(-86_400_000);
    expect(await single()).toEqual(['s2']);
  });

  test('that a synchronous function throws for rejects, and the next call after a second asks again', async () => {
    const clock = aClock();
    let calls = 0;
    const secret = cachedSecret(
      () => {
        calls += 1;
        throw new Error('no file');
      },
      { ttlMs: TTL_MS, runtime: { now: clock.now } },
    );
    await expect(secret()).rejects.toThrow('no file');
    await expect(secret()).rejects.toThrow('no file');
    expect(calls).toBe(1);
    clock.advance(1_000);
    await expect(secret()).rejects.toThrow('no file');
    expect(calls).toBe(2);
  });
});

describe('a secret that was replaced', () => {
  const body = bytesOf('{"id":"evt_1"}');
  const verify = async (secret: ReturnType<typeof setUp>['single'], signedBy: string) => {
    try {
      return (await verifySignature(body, await sign(body, { secret: signedBy }), { secret })).secretIndex;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };

  test('works before ttlMs: a signature that does not match fetches it again, once in recheckMs', async () => {
    const { clock, manager, single } = setUp(['s1', ['s2', 's1'], ['s3', 's2']]);
    expect(await verify(single, 's1')).toBe(0);
    expect(await verify(single, 's2')).toBe('ERR_SIGNATURE_MISMATCH');
    expect(manager.asked).toHaveLength(1);
    clock.advance(10_000);
    expect(await Promise.all([verify(single, 's2'), verify(single, 's2')])).toEqual([0, 0]);
    expect(await verify(single, 's1')).toBe(1);
    for (let n = 0; n < 50; n++) expect(await verify(single, 'forged')).toBe('ERR_SIGNATURE_MISMATCH');
    expect(manager.asked).toHaveLength(2);
    clock.advance(10_000);
    expect(await verify(single, 'forged')).toBe('ERR_SIGNATURE_MISMATCH');
    expect(manager.asked).toHaveLength(3);
  });

  test('is not refused while the secret manager is down, because the cached secret can be too old', async () => {
    const { clock, single } = setUp(['s1', new Error('down'), ['s2']]);
    await verify(single, 's1');
    clock.advance(10_000);
    expect(await verify(single, 's2')).toBe('ERR_SECRET_UNAVAILABLE');
    expect(await verify(single, 's2')).toBe('ERR_SECRET_UNAVAILABLE');
    expect(await verify(single, 's1')).toBe(0);
    clock.advance(1_000);
    expect(await verify(single, 's2')).toBe(0);
  });

  test('is tried for a delivery that was compared with the old one while it arrived', async () => {
    const { clock, manager, single } = setUp(['s1']);
    const tried = await single();
    clock.advance(TTL_MS);
    single();
    await settled();
    manager.waiting[0]?.answer('s2');
    await settled();
    expect(single.recheck?.(tried ?? [])).toEqual(['s2']);
    expect(manager.asked).toHaveLength(2);
  });

  test('and removed refuses what it signed with ERR_SECRET_UNKNOWN', async () => {
    const { clock, single } = setUp(['s1', null]);
    await verify(single, 's1');
    clock.advance(10_000);
    expect(await verify(single, 'forged')).toBe('ERR_SECRET_UNKNOWN');
    expect(await verify(single, 's1')).toBe('ERR_SECRET_UNKNOWN');
  });
});

describe('secrets by key', () => {
  test('are cached apart, each with one call', async () => {
    const { manager, byPath } = setUp(['a', 'b']);
    expect([await byPath('/a'), await byPath('/b'), await byPath('/a')]).toEqual([['a'], ['b'], ['a']]);
    expect(manager.asked).toEqual(['/a', '/b']);
  });

  test('a request without a key has no secret, and nothing is called for it', async () => {
    const { manager, byPath, keyed } = setUp([]);
    expect(await byPath('')).toBeNull();
    expect(await keyed.recheck?.('tried', requestTo(''))).toBeNull();
    expect(manager.asked).toEqual([]);
  });

  test('a key without a secret is asked for again after recheckMs, so that a new tenant works soon', async () => {
    const { clock, manager, byPath } = setUp([null, null, 'a']);
    for (const expected of [1, 1, 2]) {
      expect(await byPath('/a')).toBeNull();
      expect(manager.asked).toHaveLength(expected);
      clock.advance(5_000);
    }
    clock.advance(5_000);
    expect(await byPath('/a')).toEqual(['a']);
  });

  test('keys that a sender makes up push out no secret, and are called for at most maxLookupsPerMinute times', async () => {
    const none = Array.from({ length: 60 }, () => null);
    const { clock, manager, byPath } = setUp(['a', ...none], { maxEntries: 5, maxLookupsPerMinute: 30 });
    await byPath('/a');
    const answers = await Promise.allSettled(Array.from({ length: 100 }, (_, n) => byPath(`/made-up-${n}`)));
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(29);
    expect(await byPath('/a')).toEqual(['a']);
    expect(manager.asked).toHaveLength(30);
    await expect(byPath('/late')).rejects.toThrow('maxLookupsPerMinute');
    clock.advance(4_000);
    await Promise.allSettled(Array.from({ length: 100 }, (_, n) => byPath(`/more-${n}`)));
    expect(manager.asked).toHaveLength(32);
  });

  test('a cached secret is fetched again while made-up keys use up maxLookupsPerMinute', async () => {
    const { clock, manager, byPath } = setUp(['a', null], { maxLookupsPerMinute: 2 });
    await byPath('/a');
    await byPath('/made-up');
    await expect(byPath('/made-up-2')).rejects.toThrow('maxLookupsPerMinute');
    clock.advance(TTL_MS);
    const madeUp = Promise.allSettled(['/x', '/y', '/z'].map(byPath));
    expect(await byPath('/a')).toEqual(['a']);
    await settled();
    expect(manager.waiting.map(({ key }) => key)).toEqual(['/x', '/y', '/a']);
    for (const { answer } of manager.waiting) answer(null);
    expect((await madeUp).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  });

  test('the secret that was not asked for longest is forgotten above maxEntries', async () => {
    const { manager, byPath } = setUp(['a', 'b', 'c', 'b'], { maxEntries: 2 });
    for (const path of ['/a', '/b', '/a', '/c', '/a', '/b']) await byPath(path);
    expect(manager.asked).toEqual(['/a', '/b', '/c', '/b']);
  });

  test('by default, 1,000 secrets are kept, and 600 keys are called for in a minute', async () => {
    const { clock, manager, byPath } = setUp([null, ...Array.from({ length: 1_400 }, (_, n) => `s${n}`)]);
    for (let n = 0; n < 600; n += 1) await byPath(`/${n}`);
    await expect(byPath('/600')).rejects.toThrow('More than 600 keys');
    clock.advance(TTL_MS - 1_000);
    for (let n = 600; n <= 1_000; n += 1) await byPath(`/${n}`);
    expect(manager.asked).toHaveLength(1_001);
    // The key without a secret is kept apart, so that none was forgotten yet.
    await byPath('/1');
    expect(manager.asked).toHaveLength(1_001);
    await byPath('/1001');
    await byPath('/2');
    expect(manager.asked.slice(1_001)).toEqual(['/1001', '/2']);
  });

  test('a key can have 512 characters', async () => {
    const { manager } = setUp(['a']);
    const secret = cachedSecret(manager.fetchSecret, { ttlMs: TTL_MS, key: () => 'k'.repeat(512) });
    expect(await secret(requestTo('/a'))).toEqual(['a']);
  });

  test.each([
    ['a key of more than 512 characters', 'k'.repeat(513)],
    ['undefined', undefined],
    ['a number', 7],
  ])('%s fails instead of being looked up or taken for an unknown sender', async (_name, key) => {
    const { manager } = setUp([]);
    const secret = cachedSecret(manager.fetchSecret, { ttlMs: TTL_MS, key: () => key as string });
    expect(() => secret(requestTo('/a'))).toThrow('`key` of cachedSecret');
    expect(manager.asked).toEqual([]);
  });

  test('names of Object.prototype are keys like others', async () => {
    const { byPath } = setUp(['p', null]);
    expect([await byPath('__proto__'), await byPath('constructor')]).toEqual([['p'], null]);
  });
});

test('a receiver with cached secrets takes a rotated secret at once, and answers an unknown tenant as a forged delivery', async () => {
  const store = new Map([['a', 's1']]);
  const clock = aClock();
  const receiver = createReceiver({
    secret: cachedSecret(async (tenant) => store.get(tenant) ?? null, {
      ttlMs: TTL_MS,
      key: ({ path }) => /^\/hooks\/([a-z]+)$/.exec(path)?.[1] ?? null,
      runtime: { now: clock.now },
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
  clock.advance(10_000);
  expect(await deliver('/hooks/a', 's2')).toBe('handled');
  expect(await deliver('/hooks/a', 's1')).toBe('ERR_SIGNATURE_MISMATCH');
  expect(await deliver('/hooks/b', 's1')).toBe('ERR_SECRET_UNKNOWN');
  expect(await deliver('/hooks/B2', 's1')).toBe('ERR_SECRET_UNKNOWN');
});

test('a function that takes a key needs `key`, so that it is not called without one', () => {
  const untyped = cachedSecret as (...given: unknown[]) => unknown;
  expect(() => untyped(async (tenant: string) => tenant, { ttlMs: 1 })).toThrow(
    'cachedSecret: `key` must be a function that gives the key of a request',
  );
  expect(() => untyped('whsec_test', { ttlMs: 1 })).toThrow(
    'cachedSecret: `fetchSecret` must be a function.',
  );
});

const TIMEOUT_MS = 3_000;
const RECHECK_MS = 4_000;
const STALE_MS = 20_000;
const LIMIT = 3;

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('ask' as const), key: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('forge' as const), key: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat(15_000) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      call: fc.nat(5),
      how: fc.constantFrom('secret' as const, 'secret' as const, 'none' as const, 'fail' as const),
    }),
  },
);

test('in any order of requests, forged requests, answers and failures, what cachedSecret gives is young enough and its calls are bounded', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
      const clock = aClock();
      interface Running {
        readonly key: string;
        readonly startedAt: number;
        end(how: 'secret' | 'none' | 'fail'): void;
      }
      const calls: Running[] = [];
      /** When each secret, and each null, was asked for. A secret names its key and the time. */
      const nulls = new Map<string, number>();
      const withSecret = new Set<string>();
      let lookups = 0;
      const secret = cachedSecret(
        (key) =>
          new Promise<Secrets | null>((resolve, reject) => {
            if (!withSecret.has(key)) lookups += 1;
            const startedAt = clock.now();
            const young = calls.filter((call) => call.key === key && startedAt - call.startedAt < TIMEOUT_MS);
            expect(young, 'one call of a key runs at a time').toEqual([]);
            const call: Running = {
              key,
              startedAt,
              end(how) {
                calls.splice(calls.indexOf(call), 1);
                if (how === 'fail') return reject(new Error('down'));
                if (how === 'secret') withSecret.add(key);
                if (how === 'none') nulls.set(key, Math.max(startedAt, nulls.get(key) ?? 0));
                resolve(how === 'none' ? null : `${key} ${startedAt}`);
              },
            };
            calls.push(call);
          }),
        {
          ...{ ttlMs: 10_000, maxStaleMs: STALE_MS, recheckMs: RECHECK_MS, timeoutMs: TIMEOUT_MS },
          ...{ maxEntries: 3, maxLookupsPerMinute: LIMIT, runtime: { now: clock.now } },
          key: ({ path }) => path,
          logger: { warn: () => undefined, error: () => undefined },
        },
      );
      const open: Promise<unknown>[] = [];
      /** A secret belongs to its key; how long ago it was asked for is at most `most`. */
      const check = (given: Secrets | null | undefined, path: string, most: number, since: number) => {
        const [key, askedAt] =
          given === null
            ? [path, nulls.get(path)]
            : String(given)
                .split(' ')
                .map((part, at) => (at === 0 ? part : Number(part)));
        expect(key).toBe(path);
        expect(since - Number(askedAt)).toBeLessThan(most);
      };
      for (const each of steps) {
        if (each.do === 'advance') clock.advance(each.ms);
        if (each.do === 'end') calls[each.call % Math.max(1, calls.length)]?.end(each.how);
        if (each.do === 'ask' || each.do === 'forge') {
          const path = `/${each.key}`;
          const since = clock.now();
          const given = secret(requestTo(path));
          if (given instanceof Promise) {
            open.push(given.then((late) => check(late, path, TIMEOUT_MS, since)).catch(ignoreDown));
          } else {
            check(given, path, given === null ? RECHECK_MS : 10_000 + STALE_MS, since);
            const newer =
              given !== null && each.do === 'forge' ? secret.recheck?.(given, requestTo(path)) : null;
            if (newer === undefined) check(given, path, RECHECK_MS, since);
            if (newer instanceof Promise) {
              open.push(newer.then((late) => check(late, path, TIMEOUT_MS, since)).catch(ignoreDown));
            }
          }
        }
        await settled();
        const minutes = (clock.now() - START_MS) / 60_000;
        expect(lookups, 'calls for keys that never had a secret').toBeLessThanOrEqual(LIMIT * (1 + minutes));
      }
      for (const call of [...calls]) call.end('fail');
      await Promise.all(open);
    }),
    { numRuns: 200 },
  );
});

function ignoreDown(error: unknown): void {
  if (!/down|maxLookupsPerMinute|did not answer/.test(String(error))) throw error;
}
