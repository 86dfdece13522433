/** The receiver: verifies deliveries, and runs each event's handler once. */
import { backoffMs } from '../core/backoff.js';
import { isBytes } from '../core/bytes.js';
import {
  BusyError,
  ConfigError,
  describeThrown,
  orUnavailable,
  RequestError,
  refuseOthers,
} from '../core/errors.js';
import {
  EVENT_TYPES,
  isKnownEvent,
  readEvent,
  readText,
  toEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import { abortSignal, integer, readOptions } from '../core/options.js';
import {
  type Claim,
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type Lease,
  type Logger,
  type Origin,
  type Queue,
  type RecordResult,
  type StoredEvent,
} from '../core/ports.js';
import { orAborted, orTimeout, type Runtime, setBackgroundTimeout } from '../core/runtime.js';
import { verifySignature } from '../core/signature.js';
import { createDueWatch } from './due-watch.js';
import {
  queueNeedsDurable,
  type ReceiverOptions,
  readReceiverOptions,
  recordedNeedsDurable,
} from './options.js';
import type { Telemetry } from './outcome.js';
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
import { assertDelivery } from './request-checks.js';
import { type ClaimOrParked, createClaimWithoutHandler, orderingKeyOf, runHandler } from './run-handler.js';
import { type Runner, type RunOptions, startRunner } from './runner.js';
import { Slots } from './slots.js';

/** One HTTP request as an adapter hands it in. An adapter knows its framework, and nothing else. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The path and query as the sender requested them, with every prefix that the receiver is mounted at; or the absolute
   * URL. A `secret` function sees them.
   *
   * @default ''
   */
  readonly url?: string | undefined;
  /** The value of a header, several joined by a comma. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBytes`. Called at most once, after the cheap checks.
   *
   * Rejects with a {@link RequestError}: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Called when the body takes longer than `bodyTimeoutMs`: stops reading and frees what was read. It can throw a
   * {@link RequestError} that explains better why the body did not arrive, in place of `ERR_BODY_TIMEOUT`.
   */
  cancelBody?(): void;
  /**
   * Called with what continues after the answer, if anything does: handlers under `acknowledge: 'recorded'`, and a
   * handler that outlives `handlerTimeoutMs`. It keeps the invocation alive until that has ended, at the latest after
   * `leaseMs`. The promise never rejects. Leave it out where the process keeps running.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** The framework's logger of this request; the `logger` of the receiver has precedence. @default console */
  readonly logger?: Logger | undefined;
}

/** How events are recorded. */
export interface RecordOptions {
  /** When events of known types are due, in ms from now, an integer from 0, if nothing runs them before. */
  readonly dueInMs: number;
  readonly origin: Origin;
  /**
   * The JSON of each event as it arrived, in the same order, to be stored unchanged: its `id` and `type` must be those of
   * the event.
   *
   * @default the events serialized
   */
  readonly json?: readonly string[] | undefined;
}

/** What is known of an authentic event beside itself. */
export interface AcceptOptions {
  /**
   * The event's JSON as it arrived, to be stored and enqueued unchanged: its `id` and `type` must be those of the event.
   *
   * @default the event serialized
   */
  readonly json?: string | undefined;
  /** The trace context that the event came with, such as that of its job, as a W3C `traceparent`. @default none */
  readonly traceparent?: string | undefined;
  /** Called with a handler that outlives `handlerTimeoutMs`, as that of a {@link WebhookRequest}. @default none */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/**
 * Receives events. `receive`, `accept` and `handle` never throw or reject: each resolves to an {@link Outcome}. What is
 * handed over and is no event, such as `null`, is `rejected` with `ERR_EVENT_MALFORMED`; another argument that is wrong,
 * such as the JSON of another event, is `failed` with `ERR_CONFIG_INVALID`. Neither reaches the inbox.
 */
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
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an element is not an event, an option is missing, unknown or makes no
   * sense, or the function that gives the inbox fails.
   */
  record(events: readonly UnknownEvent[], options: RecordOptions): Promise<readonly RecordResult[]>;
  /**
   * Accepts what is due in the inbox: received events, failed ones at their retry time, lapsed leases, and parked
   * events of types that are known by now. The catch-up poller and {@link Receiver.run} call it; or call it from a
   * cron job. It ends when nothing is due; after `leaseMs` it takes no further event. Without `waitUntil`, a handler that
   * outlives `handlerTimeoutMs` is waited for until it ends, or its lease, or until the signal aborts.
   *
   * @returns how many events ended in which way.
   * @throws {UnavailableError} `ERR_INBOX_FAILED` when the inbox cannot be asked.
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or wrong, or the function that gives the inbox
   * fails.
   */
  redrive(options?: RedriveOptions): Promise<OutcomeCounts>;
  /**
   * Redrives at intervals, and at once when an event has ended that others of its ordering key may wait for: in this
   * process, and with Postgres in any process if the client can `LISTEN`. It logs one line when the inbox cannot be
   * asked or the connection that listens is lost, and one when that works again. It keeps the process alive.
   *
   * @returns when it has ended, by its signal or `close()`.
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is wrong, or this receiver already runs.
   */
  run(options?: RunOptions): Promise<void>;
  /**
   * Refuses new deliveries: `receive`, `accept` and `handle` answer `busy`, and `redrive` and `run` stop. Resolves when
   * the deliveries that were verified before have ended, and their handlers, too: at the latest after `leaseMs`. It does
   * not wait for bodies that still arrive.
   */
  close(): Promise<void>;
  /** The same as {@link Receiver.close}. */
  [Symbol.asyncDispose](): Promise<void>;
  /** The inbox that this receiver uses; one that is given as a function is made by now. @throws {ConfigError} */
  readonly inbox: Inbox<unknown>;
  /** How many handlers run at the same time in this process; `undefined` without a limit. */
  readonly maxConcurrency: number | undefined;
  /** What observes this receiver; one that does nothing if none was given. */
  readonly telemetry: Telemetry;
}

/** How to redrive. */
export interface RedriveOptions {
  /** Ends it early: events that run are waited for, unless they have outlived `handlerTimeoutMs`. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each outcome, as the receiver's own `onOutcome` is. It must not throw. */
  readonly onOutcome?: ((outcome: Outcome) => void) | undefined;
  /** Called with the handlers that outlive `handlerTimeoutMs`, for which `redrive` then does not wait. @default none */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** What ends when handlers that outlived their limit do, at the latest when their leases lapse. It never rejects. */
type Late = Set<Promise<void>>;

/** What a step knows of an event beside its origin. */
interface StepOptions {
  /** The event as it arrived, if known. */
  readonly json?: string | undefined;
  /** Gets the handler if it outlives its limit. */
  readonly late?: Late | undefined;
}

/** How many events `redrive` runs at a time. */
const REDRIVE_WIDTH = 16;

/** The wait after a drain that failed. */
const DRAIN_RETRY = { baseMs: 1_000, maxMs: 60_000 } as const;

/** How soon to try again when this process stops: a restart takes seconds. */
const RESTART_MS = 5_000;

/** How soon to try again when all slots are taken: from a second to this, so that a burst does not return as one. */
const SLOTS_TAKEN_MS = 5_000;

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
  const { leaseMs, bodyTimeoutMs, runtime, telemetry } = settings;
  const logger = settings.logger ?? console;
  let running = 0;
  let closed = false;
  const closing: (() => void)[] = [];
  let inboxUsed = false;
  let durabilityChecked = false;
  let platformChecked = false;
  let redrivenAt = Number.NEGATIVE_INFINITY;
  const slots = settings.maxConcurrency === undefined ? undefined : new Slots(settings.maxConcurrency);
  const isAnsweredFirst = settings.acknowledge === 'recorded';
  let runner: Runner | undefined;
  let draining: Promise<void> | undefined;
  const lateOfDrain: Late = new Set();
  let drainsAgain = false;
  let failedDrains = 0;
  // Made by `run`: Workers refuse to make one while they load a module, where receivers are made.
  let ending: AbortController | undefined;
  const claimWithoutHandler = createClaimWithoutHandler(settings, logger);
  const handled = EVENT_TYPES.filter((type) => hasHandler({ type }));
  // Which parked events are due here. Behind a queue, the workers have the handlers.
  const dueTypes = handled.length === 0 && options.queue !== undefined ? EVENT_TYPES : handled;
  // A durable inbox keeps what is due, so that somebody has to call redrive.
  const onRetry = createDueWatch({
    inbox: () => settings.inbox,
    leaseMs,
    logger,
    runtime,
    isRedriven: () => runner !== undefined || redrivenAt > runtime.elapsed() - 2 * leaseMs,
    isClosed: () => closed,
  });

  async function receive(request: WebhookRequest): Promise<Outcome> {
    const requestLogger = loggerOf(request);
    let background: (() => Promise<unknown>) | undefined;
    const outcome = await conclude({ origin: 'push' }, requestLogger, async (enter, delivery) => {
      if (closed) throw receiverClosed();
      if (slots?.free === 0 && !isAnsweredFirst && settings.queue === undefined) throw slotsTaken(runtime);
      assertDelivery(request);
      const secret = typeof settings.secret === 'function' ? settings.secret(request) : settings.secret;
      const { body, secretIndex } = await verifySignature(
        () => readBody(request),
        request.header(settings.signature.header),
        { ...settings.signature, secret },
      );
      enter();
      delivery.secretIndex = secretIndex;
      const { parsed, json } = readEvent(body);
      delivery.event = parsed.event;
      if (!isAnsweredFirst || !parsed.known) {
        const late: Late = new Set();
        const result = await dispatch(parsed.event, 'push', { json, late });
        if (late.size > 0) background = () => Promise.all(late);
        return result;
      }
      const askedAt = runtime.elapsed();
      const { result, lease } = await store(parsed.event, json);
      if (lease === undefined) {
        background = () => atMost(leaseMs, drained());
      } else {
        // Before this delivery leaves: `close` waits for both.
        running += 1;
        background = () => runStored({ ...delivery }, { lease, askedAt }, requestLogger);
      }
      return result;
    });
    if (background !== undefined) keepAlive(request, background(), requestLogger);
    return outcome;
  }

  function loggerOf(request: WebhookRequest): Logger {
    try {
      return settings.logger ?? request.logger ?? console;
    } catch {
      // What was handed over is no request: its outcome says so.
      return console;
    }
  }

  /** Has the platform wait for the work. The answer does not depend on it: the event is stored. */
  function keepAlive(request: WebhookRequest, work: Promise<unknown>, requestLogger: Logger): void {
    const handOver = () => {
      if (request.waitUntil !== undefined) return request.waitUntil(work);
      if (platformChecked) return;
      platformChecked = true;
      warnStopped(requestLogger);
    };
    notify('waitUntil', handOver, { value: undefined, logger: requestLogger });
  }

  type Step = (event: UnknownEvent, origin: Origin, options?: StepOptions) => Promise<OutcomeResult>;

  /** A step for authentic events that others hand over. What is wrong with an argument becomes the outcome. */
  const takeWith =
    (name: 'accept' | 'handle', step: Step) =>
    (event: UnknownEvent, origin: Origin, options: AcceptOptions = {}): Promise<Outcome> => {
      // An origin that there is not would be in logs and metrics.
      const delivery: Delivery = { origin: isOrigin(origin) ? origin : 'push' };
      let run: Pipeline;
      let trace: string | undefined;
      try {
        toEvent(event);
        delivery.event = event;
        const { json, traceparent, waitUntil } = readAcceptOptions(`receiver.${name}`, {
          event,
          origin,
          options,
        });
        trace = traceparent;
        run = async (enter) => {
          enter();
          if (origin === 'queue' && !settings.inbox.durable) throw queueNeedsDurable(`receiver.${name}`);
          const late: Late = new Set();
          const result = await step(event, origin, { json, late });
          handOver(late, waitUntil);
          return result;
        };
      } catch (error) {
        run = () => {
          throw error;
        };
      }
      return conclude(delivery, logger, run, trace);
    };
  /** Has the caller wait for handlers that outlived their limit. */
  function handOver(late: Late, waitUntil: AcceptOptions['waitUntil']): void {
    if (late.size === 0 || waitUntil === undefined) return;
    notify('waitUntil', waitUntil, { value: Promise.all(late), logger });
  }

  const accept = takeWith('accept', dispatch);
  const handle = takeWith('handle', runOrPark);

  async function readBody(request: WebhookRequest): Promise<Uint8Array> {
    const body = request.body(settings.maxBodyBytes);
    if (isBytes(body)) return body;
    const toError = () => {
      request.cancelBody?.();
      return new RequestError(
        'ERR_BODY_TIMEOUT',
        `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
      );
    };
    return await orTimeout(body, { runtime, ms: bodyTimeoutMs, toError });
  }

  function dispatch(event: UnknownEvent, origin: Origin, options: StepOptions = {}): Promise<OutcomeResult> {
    const { queue } = settings;
    return queue !== undefined && isKnownEvent(event)
      ? enqueue(event, origin, { queue, json: options.json })
      : runOrPark(event, origin, options);
  }

  async function enqueue(
    event: WebhookEvent,
    origin: Origin,
    { queue, json }: { readonly queue: Queue; readonly json: string | undefined },
  ): Promise<OutcomeResult> {
    if (!settings.inbox.durable) throw queueNeedsDurable('createReceiver');
    // Recorded first: if this process dies before the event is enqueued, redrive enqueues it after leaseMs.
    const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });
    if (recorded === 'done') return { kind: 'duplicate' };
    if (recorded === 'dead') return { kind: 'dead' };
    const recordedBy = recorded === 'new' ? undefined : await traceOf(event.id);
    const enqueued = telemetry.enqueue(event, recordedBy, () =>
      queue.enqueue(event, { json, traceparent: telemetry.traceparent() }),
    );
    await orUnavailable('ERR_QUEUE_FAILED', enqueued);
    return { kind: 'queued' };
  }

  /** The trace context that an event was recorded with; asked for only if this delivery is in a trace that is sampled. */
  async function traceOf(id: string): Promise<string | undefined> {
    const inbox: Inbox<Tx> & Partial<InboxOperations> = settings.inbox;
    const isSampled = telemetry.traceparent()?.endsWith('1') === true;
    if (!isSampled || inbox.find === undefined) return undefined;
    try {
      return (await inbox.find(id))?.traceparent ?? undefined;
    } catch {
      // A link that is missing changes nothing.
      return undefined;
    }
  }

  function runOrPark(event: UnknownEvent, origin: Origin, options: StepOptions = {}): Promise<OutcomeResult> {
    return isKnownEvent(event) ? claim(event, origin, options) : park(event, origin, options.json);
  }

  async function claim(
    event: WebhookEvent,
    origin: Origin,
    { json, late }: StepOptions,
  ): Promise<OutcomeResult> {
    if (slots !== undefined && !slots.tryTake()) {
      if (origin === 'push') throw slotsTaken(runtime);
      await slots.take();
    }
    const askedAt = runtime.elapsed();
    let claim: ClaimOrParked | undefined;
    try {
      claim = await claimOrLeave(event, origin, json);
    } finally {
      if (claim?.state !== 'claimed') slots?.release();
    }
    switch (claim.state) {
      case 'claimed':
        return await runClaimed({ origin, event }, claim.lease, { askedAt, late });
      case 'done':
        return { kind: kindOfDone(event) };
      case 'dead':
      case 'parked':
        return { kind: claim.state };
      case 'leased':
        throw new BusyError('ERR_EVENT_BUSY', 'Another process or delivery runs this event.', claim);
      case 'failed':
        throw new BusyError('ERR_EVENT_NOT_DUE', 'The event failed and waits for its retry time.', claim);
      case 'waiting':
        onRetry({ id: event.id, attempt: 0 }, claim.retryAfterMs);
        throw new BusyError(
          'ERR_KEY_BUSY',
          'Another event of the same ordering key runs. This one is stored, and redrive() or run() runs it in turn.',
          // The other handler is expected to end by then; its lease is for the case that its process died.
          { retryAfterMs: Math.min(claim.retryAfterMs, settings.handlerTimeoutMs) },
        );
    }
  }

  function hasHandler({ type }: Pick<WebhookEvent, 'type'>): boolean {
    return settings.handlers[type] !== undefined;
  }

  /** What an event that is done is answered: without a handler the same at every delivery, because none has run it here. */
  function kindOfDone(event: WebhookEvent): 'duplicate' | 'ignored' {
    return hasHandler(event) ? 'duplicate' : 'ignored';
  }

  /** Claims an event, unless it has no handler here and another process has to run it. */
  function claimOrLeave(event: WebhookEvent, origin: Origin, json?: string): Promise<ClaimOrParked> {
    if (hasHandler(event)) return claimOnly(event, origin, { json });
    return claimWithoutHandler(event, {
      record: () => recordBefore(event, origin, json),
      claim: (leaseMs) => claimOnly(event, origin, { json, leaseMs }),
    });
  }

  /** Records an event that is claimed next, which is what telemetry observes. */
  async function recordBefore(
    event: WebhookEvent,
    origin: Origin,
    json: string | undefined,
  ): Promise<RecordResult | undefined> {
    const options = {
      dueInMs: leaseMs,
      origin,
      json: json === undefined ? undefined : [json],
      keys: [orderingKeyOf(event, settings)],
      traceparent: telemetry.traceparent(),
    };
    const recorded = openInbox().record([event], options);
    const [state] = await orUnavailable('ERR_INBOX_FAILED', recorded, hasResults(1));
    return state;
  }

  /** Not async, as few as possible of what runs at every delivery: each such function takes half a kilobyte. */
  function claimOnly(
    event: WebhookEvent,
    origin: Origin,
    {
      json,
      leaseMs = settings.leaseMs,
    }: { readonly json: string | undefined; readonly leaseMs?: number | undefined },
  ): Promise<Claim> {
    const inbox = openInbox();
    checkDurability(inbox);
    // An inbox that forgets leaves retries to the sender, and never dead-letters by attempts.
    const early = !inbox.durable;
    const key = orderingKeyOf(event, settings);
    const options = { leaseMs, origin, json, early, key, traceparent: telemetry.traceparent() };
    return orUnavailable(
      'ERR_INBOX_FAILED',
      telemetry.claim(event, () => inbox.claim(event, options)),
      isClaim,
    );
  }

  /** Runs the handler of a claimed event in the slot that is taken for it. `askedAt`: when the claim was asked for. */
  function runClaimed(
    delivery: Delivery & { event: WebhookEvent },
    lease: Lease,
    { askedAt, late = new Set() }: { readonly askedAt: number; readonly late?: Late | undefined },
  ): Promise<OutcomeResult> {
    const { origin, event } = delivery;
    const leftMs = leaseMs - (runtime.elapsed() - askedAt);
    // Another process can run the event by now.
    if (leftMs <= 0) {
      onEnded(lease);
      throw leaseLapsedBefore(leaseMs);
    }
    const limitMs = Math.min(settings.handlerTimeoutMs, leftMs);
    const onLate = (end: Promise<OutcomeResult>) => {
      // Counted from now: the inbox began the lease after it was asked, and until its end the handler holds the event.
      const finished = finishLate(delivery, end, { lease, leftMs: leaseMs - limitMs }).then(() => {
        late.delete(finished);
      });
      late.add(finished);
    };
    return runHandler(event, lease, { origin, settings, limitMs, onEnded, onLate, onRetry });
  }

  /** An attempt has ended: its slot is free, and the next event of its key can be due. */
  function onEnded({ key }: Lease): void {
    slots?.release();
    if (key !== undefined) wake();
  }

  /** Stores a delivery that is answered before its handler runs; with a lease if it can run at once. */
  async function store(
    event: WebhookEvent,
    json: string,
  ): Promise<{ readonly result: OutcomeResult; readonly lease?: Lease }> {
    if (!settings.inbox.durable) throw recordedNeedsDurable();
    let state: ClaimOrParked['state'] | RecordResult | undefined;
    if (slots === undefined || slots.tryTake()) {
      try {
        const claim = await claimOrLeave(event, 'push', json);
        ({ state } = claim);
        if (claim.state === 'claimed') return { result: { kind: 'queued' }, lease: claim.lease };
        if (claim.state === 'waiting') onRetry({ id: event.id, attempt: 0 }, claim.retryAfterMs);
      } finally {
        if (state !== 'claimed') slots?.release();
      }
    } else {
      state = await recordOne(event, 'push', { json, dueInMs: 0 });
      onRetry({ id: event.id, attempt: 0 }, 0);
      wake();
    }
    if (state === 'done') return { result: { kind: kindOfDone(event) } };
    // A parked event whose type has a handler here is due.
    if (state === 'parked' && !hasHandler(event)) return { result: { kind: 'parked' } };
    return { result: { kind: state === 'dead' ? 'dead' : 'queued' } };
  }

  /** Runs the handler of a delivery that is answered, and what waited for it: resolves within `leaseMs`, never rejects. */
  async function runStored(
    delivery: Delivery,
    { lease, askedAt }: { readonly lease: Lease; readonly askedAt: number },
    requestLogger: Logger,
  ): Promise<void> {
    // A handler that begins with much work must not delay the answer.
    await new Promise<void>((resolve) => runtime.setTimeout(resolve, 0));
    const { origin, secretIndex } = delivery;
    const event = delivery.event as WebhookEvent;
    const late: Late = new Set();
    await conclude({ origin, event, ...(secretIndex !== undefined && { secretIndex }) }, requestLogger, () =>
      runClaimed({ origin, event }, lease, { askedAt, late }),
    );
    leave();
    await Promise.all(late);
    await atMost(leaseMs - (runtime.elapsed() - askedAt), drained());
  }

  /** Waits for work, for this time at most. */
  async function atMost(ms: number, work: Promise<unknown> = Promise.resolve()): Promise<void> {
    await orTimeout(work, { runtime, ms, toError: receiverClosed }).catch(() => undefined);
  }

  /** Something may be due now. */
  function wake(): void {
    if (runner !== undefined) runner.wake();
    else if (isAnsweredFirst && !closed) drain();
  }

  /** Resolves when what is drained has ended, with the handlers that outlived their limit. */
  async function drained(): Promise<void> {
    await draining;
    await Promise.all(lateOfDrain);
  }

  /** Runs what is due, for deliveries that were answered and did not run at once. */
  function drain(): void {
    drainsAgain = true;
    draining ??= telemetry.detached(async () => {
      try {
        while (drainsAgain && !closed) {
          drainsAgain = false;
          if (await runDue({}, lateOfDrain)) drainsAgain = true;
        }
        failedDrains = 0;
      } catch (error) {
        failedDrains += 1;
        const waitMs = backoffMs(failedDrains, { ...DRAIN_RETRY, random: runtime.random() });
        if (failedDrains === 1) {
          log(
            logger,
            'error',
            `stored events could not be run, and are tried again. ${describeThrown(error)}`,
          );
        }
        setBackgroundTimeout(runtime, wake, waitMs);
      }
      draining = undefined;
    });
  }

  async function park(event: UnknownEvent, origin: Origin, json?: string): Promise<OutcomeResult> {
    const recorded = await recordOne(event, origin, { json, dueInMs: leaseMs });
    // Another release knows the type.
    if (recorded === 'done') return { kind: 'duplicate' };
    return { kind: recorded === 'dead' ? 'dead' : 'parked' };
  }

  async function recordOne(
    event: UnknownEvent,
    origin: Origin,
    { json, dueInMs }: { readonly json: string | undefined; readonly dueInMs: number },
  ): Promise<RecordResult | undefined> {
    const texts = json === undefined ? undefined : [json];
    const [recorded] = await recordAll([event], { dueInMs, origin, json: texts });
    return recorded;
  }

  async function record(
    events: readonly UnknownEvent[],
    options: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    assertRecordArguments(events, options);
    return await recordAll(events, options);
  }

  async function recordAll(
    events: readonly UnknownEvent[],
    { dueInMs, origin, json }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const results: RecordResult[] = [];
    const inbox = openInbox();
    const traceparent = telemetry.traceparent();
    const store = async (known: boolean) => {
      const indexes = [...events.keys()].filter((index) => isKnownEvent(at(events, index)) === known);
      if (indexes.length === 0) return;
      const page = indexes.map((index) => at(events, index));
      const texts = json && indexes.map((index) => at(json, index));
      const keys = known ? page.map((event) => orderingKeyOf(event as WebhookEvent, settings)) : undefined;
      const options = { dueInMs: known ? dueInMs : null, origin, json: texts, keys, traceparent };
      const stored = telemetry.record(page, () => inbox.record(page, options));
      const answer = await orUnavailable('ERR_INBOX_FAILED', stored, hasResults(page.length));
      for (const [position, result] of answer.entries()) results[at(indexes, position)] = result;
    };
    await store(true);
    await store(false);
    for (const [index, event] of events.entries()) {
      if (results[index] !== 'new' || isKnownEvent(event)) continue;
      notify('onUnknown', settings.onUnknown, { value: event, logger });
    }
    return results;
  }

  type Pipeline = (enter: () => void, delivery: Delivery) => Promise<OutcomeResult>;

  function conclude(
    delivery: Delivery,
    requestLogger: Logger,
    pipeline: Pipeline,
    traceparent?: string,
  ): Promise<Outcome> {
    return telemetry.delivery(delivery, () => toOutcome(delivery, requestLogger, pipeline), traceparent);
  }

  /** The only place that catches errors: an error becomes an outcome, and every outcome is logged and reported. */
  async function toOutcome(delivery: Delivery, requestLogger: Logger, pipeline: Pipeline): Promise<Outcome> {
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
    if (!isContention(outcome)) logOutcome(outcome, requestLogger);
    notify('onOutcome', settings.onOutcome, { value: outcome, logger: requestLogger });
    if (entered) leave();
    return outcome;
  }

  function leave(): void {
    running -= 1;
    if (running === 0) for (const resolve of closing.splice(0)) resolve();
  }

  /** Waits for a handler that outlived its limit, until its lease lapses; its delivery is answered. */
  async function finishLate(
    delivery: Delivery,
    end: Promise<OutcomeResult>,
    { lease, leftMs }: { readonly lease: Lease; readonly leftMs: number },
  ): Promise<void> {
    running += 1;
    const ended = telemetry.delivery(delivery, () => reportLate(delivery, end));
    await orTimeout(ended, {
      runtime,
      ms: leftMs,
      toError: () => leaseLapsed(leaseMs),
    }).catch((lapsed) => logOutcome({ ...delivery, ...toFailure(lapsed) }, logger));
    onEnded(lease);
    leave();
  }

  /** Reports the end of a handler that outlived its limit. */
  async function reportLate(delivery: Delivery, end: Promise<OutcomeResult>): Promise<Outcome> {
    const result = await end.catch(toFailure);
    const outcome: Outcome = Object.freeze({ ...delivery, ...result });
    logOutcome(outcome, logger);
    if (result.error === undefined) {
      log(logger, 'warn', `${result.kind} ${delivery.event?.id}: its handler ended after handlerTimeoutMs.`);
    }
    notify('onOutcome', settings.onOutcome, { value: outcome, logger });
    return outcome;
  }

  function openInbox(): Inbox<Tx> {
    const { inbox } = settings;
    if (!inboxUsed) {
      inboxUsed = true;
      telemetry.inboxUsed(inbox);
    }
    return inbox;
  }

  function checkDurability(inbox: Inbox<unknown>): void {
    if (durabilityChecked) return;
    durabilityChecked = true;
    const where = whereForgettingIsWrong();
    if (where !== undefined) warnNotDurable(inbox, { where, logger });
  }

  async function redrive(options: RedriveOptions = {}): Promise<OutcomeCounts> {
    const { signal, onOutcome, waitUntil } = readRedriveOptions(options);
    redrivenAt = runtime.elapsed();
    return await telemetry.redrive(async () => {
      const counts = emptyCounts();
      const late: Late = new Set();
      const count = (outcome: Outcome) => {
        counts[outcome.kind] += 1;
        onOutcome?.(outcome);
      };
      await runDue({ signal, onOutcome: count }, late);
      handOver(late, waitUntil);
      // A platform can stop the process once its cron job has ended.
      if (waitUntil === undefined) await orAborted(Promise.all(late), signal);
      return counts;
    });
  }

  /** Runs what is due, a few events at a time; resolves to whether more can be due. */
  async function runDue(
    { signal, onOutcome }: Omit<RedriveOptions, 'waitUntil'>,
    late?: Late,
  ): Promise<boolean> {
    const inbox = openInbox();
    const width = Math.min(REDRIVE_WIDTH, settings.maxConcurrency ?? REDRIVE_WIDTH);
    const ends = new Set<Promise<void>>();
    // After leaseMs, events that were taken first and could not be processed would be due again.
    const until = runtime.elapsed() + leaseMs;
    const mayTake = () => !signal?.aborted && !closed && runtime.elapsed() < until;
    const start = ({ event, json }: StoredEvent) => {
      const run = () => dispatch(event, 'redrive', { json, late });
      const end = conclude({ origin: 'redrive', event }, logger, run).then((outcome) => {
        onOutcome?.(outcome);
        ends.delete(end);
      });
      ends.add(end);
    };
    let halt = () => {};
    const halted = new Promise<void>((resolve) => {
      halt = resolve;
    });
    signal?.addEventListener('abort', halt);
    // `close` waits for what is taken: nobody else would run it for a lease.
    running += 1;
    try {
      while (mayTake()) {
        // A request for each event that ends would take most of the time.
        const room = ends.size > width / 2 ? 0 : Math.min(width - ends.size, slots?.free ?? width);
        const take = { limit: room, visibilityTimeoutMs: leaseMs, types: dueTypes };
        const due = room === 0 ? [] : await orUnavailable('ERR_INBOX_FAILED', inbox.takeDue(take), areStored);
        for (const stored of due) start(stored);
        if (due.length > 0) continue;
        // An end can make the next event of its key due.
        if (ends.size > 0) await Promise.race(ends);
        else if (room === 0) await Promise.race([slots?.released(), halted]);
        else return false;
      }
    } finally {
      signal?.removeEventListener('abort', halt);
      await Promise.all(ends);
      leave();
    }
    return true;
  }

  async function run(options: RunOptions = {}): Promise<void> {
    const { intervalMs, signal } = readOptions('receiver.run', options, {
      intervalMs: integer({ default: 5_000 }),
      signal: abortSignal(),
    });
    if (runner !== undefined) throw new ConfigError('receiver.run: it runs already.');
    ending = new AbortController();
    if (closed) ending.abort();
    const halt = signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal]);
    // It outlives the step that starts it, such as the span of a start-up.
    runner = telemetry.detached(() =>
      startRunner({
        intervalMs,
        signal: halt,
        runDue: (stop) => runDue({ signal: stop }),
        inbox: () => settings.inbox,
        logger,
        runtime,
      }),
    );
    await runner.ended;
    runner = undefined;
  }

  async function close(): Promise<void> {
    closed = true;
    ending?.abort();
    const ended = running === 0 ? undefined : new Promise<void>((resolve) => closing.push(resolve));
    // An inbox that stopped answering must not keep the process.
    await atMost(leaseMs, Promise.all([ended, runner?.ended]));
    if (inboxUsed) telemetry.inboxClosed(settings.inbox);
    inboxUsed = false;
  }

  const { maxConcurrency } = settings;
  const methods = { receive, accept, handle, record, redrive, run, close, [Symbol.asyncDispose]: close };
  const receiver = { ...methods, maxConcurrency, telemetry };
  // As in the settings: a plain property, or one that makes the inbox when it is read.
  const inbox = Object.getOwnPropertyDescriptor(settings, 'inbox');
  return Object.defineProperty(receiver, 'inbox', { ...inbox }) as Receiver;
}

const ORIGINS: readonly unknown[] = ['push', 'pull', 'queue', 'redrive'] satisfies Origin[];

function isOrigin(value: unknown): boolean {
  return ORIGINS.includes(value);
}

function assertOrigin(where: string, origin: unknown): void {
  if (isOrigin(origin)) return;
  throw new ConfigError(`${where}: \`origin\` must be one of ${ORIGINS.join(', ')}.`);
}

/** Inboxes store the text, and `redrive` runs it in place of the event: another one would lose the event. */
function assertJson(name: string, json: unknown, { id, type }: UnknownEvent): void {
  try {
    if (typeof json === 'string') {
      const { event } = readText(json);
      if (event.id === id && event.type === type) return;
    }
  } catch {
    // It is not the JSON of an event.
  }
  throw new ConfigError(
    `${name} must be the JSON of the event, with its \`id\` and \`type\`. Pass the text that the event was parsed from, or leave it out.`,
  );
}

const ACCEPT_OPTIONS = ['json', 'traceparent', 'waitUntil'];

/** @throws {ConfigError} `ERR_CONFIG_INVALID` */
function readAcceptOptions(
  where: string,
  {
    event,
    origin,
    options,
  }: { readonly event: UnknownEvent; readonly origin: Origin; readonly options: AcceptOptions },
): AcceptOptions {
  assertOrigin(where, origin);
  assertOptions(where, options, ACCEPT_OPTIONS);
  const { json, traceparent, waitUntil, ...others } = options;
  refuseOthers(where, others, ACCEPT_OPTIONS);
  if (json !== undefined) assertJson(`${where}: \`json\``, json, event);
  if (traceparent !== undefined && typeof traceparent !== 'string') {
    throw new ConfigError(`${where}: \`traceparent\` must be a string.`);
  }
  assertFunctions(where, { waitUntil });
  return { json, traceparent, waitUntil };
}

/** @throws {ConfigError} `ERR_CONFIG_INVALID` when one is given and no function. */
function assertFunctions(where: string, options: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || typeof value === 'function') continue;
    throw new ConfigError(`${where}: \`${name}\` must be a function.`);
  }
}

const REDRIVE_OPTIONS = ['signal', 'onOutcome', 'waitUntil'];

/** @throws {ConfigError} `ERR_CONFIG_INVALID` */
function readRedriveOptions(options: RedriveOptions): RedriveOptions {
  const where = 'receiver.redrive';
  assertOptions(where, options, REDRIVE_OPTIONS);
  const { signal, onOutcome, waitUntil, ...others } = options;
  refuseOthers(where, others, REDRIVE_OPTIONS);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new ConfigError(`${where}: \`signal\` must be an AbortSignal.`);
  }
  assertFunctions(where, { onOutcome, waitUntil });
  return { signal, onOutcome, waitUntil };
}

const RECORD_OPTIONS = ['dueInMs', 'origin', 'json'];

function assertOptions(where: string, options: unknown, names: readonly string[]): void {
  if (typeof options === 'object' && options !== null) return;
  throw new ConfigError(`${where}: the options must be an object. They are ${names.join(', ')}.`);
}

function assertRecordArguments(events: readonly UnknownEvent[], options: RecordOptions): void {
  const where = 'receiver.record';
  if (!Array.isArray(events)) {
    throw new ConfigError(`${where}: the first argument must be an array of events.`);
  }
  assertOptions(where, options, RECORD_OPTIONS);
  const { dueInMs, origin, json, ...others } = options;
  refuseOthers(where, others, RECORD_OPTIONS);
  if (!Number.isSafeInteger(dueInMs) || dueInMs < 0) {
    throw new ConfigError(`${where}: \`dueInMs\` must be an integer from 0.`);
  }
  assertOrigin(where, origin);
  if (json !== undefined && !(Array.isArray(json) && json.length === events.length)) {
    throw new ConfigError(`${where}: \`json\` must be an array with the JSON of each event.`);
  }
  for (const [index, event] of events.entries()) {
    try {
      toEvent(event);
    } catch (cause) {
      const fix = 'Pass events as the service sends them, with id, type, created_at and payload.';
      throw new ConfigError(`${where}: \`events[${index}]\` is not an event; see the cause. ${fix}`, {
        cause,
      });
    }
    if (json !== undefined) assertJson(`${where}: \`json[${index}]\``, json[index], event);
  }
}

const OTHERS_STATES: readonly unknown[] = ['leased', 'failed', 'waiting'] satisfies Claim['state'][];

/** Whether an inbox has answered a claim: another answer must not pass for a success. */
function isClaim(answer: Claim): boolean {
  const { state, lease, retryAfterMs } = Object(answer) as Partial<
    Record<'state' | 'retryAfterMs', unknown> & { readonly lease: Partial<Lease> }
  >;
  if (state === 'claimed') return typeof lease?.attempt === 'number';
  if (OTHERS_STATES.includes(state)) return typeof retryAfterMs === 'number';
  return state === 'done' || state === 'dead';
}

const RESULTS: readonly unknown[] = ['new', ...INBOX_STATES];

/** Whether an inbox has answered for each of so many events. */
const hasResults = (count: number) => (answer: readonly RecordResult[]) =>
  Array.isArray(answer) && answer.length === count && answer.every((result) => RESULTS.includes(result));

/** Whether an inbox has answered with events: others would be asked for again without end. */
function areStored(answer: readonly StoredEvent[]): boolean {
  return Array.isArray(answer) && answer.every((stored) => typeof Object(stored).event?.id === 'string');
}

/** The element of a list that has one there. */
function at<Value>(list: readonly Value[], index: number): Value {
  return list[index] as Value;
}

/** Whether several processes redrove at the same time: one of them runs the event, and nobody has to know. */
function isContention({ origin, error }: Outcome): boolean {
  return origin === 'redrive' && (error?.code === 'ERR_KEY_BUSY' || error?.code === 'ERR_EVENT_BUSY');
}

/** Why an inbox that forgets is a mistake in this process, if it is known to be one. */
function whereForgettingIsWrong(): string | undefined {
  const { process } = globalThis;
  try {
    const cluster: object = process.getBuiltinModule('node:cluster');
    if ('isWorker' in cluster && cluster.isWorker) return 'this process is one of a cluster';
  } catch {
    // A platform without processes, or without clusters.
  }
  return environment()['NODE_ENV'] === 'production' ? 'NODE_ENV is production' : undefined;
}

/** Says so where the platform stops a function once it has answered, and nothing tells it to wait. */
function warnStopped(logger: Logger): void {
  const platform = platformThatStops();
  if (platform === undefined) return;
  log(
    logger,
    'warn',
    `${platform} stops a function once it has answered, and nothing tells it to wait for the handlers: an event whose handler is stopped runs again by redrive() after leaseMs. Use toFetchHandler with \`waitUntil\`, toNextRoute with \`after\`, or on AWS Lambda toLambdaHandler: other adapters cannot tell it.`,
  );
}

/** The platform of this process, if it is known to stop functions. */
function platformThatStops(): string | undefined {
  const variables = environment();
  if (variables['VERCEL'] !== undefined) return 'Vercel';
  if (variables['AWS_LAMBDA_FUNCTION_NAME'] !== undefined) return 'AWS Lambda';
  return globalThis.navigator?.userAgent === 'Cloudflare-Workers' ? 'Cloudflare Workers' : undefined;
}

/** The environment variables; none on a platform without processes. */
function environment(): Readonly<Record<string, string | undefined>> {
  // By globalThis: bundlers for edge runtimes warn about the members of `process`.
  const { process } = globalThis;
  return process?.env ?? {};
}

/** The cheap checks of a request. */
function receiverClosed(): BusyError {
  return new BusyError('ERR_RECEIVER_CLOSED', 'The receiver is closing. Try again later.', {
    retryAfterMs: RESTART_MS,
  });
}

function slotsTaken({ random }: Runtime): BusyError {
  return new BusyError(
    'ERR_RECEIVER_BUSY',
    'As many handlers run as maxConcurrency allows. Try again later.',
    { retryAfterMs: 1_000 + random() * (SLOTS_TAKEN_MS - 1_000) },
  );
}

/** The process was stopped, as a function can be after its answer, or the inbox took long to answer. */
function leaseLapsedBefore(leaseMs: number): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `The handler was not started, because its lease of ${leaseMs} ms was over by then: the process was stopped, or the inbox took that long to answer. redrive() or run() runs the event again.`,
    { retryAfterMs: 1_000 },
  );
}

function leaseLapsed(leaseMs: number): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `The handler still runs after its lease of ${leaseMs} ms, and can be started beside itself. Pass \`signal\` to what it waits for, or raise leaseMs.`,
    { retryAfterMs: 1_000 },
  );
}
