/** The options of a client: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import type { ApiError, ConnectionError } from './errors.js';
import { type TokenSource, toToken } from './token.js';

/** What is told before a request is sent again. */
export interface Retry {
  readonly method: string;
  readonly url: string;
  /** Which attempt failed, from 1. */
  readonly attempt: number;
  /** How long until the next one, in ms. */
  readonly waitMs: number;
  readonly error: ApiError | ConnectionError;
}

/** Options of {@link createClient}. */
export interface ClientOptions {
  /** Where the service is: http or https, without credentials, query or fragment. A path is kept. */
  readonly baseUrl: string;
  /** The bearer token, or a function that gives it. */
  readonly token: TokenSource;
  /** How long one attempt may take, its body included, in ms. @default 10_000 */
  readonly timeoutMs?: number;
  /** How often a request is sent again where that is safe; 0 for never. @default 3 */
  readonly retries?: number;
  /** The wait after the first attempt, in ms; doubled after each, a random half taken off. @default 500 */
  readonly baseWaitMs?: number;
  /** The longest wait between attempts, in ms, `Retry-After` included. @default 30_000 */
  readonly maxWaitMs?: number;
  /** The largest answer, in bytes. @default 67_108_864 */
  readonly limitBytes?: number;
  /** What sends requests. @default the platform's fetch */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Told before each retry, for a log; its own failure changes nothing. @default none */
  readonly onRetry?: (retry: Retry) => void | Promise<void>;
}

/** The options, checked and with their defaults. */
export interface ClientRules extends Required<ClientOptions> {}

const MOST_MS = 2 ** 31 - 1;

/** Every option that is a number: the default, and the least and the most it may be. */
const NUMBERS = {
  timeoutMs: { usual: 10_000, least: 1, most: MOST_MS },
  retries: { usual: 3, least: 0, most: 100 },
  baseWaitMs: { usual: 500, least: 0, most: MOST_MS },
  maxWaitMs: { usual: 30_000, least: 0, most: MOST_MS },
  limitBytes: { usual: 67_108_864, least: 1, most: Number.MAX_SAFE_INTEGER },
} as const;

const NAMES = [...Object.keys(NUMBERS), 'baseUrl', 'token', 'fetch', 'onRetry'];

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions(options: ClientOptions): ClientRules {
  if (typeof options !== 'object' || options === null) throw new ConfigError('createClient takes an object.');
  const wrong = Object.keys(options).filter((name) => !NAMES.includes(name));
  if (wrong.length > 0) {
    throw new ConfigError(`createClient does not know ${wrong.join(', ')}. It knows ${NAMES.join(', ')}.`);
  }
  const { token, fetch: send, onRetry = () => undefined } = options;
  if (typeof token !== 'function') toToken(token);
  if (send !== undefined && typeof send !== 'function') throw new ConfigError('fetch must be a function.');
  if (typeof onRetry !== 'function') throw new ConfigError('onRetry must be a function.');
  return {
    baseUrl: readBaseUrl(options.baseUrl),
    token,
    timeoutMs: readNumber('timeoutMs', options.timeoutMs),
    retries: readNumber('retries', options.retries),
    baseWaitMs: readNumber('baseWaitMs', options.baseWaitMs),
    maxWaitMs: readNumber('maxWaitMs', options.maxWaitMs),
    limitBytes: readNumber('limitBytes', options.limitBytes),
    // Looked up at each call, so that what replaces the platform's fetch later is used.
    fetch: send ?? ((url, init) => fetch(url, init)),
    onRetry,
  };
}

function readBaseUrl(value: string): string {
  const url = typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError('baseUrl must be the http or https address of the service.');
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigError(
      'baseUrl must not hold credentials, a query or a fragment. Pass the token as `token`.',
    );
  }
  return url.href.replace(/\/+$/, '');
}

function readNumber(name: keyof typeof NUMBERS, value: number = NUMBERS[name].usual): number {
  const { least, most } = NUMBERS[name];
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new ConfigError(`${name} must be a whole number from ${least} to ${most}.`);
}
