/** One attempt at a claimed event: runs its handler under a time limit, and records the result under the lease. */
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
import type { Lease } from '../core/ports.js';
import { type Moment, msSince, timeLimit } from '../core/runtime.js';
import { HandlerCall, type HandlerFault, isHandlerFault } from './handler-call.js';
import type { OutcomeResult } from './outcome.js';
import type { CoreParts } from './parts.js';
import { logOutcome } from './report.js';
import { leaseLost } from './store.js';
import type { Run, Work } from './work.js';

/** The wait after a failed attempt: 1 s, 2 s, 4 s, … up to an hour, minus a random part of up to a half. */
const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/**
 * One attempt.
 *
 * A handler that outlives `handlerTimeoutMs` is answered `failed`. Its event stays leased until the handler ends, so no
 * second run starts beside it. The end is then recorded, in `rest`, and reported as an outcome of its own.
 */
export class Attempt {
  readonly #parts: CoreParts;
  readonly #work: Work & { readonly event: WebhookEvent };
  readonly #lease: Lease;
  /** The time limit of the handler; 0 or less if the lease has expired before the attempt. */
  readonly #limitMs: number;
  readonly #call: HandlerCall;

  /** @param askedAt - when the claim was sent: the earliest possible start of the lease. */
  constructor(
    parts: CoreParts,
    work: Work & { readonly event: WebhookEvent },
    lease: Lease,
    askedAt: Moment,
  ) {
    const { runtime, leaseMs, handlerTimeoutMs } = parts.settings;
    this.#parts = parts;
    this.#work = work;
    this.#lease = lease;
    this.#limitMs = Math.min(handlerTimeoutMs, leaseMs - msSince(askedAt, runtime));
    this.#call = new HandlerCall(parts, work, lease, { askedAt, limitMs: this.#limitMs });
  }

  /** Resolves when the attempt has ended, or at the time limit. If it rejects, the lease expires, and the event runs again. */
  async run(): Promise<Run> {
    const { store, inFlight, settings } = this.#parts;
    const { leaseMs, maxAttempts } = settings;
    const { attempt } = this.#lease;
    if (this.#limitMs <= 0) {
      // The process was frozen, as a function can be after its answer, or the inbox answered slowly.
      const why = `The handler was not started, because its lease of ${leaseMs} ms had expired: the process was frozen, or the inbox took that long to answer. start() or redrive() runs the event again.`;
      throw leaseLost(this.#lease, why);
    }
    // The last allowed attempt recorded no result, or the event would be dead. Its handler may end the process each time.
    if (store.durable && attempt > maxAttempts) {
      return { result: await this.#fail(missingResult(this.#work.event, this.#lease)) };
    }
    const ended = this.#runAndRecord();
    const error = await Promise.race([ended.then(() => undefined), this.#call.timeUp]);
    if (error === undefined) return { result: await ended };
    const result = { kind: 'failed', attempt, handlerMs: this.#call.handlerMs, error } as const;
    return { result, rest: inFlight.track(this.#reportOverdue(ended)) };
  }

  async #runAndRecord(): Promise<OutcomeResult> {
    const { store } = this.#parts;
    let isCompleted: boolean;
    try {
      if (store.hasTransactions) {
        isCompleted = await store.transaction(this.#lease, (tx) => this.#call.run(tx));
      } else {
        await this.#call.run(undefined);
        isCompleted = await store.complete(this.#lease);
      }
    } catch (error) {
      if (isHandlerFault(error)) return this.#fail(error);
      throw error;
    }
    if (!isCompleted) throw leaseLost(this.#lease);
    return { kind: 'handled', attempt: this.#lease.attempt, handlerMs: this.#call.handlerMs };
  }

  /** Records the failure before the answer: a 200 for `dead` must not be the only record of the event. */
  async #fail(error: HandlerFault): Promise<OutcomeResult> {
    const { store, redriver, settings } = this.#parts;
    const { attempt } = this.#lease;
    if (error.code === 'ERR_HANDLER_LATER') return this.#postpone(error);
    const isDead =
      error.code === 'ERR_HANDLER_PERMANENT' || (store.durable && attempt >= settings.maxAttempts);
    const retryAfterMs = isDead ? null : backoffMs(attempt, { ...RETRY, random: settings.runtime.random() });
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error) });
    if (!isRecorded) throw leaseLost(this.#lease);
    if (!isDead) redriver.warnIfIdle(this.#work);
    return { kind: isDead ? 'dead' : 'failed', attempt, handlerMs: this.#call.handlerMs, error };
  }

  async #postpone(error: RetryLater): Promise<OutcomeResult> {
    const { store, redriver, settings } = this.#parts;
    const { maxLaterMs } = settings;
    const retryAfterMs = Math.min(error.retryAfterMs, maxLaterMs);
    const later = { maxAgeMs: maxLaterMs };
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error), later });
    if (!isRecorded) throw leaseLost(this.#lease);
    const run = { attempt: this.#lease.attempt, handlerMs: this.#call.handlerMs };
    if (isRecorded === 'dead') return { ...run, kind: 'dead', error };
    redriver.warnIfIdle(this.#work);
    return store.durable ? { ...run, kind: 'queued' } : { ...run, kind: 'busy', error };
  }

  /** Reports the end of an overdue handler. Resolves when it has ended, or its lease has expired. */
  async #reportOverdue(ended: Promise<OutcomeResult>): Promise<void> {
    const { report, logger, settings } = this.#parts;
    const { leaseMs, runtime } = settings;
    const { event, origin, secretIndex } = this.#work;
    const concluded = report.conclude({ origin, event, secretIndex, logger }, () => ended);
    const onExpiry = () => {
      const why = `The handler still runs after its lease of ${leaseMs} ms, so another process can start it as well. Pass \`signal\` to the calls that it waits for, or raise leaseMs.`;
      throw leaseLost(this.#lease, why);
    };
    try {
      // What is left of the lease. It began after the claim was sent, so the handler holds its event at least until then.
      const { kind, error } = await timeLimit(concluded, leaseMs - this.#limitMs, onExpiry, runtime);
      if (error !== undefined) return;
      log(logger, 'warn', `${kind} ${event.id}: its handler ended after handlerTimeoutMs.`);
    } catch (expired) {
      logOutcome({ kind: 'busy', origin, event, error: expired as BusyError }, logger);
    }
  }
}

/** The text that the inbox keeps for operators: the code, and the message of the thrown error. */
function toLastError(error: HandlerFault): string {
  const message = error.code === 'ERR_HANDLER_FAILED' ? messageOf(error.cause) : undefined;
  return `${error.code}: ${message ?? messageOf(error)}`;
}

function missingResult(event: WebhookEvent, lease: Lease): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `Attempt ${lease.attempt - 1} at ${event.type} recorded no result: its process ended, it outlived leaseMs, or the inbox could not be reached at its end (or maxAttempts was higher then). Its effect may have happened: check both before you requeue the event.`,
  );
}
