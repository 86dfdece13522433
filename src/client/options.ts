/** The options of a client: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import { readOptions as checkOptions, func, integer, required, rule } from '../core/options.js';
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
  readonly timeoutMs?: number | undefined;
  /** How often a request is sent again where that is safe; 0 for never. @default 3 */
  readonly retries?: number | undefined;
  /** The wait after the first attempt, in ms; doubled after each, a random half taken off. @default 500 */
  readonly baseWaitMs?: number | undefined;
  /** The longest wait between attempts, in ms, `Retry-After` included. @default 30_000 */
  readonly maxWaitMs?: number | undefined;
  /** The largest answer, in bytes. @default 67_108_864 */
  readonly maxBodyBytes?: number | undefined;
  /** What sends requests. @default the platform's fetch */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Told before each retry, for a log; its own failure changes nothing. @default none */
  readonly onRetry?: ((retry: Retry) => void | Promise<void>) | undefined;
}

/** The options, checked and with their defaults. */
export type ClientRules = {
  readonly [Name in keyof ClientOptions]-?: Exclude<ClientOptions[Name], undefined>;
};

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions(options: ClientOptions): ClientRules {
  const read = checkOptions('createClient', options, {
    baseUrl: required(rule('the http or https address of the service', isHttpUrl)),
    token: required(
      rule('a string, or a function that gives one', (token) => isFunction(token) || isString(token)),
    ),
    timeoutMs: integer({ default: 10_000 }),
    retries: integer({ default: 3, min: 0, max: 100 }),
    baseWaitMs: integer({ default: 500, min: 0 }),
    maxWaitMs: integer({ default: 30_000, min: 0 }),
    maxBodyBytes: integer({ default: 67_108_864, max: Number.MAX_SAFE_INTEGER }),
    // Looked up at each call, so that what replaces the platform's fetch later is used.
    fetch: func((url: string, init: RequestInit) => fetch(url, init)),
    onRetry: func((): void => undefined),
  });
  if (typeof read.token === 'string') toToken(read.token);
  return { ...read, baseUrl: toBaseUrl(read.baseUrl) };
}

const isFunction = (value: unknown) => typeof value === 'function';
const isString = (value: unknown) => typeof value === 'string';

function isHttpUrl(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

function toBaseUrl(value: string): string {
  const url = new URL(value);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigError(
      'baseUrl must not hold credentials, a query or a fragment. Pass the token as `token`.',
    );
  }
  return url.href.replace(/\/+$/, '');
}
