/** How a delivery ends, the one table that maps it to HTTP, and who is told: the log, observers, telemetry. */
import {
  BusyError,
  ConfigError,
  describeThrown,
  type EventError,
  type HandlerError,
  messageOf,
  type PermanentError,
  type ReceiverError,
  type RequestError,
  type SignatureError,
  StablehooksError,
  type UnavailableError,
} from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import type { Inbox, InboxOperations, Lease, Logger, Origin } from '../core/ports.js';

/** How one delivery ended. `receive`, `accept` and `handle` resolve to it; they never throw. */
export type Outcome = Readonly<Delivery> & OutcomeResult;

/** What is known of a delivery while it passes through the receiver. */
export interface Delivery {
  /** Where the event came from. */
  readonly origin: Origin;
  /** The event, once its bytes are authentic and parsed. */
  event?: UnknownEvent;
  /** Which secret made the signature, from 0, once it is verified. */
  secretIndex?: number;
}

/** What the pipeline made of a delivery. */
export type OutcomeResult = {
  /** How long the handler ran, in ms; up to the answer when it outlived `handlerTimeoutMs`. */
  readonly handlerMs?: number | undefined;
} & (
  | {
      /**
       * - `handled`: the handler finished and the inbox recorded it.
       * - `duplicate`: the inbox has the event as done: its handler ran, or there was none when it came.
       * - `ignored`: a known type without a handler in this process; recorded as done, now or before.
       * - `parked`: an unknown type, stored in the inbox; or one that is known by now, without a handler in this process.
       * - `queued`: durably enqueued, or durably recorded and answered before its handler runs.
       */
      readonly kind: 'handled' | 'duplicate' | 'ignored' | 'parked' | 'queued';
      /** Which attempt the handler ran in, from 1. */
      readonly attempt?: number | undefined;
      readonly error?: undefined;
    }
  | {
      /** Dead-lettered by this delivery (with the error) or before (without). */
      readonly kind: 'dead';
      readonly attempt?: number | undefined;
      readonly error?: HandlerError | PermanentError | EventError | undefined;
    }
  | {
      /** Not authentic, or not a delivery: a retry does not help. */
      readonly kind: 'rejected';
      readonly attempt?: undefined;
      readonly error: SignatureError | RequestError | EventError;
    }
  | {
      /** The handler, a payload or the wiring failed: a retry can help. */
      readonly kind: 'failed';
      readonly attempt?: number | undefined;
      readonly error: HandlerError | PermanentError | EventError | RequestError | ConfigError;
    }
  | { readonly kind: 'busy'; readonly attempt?: undefined; readonly error: BusyError }
  | { readonly kind: 'unavailable'; readonly attempt?: undefined; readonly error: UnavailableError }
);

/** The name of an outcome. */
export type OutcomeKind = Outcome['kind'];

/** The outcomes that are answered 2xx: the event took effect, or it is durably stored. */
type SuccessKind = Exclude<OutcomeKind, 'rejected' | 'failed' | 'busy' | 'unavailable'>;

/** What each success and each error code becomes. 5xx asks for a retry; 4xx stops retries. */
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

/** The result of a pipeline that threw. */
export function toFailure(thrown: unknown): OutcomeResult {
  const error =
    thrown instanceof StablehooksError && thrown.code in OUTCOMES
      ? (thrown as ReceiverError)
      : new ConfigError('The receiver met an unexpected error; see the cause.', { cause: thrown });
  return { kind: OUTCOMES[error.code].kind, error } as OutcomeResult;
}

/** How many deliveries ended in which way. */
export type OutcomeCounts = Readonly<Record<OutcomeKind, number>>;

/** Counts of no deliveries. */
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

/** The response to a delivery. An adapter writes it to its framework's response unchanged. */
export interface WebhookResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The titles of problems: the phrases of their statuses (RFC 9457, 3.1.3). */
const TITLES = {
  400: 'Bad Request',
  401: 'Unauthorized',
  405: 'Method Not Allowed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
} as const;

/** `Retry-After` when nothing better is known, in ms. */
const RETRY_AFTER_MS = 5_000;

/**
 * The response to a delivery: JSON that names the outcome, or `application/problem+json` (RFC 9457) with a stable
 * `code`. It never contains a message, a stack, a payload or a secret. A sender that is not known gets the code of a
 * signature that does not match, so that the answer does not tell which senders exist.
 */
export function toWebhookResponse({ kind, error }: Outcome): WebhookResponse {
  const code = error?.code ?? 'ERR_CONFIG_INVALID';
  const { status } = OUTCOMES[isSuccess(kind) ? kind : code];
  if (status === 200 || status === 202) {
    return {
      status,
      headers: { 'content-type': 'application/json' },
      body: `{"outcome":"${kind}"}`,
    };
  }
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      ...(status === 405 && { allow: 'POST' }),
      // The rest of the body is not read.
      ...(code === 'ERR_BODY_TIMEOUT' && { connection: 'close' }),
      ...(status === 503 && { 'retry-after': toRetryAfter(error) }),
    },
    body: JSON.stringify({ title: TITLES[status], status, code: shownCode(code), outcome: kind }),
  };
}

function shownCode(code: ReceiverError['code']): ReceiverError['code'] {
  return code === 'ERR_SECRET_UNKNOWN' ? 'ERR_SIGNATURE_MISMATCH' : code;
}

function isSuccess(kind: OutcomeKind): kind is SuccessKind {
  return kind in OUTCOMES;
}

function toRetryAfter(error: unknown): string {
  const waitMs = error instanceof BusyError ? error.retryAfterMs : RETRY_AFTER_MS;
  return String(Math.max(1, Math.ceil(waitMs / 1000)));
}

/**
 * Logs an outcome in one line, with the fix, if it has an error: what every receiver does by itself, by its `logger`.
 * No line holds a payload, a secret, a token or a signature; what a handler threw is logged with its message and stack.
 *
 * @param logger - takes one string per line. @default console
 */
export function logOutcome({ kind, origin, event, error }: Outcome, logger: Logger = console): void {
  if (error === undefined) return;
  const about = event === undefined ? '' : ` ${event.type} ${event.id}`;
  const cause = error.cause === undefined ? '' : `\ncaused by ${describeThrown(error.cause)}`;
  const level = kind === 'rejected' || kind === 'busy' ? 'warn' : 'error';
  log(logger, level, `${kind}${about} (${origin}) ${error.code}: ${messageOf(error)}${cause}`);
}

/** Writes one line. A logger that throws or rejects changes nothing: there is no other place to say it. */
export function log(logger: Logger, level: 'warn' | 'error', line: string): void {
  try {
    const pending: unknown = logger[level](`stablehooks: ${line}`);
    if (pending !== undefined) Promise.resolve(pending).catch(() => undefined);
  } catch {}
}

/** Calls an observer of the user's. Its failure is logged under its option's name and changes nothing. */
export function notify<Value>(
  option: string,
  observer: (value: Value) => void | Promise<void>,
  { value, logger }: { readonly value: Value; readonly logger: Logger },
): void {
  const ignore = (error: unknown) =>
    log(logger, 'error', `${option} threw an error, which is ignored. ${describeThrown(error)}`);
  try {
    const pending: unknown = observer(value);
    if (pending !== undefined) Promise.resolve(pending).catch(ignore);
  } catch (error) {
    ignore(error);
  }
}

const warned = new WeakSet<Inbox<unknown>>();

/** Says once per inbox that it is not durable, and the fix. */
export function warnNotDurable(
  inbox: Inbox<unknown>,
  { where, logger }: { /** Such as "a poller uses it". */ readonly where: string; readonly logger: Logger },
): void {
  if (inbox.durable || warned.has(inbox)) return;
  warned.add(inbox);
  log(
    logger,
    'warn',
    `the inbox is not durable, and ${where}: it forgets what was handled, and a memory inbox is not shared, so events can take effect twice. Pass one durable \`inbox\` to all processes: sqliteInbox, postgresInbox or redisInbox.`,
  );
}

/** What telemetry needs to know of a poll; the report of a poll fits. */
export interface PollSummary {
  /** Whether this poll has proven everything up to the new watermark. */
  readonly proven: boolean;
  /** ISO; `null` when it is not known. */
  readonly watermark: string | null;
  /** The gaps that are open after the poll. */
  readonly gaps: readonly unknown[];
  /** Events that only the list had, and that the poll handled or enqueued. */
  readonly recovered: number;
  readonly problems: readonly { readonly code: string }[];
}

/**
 * Observes the steps of a receiver and its poller, such as `openTelemetry()` of `stablehooks/opentelemetry` does.
 *
 * Each method with `run` runs its step: it must call `run` exactly once, return what it returns, and let pass
 * through what it throws or rejects with. It must not throw by itself. Work that `run` starts belongs to the step.
 */
export interface Telemetry {
  /**
   * One pass of a delivery or a stored event through the receiver, up to its outcome. `delivery` gets its `event` and
   * `secretIndex` while it runs. A delivery whose handler runs after the answer has two passes.
   *
   * @param traceparent - the trace context that the event came with, such as that of its job.
   */
  delivery(delivery: Readonly<Delivery>, run: () => Promise<Outcome>, traceparent?: string): Promise<Outcome>;
  /** The claim of an event in the inbox. */
  claim<Result>(event: UnknownEvent, run: () => Result): Result;
  /** The handler of an event, with the check of its payload. What it returns can be a promise or not. */
  handler<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The completion of an event; in a transaction, from the end of its handler to the commit. */
  complete<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The record of a failed attempt. */
  fail<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The record of events that are not claimed at once. */
  record<Result>(events: readonly UnknownEvent[], run: () => Result): Result;
  /** Putting an event into the queue. `recordedBy` is the trace context that a known event was recorded with. */
  enqueue<Result>(event: UnknownEvent, recordedBy: string | undefined, run: () => Result): Result;
  /** One run of `redrive`. */
  redrive(run: () => Promise<OutcomeCounts>): Promise<OutcomeCounts>;
  /** One poll of the list. */
  poll<Summary extends PollSummary>(run: () => Promise<Summary>): Promise<Summary>;
  /** Runs work that does not belong to the step that starts it, such as events that waited for another one. */
  detached<Result>(run: () => Result): Result;
  /** The trace context of the work that runs, as a W3C `traceparent`, to be stored with an event; `undefined` if there is none. */
  traceparent(): string | undefined;
  /** Called once per receiver, when it first uses its inbox: its events can be counted from now on. */
  inboxUsed(inbox: Inbox<unknown> & Partial<InboxOperations>): void;
  /** Called when a receiver that has used its inbox is closed: the app can close the inbox's connections now. */
  inboxClosed(inbox: Inbox<unknown> & Partial<InboxOperations>): void;
}

/** Observes nothing, at the cost of a call. */
export const NO_TELEMETRY: Telemetry = {
  delivery: (_delivery, run) => run(),
  claim: (_event, run) => run(),
  handler: (_event, _lease, run) => run(),
  complete: (_event, _lease, run) => run(),
  fail: (_event, _lease, run) => run(),
  record: (_events, run) => run(),
  enqueue: (_event, _recordedBy, run) => run(),
  redrive: (run) => run(),
  poll: (run) => run(),
  detached: (run) => run(),
  traceparent: () => undefined,
  inboxUsed: () => undefined,
  inboxClosed: () => undefined,
};
