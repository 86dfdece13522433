import { ConfigError } from '../core/errors.js';
import { defineLazy, func, integer, lazyRule, readOptions, required, rule } from '../core/options.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { createEvents, type Events } from './events.js';
import {
  checkToken,
  createSend,
  type HttpSettings,
  platformFetch,
  type Retry,
  type TokenSource,
} from './http.js';
import { createWallets, type Wallets } from './wallets.js';

/** The calls of the API. */
export interface Client {
  readonly wallets: Wallets;
  readonly events: Events;
}

/** Options of {@link createClient}. */
export interface ClientOptions {
  /**
   * Where the API is, or a function that gives it at the first call: http or https, without credentials, query or
   * fragment. A path is kept.
   */
  readonly baseUrl: string | (() => string);
  /** The bearer token, or a function that returns it. */
  readonly token: TokenSource;
  /** How long one attempt can take, its body included, in ms. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /** How often a request is sent again where that is safe; 0 for never. @default 3 */
  readonly retries?: number | undefined;
  /** The wait after the first attempt, in ms; doubled after each, minus a random part of up to a half. @default 500 */
  readonly baseWaitMs?: number | undefined;
  /** The longest wait between attempts, in ms, `Retry-After` included. @default 30_000 */
  readonly maxWaitMs?: number | undefined;
  /** The largest body of an answer, in bytes. @default 67_108_864 */
  readonly maxBodyBytes?: number | undefined;
  /** Sends the requests. @default the platform's fetch */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Called before each retry, for a log. Its failure changes nothing. @default none */
  readonly onRetry?: ((retry: Retry) => void | Promise<void>) | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Creates a client. It opens nothing before the first call and does not need to be closed.
 *
 * Any 2xx is success. GET and PATCH are sent again after connection errors, timeouts, 408, 429 and 5xx; POST only
 * if it certainly did not arrive. Redirects are not followed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 *
 * @example
 * ```ts
 * const client = createClient({ baseUrl: 'https://api.example.com', token: () => readToken() });
 * const events = await client.events.list({ type: 'transfer.settled', limit: 100 });
 * ```
 */
export function createClient(options: ClientOptions): Client {
  const send = createSend(toSettings(options));
  return { wallets: createWallets(send), events: createEvents(send) };
}

const urlRule = rule('the http or https address of the API', isHttpUrl);

function toSettings(options: ClientOptions): HttpSettings {
  const settings = readOptions('createClient', options, {
    baseUrl: required(lazyRule(urlRule)),
    token: required(
      rule(
        'a string, or a function that returns one',
        (token) => typeof token === 'string' || typeof token === 'function',
      ),
    ),
    timeoutMs: integer({ default: 10_000 }),
    retries: integer({ default: 3, min: 0, max: 100 }),
    baseWaitMs: integer({ default: 500, min: 0 }),
    maxWaitMs: integer({ default: 30_000, min: 0 }),
    maxBodyBytes: integer({ default: 67_108_864, max: Number.MAX_SAFE_INTEGER }),
    fetch: func(platformFetch),
    onRetry: func((): void => undefined),
    runtime: RUNTIME,
  });
  if (typeof settings.token === 'string') checkToken(settings.token);
  const { baseUrl } = settings;
  const given = {
    ...settings,
    runtime: toRuntime(settings.runtime),
    baseUrl: typeof baseUrl === 'function' ? () => cleanUrl(baseUrl()) : cleanUrl(baseUrl),
  };
  return defineLazy('createClient', given, { baseUrl: urlRule });
}

function isHttpUrl(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

function cleanUrl(value: string): string {
  if (!isHttpUrl(value)) return value;
  const url = new URL(value);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ConfigError(
      'createClient: `baseUrl` must not contain credentials, a query or a fragment. Pass the token as `token`.',
    );
  }
  return url.href.replace(/\/+$/, '');
}
