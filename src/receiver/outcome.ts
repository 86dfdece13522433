import {
  type BusyError,
  ConfigError,
  type EventError,
  type HandlerError,
  type PermanentError,
  type ReceiverError,
  type RequestError,
  type SignatureError,
  type UnavailableError,
} from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';

/** The result of a delivery or of running a stored event. `receive`, `accept` and `handle` always resolve to an outcome. */
export type Outcome = OutcomeResult & {
  /** Where the event came from. */
  readonly origin: Origin;
  /** The event, if the signature was valid and the body contained an event. */
  readonly event?: UnknownEvent | undefined;
  /** The index of the secret that matched the signature, starting at 0; `undefined` if no secret matched. */
  readonly secretIndex?: number | undefined;
};

export type OutcomeResult = {
  /** How long the handler ran, in ms. If the handler exceeded `handlerTimeoutMs`, this is the time until the response. */
  readonly handlerMs?: number | undefined;
} & (
  | {
      /**
       * - `handled`: the handler succeeded, and the inbox recorded the event as done.
       * - `duplicate`: the event was already done, because it had been handled, ignored, discarded or imported.
       * - `ignored`: the event is new, but this process has no handler for its type. The event is recorded as done.
       * - `parked`: this release doesn't know the event's type, so the event is stored until you upgrade. This is also the
       *   outcome if the event was parked earlier and this process has no handler for it.
       * - `queued`: the event is durably enqueued, or durably stored to run later. It runs after the response, in another
       *   process, or at the time that its handler requested with `RetryLater`.
       */
      readonly kind: 'handled' | 'duplicate' | 'ignored' | 'parked' | 'queued';
      /** The number of the attempt in which the handler ran, starting at 1. */
      readonly attempt?: number | undefined;
      readonly error?: undefined;
    }
  | {
      /** The event is dead-lettered. If `error` is set, this attempt failed permanently; otherwise, an earlier one did. */
      readonly kind: 'dead';
      readonly attempt?: number | undefined;
      readonly error?: HandlerError | PermanentError | EventError | BusyError | undefined;
    }
  | {
      /** The request isn't authentic or isn't a delivery. A retry can't help. */
      readonly kind: 'rejected';
      readonly attempt?: undefined;
      readonly error: SignatureError | RequestError | EventError;
    }
  | {
      /** The handler failed, the payload or configuration is invalid, or the body couldn't be read. A retry may help. */
      readonly kind: 'failed';
      readonly attempt?: number | undefined;
      readonly error: HandlerError | PermanentError | EventError | RequestError | ConfigError;
    }
  | { readonly kind: 'busy'; readonly attempt?: number | undefined; readonly error: BusyError }
  | { readonly kind: 'unavailable'; readonly attempt?: undefined; readonly error: UnavailableError }
);

/** The name of an outcome. */
export type OutcomeKind = Outcome['kind'];

type SuccessKind = Exclude<OutcomeKind, 'rejected' | 'failed' | 'busy' | 'unavailable'>;

/** A 5xx status asks the sender to retry; a 4xx status asks the sender not to. */
const OUTCOMES = {
  handled: { kind: 'handled', status: 200 },
  duplicate: { kind: 'duplicate', status: 200 },
  ignored: { kind: 'ignored', status: 200 },
  parked: { kind: 'parked', status: 200 },
  queued: { kind: 'queued', status: 202 },
  dead: { kind: 'dead', status: 200 },
  ERR_SIGNATURE_MISSING: { kind: 'rejected', status: 401 },
  ERR_SIGNATURE_MALFORMED: { kind: 'rejected', status: 401 },
  ERR_SIGNATURE_MISMATCH: { kind: 'rejected', status: 401 },
  ERR_SECRET_UNKNOWN: { kind: 'rejected', status: 401 },
  ERR_METHOD_NOT_ALLOWED: { kind: 'rejected', status: 405 },
  ERR_BODY_ENCODED: { kind: 'rejected', status: 415 },
  ERR_BODY_TOO_LARGE: { kind: 'rejected', status: 413 },
  ERR_BODY_INCOMPLETE: { kind: 'failed', status: 500 },
  ERR_BODY_TIMEOUT: { kind: 'failed', status: 500 },
  ERR_BODY_UNAVAILABLE: { kind: 'failed', status: 500 },
  ERR_EVENT_MALFORMED: { kind: 'rejected', status: 400 },
  ERR_PAYLOAD_INVALID: { kind: 'failed', status: 500 },
  ERR_HANDLER_FAILED: { kind: 'failed', status: 500 },
  ERR_HANDLER_TIMEOUT: { kind: 'failed', status: 500 },
  ERR_HANDLER_PERMANENT: { kind: 'failed', status: 500 },
  ERR_HANDLER_LATER: { kind: 'busy', status: 503 },
  ERR_EVENT_BUSY: { kind: 'busy', status: 503 },
  ERR_EVENT_NOT_DUE: { kind: 'busy', status: 503 },
  ERR_KEY_BUSY: { kind: 'busy', status: 503 },
  ERR_RECEIVER_BUSY: { kind: 'busy', status: 503 },
  ERR_LEASE_LOST: { kind: 'busy', status: 503 },
  ERR_RECEIVER_CLOSED: { kind: 'busy', status: 503 },
  ERR_INBOX_FAILED: { kind: 'unavailable', status: 503 },
  ERR_QUEUE_FAILED: { kind: 'unavailable', status: 503 },
  ERR_SECRET_UNAVAILABLE: { kind: 'unavailable', status: 503 },
  ERR_CONFIG_INVALID: { kind: 'failed', status: 500 },
} as const satisfies Record<
  SuccessKind | ReceiverError['code'],
  { readonly kind: OutcomeKind; readonly status: number }
>;

/** Checks the error's code, not its class, because bundles may duplicate classes. */
export function toFailure(thrown: unknown): OutcomeResult {
  const { code } = Object(thrown);
  const error =
    /^ERR_/.test(code) && Object.hasOwn(OUTCOMES, code)
      ? (thrown as ReceiverError)
      : new ConfigError('The receiver failed with an unexpected error; see the cause.', { cause: thrown });
  return { kind: OUTCOMES[error.code].kind, error } as OutcomeResult;
}

/** The number of deliveries or events for each outcome. */
export type OutcomeCounts = Readonly<Record<OutcomeKind, number>>;

export function emptyCounts(): Record<OutcomeKind, number> {
  const zeros = Object.values(OUTCOMES).map(({ kind }) => [kind, 0]);
  return Object.fromEntries(zeros);
}

/** The response to a delivery. An adapter sends this response unchanged through its framework. */
export interface WebhookResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const RETRY_AFTER_MS = 5_000;

/**
 * Creates the response to a delivery: JSON that names the outcome or, if the delivery failed, `application/problem+json`
 * (RFC 9457) with a stable `code`. The response never contains a message, a stack, a payload or a secret. An unknown sender
 * gets the same code as one whose signature doesn't match, to hide which senders exist.
 */
export function toWebhookResponse({ kind, error }: Outcome): WebhookResponse {
  const code = error?.code ?? 'ERR_CONFIG_INVALID';
  const { status } = OUTCOMES[kind in OUTCOMES ? (kind as SuccessKind) : code];
  if (status === 200 || status === 202) {
    return {
      status,
      headers: { 'content-type': 'application/json' },
      body: `{"outcome":"${kind}"}`,
    };
  }
  const shown = code === 'ERR_SECRET_UNKNOWN' ? 'ERR_SIGNATURE_MISMATCH' : code;
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      ...(status === 405 && { allow: 'POST' }),
      // The connection cannot be reused, because the rest of the body stays unread.
      ...(code === 'ERR_BODY_TIMEOUT' && { connection: 'close' }),
      ...(status === 503 && { 'retry-after': toRetryAfter(error) }),
    },
    body: JSON.stringify({ status, code: shown, outcome: kind }),
  };
}

function toRetryAfter(error: unknown): string {
  const { retryAfterMs: waitMs = RETRY_AFTER_MS }: { readonly retryAfterMs?: number } = Object(error);
  return String(Math.max(1, Math.ceil(waitMs / 1000)));
}
