import { backoffMs } from '../core/backoff.js';
import { timeLimit } from '../core/runtime.js';
import { type HttpResult, toApiError, toResult } from './answer.js';
import { ApiError, ConnectionError, type RequestLine } from './errors.js';
import type { Settings } from './options.js';
import { readToken, redact } from './token.js';
import { isUnsent, MAX_CAUSES } from './unsent.js';

interface HttpCall<Value> {
  readonly method: 'GET' | 'PATCH' | 'POST';
  /** The path below `baseUrl`, with its segments already encoded. */
  readonly path: string;
  readonly query?: URLSearchParams | undefined;
  readonly input?: unknown;
  readonly signal: AbortSignal | undefined;
  readonly parse?: ((text: string) => Value | Promise<Value>) | undefined;
}

export type Send = <Value = unknown>(call: HttpCall<Value>) => Promise<HttpResult<Value>>;

export function createSend(settings: Settings): Send {
  return async (call) => {
    const line: RequestLine = { method: call.method, url: settings.baseUrl + call.path };
    const { signal } = call;
    let onAbort = () => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal?.reason);
    });
    signal?.throwIfAborted();
    signal?.addEventListener('abort', onAbort);
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          return await sendInTime(call, { settings, line, aborted });
        } catch (error) {
          if (attempt > settings.retries || !isRetryable(error)) throw error;
          const waitMs = retryWaitMs(error, attempt, settings);
          await timeLimit(aborted, waitMs, () => undefined, settings.runtime);
        }
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  };
}

interface Attempt {
  readonly settings: Settings;
  readonly line: RequestLine;
}

async function sendInTime<Value>(
  call: HttpCall<Value>,
  { aborted, ...attempt }: Attempt & { readonly aborted: Promise<never> },
): Promise<HttpResult<Value>> {
  const { timeoutMs, runtime } = attempt.settings;
  const controller = new AbortController();
  const onTimeUp = () => {
    throw toConnectionError(attempt.line, `got no response within ${timeoutMs} ms (timeoutMs)`);
  };
  try {
    const sent = sendOnce(call, { ...attempt, signal: controller.signal });
    return await timeLimit(Promise.race([sent, aborted]), timeoutMs, onTimeUp, runtime);
  } finally {
    controller.abort();
  }
}

async function sendOnce<Value>(
  { method, query, input, parse = JSON.parse }: HttpCall<Value>,
  { settings, line, signal }: Attempt & { readonly signal: AbortSignal },
): Promise<HttpResult<Value>> {
  const { fetch, runtime } = settings;
  const token = await readToken(settings.token);
  let response: Response;
  let bytes: ArrayBuffer;
  try {
    response = await fetch(line.url + (query?.size ? `?${query}` : ''), {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        'user-agent': 'stablehooks',
        ...(input === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(input === undefined ? {} : { body: JSON.stringify(input) }),
      // A redirect could send the token to another host.
      redirect: 'manual',
      signal,
    });
    bytes = await response.arrayBuffer();
  } catch (cause) {
    const facts = { unsent: isUnsent(cause), cause: copyCause(cause, token) };
    throw toConnectionError(line, 'got no complete response; see the cause', facts);
  }
  const answered = { line, token, response, bytes };
  if (!response.ok) throw toApiError(answered, runtime.now());
  return toResult(answered, parse);
}

function toConnectionError(
  line: RequestLine,
  what: string,
  { unsent = false, cause }: ErrorOptions & { readonly unsent?: boolean } = {},
): ConnectionError {
  const { method, url } = line;
  const fix = unsent
    ? 'The request was not sent. Check the base URL and the network.'
    : method === 'POST'
      ? 'The service may have carried out the request. Check before you send it again.'
      : 'Check that the service is up, or try again later.';
  return new ConnectionError(`${method} ${url} ${what}. ${fix}`, { ...line, unsent, cause });
}

/** A POST is retried only if it certainly didn't arrive, because the service might act before it sends a 408 or 429. */
function isRetryable(error: unknown): error is ApiError | ConnectionError {
  if (error instanceof ConnectionError) return error.unsent || error.method !== 'POST';
  if (!(error instanceof ApiError) || error.method === 'POST') return false;
  return error.status === 408 || error.status === 429 || error.status >= 500;
}

function retryWaitMs(
  error: ApiError | ConnectionError,
  retry: number,
  { baseWaitMs: baseMs, maxWaitMs: maxMs, runtime }: Settings,
): number {
  const random = runtime.random();
  const asked = error instanceof ApiError ? error.retryAfterMs : undefined;
  if (asked === undefined) return backoffMs(retry, { baseMs, maxMs, random });
  return Math.min(asked + Math.round(random * baseMs), maxMs);
}

/** Copies only safe fields, because errors from `fetch` wrappers can contain the whole request, including the token. */
function copyCause(cause: unknown, token: string, depth = MAX_CAUSES): Error {
  if (!(cause instanceof Error)) return new Error(redact(String(cause), token));
  const hasCause = cause.cause !== undefined && depth > 0;
  const inner = hasCause ? { cause: copyCause(cause.cause, token, depth - 1) } : undefined;
  const copy = new Error(redact(cause.message, token), inner);
  copy.name = cause.name;
  copy.stack = redact(cause.stack ?? '', token);
  return 'code' in cause ? Object.assign(copy, { code: cause.code }) : copy;
}
