import { EVENT_TYPES, type UnknownEvent } from '../core/events.js';
import { notify } from '../core/log.js';
import type { Inbox, Origin } from '../core/ports.js';
import { orAborted, timeLimit } from '../core/runtime.js';
import { composeFlows } from '../flow/flows.js';
import { checkKey, toKeyOf } from '../flow/order.js';
import { Slots } from '../flow/slots.js';
import { InFlight } from './in-flight.js';
import { type CallHandler, type RunStep, wrap } from './layers.js';
import {
  type NeededInbox,
  type ReceiverOptions,
  type ReceiverSettings,
  readReceiverOptions,
  type StartOptions,
} from './options.js';
import { emptyCounts, type Outcome, type OutcomeCounts } from './outcome.js';
import { type ReceiverParts, withParts } from './parts.js';
import { receive, runEvent } from './receive.js';
import { Redriver } from './redriver.js';
import { type Rehearsal, type RehearseOptions, rehearse } from './rehearse.js';
import { Report } from './report.js';
import type { WebhookRequest } from './request.js';
import { Store } from './store.js';
import { Tally } from './tally.js';
import type { Dispatch } from './work.js';

/** Options for {@link Receiver.accept} and {@link Receiver.handle}. */
export interface AcceptOptions {
  /** The event's JSON exactly as it arrived. It is stored and enqueued unchanged. @default the serialized event */
  readonly json?: string | undefined;
  /** The event's trace context as a W3C `traceparent`, such as that of the job that delivered the event. @default none */
  readonly traceparent?: string | undefined;
  /** Called with a promise for work that continues after the outcome, like `WebhookRequest.waitUntil`. @default none */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** Receives events. `receive`, `accept` and `handle` never throw or reject; they always resolve to an {@link Outcome}. */
export interface Receiver {
  /**
   * Receives one untrusted HTTP request: verifies it, parses it, and continues like {@link Receiver.accept}. Adapters call
   * this method. Its type allows no additional arguments, so the compiler rejects `receive` as a framework's handler.
   */
  readonly receive: (request: WebhookRequest, ...useAnAdapter: readonly never[]) => Promise<Outcome>;
  /** Accepts an authentic event: enqueues it if there is a queue, otherwise continues like {@link Receiver.handle}. */
  accept(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /** Claims an authentic event, runs its handler in this process, and marks the event as done. */
  handle(event: UnknownEvent, origin: Origin, options?: AcceptOptions): Promise<Outcome>;
  /**
   * Runs the inbox's due events: received events, failed events that are due for a retry, events whose lease has expired,
   * and parked events of types that this release knows. An event runs only if this process has a queue, or a handler for
   * the event's type. {@link Receiver.start} and the catch-up poller call this method. You can also call it in a cron job.
   *
   * The call ends when no more events are due. Once `leaseMs` has passed, it starts no new events. Without `waitUntil`, the
   * call also waits for each overdue handler until the handler ends, its lease expires, or `signal` aborts.
   *
   * @returns the number of events per outcome.
   * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox is unreachable.
   */
  redrive(options?: RedriveOptions): Promise<OutcomeCounts>;
  /**
   * Runs your current handlers on stored events that are dead, failed or parked, and rolls back each transaction. A
   * rehearsal claims and stores nothing, so you can then `requeue` the events that succeed. A step that has a stored result
   * returns that result; any other step doesn't run. Effects outside `ctx.tx` and outside steps do happen, so check
   * `ctx.isRehearsal` first. Database sequences advance despite the rollback. Constraints that the database checks at
   * COMMIT aren't tested.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid, or the inbox has no transactions.
   * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox is unreachable.
   */
  rehearse(options?: RehearseOptions): Promise<readonly Rehearsal[]>;
  /**
   * Calls {@link Receiver.redrive} now, at intervals, and whenever an event ends in this process while other events with
   * the same ordering key may be waiting. Logs one line when the inbox becomes unreachable, and another when the inbox is
   * reachable again. Keeps the process alive until `signal` aborts or you call `close()`.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid, or the receiver was already started or closed.
   */
  start(options?: StartOptions): void;
  /**
   * Stops the receiver. From then on, `receive`, `accept` and `handle` resolve to `busy`, and no stored events are run. The
   * promise resolves when all verified deliveries and their handlers have ended, or after `leaseMs`, whichever comes first.
   * `close` doesn't wait for a request whose body is still arriving.
   */
  close(): Promise<void>;
  /** The inbox that this receiver uses. */
  readonly inbox: Inbox<unknown>;
}

/** Options for `receiver.redrive`. */
export interface RedriveOptions {
  /** Once aborted, `redrive` starts no new events and waits only for handlers that haven't exceeded `handlerTimeoutMs`. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each outcome, in addition to the receiver's `onOutcome`. Thrown errors are logged and ignored. */
  readonly onOutcome?: ((outcome: Outcome) => unknown) | undefined;
  /**
   * Called with a promise for handlers that take longer than `handlerTimeoutMs`. If you pass this function, `redrive`
   * doesn't wait for such handlers. @default none
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/**
 * Creates a receiver, which verifies deliveries and runs your handler once for each event. Pass the receiver to the adapter
 * for your framework, such as `toExpressHandler`. In production, a receiver needs a durable `inbox`. To retry failed
 * events, call `start()` or set up a cron route.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or invalid.
 *
 * @example
 * ```ts
 * const receiver = createReceiver({
 *   secret: process.env['STABLEHOOKS_SECRET'] ?? '',
 *   inbox: postgresInbox(pool, { transactional: true }),
 *   handlers: { 'transfer.settled': (event, { tx }) => book(event, tx) },
 * });
 * receiver.start();
 * ```
 */
export function createReceiver<Tx = undefined>(options: ReceiverOptions<Tx> & NeededInbox<Tx>): Receiver {
  const settings = readReceiverOptions(options);
  const parts = createParts(settings);
  const { flows } = parts;
  let ended: Promise<void> | undefined;
  const close = () => {
    ended ??= end(parts);
    return ended;
  };
  const enterBy =
    (dispatch: Dispatch): Receiver['accept'] =>
    (event, origin, { json, traceparent, waitUntil } = {}) =>
      runEvent(parts, dispatch, { event, origin, json }, { traceparent, onRest: waitUntil });
  for (const layer of settings.use) layer.opened?.(settings.inbox);
  const receiver: Receiver = {
    receive: (request) => receive(() => parts, request),
    accept: enterBy(flows.accept),
    handle: enterBy(flows.handle),
    rehearse: (rehearseOptions) => rehearse(parts, rehearseOptions),
    redrive: (redriveOptions) => redrive(parts, redriveOptions),
    start: (startOptions) => parts.redriver.start(startOptions),
    close,
    inbox: settings.inbox,
  };
  return withParts(receiver, parts);
}

function createParts(settings: ReceiverSettings): ReceiverParts {
  const { handlers, orderingKey, maxConcurrency, queue, runtime, use } = settings;
  const logger = settings.logger ?? console;
  const dispatched =
    queue === undefined ? EVENT_TYPES.filter((type) => handlers[type] !== undefined) : EVENT_TYPES;
  const call: CallHandler = (event, _lease, context) => handlers[event.type]?.(event, context);
  const checked = orderingKey === undefined ? call : checkKey(call, orderingKey);
  const direct: RunStep = (_lease, _name, run) => run();
  const tally = new Tally({ ...settings, logger });
  const keyOf = orderingKey && toKeyOf(orderingKey);
  const shared = {
    settings,
    logger,
    tally,
    store: new Store({ ...settings, logger, dispatched, keyOf, tally }),
    report: new Report(settings.onOutcome, use),
    inFlight: new InFlight(),
    slots: maxConcurrency === undefined ? undefined : new Slots(maxConcurrency, runtime),
    callHandler: wrap(use, (layer, next) => layer.handler?.(next), checked),
    runStep: wrap(use, (layer, next) => layer.step?.(next), direct),
  };
  const redriver = new Redriver({
    ...shared,
    runOne: (work, onRest) => runEvent(parts, parts.flows.accept, work, { onRest, isTaken: true }),
  });
  const core = { ...shared, redriver };
  const parts: ReceiverParts = { ...core, flows: composeFlows(core) };
  return parts;
}

async function redrive(
  { redriver, logger }: ReceiverParts,
  { signal, onOutcome, waitUntil }: RedriveOptions = {},
): Promise<OutcomeCounts> {
  const counts = emptyCounts();
  const rests: Promise<unknown>[] = [];
  const count = (outcome: Outcome) => {
    counts[outcome.kind] += 1;
    if (onOutcome !== undefined) notify('onOutcome', onOutcome, { value: outcome, logger });
  };
  await redriver.once({ signal, onOutcome: count, onRest: (rest) => rests.push(rest) });
  if (rests.length === 0) return counts;
  const ended = Promise.all(rests);
  if (waitUntil !== undefined) notify('waitUntil', waitUntil, { value: ended, logger });
  // Wait, because a platform may stop the process as soon as its cron job ends.
  else await orAborted(ended, signal);
  return counts;
}

async function end({ settings, inFlight, redriver, tally }: ReceiverParts): Promise<void> {
  const { leaseMs, runtime, use, inbox } = settings;
  const idle = Promise.all([inFlight.close(), redriver.close()]).then(() => tally.write());
  // An inbox that no longer responds must not keep the process alive.
  await timeLimit(idle, leaseMs, () => undefined, runtime);
  for (const layer of use) layer.closed?.(inbox);
}
