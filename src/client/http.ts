import { backoffMs } from '../core/backoff.js';
import { joinBytes } from '../core/bytes.js';
import { ConfigError, UnavailableError } from '../core/errors.js';
import type { Runtime } from '../core/runtime.js';
import { ApiError, ConnectionError, type RequestLine, ResponseError, type ResponseFacts } from './errors.js';
import { fixOfUnsent, MAX_CAUSES } from './unsent.js';

/** What the service sees as the `user-agent`: this package and its version. */
const USER_AGENT = 'stablehooks/0.1.0';

/**
 * The token, or a function that is called for every attempt and can cache what it returns. After a 401 it is called
 * once more, with `renew: true`, for all requests that were refused with the same token: that one is no longer valid.
 */
export type TokenSource = string | ((options: { readonly renew: boolean }) => string | Promise<string>);

/** A request that is about to be sent again. */
export interface Retry {
  readonly method: string;
  readonly url: string;
  /** Which attempt failed, from 1. */
  readonly attempt: number;
  /** How long until the next attempt, in ms. */
  readonly waitMs: number;
  readonly error: ApiError | ConnectionError;
}

/** Looked up at each call, so that a fetch that is replaced later is used. */
export function platformFetch(url: string, init: RequestInit): Promise<Response> {
  return fetch(url, init);
}

/** The options of the client, checked, with their defaults. */
export interface HttpSettings {
  /** Read at each call, because it can be given as a function. */
  readonly baseUrl: string;
  readonly token: TokenSource;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly baseWaitMs: number;
  readonly maxWaitMs: number;
  readonly maxBodyBytes: number;
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly onRetry: (retry: Retry) => void | Promise<void>;
  readonly runtime: Runtime;
}

/** One call of the API. Its input is already checked. */
interface HttpCall {
  readonly method: 'GET' | 'PATCH' | 'POST';
  /** Below `baseUrl`, its segments encoded. */
  readonly path: string;
  readonly query?: URLSearchParams | undefined;
  readonly input?: unknown;
  readonly signal: AbortSignal | undefined;
}

/** A 2xx answer, with what an error about it must hold. */
interface HttpResult extends ResponseFacts {
  /** The JSON of the body. Its shape is not checked yet. */
  readonly value: unknown;
  /** The service's clock (the `Date` header, whole seconds), epoch ms; `null` when it does not say. */
  readonly servedAt: number | null;
}

/** Sends a call, again where that is safe, and resolves to a 2xx answer. */
export type Send = (call: HttpCall) => Promise<HttpResult>;

export function createSend(settings: HttpSettings): Send {
  const tokens = createTokens(settings);
  return async (call) => {
    const line: RequestLine = { method: call.method, url: settings.baseUrl + call.path };
    let token = '';
    let sent = false;
    let refused: string | undefined;
    let renewed = false;
    let retries = 0;
    const attempt = async (signal: AbortSignal) => {
      sent = false;
      token = await tokens.get(refused);
      // The token's function may have taken longer than the caller waits.
      signal.throwIfAborted();
      sent = true;
      return sendOnce(call, { settings, signal, token, line });
    };
    for (let count = 1; ; count++) {
      try {
        return await withDeadline(attempt, { ...settings, signal: call.signal });
      } catch (cause) {
        call.signal?.throwIfAborted();
        const late = sent ? () => tooSlow(line, settings) : () => tokenTooSlow(settings, refused);
        const error = cause instanceof DeadlineError ? late() : cause;
        refused = undefined;
        const failed = { attempt: count, ...line };
        if (isRefusedToken(error) && typeof settings.token === 'function' && !renewed) {
          renewed = true;
          refused = token;
          reportRetry({ ...failed, waitMs: 0, error }, settings);
        } else if (isRetryable(error) && retries < settings.retries) {
          retries++;
          const waitMs = retryWaitMs(error, retries, settings);
          reportRetry({ ...failed, waitMs, error }, settings);
          await wait(waitMs, { ...settings, signal: call.signal });
        } else {
          throw error;
        }
      }
    }
  };
}

function reportRetry(retry: Retry, { onRetry }: HttpSettings): void {
  Promise.resolve(retry)
    .then(onRetry)
    .catch(() => undefined);
}

interface Attempt {
  readonly settings: HttpSettings;
  readonly signal: AbortSignal;
  readonly token: string;
  readonly line: RequestLine;
}

async function sendOnce(call: HttpCall, { settings, signal, token, line }: Attempt): Promise<HttpResult> {
  try {
    const response = await settings.fetch(line.url + (call.query?.size ? `?${call.query}` : ''), {
      method: call.method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        // Browsers may leave it out.
        'user-agent': USER_AGENT,
        ...(call.input === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(call.input === undefined ? {} : { body: JSON.stringify(call.input) }),
      // A redirect could send the token to another host.
      redirect: 'manual',
      signal,
    });
    if (!response.ok) throw await toApiError(response, { ...line, token, now: settings.runtime.now() });
    return await readAnswer(response, { settings, signal, token, line });
  } catch (cause) {
    if (cause instanceof ApiError || cause instanceof ResponseError) throw cause;
    const fix = fixOfUnsent(cause);
    throw new ConnectionError(connectionMessage(line, 'got no complete answer', fix), {
      ...line,
      unsent: fix !== undefined,
      cause: copyCause(cause, token),
    });
  }
}

/**
 * Reads an IMF-fixdate (RFC 9110, 5.6.7), the only form that a sender may use; `null` for other text. `Date.parse` alone
 * takes `0` for the year 2000.
 */
function readDate(header: string | null): number | null {
  const time = Date.parse(header ?? '');
  return !Number.isNaN(time) && new Date(time).toUTCString() === header ? time : null;
}

function tooSlow(line: RequestLine, { timeoutMs }: HttpSettings): ConnectionError {
  const what = `was not answered within ${timeoutMs} ms (timeoutMs)`;
  return new ConnectionError(connectionMessage(line, what), { ...line, unsent: false });
}

/** @param refused - the token that the service refused in the previous attempt. */
function tokenTooSlow({ timeoutMs }: HttpSettings, refused: string | undefined): UnavailableError {
  const before =
    refused === undefined ? '' : ' The attempt before was answered 401, so it was not carried out.';
  return new UnavailableError(
    'ERR_SECRET_UNAVAILABLE',
    `The function given as \`token\` did not settle within ${timeoutMs} ms (timeoutMs), so nothing was sent in this attempt.${before} Check where it gets the token.`,
  );
}

/** @param unsentFix - what to do about a request that was not sent; none when it may have arrived. */
function connectionMessage({ method, url }: RequestLine, what: string, unsentFix?: string): string {
  const fix =
    unsentFix !== undefined
      ? `The request was not sent. ${unsentFix}`
      : method === 'POST'
        ? 'The service may have carried it out. Check before you send it again.'
        : 'Check that the service is up, or try again later.';
  return `${method} ${url} ${what}. ${fix}`;
}

const MAX_ERROR_BODY_BYTES = 65_536;

async function toApiError(
  response: Response,
  { token, now, ...line }: RequestLine & { readonly token: string; readonly now: number },
): Promise<ApiError> {
  const { status } = response;
  const bytes = await readResponseBody(response, MAX_ERROR_BODY_BYTES + longestForm(token));
  const headers = new Headers();
  for (const [name, value] of response.headers) headers.append(name, redact(value, token));
  return new ApiError(`${line.method} ${line.url} was answered ${status}. ${fixOf(status)}`, {
    ...line,
    status,
    headers,
    body: toText(bytes, { token }),
    requestId: readRequestId(headers),
    retryAfterMs: readRetryAfter(headers.get('retry-after'), now),
  });
}

function fixOf(status: number): string {
  if (status < 400) {
    return 'Redirects are not followed, because they could send the token elsewhere. Set baseUrl to the target.';
  }
  if (status === 401 || status === 403) return 'Check the token, and that it belongs to this baseUrl.';
  if (status === 404) return 'Check baseUrl and the id.';
  if (status === 408) return 'The service did not get the whole request in time. Check the network.';
  if (status === 429) return 'Send fewer requests. `retryAfterMs` of this error is how long to wait.';
  if (status >= 500) return 'The service failed. Try again later.';
  return 'See `body` of this error for the reason that the service gives.';
}

/** The ids that services and the proxies in front of them give a request, the service's own first. */
const REQUEST_ID_HEADERS = [
  'x-request-id',
  'request-id',
  'x-correlation-id',
  'x-amzn-requestid',
  'cf-ray',
  'traceparent',
] as const;

function readRequestId(headers: Headers): string | undefined {
  return REQUEST_ID_HEADERS.map((name) => headers.get(name)).find(Boolean) ?? undefined;
}

async function readAnswer(response: Response, { settings, token, line }: Attempt): Promise<HttpResult> {
  const { maxBodyBytes } = settings;
  const bytes = await readResponseBody(response, maxBodyBytes + longestForm(token));
  const id = readRequestId(response.headers);
  const requestId = id && redact(id, token);
  /** What the service did is known only from its answer; a list can be asked for again. */
  const keep = (answer: () => unknown) => (line.method === 'GET' ? undefined : answer());
  const unreadable = (what: string) => {
    const after =
      line.method === 'POST' ? ' The service may have carried out the request: see `answer`.' : '';
    const message = `The body of the answer to ${line.method} ${line.url} is ${what}${after}`;
    const answer = keep(() => toText(bytes, { token, maxBytes: maxBodyBytes }));
    return new ResponseError(message, { ...line, requestId, answer, fields: [] });
  };
  if (bytes.length > maxBodyBytes) throw unreadable(`larger than ${maxBodyBytes} bytes (maxBodyBytes).`);
  if (response.status === 206) {
    throw unreadable(
      'a part of the answer (206). Check what is in front of the service: no part was asked for.',
    );
  }
  if (bytes.length === 0) throw unreadable('empty, not JSON.');
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    const answer = keep(() => (redact(text, token) === text ? value : redactJson(text, token)));
    return { ...line, requestId, answer, value, servedAt: readDate(response.headers.get('date')) };
  } catch {
    // Without the cause: the message of a SyntaxError quotes the body.
    throw unreadable('not JSON. Check that baseUrl is the API itself, not a web page or a proxy.');
  }
}

/** Reads at most `maxBytes` and cancels the rest. */
async function readResponseBody(response: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) {
    chunks.push(read.value);
    size += read.value.length;
    if (size > maxBytes) {
      // Not awaited: the cancellation of some sources never settles.
      reader?.cancel().catch(() => undefined);
      return joinBytes(chunks, size).subarray(0, maxBytes);
    }
  }
  const [only] = chunks;
  // Most answers are one chunk, which need not be copied.
  return only?.length === size ? only : joinBytes(chunks, size);
}

function isRefusedToken(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 401;
}

/**
 * The service takes no idempotency key, and does not say whether it carried out what it answers with 429: a
 * POST is sent again only if it certainly did not arrive. The same holds for 408: gateways also answer it when the
 * service behind them is slow.
 */
function isRetryable(error: unknown): error is ApiError | ConnectionError {
  if (error instanceof ConnectionError) return error.unsent || error.method !== 'POST';
  if (!(error instanceof ApiError) || error.method === 'POST') return false;
  return error.status === 408 || error.status === 429 || (error.status >= 500 && error.status <= 599);
}

/** What the service asks for plus jitter, else exponential backoff; at most `maxWaitMs`. */
function retryWaitMs(
  error: ApiError | ConnectionError,
  retry: number,
  { baseWaitMs: baseMs, maxWaitMs: maxMs, runtime }: HttpSettings,
): number {
  const random = runtime.random();
  const asked = error instanceof ApiError ? error.retryAfterMs : undefined;
  if (asked === undefined) return backoffMs(retry, { baseMs, maxMs, random });
  return Math.min(asked + Math.round(random * baseMs), maxMs);
}

/** Reads `Retry-After` (RFC 9110, 10.2.3): seconds or an HTTP date; `undefined` when it is neither. */
function readRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined;
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER);
  const at = /^[A-Z][a-z]+, .+ GMT$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

interface Waiting {
  readonly signal: AbortSignal | undefined;
  readonly runtime: Runtime;
}

class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
}

/**
 * Runs a function that may ignore its signal, and stops waiting for it when the signal aborts or the time is up.
 *
 * `AbortSignal.any` would do, but keeps each signal it made alive for as long as the caller's.
 */
function withDeadline<T>(
  run: (signal: AbortSignal) => Promise<T>,
  { signal, timeoutMs, runtime }: Waiting & { readonly timeoutMs: number },
): Promise<T> {
  signal?.throwIfAborted();
  return new Promise<T>((resolve, reject) => {
    const controller = new AbortController();
    const stop = (reason: unknown) => {
      reject(reason);
      controller.abort(reason);
    };
    const onAbort = () => stop(signal?.reason);
    const late = () => stop(new DeadlineError(`no answer after ${timeoutMs} ms`));
    const timer = runtime.setTimeout(late, timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    run(controller.signal)
      .then(resolve, reject)
      .finally(() => {
        runtime.clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
  });
}

function wait(waitMs: number, { signal, runtime }: Waiting): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      runtime.clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = runtime.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, waitMs);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Gives each attempt its token, and has a refused one renewed once, however many requests were refused with it. */
function createTokens({ token: source, timeoutMs, runtime }: HttpSettings) {
  let renewed: { readonly old: string; readonly token: string } | undefined;
  let renewal: Promise<string> | undefined;

  async function renew(old: string): Promise<string> {
    const token = await readToken(source, true);
    // The same token once more: the next 401 must ask again.
    renewed = token === old ? undefined : { old, token };
    return token;
  }

  return {
    /** @param refused - the token that the service refused in the previous attempt. */
    async get(refused: string | undefined): Promise<string> {
      const token = refused ?? (await readToken(source, false));
      if (token === renewed?.old) return renewed.token;
      if (refused === undefined) return token;
      // With a deadline of its own, so that a function that never settles does not block later renewals.
      renewal ??= withDeadline(() => renew(refused), { signal: undefined, timeoutMs, runtime }).finally(
        () => {
          renewal = undefined;
        },
      );
      return renewal;
    },
  };
}

async function readToken(source: TokenSource, renew: boolean): Promise<string> {
  if (typeof source !== 'function') return source;
  let token: string;
  try {
    token = await source({ renew });
  } catch (cause) {
    throw new UnavailableError(
      'ERR_SECRET_UNAVAILABLE',
      'The function given as `token` failed, so nothing was sent. Check where it gets the token.',
      { cause },
    );
  }
  return checkToken(token);
}

/** Refuses a token that no header can contain: the error of `fetch` would quote it. */
export function checkToken(token: string): string {
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new ConfigError(
    'The token must be visible ASCII without spaces and without `Bearer` in front. Check that the environment variable is set and trimmed.',
  );
}

/** Error pages of some servers repeat the headers of the request, with any character escaped as JSON, HTML or a URL does. */
function redact(value: string, token: string): string {
  let redacted = '';
  let rest = 0;
  for (const { index, end } of findToken(value, token)) {
    redacted += `${value.slice(rest, index)}[token]`;
    rest = end;
  }
  return redacted + value.slice(rest);
}

/** The characters that HTML names. */
const HTML_NAMES: Readonly<Record<string, string>> = {
  '"': 'quot',
  '&': 'amp',
  "'": 'apos',
  '<': 'lt',
  '>': 'gt',
};

/** The longest form of a character: `&#0126;`. */
const LONGEST_ESCAPE = 7;

const longestForm = (token: string) => token.length * LONGEST_ESCAPE;

/** The forms of each character that a token can contain: as it is, and escaped. Escapes begin with `\`, `%` or `&`. */
const FORMS = new Map(
  Array.from({ length: 0x7e - 0x20 }, (_, index): [string, readonly string[]] => {
    const code = 0x21 + index;
    const character = String.fromCharCode(code);
    const name = HTML_NAMES[character];
    const lower = code.toString(16);
    const byHex = [lower, lower.toUpperCase()].flatMap((hex) => [
      `\\u00${hex}`,
      `%${hex}`,
      `&#x${hex};`,
      `&#X${hex};`,
    ]);
    const byName = name === undefined ? [] : [`&${name};`];
    return [character, [character, `\\${character}`, ...byHex, `&#${code};`, `&#0${code};`, ...byName]];
  }),
);

/**
 * Finds where a text contains the token. One regular expression of all its forms would do, but no engine takes that of a
 * token of a few kB.
 */
function* findToken(
  text: string,
  token: string,
): Generator<{ readonly index: number; readonly end: number }> {
  const start = new RegExp(`[\\x${token.charCodeAt(0).toString(16)}\\\\%&]`, 'g');
  for (let found = start.exec(text); found !== null; found = start.exec(text)) {
    const { index } = found;
    const end = endOfToken(text, token, index);
    if (end === undefined) continue;
    yield { index, end };
    start.lastIndex = end;
  }
}

/** Where the token ends that begins here; `undefined` if none does. */
function endOfToken(text: string, token: string, index: number): number | undefined {
  // More than one if a character of the token also begins one of its escapes, as `\` does.
  let ends = new Set([index]);
  for (const character of token) {
    const next = new Set<number>();
    for (const at of ends) {
      for (const form of FORMS.get(character) ?? [])
        if (text.startsWith(form, at)) next.add(at + form.length);
    }
    if (next.size === 0) return undefined;
    ends = next;
  }
  return Math.max(...ends);
}

/** Parses JSON, and redacts its strings and the names of its fields. */
function redactJson(text: string, token: string): unknown {
  return JSON.parse(text, (_, value: unknown) => {
    if (typeof value === 'string') return redact(value, token);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [redact(name, token), inner]));
  });
}

/**
 * The start of a body as text, redacted, which takes at most {@link MAX_ERROR_BODY_BYTES} bytes. The bytes must go on
 * after `maxBytes`, if there are more, by the longest form of the token: nothing of one that is cut there is kept.
 */
function toText(
  bytes: Uint8Array,
  { token, maxBytes = MAX_ERROR_BODY_BYTES }: { readonly token: string; readonly maxBytes?: number },
): string {
  const end = Math.min(maxBytes, MAX_ERROR_BODY_BYTES);
  const decode = (length: number) => new TextDecoder().decode(bytes.subarray(0, length));
  const start = decode(end);
  const cut = [...findToken(decode(end + longestForm(token)), token)].find(
    (found) => found.index < start.length && found.end > start.length,
  );
  const text = redact(start.slice(0, cut?.index), token);
  // Bytes that are not UTF-8 become longer as text.
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(MAX_ERROR_BODY_BYTES));
  return text.slice(0, read);
}

/** Copies only name, message, stack and code: errors of `fetch` wrappers contain the whole request with its token. */
function copyCause(cause: unknown, token: string, depth = MAX_CAUSES): Error {
  if (!(cause instanceof Error)) return new Error(redact(String(cause), token));
  const hasCause = cause.cause !== undefined && depth > 0;
  const inner = hasCause ? { cause: copyCause(cause.cause, token, depth - 1) } : undefined;
  const copy = new Error(redact(cause.message, token), inner);
  copy.name = redact(cause.name, token);
  copy.stack = redact(cause.stack ?? '', token);
  return 'code' in cause ? Object.assign(copy, { code: redact(String(cause.code), token) }) : copy;
}
