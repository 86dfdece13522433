/** A cache for functions that fetch a secret from a secret manager. */
import { describeThrown } from '../core/errors.js';
import { log } from '../core/log.js';
import { func, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Logger } from '../core/ports.js';
import { orTimeout, RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { SecretFunction, Secrets } from '../core/signature.js';
import { copySecrets, type SecretRequest } from '../receiver/secret.js';
import { Lru } from './lru.js';

/** Options of {@link cachedSecret}. */
export interface CachedSecretOptions {
  /** After how long a secret is fetched again, in ms. A new secret works after it. */
  readonly ttlMs: number;
  /** How long after `ttlMs` the old secret is used while calls fail (stale-if-error), in ms. @default 3_600_000 */
  readonly maxStaleMs?: number | undefined;
  /** After how long a call counts as failed, in ms. Its late answer is ignored. @default 5_000 */
  readonly timeoutMs?: number | undefined;
  /**
   * How many secrets are kept, and how many other keys as unknown or failed, each by LRU. As many calls can run at the
   * same time for keys without a cached secret.
   *
   * @default 1_000
   */
  readonly maxEntries?: number | undefined;
  /** Receives a line when a cached secret cannot be fetched again, and one when it can. @default console */
  readonly logger?: Logger | undefined;
  /** Time and timers, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Options of {@link cachedSecret} for several secrets. */
export interface KeyedSecretOptions extends CachedSecretOptions {
  /**
   * The key of the secret that a request needs: at most 512 characters, or `null` for an unknown sender. The request is
   * not verified: return `null` for everything that cannot be a key, because each other key is looked up.
   */
  readonly key: (request: SecretRequest) => string | null;
}

type Fetched = Secrets | null | Promise<Secrets | null>;

/** The time from the start of a failed call to the next call of its key, in ms. */
const RETRY_MS = 1_000;
/** How long a key without a secret stays unknown, in ms, if `ttlMs` is not shorter. */
const NEGATIVE_TTL_MS = 10_000;
const MAX_KEY_LENGTH = 512;
const ONLY_KEY = '';

interface Known {
  readonly secrets: Secrets;
  /** When the call began: the answer is at least as new. */
  readonly askedAt: number;
  readonly isFailing: boolean;
}

/** The last call of a key found no secret, or failed. */
interface Miss {
  readonly askedAt: number;
  readonly lifetimeMs: number;
  readonly answer: () => Promise<null>;
}

/**
 * Caches what a function fetches from a secret manager, for the `secret` of a receiver.
 *
 * A secret older than `ttlMs` is fetched again before the delivery is verified (single-flight: one call per key). If the
 * call fails, the old secret is used for `maxStaleMs` more and a line is logged; later deliveries do not wait for calls
 * until one succeeds. After `maxStaleMs` deliveries are answered 503. A key without a secret is asked for again after
 * 10 s, a failed call repeated after 1 s.
 *
 * Without `key`, there is one secret. With it, the function receives the key and nothing else of the request, so no
 * sender can have a secret cached for another one.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or wrong, or the function takes a key
 * and there is no `key`. The returned function rejects when nothing is cached and the call fails.
 *
 * @example
 * ```ts
 * const secret = cachedSecret((tenant) => fetchSecret(`webhook/${tenant}`), {
 *   ttlMs: 60_000,
 *   // Without the list of tenants, each made-up key is a call.
 *   key: ({ path }) => tenants.find((tenant) => path === `/hooks/${tenant}`) ?? null,
 * });
 * ```
 */
export function cachedSecret(
  fetchSecret: (key: string) => Fetched,
  options: KeyedSecretOptions,
): SecretFunction<[request: SecretRequest]>;
/** Caches one secret: `cachedSecret(() => fetchSecret('webhook'), { ttlMs: 60_000 })`. */
export function cachedSecret(fetchSecret: () => Fetched, options: CachedSecretOptions): SecretFunction;
export function cachedSecret(
  fetchSecret: (key: string) => Fetched,
  options: CachedSecretOptions & Partial<KeyedSecretOptions>,
): SecretFunction<[request: SecretRequest]> {
  readOptions('cachedSecret', { fetchSecret }, { fetchSecret: required(func()) });
  const checked = readOptions('cachedSecret', options, {
    ttlMs: required(integer()),
    maxStaleMs: integer({ default: 3_600_000, min: 0 }),
    timeoutMs: integer({ default: 5_000 }),
    maxEntries: integer({ default: 1_000 }),
    key: {
      ...rule(
        'a function that returns the key of a request, for the function that fetches its secret',
        (value) => typeof value === 'function',
      ),
      required: fetchSecret.length > 0,
    },
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    runtime: RUNTIME,
  });
  const { key: keyOf, ttlMs, maxStaleMs, timeoutMs, maxEntries, logger } = checked;
  const runtime = toRuntime(checked.runtime);
  // Apart, so that made-up keys evict no secret.
  const known = new Lru<Known>(maxEntries);
  const misses = new Lru<Miss>(maxEntries);
  const calls = new Map<string, Promise<Secrets | null>>();

  /** A clock that was set back must not keep an answer for longer. */
  const ageOf = ({ askedAt }: { readonly askedAt: number }) => {
    const age = runtime.now() - askedAt;
    return age < 0 ? Number.POSITIVE_INFINITY : age;
  };

  function get(key: string): Fetched {
    const cached = known.get(key);
    if (cached === undefined) return fetchOnce(key);
    if (ageOf(cached) < ttlMs) return cached.secrets;
    const answer = fetchOnce(key);
    if (ageOf(cached) >= ttlMs + maxStaleMs) return answer;
    const answerOrStale = answer.catch(() => cached.secrets);
    return cached.isFailing ? cached.secrets : answerOrStale;
  }

  /** Joins the call that runs for the key, or starts one. */
  function fetchOnce(key: string): Promise<Secrets | null> {
    const running = calls.get(key);
    if (running !== undefined) return running;
    const miss = misses.get(key);
    if (miss !== undefined && ageOf(miss) < miss.lifetimeMs) return miss.answer();
    if (calls.size >= maxEntries && known.get(key) === undefined) {
      const fix = 'Return null from `key` for unknown senders.';
      return Promise.reject(new Error(`cachedSecret: ${maxEntries} calls are running. ${fix}`));
    }
    const askedAt = runtime.now();
    const answer = Promise.resolve(key).then(fetchSecret).then(toCopy);
    const call = orTimeout(answer, {
      runtime,
      ms: timeoutMs,
      toError: () => new Error(`cachedSecret: the function did not answer within ${timeoutMs} ms.`),
    })
      .then(
        (secrets) => keep(key, secrets, askedAt),
        (error: unknown) => fail(key, error, askedAt),
      )
      .finally(() => calls.delete(key));
    calls.set(key, call);
    return call;
  }

  function keep(key: string, secrets: Secrets | null, askedAt: number): Secrets | null {
    if (known.get(key)?.isFailing) log(logger, 'warn', 'cachedSecret: a secret could be fetched again.');
    if (secrets === null) {
      known.delete(key);
      misses.set(key, { askedAt, lifetimeMs: Math.min(ttlMs, NEGATIVE_TTL_MS), answer: async () => null });
    } else {
      misses.delete(key);
      known.set(key, { secrets, askedAt, isFailing: false });
    }
    return secrets;
  }

  function fail(key: string, error: unknown, askedAt: number): never {
    const cached = known.get(key);
    if (cached?.isFailing === false) {
      known.set(key, { ...cached, isFailing: true });
      const text = `a secret could not be fetched again. The cached one is used for ${maxStaleMs} ms after its ttlMs.`;
      log(logger, 'error', `cachedSecret: ${text} ${describeThrown(error)}`);
    }
    misses.set(key, { askedAt, lifetimeMs: RETRY_MS, answer: () => Promise.reject(error) });
    throw error;
  }

  return (request) => {
    const key = keyOf === undefined ? ONLY_KEY : checkKey(keyOf(request));
    return key === null ? null : get(key);
  };
}

function checkKey(key: string | null): string | null {
  if (key === null || (typeof key === 'string' && key.length <= MAX_KEY_LENGTH)) return key;
  throw new Error(
    `\`key\` of cachedSecret must return null or a string of at most ${MAX_KEY_LENGTH} characters. Return null for an unknown sender.`,
  );
}

const toCopy = (secrets: Secrets | null) => (secrets === null ? null : copySecrets(secrets));
