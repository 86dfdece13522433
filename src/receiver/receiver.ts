/** The receiver: verifies deliveries, and runs each event's handler once. */
import { BusyError, orUnavailable, RequestError } from '../core/errors.js';
import {
  EVENT_TYPES,
  isKnownEvent,
  readEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import type { Inbox, Origin, Queue, RecordResult } from '../core/ports.js';
import { verifySignature } from '../core/signature.js';
import { type ReceiverOptions, readReceiverOptions } from './options.js';
import {
  type Delivery,
  emptyCounts,
  notify,
  type Outcome,
  type OutcomeCounts,
  type OutcomeResult,
  toFailure,
} from './outcome.js';
import { runHandler } from './run-handler.js';

/** One HTTP request as an adapter hands it in. An adapter knows its framework, and nothing else. */
export interface WebhookRequest {
  readonly method: string;
  /** The value of a header, several joined by a comma. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBytes`. Called at most once, after the cheap checks.
   *
   * Rejects with a {@link RequestError}: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Promise<Uint8Array>;
}

/** How events are recorded. */
export interface RecordOptions {
  /** When events of known types are due, in ms from now, if nothing runs them before. */
  readonly dueInMs: number;
  readonly origin: Origin;
}

/** Receives events. `receive`, `accept` and `handle` never throw or reject: each resolves to an {@link Outcome}. */
export interface Receiver {
  /** Takes one HTTP request, untrusted: verifies it, parses it, and continues as {@link Receiver.accept}. */
  receive(request: WebhookRequest): Promise<Outcome>;
  /** Takes an authentic event: enqueues it if there is a queue, otherwise continues as {@link Receiver.handle}. */
  accept(event: UnknownEvent, origin: Origin): Promise<Outcome>;
  /** Claims an authentic event, runs its handler in this process, and completes it. */
  handle(event: UnknownEvent, origin: Origin): Promise<Outcome>;
  /**
   * Records authentic events without running them, and answers for each, in order, whether it is new or in which
   * state the inbox already had it. Events of unknown types are parked, and `onUnknown` is called for the new ones.
   *
   * @throws {UnavailableError} `ERR_INBOX_FAILED`; some of the events may be recorded by then.
   */
  record(events: readonly UnknownEvent[], options: RecordOptions): Promise<readonly RecordResult[]>;
  /**
   * Accepts what is due in the inbox: received events, failed ones at their retry time, lapsed leases, and parked
   * events of types that are known by now. The catch-up poller calls it; or call it from a timer. It ends when
   * nothing is due, and at the latest after `leaseMs`.
   *
   * @returns how many events ended in which way.
   * @throws {UnavailableError} `ERR_INBOX_FAILED` when the inbox cannot be asked.
   */
  redrive(options?: { readonly signal?: AbortSignal | undefined }): Promise<OutcomeCounts>;
  /**
   * Refuses new deliveries: `receive`, `accept` and `handle` answer `busy`, and `redrive` stops. Resolves when the
   * running deliveries have ended.
   */
  close(): Promise<void>;
  /** The same as {@link Receiver.close}. */
  [Symbol.asyncDispose](): Promise<void>;
  /** The inbox that this receiver uses. */
  readonly inbox: Inbox<unknown>;
}

/** How many events `redrive` takes and runs at a time. */
const REDRIVE_BATCH = 16;

/** How soon to try again when this process stops: a restart takes seconds. */
const RESTART_MS = 5_000;

/**
 * Makes a receiver.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or makes no sense.
 *
 * @example
 * ```ts
 * const receiver = createReceiver({
 *   secret: process.env['WEBHOOK_SECRET'] ?? '',
 *   handlers: { 'transfer.settled': (event) => console.log(event.id) },
 * });
 * ```
 */
export function createReceiver<const Schemas = Record<never, never>, Tx = undefined>(
  options: ReceiverOptions<Schemas, Tx>,
): Receiver {
  const settings = readReceiverOptions(options);
  const { inbox, queue, leaseMs } = settings;
  let running = 0;
  let closed = false;
  const closing: (() => void)[] = [];

  const receive = (request: WebhookRequest) =>
    conclude({ origin: 'push' }, async (delivery) => {
      assertRequest(request);
      const { body, secretIndex } = await verifySignature(
        () => request.body(settings.maxBodyBytes),
        request.header(settings.signature.header),
        settings.signature,
      );
      delivery.secretIndex = secretIndex;
      const { parsed, json } = readEvent(body);
      delivery.event = parsed.event;
      return await dispatch(parsed.event, 'push', json);
    });

  const accept = (event: UnknownEvent, origin: Origin) =>
    conclude({ origin, event }, () => dispatch(event, origin));

  const handle = (event: UnknownEvent, origin: Origin) =>
    conclude({ origin, event }, () => run(event, origin));

  /** `json`: the event as it arrived, if known. */
  function dispatch(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    return queue !== undefined && isKnownEvent(event)
      ? enqueue(event, origin, queue)
      : run(event, origin, json);
  }

  async function enqueue(event: WebhookEvent, origin: Origin, queue: Queue): Promise<OutcomeResult> {
    // Recorded first: if this process dies before the event is enqueued, redrive enqueues it after leaseMs.
    const [recorded] = await record([event], { dueInMs: leaseMs, origin });
    if (recorded === 'done') return { kind: 'duplicate' };
    if (recorded === 'dead') return { kind: 'dead' };
    await orUnavailable('ERR_QUEUE_FAILED', queue.enqueue(event));
    return { kind: 'queued' };
  }

  function run(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    return isKnownEvent(event) ? claim(event, origin, json) : park(event, origin);
  }

  async function claim(event: WebhookEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    const claim = await orUnavailable('ERR_INBOX_FAILED', inbox.claim(event, { leaseMs, origin, json }));
    if (claim.state === 'claimed') return await runHandler(event, claim.lease, { origin, settings });
    if (claim.state === 'done') return { kind: 'duplicate' };
    if (claim.state === 'dead') return { kind: 'dead' };
    throw new BusyError('ERR_EVENT_BUSY', 'Another process or delivery runs this event.', claim);
  }

  async function park(event: UnknownEvent, origin: Origin): Promise<OutcomeResult> {
    const [recorded] = await record([event], { dueInMs: leaseMs, origin });
    return { kind: recorded === 'done' ? 'duplicate' : 'parked' };
  }

  async function record(
    events: readonly UnknownEvent[],
    { dueInMs, origin }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const results = new Map<UnknownEvent, RecordResult>();
    const store = async (page: readonly UnknownEvent[], due: number | null) => {
      if (page.length === 0) return;
      const answers = await orUnavailable('ERR_INBOX_FAILED', inbox.record(page, { dueInMs: due, origin }));
      for (const [index, event] of page.entries()) results.set(event, answers[index] ?? 'received');
    };
    await store(events.filter(isKnownEvent), dueInMs);
    const unknown = events.filter((event) => !isKnownEvent(event));
    await store(unknown, null);
    for (const event of unknown) {
      if (results.get(event) === 'new') notify('onUnknown', settings.onUnknown, event);
    }
    return events.map((event) => results.get(event) ?? 'received');
  }

  /** The only place that catches errors: an error becomes an outcome, and every outcome is reported. */
  async function conclude(
    delivery: Delivery,
    pipeline: (delivery: Delivery) => Promise<OutcomeResult>,
  ): Promise<Outcome> {
    let result: OutcomeResult;
    running += 1;
    try {
      if (closed) throw receiverClosed();
      result = await pipeline(delivery);
    } catch (error) {
      result = toFailure(error);
    } finally {
      running -= 1;
      if (running === 0) for (const resolve of closing.splice(0)) resolve();
    }
    const outcome: Outcome = Object.assign(delivery, result);
    notify('onOutcome', settings.onOutcome, outcome);
    return outcome;
  }

  async function redrive({ signal }: { readonly signal?: AbortSignal | undefined } = {}) {
    const counts = emptyCounts();
    const take = { limit: REDRIVE_BATCH, visibilityTimeoutMs: leaseMs, types: EVENT_TYPES };
    // After leaseMs, events that were taken first and could not be processed would be due again.
    const until = performance.now() + leaseMs;
    while (!signal?.aborted && !closed && performance.now() < until) {
      const due = await orUnavailable('ERR_INBOX_FAILED', inbox.takeDue(take));
      if (due.length === 0) break;
      const outcomes = await Promise.all(due.map((event) => accept(event, 'redrive')));
      for (const { kind } of outcomes) counts[kind] += 1;
    }
    return counts;
  }

  async function close(): Promise<void> {
    closed = true;
    if (running > 0) await new Promise<void>((resolve) => closing.push(resolve));
  }

  return { receive, accept, handle, record, redrive, close, [Symbol.asyncDispose]: close, inbox };
}

/** The cheap checks of a request. */
function assertRequest(request: WebhookRequest): void {
  if (request.method !== 'POST') {
    throw new RequestError(
      'ERR_METHOD_NOT_ALLOWED',
      'A delivery is a POST request. Check the path that the receiver is mounted at.',
    );
  }
  // Whether the signature covers the bytes before or after compression is not specified.
  const encoding = request.header('content-encoding');
  if (encoding && encoding.trim().toLowerCase() !== 'identity') {
    throw new RequestError(
      'ERR_BODY_ENCODED',
      'The body is compressed. Configure the sender or the proxy to send it uncompressed.',
    );
  }
}

function receiverClosed(): BusyError {
  return new BusyError('ERR_RECEIVER_CLOSED', 'The receiver is closing. Try again later.', {
    retryAfterMs: RESTART_MS,
  });
}
