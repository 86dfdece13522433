/** Which failures may be sent again, and how long to wait before. */
import { backoffMs } from '../core/backoff.js';
import { ApiError, ConnectionError } from './errors.js';

/** Codes of Node, undici and Bun for a connection that was never made. */
const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
  'ConnectionRefused',
]);

/** Whether what `fetch` threw says that the request never left. */
export function isUnsent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && UNSENT.has(String(error.code))) || isUnsent(error.cause);
}

/**
 * Whether a failed request may be sent again.
 *
 * The service gives no idempotency key, and does not say whether a 429 was carried out: a POST goes out
 * again only if it surely never arrived.
 */
export function mayRetry(error: unknown): error is ApiError | ConnectionError {
  if (error instanceof ConnectionError) return error.unsent || error.method !== 'POST';
  if (!(error instanceof ApiError) || error.method === 'POST') return false;
  return error.status === 429 || (error.status >= 500 && error.status <= 599);
}

/** The wait before the next attempt: what the service asks for and some jitter, or the backoff; capped. */
export function waitMs(
  error: ApiError | ConnectionError,
  options: { readonly attempt: number; readonly baseMs: number; readonly maxMs: number },
): number {
  const { attempt, baseMs, maxMs } = options;
  const random = Math.random();
  const asked = error instanceof ApiError ? error.retryAfterMs : undefined;
  if (asked === undefined) return backoffMs(attempt, { baseMs, maxMs, random });
  return Math.min(asked + Math.round(random * baseMs), maxMs);
}

/** Reads `Retry-After` (RFC 9110, 10.2.3): seconds or an HTTP date; `undefined` when it is neither. */
export function readRetryAfter(value: string | null, { now }: { readonly now: number }): number | undefined {
  if (value === null) return undefined;
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER);
  const at = /^[A-Z][a-z]+, .+ GMT$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}
