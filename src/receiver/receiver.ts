/** The receiver: connects its parts, and has its public methods. */
import { Deadlines } from '#deadlines';
import { isPromise } from '../core/awaitable.js';
import type { AsyncDisposal } from '../core/disposal.js';
import { ConfigError } from '../core/errors.js';
import {
  EVENT_TYPES,
  isKnownEvent,
  readEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import { notify } from '../core/log.js';
import type { Inbox, Origin } from '../core/ports.js';
import { atMost, inTime, orAborted } from '../core/runtime.js';
import { decodeSignature, matchSecret } from '../core/signature.js';
import { answerFirst, awaitIdle, storeForLater } from '../flow/answer-first.js';
import { enqueueEvents, enqueueInto } from '../flow/enqueue.js';
import { limitConcurrency, Slots } from '../flow/limit.js';
import { checkKey, keyedInbox, wakeAfter } from '../flow/order.js';
import { cancelBody } from './body.js';
import { createDispatch } from './dispatch.js';
import { InFlight, receiverClosed } from './in-flight.js';
import { queueInboxError, type ReceiverOptions, readReceiverOptions, type StartOptions } from './options.js';
import { emptyCounts, type Outcome, type OutcomeCounts } from './outcome.js';
import { noteDelivery } from './per-request.js';
import { Redriver } from './redriver.js';
import { createReport } from './report.js';
import type { WebhookRequest } from './request.js';
import { assertDelivery } from './request-checks.js';
import { Store } from './store.js';
import type { CallHandler, Conclude, Dispatch, Layer, PollSummary, RunStep, Work } from './work.js';

/** Optional facts about an authentic event. */
export interface AcceptOptions {
  /** The event's JSON as it arrived, to be stored and enqueued unchanged. @default the event serialized */
  readonly json?: string | undefined;
  /** The trace context of the event, such as that of its job, as a W3C `traceparent`. @default none */
  readonly traceparent?: string | undefined;
  /** Called with a handler that outlives `handlerTimeoutMs`, as `waitUntil` of a `WebhookRequest` is. @default none */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** Receives events. `receive`, `accept` and `handle` never throw or reject: each resolves to an {@link Outcome}. */
export interface Receiver extends AsyncDisposal {
  /**
   * Accepts one HTTP request, untrusted: verifies it, parses it, and continues as {@link Receiver.accept}.
   * Adapters call it. It is not a handler of a framework, and refuses the further arguments of one.
   */
  readonly receive: (request: WebhookRequest, ...useAnAdapter: readonly never[]) => Promise<Outcome>;
  /** Accepts an authentic event: enqueues it if there is a queue, otherwise continues as {@link Receiver.handle}. */
  accept(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /** Claims an authentic event, runs its handler in this process, and completes it. */
  handle(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /**
   * Runs the due events of the inbox once: received events, failed events at their retry time, events whose lease has
   * lapsed, and parked events whose type this release knows. An event runs only if this process has a handler for its
   * type, or a queue. {@link Receiver.start} and the catch-up poller call it; a cron job can as well.
   *
   * It ends when nothing is due, and takes no further event after `leaseMs`. Without `waitUntil`, it waits for overdue
   * handlers until they or their leases end, or until the signal aborts.
   *
   * @returns the number of events per outcome.
   * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox cannot be reached.
   */
  redrive(options?: RedriveOptions): Promise<OutcomeCounts>;
  /**
   * Redrives now and at intervals, and after each event of this process that other events of its ordering key can wait
   * for. It logs one line when the inbox cannot be reached, and one when it can be reached again. It keeps the process
   * alive until its signal aborts or `close()` is called.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is wrong, or it was started or closed before.
   */
  start(options?: StartOptions): void;
  /**
   * Refuses new deliveries: `receive`, `accept` and `handle` return `busy`, and redriving stops. Resolves when the
   * verified deliveries and their handlers have ended, after `leaseMs` at the latest. It does not wait for bodies that
   * are still arriving.
   */
  close(): Promise<void>;
  /** The inbox that this receiver uses. */
  readonly inbox: Inbox<unknown>;
}

/** How to redrive. */
export interface RedriveOptions {
  /** Ends it early. Running events are awaited, unless they have outlived `handlerTimeoutMs`. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each outcome, in addition to the receiver's own `onOutcome`. It must not throw. */
  readonly onOutcome?: ((outcome: Outcome) => void) | undefined;
  /** Called with the handlers that outlive `handlerTimeoutMs`, which `redrive` then does not await. @default none */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** The parts of a receiver that the poller and the SQS adapter use. */
export interface ReceiverParts {
  readonly store: Pick<Store, 'record' | 'ask' | 'dispatches'>;
  readonly maxConcurrency: number | undefined;
  /** Runs a poll inside the layers. */
  poll<Summary extends PollSummary>(run: () => Promise<Summary>): Promise<Summary>;
  /** Runs work outside of any request, such as a timer's. */
  detached<Result>(run: () => Result): Result;
}

/** The key of the parts, a symbol that both module formats of this package share. */
const PARTS = Symbol.for('stablehooks.parts');

/** @throws {ConfigError} `ERR_CONFIG_INVALID` when the value is not a receiver. */
export function partsOf(where: string, receiver: Receiver): ReceiverParts {
  const parts = (receiver as { readonly [PARTS]?: ReceiverParts } | null | undefined)?.[PARTS];
  if (parts !== undefined) return parts;
  throw new ConfigError(`${where}: \`receiver\` must be a receiver made by createReceiver.`);
}

/**
 * Creates a receiver.
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
export function createReceiver<Tx = undefined>(options: ReceiverOptions<Tx>): Receiver {
  const settings = readReceiverOptions(options);
  const { handlers, leaseMs, orderingKey, queue, runtime, secret, signature, use } = settings;
  const logger = settings.logger ?? console;

  const hasHandler = (event: UnknownEvent): event is WebhookEvent =>
    isKnownEvent(event) && handlers[event.type] !== undefined;
  const dispatched =
    queue === undefined ? EVENT_TYPES.filter((type) => handlers[type] !== undefined) : EVENT_TYPES;
  const detached: ReceiverParts['detached'] = (run) => runInside(use, 'detached', run);
  const pass: Conclude = (_pass, run) => run();
  const inFlight = new InFlight();
  const report = createReport({
    logger,
    onOutcome: settings.onOutcome,
    inFlight,
    around: wrap<Conclude | undefined>(use, (layer, next = pass) => layer.conclude?.(next), undefined),
  });
  const given = settings.inbox;
  const keyed = orderingKey === undefined ? given : keyedInbox(given, orderingKey);
  const store = new Store({ ...settings, given, inbox: keyed, logger, dispatched });

  const call: CallHandler = (event, _lease, context) => handlers[event.type]?.(event, context);
  const checked = orderingKey === undefined ? call : checkKey(orderingKey)(call);
  const callHandler = wrap(use, (layer, next) => layer.handler?.(next), checked);
  const direct: RunStep = (_lease, _name, run) => run();
  const runStep = wrap(use, (layer, next) => layer.step?.(next), direct);
  const { bodyTimeoutMs, maxBodyBytes } = settings;
  const bodyDeadlines = new Deadlines(bodyTimeoutMs, runtime);
  const parts = {
    ...settings,
    handlerDeadlines: new Deadlines(settings.handlerTimeoutMs, runtime),
    store,
    callHandler,
    runStep,
    report,
    inFlight,
    logger,
    hasHandler,
    onLater: (work: Work) => redriver.warnIfIdle(work),
  };

  const slots =
    settings.maxConcurrency === undefined ? undefined : new Slots(settings.maxConcurrency, runtime);
  const isAnsweredFirst = settings.answer === 'recorded';
  const redriver: Redriver = new Redriver({
    ...parts,
    inbox: given,
    capacity: slots,
    wakes: isAnsweredFirst,
    detached,
    runOne: (work, onRest) => runEvent(accepting, work, { onRest, isTaken: true }),
  });

  // From the inside out: the handler's run, its ordering key, the answer, the limit, the queue.
  const core = createDispatch(parts);
  const running = orderingKey === undefined ? core : wakeAfter(redriver)(core);
  const limited = (next: Dispatch, whenFull?: Dispatch) =>
    slots === undefined ? next : limitConcurrency(slots, hasHandler, whenFull)(next);
  const handling = limited(running);
  const enqueue = queue && wrap(use, (layer, next) => layer.enqueue?.(next), enqueueInto(queue));
  const accepting = enqueue === undefined ? handling : enqueueEvents(enqueue, parts)(handling);
  const answerParts = { ...parts, redriver };
  const delivering = isAnsweredFirst
    ? awaitIdle(redriver)(limited(answerFirst(answerParts)(running), storeForLater(answerParts)))
    : accepting;

  let deliveries = 0;

  /** Verifies, parses and dispatches a delivery. All steps before the body is read are synchronous. */
  function receive(request: WebhookRequest): Promise<Outcome> {
    return report.conclude({ origin: 'push' }, async (pass) => {
      if (settings.logger === undefined) pass.logger = request.logger ?? console;
      if (inFlight.isClosed) throw receiverClosed();
      if (queue === undefined && !isAnsweredFirst) slots?.assertFree();
      assertDelivery(request);
      const mac = decodeSignature(request.header(signature.header), signature);
      const reading = request.body(maxBodyBytes);
      const body = isPromise(reading)
        ? await inTime(reading, bodyDeadlines, () => cancelBody(request, bodyTimeoutMs))
        : reading;
      const matching = matchSecret(body, mac, typeof secret === 'function' ? secret(request) : secret);
      const secretIndex = isPromise(matching) ? await matching : matching;
      inFlight.admit(pass);
      if (deliveries < 2) {
        deliveries += 1;
        noteDelivery(deliveries === 1, pass.logger);
      }
      pass.secretIndex = secretIndex;
      const { event, json } = readEvent(body);
      pass.event = event;
      const { result, rest } = await delivering({ event, origin: 'push', json, secretIndex });
      if (rest !== undefined) {
        const keepAlive = (work: Promise<unknown>) => request.waitUntil?.(work);
        notify('waitUntil', keepAlive, { value: rest, logger: pass.logger });
      }
      return result;
    });
  }

  /** Takes an authentic event through the dispatch to its outcome. */
  function runEvent(
    dispatch: Dispatch,
    work: Work,
    {
      onRest,
      traceparent,
      isTaken = false,
    }: {
      readonly onRest?: ((rest: Promise<unknown>) => void) | undefined;
      readonly traceparent?: string | undefined;
      /** Whether the redriver took it: `close()` already waits for that, and other processes may run the event first. */
      readonly isTaken?: boolean;
    },
  ): Promise<Outcome> {
    const { origin, event } = work;
    return report.conclude({ origin, event, isContended: isTaken, traceparent }, async (pass) => {
      if (!isTaken) inFlight.admit(pass);
      if (work.origin === 'queue' && !store.durable) throw queueInboxError('receiver.handle');
      const { result, rest } = await dispatch(work);
      if (rest !== undefined && onRest !== undefined) notify('waitUntil', onRest, { value: rest, logger });
      return result;
    });
  }

  const take =
    (dispatch: Dispatch): Receiver['accept'] =>
    (event, origin, { json, traceparent, waitUntil } = {}) =>
      runEvent(dispatch, { event, origin, json }, { traceparent, onRest: waitUntil });

  async function redrive({ signal, onOutcome, waitUntil }: RedriveOptions = {}): Promise<OutcomeCounts> {
    const counts = emptyCounts();
    const rests: Promise<unknown>[] = [];
    const count = (outcome: Outcome) => {
      counts[outcome.kind] += 1;
      onOutcome?.(outcome);
    };
    await redriver.pass({ signal, onOutcome: count, onRest: (rest) => rests.push(rest) });
    if (rests.length === 0) return counts;
    const ended = Promise.all(rests);
    if (waitUntil !== undefined) notify('waitUntil', waitUntil, { value: ended, logger });
    // A platform may stop the process when its cron job ends.
    else await orAborted(ended, signal);
    return counts;
  }

  async function end(): Promise<void> {
    const idle = inFlight.close();
    // An inbox that stopped answering must not keep the process.
    await atMost(leaseMs, Promise.all([idle, redriver.close()]), runtime);
    for (const layer of use) layer.closed?.(given);
  }

  let ended: Promise<void> | undefined;
  const close = () => {
    ended ??= end();
    return ended;
  };

  for (const layer of use) layer.opened?.(given);
  const receiver: Receiver & { readonly [PARTS]: ReceiverParts } = {
    receive,
    accept: take(accepting),
    handle: take(handling),
    redrive,
    start: (startOptions) => redriver.start(startOptions),
    close,
    [Symbol.asyncDispose]: close,
    inbox: given,
    [PARTS]: {
      store,
      maxConcurrency: settings.maxConcurrency,
      poll: (run) => runInside(use, 'poll', run),
      detached,
    },
  };
  return receiver;
}

/** Wraps a part in the layers that wrap it; the first layer is outermost. */
function wrap<Part>(
  layers: readonly Layer[],
  around: (layer: Layer, next: Part) => Part | undefined,
  part: Part,
): Part {
  return layers.reduceRight((next, layer) => around(layer, next) ?? next, part);
}

/** Runs a function inside the layers that wrap it. */
function runInside<Result>(layers: readonly Layer[], name: 'poll' | 'detached', run: () => Result): Result {
  type Around = ((run: () => Result) => Result) | undefined;
  return wrap(layers, (layer, next) => (layer[name] as Around)?.bind(layer, next), run)();
}
