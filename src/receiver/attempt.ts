/** One attempt at a claimed event: runs its handler under a time limit, and records the result under the lease. */

import { Deadlines } from '#deadlines';
import { type Awaitable, isPromise } from '../core/awaitable.js';
import { backoffMs } from '../core/backoff.js';
import {
  type BusyError,
  type HandlerError,
  messageOf,
  type RetryLater,
  StablehooksError,
} from '../core/errors.js';
import type { WebhookEvent } from '../core/events.js';
import { log } from '../core/log.js';
import type { Lease, Logger } from '../core/ports.js';
import { type Moment, msSince, orTimeout, type Runtime } from '../core/runtime.js';
import { Context, type HandlerFault, isHandlerFault, toHandlerFault } from './handler-call.js';
import type { InFlight } from './in-flight.js';
import type { OutcomeResult } from './outcome.js';
import { logOutcome, type Report } from './report.js';
import { leaseLost, type Store } from './store.js';
import type { CallHandler, Run, RunStep, Work } from './work.js';

/** The wait after a failed attempt: 1 s, 2 s, 4 s, … up to an hour, minus a random part of up to a half. */
const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/** Records the end of a handler, or lets its transaction end. `fault`: why the handler failed. */
type End<Ended> = (fault: HandlerFault | undefined) => Awaitable<Ended>;

export interface AttemptParts {
  readonly store: Store;
  readonly callHandler: CallHandler;
  readonly runStep: RunStep;
  readonly report: Report;
  readonly inFlight: InFlight;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly leaseMs: number;
  readonly handlerTimeoutMs: number;
  /** The time limits of handlers, each of `handlerTimeoutMs`. */
  readonly handlerDeadlines: Deadlines;
  readonly maxAttempts: number;
  readonly maxLaterMs: number;
  /** Called when an event is stored to run later: at its retry time, or after another event of its ordering key. */
  readonly onLater: (work: Work) => void;
}

/**
 * One attempt.
 *
 * A handler that outlives `handlerTimeoutMs` is answered `failed`. Its event stays leased until the handler ends, so no
 * second run starts beside it. The end is then recorded, in `rest`, and reported as an outcome of its own.
 */
export class Attempt {
  readonly #parts: AttemptParts;
  readonly #work: Work & { readonly event: WebhookEvent };
  readonly #lease: Lease;
  /** When the claim was sent: the earliest possible start of the lease. */
  readonly #askedAt: Moment;
  /** The time limit of the handler; 0 or less if the lease has lapsed before the attempt. */
  readonly #limitMs: number;
  #startedAt = 0;
  #handlerMs: number | undefined;
  #onTimeUp: ((error: HandlerError) => void) | undefined;

  constructor(
    parts: AttemptParts,
    work: Work & { readonly event: WebhookEvent },
    lease: Lease,
    askedAt: Moment,
  ) {
    this.#parts = parts;
    this.#work = work;
    this.#lease = lease;
    this.#askedAt = askedAt;
    const { store, runtime, leaseMs, handlerTimeoutMs } = parts;
    // A claim in memory takes no time, and a reading of the clock can take a hundredth of a delivery.
    this.#limitMs = store.durable
      ? Math.min(handlerTimeoutMs, leaseMs - msSince(askedAt, runtime))
      : handlerTimeoutMs;
  }

  /** Resolves when the attempt has ended, or at the time limit. If it throws, the lease lapses, and the event runs again. */
  run(): Awaitable<Run> {
    const ended = this.#runAndRecord();
    if (!isPromise(ended)) return { result: ended };
    return new Promise((resolve, reject) => {
      this.#onTimeUp = (error) => {
        const { attempt } = this.#lease;
        const result = { kind: 'failed', attempt, handlerMs: this.#handlerMs, error } as const;
        resolve({ result, rest: this.#parts.inFlight.track(this.#reportOverdue(ended)) });
      };
      ended.then((result) => resolve({ result }), reject);
    });
  }

  /** Not async: an async function allocates about 0.5 kB per delivery here. */
  #runAndRecord(): Awaitable<OutcomeResult> {
    const { store, leaseMs, maxAttempts } = this.#parts;
    const lease = this.#lease;
    if (this.#limitMs <= 0) {
      // The process was frozen, as a function can be after its answer, or the inbox answered slowly.
      const why = `The handler was not started, because its lease of ${leaseMs} ms had lapsed: the process was frozen, or the inbox took that long to answer. start() or redrive() runs the event again.`;
      throw leaseLost(lease, why);
    }
    // The last allowed attempt recorded no result, or the event would be dead. Its handler may end the process each time.
    if (store.durable && lease.attempt > maxAttempts)
      return this.#fail(missingResult(this.#work.event, lease));
    const recordFault = (error: unknown) => {
      if (isHandlerFault(error)) return this.#fail(error);
      throw error;
    };
    const record = (fault: HandlerFault | undefined) =>
      fault === undefined ? this.#toHandled(store.complete(lease)) : this.#fail(fault);
    try {
      if (!store.hasTransactions) return this.#runHandler(undefined, record);
      const committed = store.transaction(lease, (tx) => this.#runHandler(tx, throwFault));
      return committed.then((isCompleted) => this.#toHandled(isCompleted), recordFault);
    } catch (error) {
      return recordFault(error);
    }
  }

  #toHandled(isCompleted: Awaitable<boolean>): Awaitable<OutcomeResult> {
    if (isPromise(isCompleted)) return isCompleted.then((answer) => this.#toHandled(answer));
    if (!isCompleted) throw leaseLost(this.#lease);
    return { kind: 'handled', attempt: this.#lease.attempt, handlerMs: this.#handlerMs };
  }

  /** Calls the handler under its time limit, then `end` with its fault. */
  #runHandler<Ended>(tx: unknown, end: End<Ended>): Awaitable<Ended> {
    const { callHandler, runtime, store } = this.#parts;
    const { event } = this.#work;
    const context = new Context(this.#work, this.#lease, tx, this.#parts, this.#askedAt);
    this.#startedAt = store.durable ? runtime.elapsed() : this.#askedAt.elapsed;
    let fault: HandlerFault | undefined;
    try {
      const running = callHandler(event, this.#lease, context);
      if (isPromise(running)) return this.#waitFor(running, context, end);
    } catch (thrown) {
      fault = toHandlerFault(event, thrown);
    }
    if (context.steps) return this.#waitFor(Promise.resolve(fault).then(throwFault), context, end);
    this.#stopClock();
    return end(fault);
  }

  #waitFor<Ended>(running: PromiseLike<unknown>, context: Context, end: End<Ended>): Promise<Ended> {
    const { handlerDeadlines, handlerTimeoutMs, runtime, store } = this.#parts;
    const { event } = this.#work;
    // Shorter than the common limit if the claim took long.
    const isCommon = this.#limitMs === handlerTimeoutMs;
    const deadlines = isCommon ? handlerDeadlines : new Deadlines(this.#limitMs, runtime);
    const wait = deadlines.begin(() => {
      const error = handlerTimeout(event, this.#limitMs, store.hasTransactions);
      this.#stopClock();
      this.#onTimeUp?.(error);
      context.abort(error);
    }, this.#startedAt);
    const stop = (fault: HandlerFault | undefined) => {
      deadlines.end(wait);
      this.#stopClock();
      return end(fault);
    };
    const finish = (fault: HandlerFault | undefined) => {
      // Steps that the handler did not await are part of it.
      const ended = context.steps?.end();
      if (ended === undefined) return stop(fault);
      return ended.then((failure) => stop(failure ? toHandlerFault(event, failure.error) : fault));
    };
    return Promise.resolve(running).then(
      () => finish(undefined),
      (thrown) => finish(toHandlerFault(event, thrown)),
    );
  }

  /** Keeps the first reading: an overdue handler was reported with its time up to the answer. */
  #stopClock(): void {
    this.#handlerMs ??= Math.round(this.#parts.runtime.elapsed() - this.#startedAt);
  }

  /** Records the failure before the answer: a 200 for `dead` must not be the only record of the event. */
  async #fail(error: HandlerFault): Promise<OutcomeResult> {
    const { store, maxAttempts, runtime, onLater } = this.#parts;
    const { attempt } = this.#lease;
    if (error.code === 'ERR_HANDLER_LATER') return this.#postpone(error);
    const isDead = error.code === 'ERR_HANDLER_PERMANENT' || (store.durable && attempt >= maxAttempts);
    const retryAfterMs = isDead ? null : backoffMs(attempt, { ...RETRY, random: runtime.random() });
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error) });
    if (!isRecorded) throw leaseLost(this.#lease);
    if (!isDead) onLater(this.#work);
    return { kind: isDead ? 'dead' : 'failed', attempt, handlerMs: this.#handlerMs, error };
  }

  async #postpone(error: RetryLater): Promise<OutcomeResult> {
    const { store, maxLaterMs, onLater } = this.#parts;
    const retryAfterMs = Math.min(error.retryAfterMs, maxLaterMs);
    const later = { maxAgeMs: maxLaterMs };
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error), later });
    if (!isRecorded) throw leaseLost(this.#lease);
    const run = { attempt: this.#lease.attempt, handlerMs: this.#handlerMs };
    if (isRecorded === 'dead') return { ...run, kind: 'dead', error };
    onLater(this.#work);
    return store.durable ? { ...run, kind: 'queued' } : { ...run, kind: 'busy', error };
  }

  /** Reports the end of an overdue handler. Resolves when it has ended, or its lease has lapsed. */
  async #reportOverdue(ended: Promise<OutcomeResult>): Promise<void> {
    const { report, runtime, logger, leaseMs } = this.#parts;
    const { event, origin, secretIndex } = this.#work;
    const concluded = report.conclude({ origin, event, secretIndex }, () => ended);
    // The lease began after the claim was sent, so the handler holds its event at least until then.
    const ms = leaseMs - this.#limitMs;
    const why = `The handler still runs after its lease of ${leaseMs} ms, so another process can start it as well. Pass \`signal\` to the calls that it waits for, or raise leaseMs.`;
    const toError = () => leaseLost(this.#lease, why);
    try {
      const { kind, error } = await orTimeout(concluded, { runtime, ms, toError });
      if (error !== undefined) return;
      log(logger, 'warn', `${kind} ${event.id}: its handler ended after handlerTimeoutMs.`);
    } catch (lapsed) {
      logOutcome({ kind: 'busy', origin, event, error: lapsed as BusyError }, logger);
    }
  }
}

/** Makes a transaction roll back. */
function throwFault(fault: HandlerFault | undefined): void {
  if (fault !== undefined) throw fault;
}

/** The text that the inbox keeps for operators: the code, and the message of the thrown error. */
function toLastError(error: HandlerFault): string {
  const message = error.code === 'ERR_HANDLER_FAILED' ? messageOf(error.cause) : undefined;
  return `${error.code}: ${message ?? messageOf(error)}`;
}

function handlerTimeout(event: WebhookEvent, timeoutMs: number, hasTx: boolean): HandlerError {
  const advice = hasTx
    ? ' In a transaction, query through `tx`: another connection of the pool may not be free.'
    : '';
  return new StablehooksError(
    'ERR_HANDLER_TIMEOUT',
    `The handler of ${event.type} is still running after ${Math.round(timeoutMs)} ms. Its event stays claimed until it ends or its lease lapses. Pass \`signal\` to the calls that it waits for, raise handlerTimeoutMs, or use a queue.${advice}`,
  );
}

function missingResult(event: WebhookEvent, lease: Lease): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `Attempt ${lease.attempt - 1} at ${event.type} recorded no result: its process ended, it outlived leaseMs, or the inbox could not be reached at its end (or maxAttempts was higher then). Its effect may have happened: check both before you requeue the event.`,
  );
}
