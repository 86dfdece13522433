/** How a delivery can end, and which error means which ending. */
import {
  type BusyError,
  ConfigError,
  type EventError,
  type HandlerError,
  type PermanentError,
  type ReceiverError,
  type RequestError,
  type SignatureError,
  StablehooksError,
  type UnavailableError,
} from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/inbox.js';

/** What is known of a delivery while it passes through the receiver. */
export interface Trace {
  readonly origin: Origin;
  /** The event, once its bytes were found authentic and were read. */
  event?: UnknownEvent;
}

/** How the pipeline ended, before it is known of which delivery. */
export type Ending =
  | {
      /**
       * - `handled`: the handler finished and the inbox says done.
       * - `duplicate`: it was done before.
       * - `ignored`: a known type without a handler; recorded as done.
       * - `parked`: an unknown type, kept in the inbox.
       * - `queued`: durably enqueued.
       */
      readonly kind: 'handled' | 'duplicate' | 'ignored' | 'parked' | 'queued';
      /** Which attempt it was, from 1, where a handler ran. */
      readonly attempt?: number;
      readonly error?: undefined;
    }
  | {
      /** Dead-lettered, now (with the error) or before (without). */
      readonly kind: 'dead';
      readonly attempt?: number;
      readonly error?: HandlerError | PermanentError | EventError;
    }
  | {
      /** Never wanted again as it is: not authentic, or not a delivery. */
      readonly kind: 'rejected';
      readonly attempt?: undefined;
      readonly error: SignatureError | RequestError | EventError;
    }
  | {
      /** Wanted again: the handler, a payload or the wiring failed. */
      readonly kind: 'failed';
      readonly attempt?: number;
      readonly error: HandlerError | PermanentError | EventError | RequestError | ConfigError;
    }
  | { readonly kind: 'busy'; readonly attempt?: undefined; readonly error: BusyError }
  | { readonly kind: 'unavailable'; readonly attempt?: undefined; readonly error: UnavailableError };

/** How one delivery ended. The three doors answer it; they never throw. */
export type Outcome = Readonly<Trace> & Ending;

/** The word for how a delivery ended. */
export type OutcomeKind = Outcome['kind'];

/** How many deliveries ended in which way. */
export type OutcomeCounts = Readonly<Record<OutcomeKind, number>>;

/** A tally of nothing yet. */
export function emptyCounts(): Record<OutcomeKind, number> {
  return {
    handled: 0,
    duplicate: 0,
    ignored: 0,
    parked: 0,
    queued: 0,
    dead: 0,
    rejected: 0,
    failed: 0,
    busy: 0,
    unavailable: 0,
  };
}

/** The ending that each code means when it stops the pipeline, and its HTTP status (design: 5xx is wanted again). */
export const ENDINGS = {
  ERR_SIGNATURE_MISSING: { kind: 'rejected', status: 401 },
  ERR_SIGNATURE_MALFORMED: { kind: 'rejected', status: 401 },
  ERR_SIGNATURE_MISMATCH: { kind: 'rejected', status: 401 },
  ERR_METHOD_NOT_ALLOWED: { kind: 'rejected', status: 405 },
  ERR_BODY_ENCODED: { kind: 'rejected', status: 415 },
  ERR_BODY_TOO_LARGE: { kind: 'rejected', status: 413 },
  ERR_BODY_INCOMPLETE: { kind: 'failed', status: 500 },
  ERR_BODY_UNAVAILABLE: { kind: 'failed', status: 500 },
  ERR_EVENT_MALFORMED: { kind: 'rejected', status: 400 },
  ERR_PAYLOAD_INVALID: { kind: 'failed', status: 500 },
  ERR_HANDLER_FAILED: { kind: 'failed', status: 500 },
  ERR_HANDLER_TIMEOUT: { kind: 'failed', status: 500 },
  ERR_HANDLER_PERMANENT: { kind: 'failed', status: 500 },
  ERR_EVENT_BUSY: { kind: 'busy', status: 503 },
  ERR_LEASE_LOST: { kind: 'busy', status: 503 },
  ERR_RECEIVER_CLOSED: { kind: 'busy', status: 503 },
  ERR_INBOX_FAILED: { kind: 'unavailable', status: 503 },
  ERR_QUEUE_FAILED: { kind: 'unavailable', status: 503 },
  ERR_SECRET_UNAVAILABLE: { kind: 'unavailable', status: 503 },
  ERR_CONFIG_INVALID: { kind: 'failed', status: 500 },
} as const satisfies Record<ReceiverError['code'], { readonly kind: OutcomeKind; readonly status: number }>;

/** Turns whatever stopped the pipeline into an ending. */
export function toEnding(thrown: unknown): Ending {
  const error =
    thrown instanceof StablehooksError && thrown.code in ENDINGS
      ? (thrown as ReceiverError)
      : new ConfigError('The receiver met an error that it has no rule for; see the cause.', {
          cause: thrown,
        });
  return { kind: ENDINGS[error.code].kind, error } as Ending;
}
