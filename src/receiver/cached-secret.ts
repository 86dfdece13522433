/** A cache for functions that fetch a secret from a secret manager. */

import { describeThrown } from '../core/errors.js';
import { func, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Logger } from '../core/ports.js';
import { RUNTIME, type Runtime, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { SecretFunction, Secrets } from '../core/signature.js';
import { log } from '../core/log.js';
import { copySecrets, type SecretRequest } from './secret.js';

/** Options of {@link cachedSecret}. */
export interface CachedSecretOptions {
  /** After how long a secret is fetched again, in ms. Until it is there, the old one is used. */
  readonly ttlMs: number;
  /** How long after `ttlMs` the old secret is used while it cannot be fetched again, in ms. @default 3_600_000 */
  readonly maxStaleMs?: number | undefined;
  /**
   * How old an answer of the function can be when it refuses a delivery, in ms: a signature that does not match, or a
   * key without a secret. An older answer is fetched again first, and the delivery waits for it. So this is how soon a
   * new secret works without `ttlMs`, and how often forged deliveries can have a key fetched: but once a second while its
   * calls fail.
   *
   * @default 10_000
   */
  readonly recheckMs?: number | undefined;
  /** How long a call is waited for, in ms: after it, another delivery can start the next one. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /**
   * For how many keys secrets are kept, and for as many other keys that there is none. Those that were not asked for
   * longest are forgotten.
   *
   * @default 1_000
   */
  readonly maxEntries?: number | undefined;
  /**
   * How many calls can be made at once for keys without a cached secret, because a sender can make up keys, and how many
   * in each minute after: so up to twice as many in the first minute of a burst. Above it the deliveries of all of them
   * are answered 503. Keys with a cached secret do not count.
   *
   * @default 600
   */
  readonly maxLookupsPerMinute?: number | undefined;
  /** Takes a line when a secret cannot be fetched again, and one when it can. @default console */
  readonly logger?: Logger | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Options of {@link cachedSecret} for several secrets. */
export interface KeyedSecretOptions extends CachedSecretOptions {
  /**
   * Says of a request whose secret it needs: at most 512 characters, or `null` if the sender is not known. The request
   * is not verified: refuse what cannot be a key here, because each other key is looked up.
   */
  readonly key: (request: SecretRequest) => string | null;
}

/** What a function that fetches secrets gives: `null` if there is none. */
type Fetched = Secrets | null | Promise<Secrets | null>;

/** The pause after a call that failed, in ms: until then its error is the answer if there is no secret. */
const RETRY_MS = 1_000;

/** What one key can take of the memory. */
const MAX_KEY_LENGTH = 512;

/** The key of a function that gives one secret. */
const ONLY_KEY = '';

/**
 * Caches what a function fetches from a secret manager, for the `secret` of a receiver.
 *
 * After `ttlMs` the next delivery starts one call and does not wait for it. If that fails, the cached secret is used
 * for `maxStaleMs` more, and a line is logged; then deliveries are answered 503. No delivery is refused by an answer
 * that is older than `recheckMs`, or than `timeoutMs` if a call takes that long. Of each key, one call runs at a time;
 * after a failed one there is a pause of a second. It starts no timers.
 *
 * Without `key`, there is one secret. With it, the function gets the key and nothing else of the request, so that no
 * sender can have a secret cached for another one.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or wrong, or the function takes a key
 * and there is no `key`. What it returns rejects when nothing is cached and the call fails.
 *
 * @example
 * ```ts
 * const secret = cachedSecret((tenant) => fetchSecret(`webhook/${tenant}`), {
 *   ttlMs: 300_000,
 *   // Without the list of tenants, forged deliveries with made-up keys use up maxLookupsPerMinute.
 *   key: ({ path }) => tenants.find((tenant) => path === `/hooks/${tenant}`) ?? null,
 * });
 * ```
 */
export function cachedSecret(
  fetchSecret: (key: string) => Fetched,
  options: KeyedSecretOptions,
): SecretFunction<[request: SecretRequest]>;
/**
 * Caches one secret.
 *
 * @example
 * ```ts
 * createReceiver({ secret: cachedSecret(() => fetchSecret('webhook'), { ttlMs: 300_000 }), handlers });
 * ```
 */
export function cachedSecret(fetchSecret: () => Fetched, options: CachedSecretOptions): SecretFunction;
export function cachedSecret(
  fetchSecret: (key: string) => Fetched,
  options: CachedSecretOptions & Partial<KeyedSecretOptions>,
): SecretFunction<[request: SecretRequest]> {
  readOptions('cachedSecret', { fetchSecret }, { fetchSecret: required(func()) });
  const { key: keyOf, ...settings } = readOptions('cachedSecret', options, {
    ttlMs: required(integer()),
    maxStaleMs: integer({ default: 3_600_000, min: 0 }),
    recheckMs: integer({ default: 10_000 }),
    timeoutMs: integer({ default: 10_000 }),
    maxEntries: integer({ default: 1_000 }),
    maxLookupsPerMinute: integer({ default: 600 }),
    // A function that takes a key would get none.
    key: {
      ...rule(
        'a function that gives the key of a request, for the function that fetches its secret',
        (value) => typeof value === 'function',
      ),
      required: fetchSecret.length > 0,
    },
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    runtime: RUNTIME,
  });
  const cache = createCache(fetchSecret, { ...settings, runtime: toRuntime(settings.runtime) });
  const toKey = (request: SecretRequest) => (keyOf === undefined ? ONLY_KEY : checkKey(keyOf(request)));
  return Object.assign(
    (request: SecretRequest) => {
      const key = toKey(request);
      return key === null ? null : cache.get(key);
    },
    {
      recheck(tried: Secrets, request: SecretRequest) {
        const key = toKey(request);
        return key === null ? null : cache.recheck(key, tried);
      },
    },
  );
}

function checkKey(key: string | null): string | null {
  if (key === null || (typeof key === 'string' && key.length <= MAX_KEY_LENGTH)) return key;
  throw new Error(
    `\`key\` of cachedSecret must give null or a string of at most ${MAX_KEY_LENGTH} characters. Give null for a sender that is not known.`,
  );
}

/** What the last call that succeeded gave for a key. */
interface Entry {
  /** `null`: the key has no secret. */
  readonly secrets: Secrets | null;
  /** When the call began: what it gave is at least as new. */
  readonly askedAt: number;
  /** The number of the call: one that began before does not replace what it gave. */
  readonly order: number;
}

/** A call that runs. */
interface Call {
  readonly startedAt: number;
  readonly answer: Promise<Secrets | null>;
}

/** The last call of a key failed. */
interface Failure {
  readonly at: number;
  readonly error: unknown;
}

type CacheSettings = Required<{
  readonly [Name in Exclude<keyof CachedSecretOptions, 'logger' | 'runtime'>]: number;
}> & { readonly logger: Logger; readonly runtime: Runtime };

function createCache(fetchSecret: (key: string) => Fetched, settings: CacheSettings) {
  const { ttlMs, maxStaleMs, recheckMs, timeoutMs, maxEntries, maxLookupsPerMinute, logger } = settings;
  const { now } = settings.runtime;
  // Apart, so that keys that a sender makes up push out no secret.
  const known = new Map<string, Entry>();
  const absent = new Map<string, Entry>();
  const failures = new Map<string, Failure>();
  const calls = new Map<string, Call>();
  let lookups = maxLookupsPerMinute;
  let countedAt = now();
  let started = 0;

  /** A clock that was set back must not keep a secret for longer. */
  const ageOf = (since: number) => {
    const age = now() - since;
    return age < 0 ? Number.POSITIVE_INFINITY : age;
  };

  function get(key: string): Fetched {
    const entry = touch(known, key);
    if (entry === undefined) return getAbsent(key);
    const age = ageOf(entry.askedAt);
    if (age < ttlMs) return entry.secrets;
    if (age >= ttlMs + maxStaleMs) return fetchAgain(key);
    // Refreshed without anybody who waits: a failure is logged, and the next delivery after the pause tries again.
    fetchAgain(key).catch(() => undefined);
    return entry.secrets;
  }

  function getAbsent(key: string): Fetched {
    const entry = touch(absent, key);
    return entry !== undefined && ageOf(entry.askedAt) < recheckMs ? null : fetchAgain(key);
  }

  function recheck(key: string, tried: Secrets): Secrets | null | undefined | Promise<Secrets | null> {
    const entry = known.get(key);
    if (entry === undefined) return getAbsent(key);
    if (entry.secrets !== tried) return entry.secrets;
    return ageOf(entry.askedAt) < recheckMs ? undefined : fetchAgain(key);
  }

  /** Joins the call that runs, or starts one; rejects with the last failure during the pause after it. */
  function fetchAgain(key: string): Promise<Secrets | null> {
    for (const [each, { startedAt }] of calls) {
      // They are in the order of their start.
      if (ageOf(startedAt) < timeoutMs) break;
      calls.delete(each);
      fail(
        each,
        new Error(`The function given to cachedSecret did not answer within ${timeoutMs} ms.`),
        startedAt,
      );
    }
    const running = calls.get(key);
    if (running !== undefined) return running.answer;
    const failure = failures.get(key);
    if (failure !== undefined && ageOf(failure.at) < RETRY_MS) return Promise.reject(failure.error);
    if (!known.has(key) && !takeLookup()) {
      return Promise.reject(
        new Error(
          `More than ${maxLookupsPerMinute} keys without a cached secret were asked for in a minute. Raise maxLookupsPerMinute, or let \`key\` give null for senders that are not known.`,
        ),
      );
    }
    const call: Call = { startedAt: now(), answer: run(key, () => calls.get(key) === call) };
    calls.set(key, call);
    return call.answer;
  }

  /** Calls the function. An answer that comes late is kept unless a later call has answered. */
  async function run(key: string, isCurrent: () => boolean): Promise<Secrets | null> {
    const askedAt = now();
    started += 1;
    const order = started;
    // The caller registers the call first.
    await undefined;
    try {
      const given = await fetchSecret(key);
      const secrets = given === null ? null : copySecrets(given);
      if (order > ((known.get(key) ?? absent.get(key))?.order ?? 0)) keep(key, { secrets, askedAt, order });
      return secrets;
    } catch (error) {
      if (isCurrent()) fail(key, error, askedAt);
      throw error;
    } finally {
      if (isCurrent()) calls.delete(key);
    }
  }

  function keep(key: string, entry: Entry): void {
    const [to, from] = entry.secrets === null ? [absent, known] : [known, absent];
    from.delete(key);
    put(to, key, entry);
    if (failures.delete(key) && entry.secrets !== null) {
      log(logger, 'warn', 'cachedSecret: a secret that could not be fetched was fetched again.');
    }
  }

  /** A call fails after `timeoutMs` at the latest: also if the process was frozen, and the pause after it is over. */
  function fail(key: string, error: unknown, startedAt: number): void {
    if (known.has(key) && !failures.has(key)) {
      log(
        logger,
        'error',
        `cachedSecret: a secret could not be fetched again. The cached one is used for ${maxStaleMs} ms after its ttlMs. ${describeThrown(error)}`,
      );
    }
    put(failures, key, { at: Math.min(now(), startedAt + timeoutMs), error });
  }

  function put<Value>(map: Map<string, Value>, key: string, value: Value): void {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.keys();
    if (map.size > maxEntries && oldest !== undefined) map.delete(oldest);
  }

  /** A token bucket: it holds those of a minute, and fills evenly. */
  function takeLookup(): boolean {
    const gained = (ageOf(countedAt) / 60_000) * maxLookupsPerMinute;
    lookups = Math.min(maxLookupsPerMinute, lookups + gained);
    countedAt = now();
    if (lookups < 1) return false;
    lookups -= 1;
    return true;
  }

  return { get, recheck };
}

/** The entry of a key, which becomes the last to be forgotten. */
function touch(map: Map<string, Entry>, key: string): Entry | undefined {
  const entry = map.get(key);
  if (entry !== undefined && map.size > 1) {
    map.delete(key);
    map.set(key, entry);
  }
  return entry;
}
