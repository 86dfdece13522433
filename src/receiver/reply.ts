/** The one place where an outcome becomes an HTTP reply. */
import { BusyError } from '../core/errors.js';
import { ENDINGS, type Outcome, type OutcomeKind } from './outcome.js';

/** What an adapter writes to its framework's response, as it is. */
export interface WebhookResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Endings without an error in them; 2xx is said only of what took effect or is kept. */
const STATUS = { handled: 200, duplicate: 200, ignored: 200, parked: 200, queued: 202, dead: 200 } as const;

/** RFC 9457 wants a short title that is the same for every problem of a kind: the status phrase. */
const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  405: 'Method Not Allowed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** What `Retry-After` says when nothing better is known, in milliseconds. */
const RETRY_AFTER_MS = 5_000;

/**
 * The reply to a delivery: JSON that names the outcome, or `application/problem+json` (RFC 9457) with a
 * stable `code`. Never a message, a stack, a payload or a secret.
 */
export function toWebhookResponse(outcome: Outcome): WebhookResponse {
  if (isSuccess(outcome.kind)) {
    return {
      status: STATUS[outcome.kind],
      headers: { 'content-type': 'application/json' },
      body: `{"outcome":"${outcome.kind}"}`,
    };
  }
  const code = outcome.error?.code ?? 'ERR_CONFIG_INVALID';
  const { status } = ENDINGS[code];
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      ...(status === 405 && { allow: 'POST' }),
      ...(status === 503 && { 'retry-after': retryAfter(outcome.error) }),
    },
    body: JSON.stringify({ title: TITLES[status], status, code, outcome: outcome.kind }),
  };
}

function isSuccess(kind: OutcomeKind): kind is keyof typeof STATUS {
  return kind in STATUS;
}

function retryAfter(error: unknown): string {
  const waitMs = error instanceof BusyError ? error.retryAfterMs : RETRY_AFTER_MS;
  return String(Math.max(1, Math.ceil(waitMs / 1000)));
}
