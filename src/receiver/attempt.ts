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

/** A century, because an attempt that could not begin must not end an event, however old it is. */
const MAX_AGE_MS = 3_155_760_000_000;

/**
 * One attempt. After `handlerTimeoutMs`, it continues as `rest` under its lease, and reports its end as a second outcome.
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
    // A first attempt's time limit starts with its transaction.
    const leftMs = lease.first === undefined ? leaseMs - msSince(askedAt, runtime) : leaseMs;
    this.#limitMs = Math.min(handlerTimeoutMs, leftMs);
    this.#call = new HandlerCall(parts, work, lease, { askedAt, limitMs: this.#limitMs });
  }

  /** Resolves at the end or the time limit; `undefined` if a first attempt must be claimed. If it rejects, the lease expires. */
  async run(): Promise<Run | undefined> {
    const { store, inFlight, settings } = this.#parts;
    const { leaseMs, maxAttempts } = settings;
    const { attempt } = this.#lease;
    if (this.#limitMs <= 0) {
      // The process was frozen, as serverless functions may be after their response, or the inbox answered slowly.
      const why = `The handler did not start, because its lease of ${leaseMs} ms had already expired: the process was frozen, or the inbox took too long to respond. start() or redrive() will run the event again.`;
      throw leaseLost(this.#lease, why);
    }
    // The last allowed attempt recorded no result, or the event would be dead. Its handler may crash the process each time.
    if (store.durable && attempt > maxAttempts) {
      const result = await this.#fail(missingResult(this.#work.event, this.#lease));
      return result && { result };
    }
    const ended = this.#runAndRecord();
    const error = await Promise.race([ended.then(() => undefined), this.#call.timeUp]);
    if (error === undefined) {
      const result = await ended;
      return result && { result };
    }
    const result = { kind: 'failed', attempt, handlerMs: this.#call.handlerMs, error } as const;
    return { result, rest: inFlight.track(this.#reportOverdue(ended, error)) };
  }

  async #runAndRecord(): Promise<OutcomeResult | undefined> {
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
      const { state, timeout } = this.#call;
      if (state === 'waiting') await this.#giveBack();
      // It threw after its connection had failed.
      if (state === 'running' && timeout !== undefined) return this.#fail(timeout);
      throw error;
    }
    if (!isCompleted) return this.#lost();
    return { kind: 'handled', attempt: this.#lease.attempt, handlerMs: this.#call.handlerMs };
  }

  /** Another attempt has the event. */
  #lost(): undefined {
    if (this.#lease.first === undefined) throw leaseLost(this.#lease);
  }

  /** Records the failure before the answer: a 200 for `dead` must not be the only record of the event. */
  async #fail(error: HandlerFault): Promise<OutcomeResult | undefined> {
    const { store, redriver, settings } = this.#parts;
    const { attempt } = this.#lease;
    if (error.code === 'ERR_HANDLER_LATER') return this.#postpone(error);
    const isDead =
      error.code === 'ERR_HANDLER_PERMANENT' || (store.durable && attempt >= settings.maxAttempts);
    const retryAfterMs = isDead ? null : backoffMs(attempt, { ...RETRY, random: settings.runtime.random() });
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error) });
    if (!isRecorded) return this.#lost();
    if (!isDead) redriver.warnIfIdle(this.#work);
    return { kind: isDead ? 'dead' : 'failed', attempt, handlerMs: this.#call.handlerMs, error };
  }

  async #postpone(error: RetryLater): Promise<OutcomeResult | undefined> {
    const { store, redriver, settings } = this.#parts;
    const { maxLaterMs } = settings;
    const retryAfterMs = Math.min(error.retryAfterMs, maxLaterMs);
    const later = { maxAgeMs: maxLaterMs };
    const isRecorded = await store.fail(this.#lease, { retryAfterMs, error: toLastError(error), later });
    if (!isRecorded) return this.#lost();
    const run = { attempt: this.#lease.attempt, handlerMs: this.#call.handlerMs };
    if (isRecorded === 'dead') return { ...run, kind: 'dead', error };
    redriver.warnIfIdle(this.#work);
    return store.durable ? { ...run, kind: 'queued' } : { ...run, kind: 'busy', error };
  }

  /** Ends a claim whose transaction could not begin: its handler did not run, so it does not count. */
  async #giveBack(): Promise<void> {
    if (this.#lease.first !== undefined) return;
    const { store, settings } = this.#parts;
    const retryAfterMs = backoffMs(1, { ...RETRY, random: settings.runtime.random() });
    const error = 'ERR_INBOX_FAILED: The transaction could not begin.';
    const failure = { retryAfterMs, error, later: { maxAgeMs: MAX_AGE_MS } };
    // If it fails, the lease expires.
    await store.fail(this.#lease, failure).catch(() => undefined);
  }

  /** Reports the end of an overdue handler. Resolves when it has ended, or its lease has expired. */
  async #reportOverdue(ended: Promise<OutcomeResult | undefined>, timeout: HandlerError): Promise<void> {
    const { report, logger, settings } = this.#parts;
    const { leaseMs, runtime } = settings;
    const { event, origin, secretIndex } = this.#work;
    const concluded = report.conclude({ origin, event, secretIndex, logger }, async () => {
      const result = await ended;
      if (result === undefined) throw leaseLost(this.#lease);
      return result;
    });
    const onExpiry = () => {
      const why = `The handler is still running although its lease of ${leaseMs} ms has expired, so another process may run the event as well. Pass \`signal\` to the calls that the handler waits for, or raise leaseMs.`;
      throw leaseLost(this.#lease, why);
    };
    try {
      // The rest of the lease. It began after the claim was sent, so the handler holds its event at least until then.
      const { kind, error } = await timeLimit(concluded, leaseMs - this.#limitMs, onExpiry, runtime);
      if (error !== undefined) return;
      log(
        logger,
        'warn',
        `${kind} ${event.id}: the handler finished, but took longer than handlerTimeoutMs.`,
      );
    } catch (expired) {
      // The server has ended its transaction, and nothing else is stored of it.
      if (this.#lease.first !== undefined) await this.#fail(timeout).catch(() => undefined);
      logOutcome({ kind: 'busy', origin, event, error: expired as BusyError }, logger);
    }
  }
}

/** Returns the text that the inbox keeps for operators: the code and the message of the thrown error. */
export function toLastError(error: HandlerFault): string {
  const message = error.code === 'ERR_HANDLER_FAILED' ? messageOf(error.cause) : undefined;
  return `${error.code}: ${message ?? messageOf(error)}`;
}

function missingResult(event: WebhookEvent, lease: Lease): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `Attempt ${lease.attempt - 1} at ${event.type} recorded no result: the process died, the handler took longer than leaseMs, or the inbox was unreachable when the handler ended (or maxAttempts has since been lowered). Its effect may have happened, so check the cause and your ledger before you requeue the event.`,
  );
}
