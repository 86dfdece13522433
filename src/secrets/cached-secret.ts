/** A cache for functions that fetch a secret from a secret manager. */
import { describeThrown } from '../core/errors.js';
import { log } from '../core/log.js';
import { func, integer, readOptions, required, withMethods } from '../core/options.js';
import type { Logger } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, timeLimit, toRuntime } from '../core/runtime.js';
import type { SecretFunction, Secrets } from '../core/signature.js';
import { copySecrets, type SecretRequest } from '../receiver/secret.js';
import { Lru } from './lru.js';

/** Options of {@link cachedSecret}. */
export interface CachedSecretOptions {
  /** After how long a secret is fetched again, in ms. A new secret is in use after this time. */
  readonly ttlMs: number;
  /** How long after `ttlMs` the old secret is used while fetches fail (stale-if-error), in ms. @default 3_600_000 */
  readonly maxStaleMs?: number | undefined;
  /** After how long a fetch counts as failed, in ms. A late answer is ignored. @default 5_000 */
  readonly timeoutMs?: number | undefined;
  /**
   * How many secrets are kept, and separately how many unknown or failed keys, both by LRU. It is also the maximum number
   * of simultaneous fetches for keys without a cached secret.
   *
   * @default 1_000
   */
  readonly maxEntries?: number | undefined;
  /** Receives a line when a cached secret cannot be fetched again, and another when it can. @default console */
  readonly logger?: Logger | undefined;
  /** Time and timers, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Options of {@link cachedSecret} for several secrets. */
export interface KeyedSecretOptions extends CachedSecretOptions {
  /**
   * The key of the secret that a request needs, or `null` for an unknown sender, as is every key of more than 512
   * characters. The request is not verified. Return `null` for everything that cannot be a key, because every other key is looked up.
   */
  readonly key: (request: SecretRequest) => string | null;
}

type Fetched = Secrets | null | Promise<Secrets | null>;

/** The time from the start of a failed call to the next call of its key, in ms. */
const RETRY_MS = 1_000;
/** How long a key without a secret stays unknown, in ms, if `ttlMs` is not shorter. */
const NEGATIVE_TTL_MS = 10_000;
/** A longer key is unknown: senders can make up keys of any length. */
const MAX_KEY_LENGTH = 512;

interface Known {
  readonly secrets: Secrets;
  /** When the fetch began: the answer is at least as new. */
  readonly askedAt: number;
  readonly isFailing: boolean;
}

/** The last fetch of a key found no secret, or failed. */
interface Miss {
  readonly askedAt: number;
  readonly lifetimeMs: number;
  readonly answer: () => Promise<null>;
}

/**
 * Caches the secrets that a function fetches from a secret manager, for the `secret` of a receiver.
 *
 * A secret older than `ttlMs` is fetched again before the delivery is verified (single-flight: one fetch per key). If the
 * fetch fails, the old secret is used for `maxStaleMs` more, a line is logged, and later deliveries do not wait for
 * fetches until one succeeds. After `maxStaleMs` deliveries are answered 503. A key without a secret is looked up again
 * after 10 s, and a failed fetch is repeated after 1 s.
 *
 * Without `key` there is one secret. With `key`, the function receives only the key of the request, so no sender can
 * cause a secret to be cached for another sender.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or wrong. The returned function rejects when
 * nothing is cached and the fetch fails.
 *
 * @example
 * ```ts
 * const secret = cachedSecret((tenant) => fetchSecret(`webhook/${tenant}`), {
 *   ttlMs: 60_000,
 *   // Without the list of tenants, each made-up key is a fetch.
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
    key: func(),
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    runtime: RUNTIME,
  });
  const { key: keyOf, ttlMs, maxStaleMs, timeoutMs, maxEntries, logger } = checked;
  const runtime = toRuntime(checked.runtime);
  // Separate, so made-up keys evict no secret.
  const known = new Lru<Known>(maxEntries);
  const misses = new Lru<Miss>(maxEntries);
  const calls = new Map<string, Promise<Secrets | null>>();

  /** A clock that is set back must not extend the life of an answer. */
  const ageOf = ({ askedAt }: { readonly askedAt: number }) => {
    const age = runtime.now() - askedAt;
    return age < 0 ? Number.POSITIVE_INFINITY : age;
  };

  function get(key: string): Fetched {
    const cached = known.get(key);
    if (cached !== undefined && ageOf(cached) < ttlMs) return cached.secrets;
    const answer = fetchOnce(key);
    if (cached === undefined || ageOf(cached) >= ttlMs + maxStaleMs) return answer;
    const answerOrStale = answer.catch(() => cached.secrets);
    return cached.isFailing ? cached.secrets : answerOrStale;
  }

  /** Joins the running fetch of the key, or starts one. */
  function fetchOnce(key: string): Promise<Secrets | null> {
    const running = calls.get(key);
    if (running !== undefined) return running;
    const miss = misses.get(key);
    if (miss !== undefined && ageOf(miss) < miss.lifetimeMs) return miss.answer();
    if (calls.size >= maxEntries && known.get(key) === undefined) {
      const fix = 'Return null from `key` for unknown senders.';
      return Promise.reject(new Error(`cachedSecret: ${maxEntries} calls are running. ${fix}`));
    }
    const call = fetchInTime(key, runtime.now()).finally(() => calls.delete(key));
    calls.set(key, call);
    return call;
  }

  async function fetchInTime(key: string, askedAt: number): Promise<Secrets | null> {
    const cached = known.get(key);
    try {
      const answer = Promise.resolve(key).then(fetchSecret).then(toCopy);
      const onTimeUp = () => {
        throw new Error(`cachedSecret: the function did not answer within ${timeoutMs} ms.`);
      };
      const secrets = await timeLimit(answer, timeoutMs, onTimeUp, runtime);
      if (cached?.isFailing) log(logger, 'warn', 'cachedSecret: a secret could be fetched again.');
      if (secrets === null) {
        known.delete(key);
        const lifetimeMs = Math.min(ttlMs, NEGATIVE_TTL_MS);
        misses.set(key, { askedAt, lifetimeMs, answer: async () => null });
      } else {
        misses.delete(key);
        known.set(key, { secrets, askedAt, isFailing: false });
      }
      return secrets;
    } catch (error) {
      if (cached?.isFailing === false) {
        known.set(key, { ...cached, isFailing: true });
        const text = `a secret could not be fetched again. The cached one is used for ${maxStaleMs} ms after its ttlMs.`;
        log(logger, 'error', `cachedSecret: ${text} ${describeThrown(error)}`);
      }
      misses.set(key, { askedAt, lifetimeMs: RETRY_MS, answer: () => Promise.reject(error) });
      throw error;
    }
  }

  return (request) => {
    const key = keyOf === undefined ? '' : keyOf(request);
    return key === null || key.length > MAX_KEY_LENGTH ? null : get(key);
  };
}

const toCopy = (secrets: Secrets | null) => (secrets === null ? null : copySecrets(secrets));
