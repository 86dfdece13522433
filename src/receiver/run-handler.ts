/**
 * Runs the handler of a claimed event, and completes the event or records its failure under the lease. Without a handler
 * in this process, claims an event only if it can be completed.
 */
import { backoffMs } from '../core/backoff.js';
import {
  BusyError,
  EventError,
  HandlerError,
  messageOf,
  orUnavailable,
  PermanentError,
} from '../core/errors.js';
import { isShort, MAX_NAME_BYTES, NAME, type StandardSchema, type WebhookEvent } from '../core/events.js';
import type {
  Claim,
  Inbox,
  InboxOperations,
  InboxRecord,
  InboxState,
  Lease,
  Logger,
  Origin,
  RecordResult,
} from '../core/ports.js';
import { orTimeout } from '../core/runtime.js';
import type { HandlerContext, ReceiverSettings } from './options.js';
import { log, type OutcomeResult } from './outcome.js';

/** The wait after a failed attempt: 1 s, 2 s, 4 s, … up to an hour, minus a random part of up to a half. */
const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/**
 * How long a claim without a handler is valid, in ms: a number that nobody gives as `leaseMs`. So the length of a lease that
 * has lapsed shows whether a handler can have begun under it, also when the process ended before it marked the event. Long
 * enough to mark it: with a lapsed lease, `takeDue` of any process could take it before.
 */
const NO_HANDLER_LEASE_MS = 5_007;

/** The wait before the next try, in ms: it can reach a process that has the handler. */
const NO_HANDLER_RETRY_MS = 5_000;

/** What an attempt needs beside its event and its lease. */
interface AttemptOptions<Tx> {
  readonly origin: Origin;
  readonly settings: ReceiverSettings<Tx>;
  /** How long the handler may run, in ms: `handlerTimeoutMs`, or what is left of the lease if that is less. */
  readonly limitMs: number;
  /** Called once the attempt has ended, unless it is late. */
  readonly onEnded: (lease: Lease) => void;
  /** Called with the end of an attempt whose handler outlived its time limit; the answer does not wait for it. */
  readonly onLate: (end: Promise<OutcomeResult>) => void;
  /** Called when the event failed and waits for its retry time. */
  readonly onRetry: (lease: Lease, retryAfterMs: number) => void;
}

/**
 * Makes one attempt at a claimed event.
 *
 * A handler that outlives its limit is answered `failed`, and its event stays leased until the handler ends,
 * so that it is not started beside itself. Then the event is done, or failed as the handler did; with a transaction,
 * which is rolled back at the limit, it failed.
 *
 * @throws {BusyError} `ERR_LEASE_LOST` when another process claimed the event meanwhile.
 * @throws {UnavailableError} `ERR_INBOX_FAILED`; the lease then lapses, and the event runs again.
 */
export async function runHandler<Tx>(
  event: WebhookEvent,
  lease: Lease,
  options: AttemptOptions<Tx>,
): Promise<OutcomeResult> {
  const { origin, settings, limitMs } = options;
  const { inbox, runtime, telemetry } = settings;
  const { attempt } = lease;
  const handler = settings.handlers[event.type];
  const kind = handler === undefined ? 'ignored' : 'handled';
  const startedAt = runtime.elapsed();
  let handlerMs: number | undefined;
  let ended: Promise<void> | undefined;
  let timeout: HandlerError | undefined;
  let onTimeout: ((error: HandlerError) => void) | undefined;
  let isLate = false;

  const stopClock = () => {
    // A handler that ends late has been reported with its time up to the answer.
    handlerMs ??= Math.round(runtime.elapsed() - startedAt);
  };

  /** Runs the handler under its time limit; `undefined` when it has finished. */
  function run(tx: Tx): Promise<void> | undefined {
    const context = new Context(tx, attempt, origin);
    try {
      // Without a handler there is no step to observe.
      if (handler !== undefined) {
        const call = { handler, key: lease.key, settings, stopClock };
        ended = telemetry.handler(event, lease, () => callHandler(event, context, call));
      }
    } catch (fault) {
      stopClock();
      throw fault;
    }
    // A handler that returns nothing has finished: there is nothing to wait for, and no time to limit.
    if (ended === undefined) {
      stopClock();
      return undefined;
    }
    const toError = () => {
      stopClock();
      timeout = stillRunning(event, limitMs);
      onTimeout?.(timeout);
      context.abort(timeout);
      return timeout;
    };
    return orTimeout(ended, { runtime, ms: limitMs, toError });
  }

  const complete = () => telemetry.complete(event, lease, () => inbox.complete(lease));
  const recorded = (completion: Promise<boolean>) => orUnavailable('ERR_INBOX_FAILED', completion, isBoolean);

  function completed(isCompleted: boolean): OutcomeResult {
    // Without a handler nothing was run, and whoever claimed the event meanwhile marks it.
    if (!isCompleted) throw handler === undefined ? claimedMeanwhile() : leaseLost(lease);
    return { kind, attempt, handlerMs };
  }

  /** The handler's end after its limit. */
  async function late(transaction: Promise<unknown> | undefined): Promise<OutcomeResult> {
    let fault: unknown;
    for (const end of [ended, transaction]) {
      await end?.catch((error: unknown) => {
        fault = error;
      });
    }
    if (fault === undefined) return completed(await recorded(complete()));
    return fail(event, lease, {
      ...options,
      error: isHandlerFault(fault) ? fault : (timeout as HandlerError),
    });
  }

  let transaction: Promise<boolean> | undefined;
  try {
    // The last attempt recorded no result, otherwise the event would be dead (if maxAttempts is what it was then). It may
    // end the process each time.
    if (handler !== undefined && inbox.durable && attempt > settings.maxAttempts) {
      return await fail(event, lease, { ...options, error: unfinished(event, lease) });
    }
    if (inbox.transaction === undefined) {
      const running = run(undefined as Tx);
      if (running !== undefined) await running;
      return completed(await recorded(complete()));
    }
    // The answer does not wait for the rollback, which waits for the statement that runs.
    const limit = new Promise<never>((_, reject) => {
      onTimeout = reject;
    });
    transaction = inbox.transaction(lease, async (tx) => {
      await run(tx);
      // What follows is the mark and the commit. Its failure is that of the transaction.
      telemetry.complete(event, lease, () => transaction)?.catch(() => undefined);
    });
    return completed(await recorded(Promise.race([transaction, limit])));
  } catch (error) {
    if (timeout !== undefined) {
      isLate = true;
      options.onLate(late(transaction));
      return { kind: 'failed', attempt, handlerMs, error: timeout };
    }
    if (isHandlerFault(error)) return { ...(await fail(event, lease, { ...options, error })), handlerMs };
    throw error;
  } finally {
    if (!isLate) options.onEnded(lease);
  }
}

/** The ordering key of an event. If there is none because the function failed, the attempt fails, too. */
export function orderingKeyOf(
  event: WebhookEvent,
  { orderingKey }: Pick<ReceiverSettings<unknown>, 'orderingKey'>,
): string | undefined {
  if (orderingKey === undefined) return undefined;
  try {
    return readOrderingKey(event, orderingKey);
  } catch {
    return undefined;
  }
}

function readOrderingKey(
  event: WebhookEvent,
  orderingKey: (event: WebhookEvent) => string | null | undefined,
): string | undefined {
  const key: unknown = orderingKey(event);
  if (key === undefined || key === null) return undefined;
  if (typeof key === 'string' && isShort(key) && NAME.test(key)) return key;
  throw new TypeError(
    `orderingKey must return undefined, null or a string of 1 to ${MAX_NAME_BYTES} bytes of UTF-8 without control characters. It returned ${describeKey(key)}.`,
  );
}

/** What was returned, without its content. */
function describeKey(key: unknown): string {
  if (typeof key === 'string') return key === '' ? 'an empty string' : 'another string';
  return key instanceof Promise ? 'a promise: it must not be async' : `a value of type ${typeof key}`;
}

/** Without this check two events of a key could run at the same time. */
function otherKey(): TypeError {
  return new TypeError(
    'orderingKey returned another key than the one that the event is claimed with. It must depend on the event alone, and the inbox must support keys.',
  );
}

/** The errors of an attempt, as opposed to those of the inbox around it. */
type HandlerFault = HandlerError | PermanentError | EventError;

function isHandlerFault(error: unknown): error is HandlerFault {
  return error instanceof HandlerError || error instanceof PermanentError || error instanceof EventError;
}

class Context<Tx> implements HandlerContext<Tx> {
  /**
   * An own property, so that `{ ...context }` contains it. The signal is created on first use: that takes as long as
   * parsing a delivery, and few handlers use it. A shared descriptor takes a fifth of the time of a getter per object.
   */
  static readonly #signal = {
    enumerable: true,
    get(this: Context<unknown>) {
      return this.#abortable().signal;
    },
  };

  readonly tx: Tx;
  readonly attempt: number;
  readonly origin: Origin;
  declare readonly signal: AbortSignal;
  #controller: AbortController | undefined;

  constructor(tx: Tx, attempt: number, origin: Origin) {
    this.tx = tx;
    this.attempt = attempt;
    this.origin = origin;
    Object.defineProperty(this, 'signal', Context.#signal);
  }

  abort(reason: HandlerError): void {
    this.#abortable().abort(reason);
  }

  #abortable(): AbortController {
    this.#controller ??= new AbortController();
    return this.#controller;
  }
}

/** Calls the handler. Throws and rejects with a fault; `undefined` when there is nothing to wait for. */
function callHandler<Tx>(
  event: WebhookEvent,
  context: Context<Tx>,
  {
    handler,
    key,
    settings: { payloads, orderingKey },
    stopClock,
  }: {
    readonly handler: (event: WebhookEvent, context: HandlerContext<Tx>) => void | Promise<void>;
    readonly key: string | undefined;
    readonly settings: ReceiverSettings<Tx>;
    /** Called when what is waited for has ended. */
    readonly stopClock: () => void;
  },
): Promise<void> | undefined {
  const schema = payloads[event.type];
  try {
    if (orderingKey !== undefined && readOrderingKey(event, orderingKey) !== key) throw otherKey();
    const running =
      schema === undefined
        ? handler(event, context)
        : narrow(event, schema).then((narrowed) => handler(narrowed, context));
    if (running === undefined) return undefined;
    return Promise.resolve(running).then(stopClock, (thrown: unknown) => {
      stopClock();
      throw toHandlerFault(event, thrown);
    });
  } catch (thrown) {
    throw toHandlerFault(event, thrown);
  }
}

/** The event with the output of its payload's schema. */
async function narrow(event: WebhookEvent, schema: StandardSchema): Promise<WebhookEvent> {
  const result = await schema['~standard'].validate(event.payload);
  if (result.issues === undefined) return { ...event, payload: result.value } as WebhookEvent;
  const paths = result.issues.map(({ path = [] }) =>
    ['payload', ...path.map((part) => toName(typeof part === 'object' ? part.key : part))].join('.'),
  );
  const fields = [...new Set(paths)];
  throw new EventError(
    'ERR_PAYLOAD_INVALID',
    `The payload of ${event.type} does not match its schema at ${fields.join(', ')}. Correct the schema; the event runs again.`,
    // Without the issues: some libraries quote the value.
    { fields },
  );
}

/** The name of a path part that is safe in a message: the keys of a payload that is a map are content. */
function toName(key: PropertyKey): string {
  return /^(?:[A-Za-z_]\w{0,40}|\d{1,6})$/.test(String(key)) ? String(key) : '*';
}

function toHandlerFault(event: WebhookEvent, thrown: unknown): HandlerFault {
  try {
    if (thrown instanceof PermanentError || thrown instanceof HandlerError) return thrown;
    // Other errors of this package that a handler throws say nothing about this event.
    if (thrown instanceof EventError && thrown.code === 'ERR_PAYLOAD_INVALID') return thrown;
    // By code, too: the handler may have imported the class from another copy of this package.
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_HANDLER_PERMANENT') {
      return new PermanentError(thrown.message, { cause: thrown });
    }
  } catch {
    // What was thrown cannot be read: a getter that throws, a message that is no string.
  }
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `The handler of ${event.type} threw; see the cause. The event runs again; throw PermanentError if that cannot help.`,
    { cause: thrown },
  );
}

/** Records the failure before it is answered: a 200 for `dead` must not be the only record of the event. */
async function fail<Tx>(
  event: WebhookEvent,
  lease: Lease,
  {
    error,
    settings: { inbox, maxAttempts, runtime, telemetry },
    onRetry,
  }: AttemptOptions<Tx> & { readonly error: HandlerFault },
): Promise<OutcomeResult> {
  const { attempt } = lease;
  const dead = error.code === 'ERR_HANDLER_PERMANENT' || (inbox.durable && attempt >= maxAttempts);
  const retryAfterMs = dead ? null : backoffMs(attempt, { ...RETRY, random: runtime.random() });
  const failure = { retryAfterMs, error: toLastError(error) };
  const recorded = telemetry.fail(event, lease, () => inbox.fail(lease, failure));
  if (!(await orUnavailable('ERR_INBOX_FAILED', recorded, isBoolean))) throw leaseLost(lease);
  if (retryAfterMs !== null) onRetry(lease, retryAfterMs);
  return { kind: dead ? 'dead' : 'failed', attempt, error };
}

/** Whether an inbox has answered if the lease was held: what only counts as true must not pass for it. */
function isBoolean(answer: unknown): boolean {
  return typeof answer === 'boolean';
}

/** What the inbox keeps for operators: the code, and the message of what the handler threw. */
function toLastError(error: HandlerFault): string {
  const message = error.code === 'ERR_HANDLER_FAILED' ? messageOf(error.cause) : undefined;
  return `${error.code}: ${message ?? messageOf(error)}`;
}

function stillRunning(event: WebhookEvent, timeoutMs: number): HandlerError {
  return new HandlerError(
    'ERR_HANDLER_TIMEOUT',
    `The handler of ${event.type} is still running after ${Math.round(timeoutMs)} ms. Its event stays claimed until it ends or its lease lapses. Pass \`signal\` to what it waits for, raise handlerTimeoutMs, or use a queue.`,
  );
}

function unfinished(event: WebhookEvent, lease: Lease): HandlerError {
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `Attempt ${lease.attempt - 1} at ${event.type} recorded no result: its process ended, it outlived leaseMs, or the inbox could not be reached at its end (or maxAttempts was higher then). Its effect may have happened: check that, and what ended the attempt, before you requeue the event.`,
  );
}

function claimedMeanwhile(): BusyError {
  return new BusyError('ERR_EVENT_BUSY', 'Another process or delivery has claimed this event.', {
    retryAfterMs: 1_000,
  });
}

function leaseLost(lease: Lease): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `Attempt ${lease.attempt} took longer than its lease, and another process may run the event. Raise leaseMs.`,
    { retryAfterMs: 1_000 },
  );
}

/** A claim, or that the event is parked and stays so. */
export type ClaimOrParked = Claim | { readonly state: 'parked' };

interface ClaimSteps {
  /** Records the event, and answers in which state the inbox had it. */
  readonly record: () => Promise<RecordResult | undefined>;
  /** `leaseMs`: how long the claim is valid. @default that of the receiver */
  readonly claim: (leaseMs?: number) => Promise<Claim>;
}

/**
 * Returns the claim of events without a handler in this process. It claims what is new; what is parked stays parked.
 *
 * It rejects with `ERR_EVENT_BUSY` when a process that has the handler has made an attempt at the event: marked done here,
 * the event would be lost. It logs this once per type. Without `find`, an inbox shows this only after the claim: each
 * attempt after the first then counts as failed.
 */
export function createClaimWithoutHandler(
  settings: Pick<ReceiverSettings<unknown>, 'inbox' | 'runtime' | 'telemetry' | 'maxAttempts'>,
  logger: Logger,
): (event: WebhookEvent, steps: ClaimSteps) => Promise<ClaimOrParked> {
  const told = new Set<string>();

  return async (event, { record, claim }) => {
    const inbox: Inbox<unknown> & Partial<InboxOperations> = settings.inbox;
    const find = async () => await orUnavailable('ERR_INBOX_FAILED', (async () => inbox.find?.(event.id))());

    function ofOthers(): BusyError {
      const error = new BusyError(
        'ERR_EVENT_BUSY',
        `This process has no handler for ${event.type}, and another process runs the event or has failed it, so it is not marked done here. Give all receivers of this inbox the same handlers, if need be one that does nothing.`,
        { retryAfterMs: NO_HANDLER_RETRY_MS },
      );
      if (!told.has(event.type)) log(logger, 'warn', `${event.id}: ${error.message}`);
      told.add(event.type);
      return error;
    }

    /** How many attempts the event has had, if it can be claimed; otherwise its state. */
    async function look(): Promise<number | FinalState> {
      // Before it is claimed, because a claim of a parked event makes it one like any other.
      const state = await record();
      if (isFinal(state)) return state;
      const found = state === 'new' ? undefined : await find();
      if (found === undefined) return 0;
      if (isFinal(found.state)) return found.state;
      if (canHaveBegun(found)) throw ofOthers();
      return found.attempts;
    }

    /** Ends an attempt that must not have been made. */
    async function giveBack(lease: Lease): Promise<ClaimOrParked> {
      const error = ofOthers();
      const isLast = inbox.durable && lease.attempt >= settings.maxAttempts;
      const waitMs = backoffMs(lease.attempt, { ...RETRY, random: settings.runtime.random() });
      const failure = { retryAfterMs: isLast ? null : waitMs, error: `${error.code}: ${error.message}` };
      const failed = settings.telemetry.fail(event, lease, () => inbox.fail(lease, failure));
      if ((await orUnavailable('ERR_INBOX_FAILED', failed, isBoolean)) && isLast) return { state: 'dead' };
      throw error;
    }

    const seen = await look();
    if (typeof seen !== 'number') return { state: seen };
    const claimed = await claim(inbox.find === undefined ? undefined : NO_HANDLER_LEASE_MS);
    if (claimed.state !== 'claimed' || claimed.lease.attempt <= seen + 1) return claimed;
    // There was an attempt after the look, or the inbox has no `find`.
    const found = await find();
    return found === undefined || canHaveBegun(found) ? await giveBack(claimed.lease) : claimed;
  };
}

/** The states that a process without the handler leaves as they are. */
type FinalState = Extract<InboxState, 'done' | 'dead' | 'parked'>;

function isFinal(state: RecordResult | undefined): state is FinalState {
  return state === 'done' || state === 'dead' || state === 'parked';
}

/**
 * Whether a handler can have begun in another process. An event that was requeued has no attempts, but its last error;
 * the lease of an attempt that runs is not in the history.
 */
function canHaveBegun({ state, attempts, lastError, history, dueAt, updatedAt }: InboxRecord): boolean {
  const isLeased = state === 'leased';
  if (lastError !== null || (isLeased && isWithHandler((dueAt ?? 0) - updatedAt))) return true;
  if (history.length === 0) return attempts > (isLeased ? 1 : 0);
  return history.some(
    ({ result, startedAt, endedAt }) => result !== 'lapsed' || isWithHandler(endedAt - startedAt),
  );
}

/** By the length of a lease, which an inbox may round. */
function isWithHandler(leaseMs: number): boolean {
  return Math.abs(leaseMs - NO_HANDLER_LEASE_MS) > 1;
}
