/** The options of a client: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import { assertNames, readNumbers } from '../core/options.js';
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
  readonly maxBodyBytes?: number;
  /** What sends requests. @default the platform's fetch */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Told before each retry, for a log; its own failure changes nothing. @default none */
  readonly onRetry?: (retry: Retry) => void | Promise<void>;
}

/** The options, checked and with their defaults. */
export interface ClientRules extends Required<ClientOptions> {}

const NUMBERS = {
  timeoutMs: { default: 10_000 },
  retries: { default: 3, min: 0, max: 100 },
  baseWaitMs: { default: 500, min: 0 },
  maxWaitMs: { default: 30_000, min: 0 },
  maxBodyBytes: { default: 67_108_864, max: Number.MAX_SAFE_INTEGER },
};

const NAMES = [...Object.keys(NUMBERS), 'baseUrl', 'token', 'fetch', 'onRetry'];

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions(options: ClientOptions): ClientRules {
  assertNames(options, { where: 'createClient', names: NAMES });
  const { token, fetch: send, onRetry = () => undefined } = options;
  if (typeof token !== 'function') toToken(token);
  if (send !== undefined && typeof send !== 'function') throw new ConfigError('fetch must be a function.');
  if (typeof onRetry !== 'function') throw new ConfigError('onRetry must be a function.');
  return {
    baseUrl: readBaseUrl(options.baseUrl),
    token,
    ...readNumbers(options, NUMBERS),
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
