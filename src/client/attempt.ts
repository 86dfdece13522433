/** One attempt: request out, answer in, and every way in which that fails as a typed error. */
import { readLimited } from './body.js';
import { ApiError, type Called, ConnectionError, ResponseError } from './errors.js';
import type { ClientRules } from './options.js';
import { isUnsent, readRetryAfter } from './retry.js';
import { askToken, quoteCause, redact } from './token.js';

const ERROR_LIMIT_BYTES = 65_536;

/** A request, its input checked. */
export interface Call {
  readonly method: 'GET' | 'PATCH' | 'POST';
  /** Below `baseUrl`, its segments encoded. */
  readonly path: string;
  readonly query?: URLSearchParams;
  readonly input?: unknown;
  readonly signal: AbortSignal | undefined;
}

/** A 2xx. */
export interface Answered {
  /** Its JSON, unjudged. */
  readonly value: unknown;
  /** The service's clock (the `Date` header, whole seconds), epoch ms; `null` when it does not say. */
  readonly servedAt: number | null;
}

/** Sends a call once; answers a 2xx. */
export async function attempt(
  call: Call,
  rules: ClientRules & { readonly signal: AbortSignal; readonly renew: boolean },
): Promise<Answered> {
  const called: Called = { method: call.method, url: rules.baseUrl + call.path };
  const token = await askToken(rules.token, rules);
  // The provider may have outlasted the caller: what was given up is not sent.
  rules.signal.throwIfAborted();
  try {
    const response = await rules.fetch(called.url + (call.query?.size ? `?${call.query}` : ''), {
      method: call.method,
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'application/json',
        ...(call.input === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(call.input === undefined ? {} : { body: JSON.stringify(call.input) }),
      // A redirect could carry the token to another host.
      redirect: 'manual',
      signal: rules.signal,
    });
    if (response.ok) {
      const value = await readJson(response, { ...called, maxBodyBytes: rules.maxBodyBytes });
      return { value, servedAt: readDate(response.headers.get('date')) };
    }
    throw await toApiError(response, { ...called, token });
  } catch (cause) {
    if (cause instanceof ApiError || cause instanceof ResponseError) throw cause;
    const unsent = isUnsent(cause);
    const message = connectionMessage(called, { what: 'got no whole answer', unsent });
    throw new ConnectionError(message, { ...called, unsent, cause: quoteCause(cause, token) });
  }
}

function readDate(text: string | null): number | null {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? null : time;
}

/** Says what is known of a request without an answer. */
export function connectionMessage(
  { method, url }: Called,
  { what, unsent }: { readonly what: string; readonly unsent: boolean },
): string {
  const state = unsent
    ? 'It was never sent: check baseUrl and the network.'
    : method === 'POST'
      ? 'It may have been carried out: look before you send it again.'
      : 'Check that the service is up, or try again later.';
  return `${method} ${url} ${what}. ${state}`;
}

async function readJson(
  response: Response,
  { maxBodyBytes, ...called }: Called & { readonly maxBodyBytes: number },
): Promise<unknown> {
  const { bytes, whole } = await readLimited(response, { maxBodyBytes });
  if (!whole) throw unreadable(called, `larger than ${maxBodyBytes} bytes (maxBodyBytes)`);
  if (bytes.length === 0) throw unreadable(called, 'empty, not JSON');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    // Without the cause: V8 quotes the text in its message.
    throw unreadable(
      called,
      'not JSON. Is baseUrl the service itself, and not a page or proxy in front of it?',
    );
  }
}

function unreadable(called: Called, what: string): ResponseError {
  const after = called.method === 'POST' ? ' The request may have been carried out.' : '';
  const message = `The body of the answer to ${called.method} ${called.url} is ${what}${after}`;
  return new ResponseError(message, { ...called, fields: [] });
}

async function toApiError(
  response: Response,
  { token, ...called }: Called & { readonly token: string },
): Promise<ApiError> {
  const { status } = response;
  const { bytes } = await readLimited(response, { maxBodyBytes: ERROR_LIMIT_BYTES });
  const headers = new Headers();
  for (const [name, value] of response.headers) headers.append(name, redact(value, token));
  return new ApiError(`${called.method} ${called.url} was answered ${status}. ${remedy(status)}`, {
    ...called,
    status,
    headers,
    body: redact(new TextDecoder().decode(bytes), token),
    retryAfterMs: readRetryAfter(headers.get('retry-after'), { now: Date.now() }),
  });
}

function remedy(status: number): string {
  if (status < 400)
    return 'Redirects are not followed, as the token would go along: set baseUrl to where it leads.';
  if (status === 401 || status === 403) return 'Check the token, and that it belongs to this baseUrl.';
  if (status === 404) return 'Check baseUrl and the id.';
  if (status === 429) return 'Send less often; `retryAfterMs` says how long to wait.';
  if (status >= 500) return 'The service failed: try again later.';
  return 'Its `body` holds what the service says about it.';
}
