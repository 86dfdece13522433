import { func, integer, readOptions, required, rule } from '../core/options.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { isToken, TOKEN, type TokenSource } from './token.js';

/** Options of `createClient`. */
export interface ClientOptions {
  /** The base URL of the API: http or https, without credentials, query or fragment. It can include a path. */
  readonly baseUrl: string;
  /** The bearer token, or a function that returns it. */
  readonly token: TokenSource;
  /** The time limit for one attempt, in ms, including the `token` function and the whole response. @default 10_000 */
  readonly timeoutMs?: number | undefined;
  /** How many times to retry a request that can safely be sent again. @default 3 */
  readonly retries?: number | undefined;
  /** The wait before the first retry, in ms. It doubles each time and is randomly shortened by up to half. @default 500 */
  readonly baseWaitMs?: number | undefined;
  /** The maximum wait between attempts, in ms, even if `Retry-After` asks for more. @default 30_000 */
  readonly maxWaitMs?: number | undefined;
  /** The function that sends the requests. @default the platform's fetch */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Replacements for time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

export type Settings = ReturnType<typeof toSettings>;

export function toSettings(options: ClientOptions) {
  const settings = readOptions('createClient', options, {
    baseUrl: required(
      rule('the http or https address of the API, without credentials, query or fragment', isBaseUrl),
    ),
    token: required(
      rule(`${TOKEN}, or a function`, (token) => typeof token === 'function' || isToken(token)),
    ),
    timeoutMs: integer({ default: 10_000 }),
    retries: integer({ default: 3, min: 0, max: 100 }),
    baseWaitMs: integer({ default: 500, min: 0 }),
    maxWaitMs: integer({ default: 30_000, min: 0 }),
    // Each call looks up the global function, so an app can replace it later.
    fetch: func((url: string, init: RequestInit) => fetch(url, init)),
    runtime: RUNTIME,
  });
  return {
    ...settings,
    baseUrl: new URL(settings.baseUrl).href.replace(/\/+$/, ''),
    runtime: toRuntime(settings.runtime),
  };
}

function isBaseUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false;
  const { protocol, username, password, search, hash } = new URL(value);
  return /^https?:$/.test(protocol) && username + password + search + hash === '';
}
