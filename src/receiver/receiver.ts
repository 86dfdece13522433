/** The receiver: verifies deliveries, and runs each event's handler once. */
import { BusyError, orUnavailable, RequestError } from '../core/errors.js';
import {
  EVENT_TYPES,
  isKnownEvent,
  readEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import type { Inbox, InboxOperations, Lease, Logger, Origin, Queue, RecordResult } from '../core/ports.js';
import { verifySignature } from '../core/signature.js';
import { queueNeedsDurable, type ReceiverOptions, readReceiverOptions } from './options.js';
import {
  type Delivery,
  emptyCounts,
  log,
  logOutcome,
  notify,
  type Outcome,
  type OutcomeCounts,
  type OutcomeResult,
  toFailure,
  warnNotDurable,
} from './outcome.js';
import { runHandler } from './run-handler.js';
import { orTimeout } from './timeout.js';

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
  /** Called when the body takes longer than `bodyTimeoutMs`: stops reading and frees what was read. */
  cancelBody?(): void;
  /** The framework's logger of this request; the `logger` of the receiver has precedence. @default console */
  readonly logger?: Logger | undefined;
}

/** How events are recorded. */
export interface RecordOptions {
  /** When events of known types are due, in ms from now, if nothing runs them before. */
  readonly dueInMs: number;
  readonly origin: Origin;
  /** The JSON of each event as it arrived, in the same order, to be stored unchanged. @default the events serialized */
  readonly json?: readonly string[] | undefined;
}

/** What is known of an authentic event beside itself. */
export interface AcceptOptions {
  /** The event's JSON as it arrived, to be stored and enqueued unchanged. @default the event serialized */
  readonly json?: string | undefined;
}

/** Receives events. `receive`, `accept` and `handle` never throw or reject: each resolves to an {@link Outcome}. */
export interface Receiver {
  /** Takes one HTTP request, untrusted: verifies it, parses it, and continues as {@link Receiver.accept}. */
  receive(request: WebhookRequest): Promise<Outcome>;
  /** Takes an authentic event: enqueues it if there is a queue, otherwise continues as {@link Receiver.handle}. */
  accept(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /** Claims an authentic event, runs its handler in this process, and completes it. */
  handle(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /**
   * Records authentic events without running them, and answers for each, in order, whether it is new or in which
   * state the inbox already had it. Events of unknown types are parked, and `onUnknown` is called for the new ones.
   *
   * @throws {UnavailableError} `ERR_INBOX_FAILED`; some of the events may be recorded by then.
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when the function that gives the inbox fails.
   */
  record(events: readonly UnknownEvent[], options: RecordOptions): Promise<readonly RecordResult[]>;
  /**
   * Accepts what is due in the inbox: received events, failed ones at their retry time, lapsed leases, and parked
   * events of types that are known by now. The catch-up poller calls it; or call it from a timer. It ends when
   * nothing is due, and at the latest after `leaseMs`.
   *
   * @returns how many events ended in which way.
   * @throws {UnavailableError} `ERR_INBOX_FAILED` when the inbox cannot be asked.
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when the function that gives the inbox fails.
   */
  redrive(options?: RedriveOptions): Promise<OutcomeCounts>;
  /**
   * Refuses new deliveries: `receive`, `accept` and `handle` answer `busy`, and `redrive` stops. Resolves when the
   * deliveries that were verified before have ended, and their handlers, too: at the latest after `leaseMs`. It does
   * not wait for bodies that still arrive.
   */
  close(): Promise<void>;
  /** The same as {@link Receiver.close}. */
  [Symbol.asyncDispose](): Promise<void>;
  /** The inbox that this receiver uses; one that is given as a function is made by now. @throws {ConfigError} */
  readonly inbox: Inbox<unknown>;
}

/** How to redrive. */
export interface RedriveOptions {
  /** Ends it early: events that run are waited for. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each outcome, as the receiver's own `onOutcome` is. It must not throw. */
  readonly onOutcome?: ((outcome: Outcome) => void) | undefined;
}

/** How many events `redrive` takes and runs at a time. */
const REDRIVE_BATCH = 16;

/** The longest time that a timer takes. */
const MAX_TIMER_MS = 2 ** 31 - 1;

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
  const { leaseMs, bodyTimeoutMs } = settings;
  const logger = settings.logger ?? console;
  let running = 0;
  let closed = false;
  const closing: (() => void)[] = [];
  let durabilityChecked = false;
  let redriven = false;
  let retryWatched = false;

  const receive = (request: WebhookRequest) =>
    conclude({ origin: 'push' }, settings.logger ?? request.logger ?? console, async (enter, delivery) => {
      if (closed) throw receiverClosed();
      assertRequest(request);
      const { body, secretIndex } = await verifySignature(
        () => readBody(request),
        request.header(settings.signature.header),
        settings.signature,
      );
      enter();
      delivery.secretIndex = secretIndex;
      const { parsed, json } = readEvent(body);
      delivery.event = parsed.event;
      return await dispatch(parsed.event, 'push', json);
    });

  const accept = (event: UnknownEvent, origin: Origin, { json }: AcceptOptions = {}) =>
    conclude({ origin, event }, logger, (enter) => {
      enter();
      return dispatch(event, origin, json);
    });

  const handle = (event: UnknownEvent, origin: Origin, { json }: AcceptOptions = {}) =>
    conclude({ origin, event }, logger, (enter) => {
      enter();
      return run(event, origin, json);
    });

  function readBody(request: WebhookRequest): Promise<Uint8Array> {
    return orTimeout(request.body(settings.maxBodyBytes), bodyTimeoutMs, () => {
      try {
        request.cancelBody?.();
      } catch {
        // The answer below closes the connection.
      }
      return new RequestError(
        'ERR_BODY_TIMEOUT',
        `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
      );
    });
  }

  /** `json`: the event as it arrived, if known. */
  function dispatch(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    const { queue } = settings;
    return queue !== undefined && isKnownEvent(event)
      ? enqueue(event, origin, { queue, json })
      : run(event, origin, json);
  }

  async function enqueue(
    event: WebhookEvent,
    origin: Origin,
    { queue, json }: { readonly queue: Queue; readonly json: string | undefined },
  ): Promise<OutcomeResult> {
    if (!settings.inbox.durable) throw queueNeedsDurable();
    // Recorded first: if this process dies before the event is enqueued, redrive enqueues it after leaseMs.
    const recorded = await recordOne(event, origin, json);
    if (recorded === 'done') return { kind: 'duplicate' };
    if (recorded === 'dead') return { kind: 'dead' };
    await orUnavailable('ERR_QUEUE_FAILED', queue.enqueue(event, { json }));
    return { kind: 'queued' };
  }

  function run(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    return isKnownEvent(event) ? claim(event, origin, json) : park(event, origin, json);
  }

  async function claim(event: WebhookEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    const { inbox } = settings;
    checkDurability(inbox);
    // An inbox that forgets leaves retries to the sender, and never dead-letters by attempts.
    const early = !inbox.durable;
    const claim = await orUnavailable(
      'ERR_INBOX_FAILED',
      inbox.claim(event, { leaseMs, origin, json, early }),
    );
    if (claim.state === 'claimed') {
      const onLate = (end: Promise<OutcomeResult>) => finishLate({ origin, event }, end);
      return await runHandler(event, claim.lease, { origin, settings, onLate, onRetry });
    }
    if (claim.state === 'done') return { kind: 'duplicate' };
    if (claim.state === 'dead') return { kind: 'dead' };
    throw claim.state === 'leased'
      ? new BusyError('ERR_EVENT_BUSY', 'Another process or delivery runs this event.', claim)
      : new BusyError('ERR_EVENT_NOT_DUE', 'The event failed and waits for its retry time.', claim);
  }

  async function park(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    const recorded = await recordOne(event, origin, json);
    return { kind: recorded === 'done' ? 'duplicate' : 'parked' };
  }

  async function recordOne(
    event: UnknownEvent,
    origin: Origin,
    json?: string,
  ): Promise<RecordResult | undefined> {
    const texts = json === undefined ? undefined : [json];
    const [recorded] = await record([event], { dueInMs: leaseMs, origin, json: texts });
    return recorded;
  }

  async function record(
    events: readonly UnknownEvent[],
    { dueInMs, origin, json }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const results: RecordResult[] = [];
    const store = async (known: boolean) => {
      const indexes = [...events.keys()].filter((index) => isKnownEvent(at(events, index)) === known);
      if (indexes.length === 0) return;
      const page = indexes.map((index) => at(events, index));
      const texts = json && indexes.map((index) => at(json, index));
      const stored = settings.inbox.record(page, { dueInMs: known ? dueInMs : null, origin, json: texts });
      for (const [position, result] of (await orUnavailable('ERR_INBOX_FAILED', stored)).entries()) {
        results[at(indexes, position)] = result;
      }
    };
    await store(true);
    await store(false);
    for (const [index, event] of events.entries()) {
      if (results[index] !== 'new' || isKnownEvent(event)) continue;
      notify('onUnknown', settings.onUnknown, { value: event, logger });
    }
    return results;
  }

  /** The only place that catches errors: an error becomes an outcome, and every outcome is logged and reported. */
  async function conclude(
    delivery: Delivery,
    requestLogger: Logger,
    pipeline: (enter: () => void, delivery: Delivery) => Promise<OutcomeResult>,
  ): Promise<Outcome> {
    let entered = false;
    const enter = () => {
      if (closed) throw receiverClosed();
      running += 1;
      entered = true;
    };
    let result: OutcomeResult;
    try {
      result = await pipeline(enter, delivery);
    } catch (error) {
      result = toFailure(error);
    }
    // Frozen, because the response is made from it after the observer has seen it.
    const outcome: Outcome = Object.freeze(Object.assign(delivery, result));
    if (result.error !== undefined) logOutcome(outcome, requestLogger);
    notify('onOutcome', settings.onOutcome, { value: outcome, logger: requestLogger });
    if (entered) leave();
    return outcome;
  }

  function leave(): void {
    running -= 1;
    if (running === 0) for (const resolve of closing.splice(0)) resolve();
  }

  /** Waits for a handler that outlived its limit, and reports its end: its delivery is answered. */
  async function finishLate(delivery: Delivery, end: Promise<OutcomeResult>): Promise<void> {
    running += 1;
    const lapse = leaseLapsed(leaseMs);
    const hasLapsed = await orTimeout(end, leaseMs - settings.handlerTimeoutMs, () => lapse).then(
      () => false,
      (error) => error === lapse,
    );
    if (hasLapsed) {
      logOutcome({ ...delivery, ...toFailure(lapse) }, logger);
      leave();
    }
    const result = await end.catch(toFailure);
    const outcome: Outcome = Object.freeze({ ...delivery, ...result });
    logOutcome(outcome, logger);
    if (result.error === undefined) {
      log(logger, 'warn', `${result.kind} ${delivery.event?.id}: its handler ended after handlerTimeoutMs.`);
    }
    notify('onOutcome', settings.onOutcome, { value: outcome, logger });
    if (!hasLapsed) leave();
  }

  function checkDurability(inbox: Inbox<unknown>): void {
    if (durabilityChecked) return;
    durabilityChecked = true;
    const where = whereForgettingIsWrong();
    if (where !== undefined) warnNotDurable(inbox, { where, logger });
  }

  /** A durable inbox keeps retry times, so that somebody has to call redrive. */
  function onRetry(lease: Lease, retryAfterMs: number): void {
    if (redriven || retryWatched || !settings.inbox.durable) return;
    retryWatched = true;
    watchRetry(lease, retryAfterMs);
  }

  /** Says so when nothing has run the event two leases after its retry time. */
  function watchRetry({ id, attempt }: Pick<Lease, 'id' | 'attempt'>, retryAfterMs: number): void {
    const inbox: Inbox<unknown> & Partial<InboxOperations> = settings.inbox;
    const check = async () => {
      const record = redriven || closed ? undefined : await inbox.find?.(id);
      if (record?.state !== 'failed') {
        retryWatched = false;
      } else if (record.attempts !== attempt) {
        // A delivery ran it, and it failed again.
        const { attempts, updatedAt, dueAt } = record;
        watchRetry({ id, attempt: attempts }, (dueAt ?? updatedAt) - updatedAt);
      } else {
        const waitedS = Math.round((2 * leaseMs) / 1000);
        log(
          logger,
          'warn',
          `${id} failed and was due again ${waitedS} s ago, and nothing runs it. Call receiver.redrive() from a timer, or start a poller, in one of your processes.`,
        );
      }
    };
    const wait = () => {
      check().catch(() => {
        retryWatched = false;
      });
    };
    const timer = setTimeout(wait, Math.min(retryAfterMs + 2 * leaseMs, MAX_TIMER_MS));
    // Outside Node a timer is a number and keeps no process alive.
    if (typeof timer === 'object') timer.unref();
  }

  async function redrive({ signal, onOutcome }: RedriveOptions = {}) {
    const { inbox } = settings;
    redriven = true;
    const counts = emptyCounts();
    const take = { limit: REDRIVE_BATCH, visibilityTimeoutMs: leaseMs, types: EVENT_TYPES };
    // After leaseMs, events that were taken first and could not be processed would be due again.
    const until = performance.now() + leaseMs;
    while (!signal?.aborted && !closed && performance.now() < until) {
      const due = await orUnavailable('ERR_INBOX_FAILED', inbox.takeDue(take));
      if (due.length === 0) break;
      const outcomes = await Promise.all(due.map(({ event, json }) => accept(event, 'redrive', { json })));
      for (const outcome of outcomes) {
        counts[outcome.kind] += 1;
        onOutcome?.(outcome);
      }
    }
    return counts;
  }

  async function close(): Promise<void> {
    closed = true;
    if (running === 0) return;
    const ended = new Promise<void>((resolve) => closing.push(resolve));
    // An inbox that stopped answering must not keep the process.
    await orTimeout(ended, leaseMs, receiverClosed).catch(() => undefined);
  }

  const receiver = { receive, accept, handle, record, redrive, close, [Symbol.asyncDispose]: close };
  // As in the settings: a plain property, or one that makes the inbox when it is read.
  const inbox = Object.getOwnPropertyDescriptor(settings, 'inbox');
  return Object.defineProperty(receiver, 'inbox', { ...inbox }) as Receiver;
}

/** The element of a list that has one there. */
function at<Value>(list: readonly Value[], index: number): Value {
  return list[index] as Value;
}

/** Why an inbox that forgets is a mistake in this process, if it is known to be one. */
function whereForgettingIsWrong(): string | undefined {
  // By globalThis: bundlers for edge runtimes warn about the members of `process`.
  const { process } = globalThis;
  try {
    const cluster: object | undefined = process?.getBuiltinModule?.('node:cluster');
    if (cluster && 'isWorker' in cluster && cluster.isWorker) return 'this process is one of a cluster';
  } catch {
    // Next's Edge runtime throws: it has no processes.
  }
  return process?.env?.['NODE_ENV'] === 'production' ? 'NODE_ENV is production' : undefined;
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

function leaseLapsed(leaseMs: number): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `The handler still runs after its lease of ${leaseMs} ms, and can be started beside itself. Pass \`signal\` to what it waits for, or raise leaseMs.`,
    { retryAfterMs: 1_000 },
  );
}
