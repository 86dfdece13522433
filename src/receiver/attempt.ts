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

const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/** A century, so that an attempt that could not begin never dead-letters its event. */
const MAX_AGE_MS = 3_155_760_000_000;

/** If the handler exceeds `handlerTimeoutMs`, the attempt continues as `rest` and reports a second outcome. */
export class Attempt {
  readonly #parts: CoreParts;
  readonly #work: Work & { readonly event: WebhookEvent };
  readonly #lease: Lease;
  /** In ms; 0 or less if the lease expired before the attempt began. */
  readonly #limitMs: number;
  readonly #call: HandlerCall;

  /** @param askedAt - when the claim was sent. The lease can't have begun earlier. */
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
    // The time limit of a first attempt starts when its transaction begins.
    const leftMs = lease.first === undefined ? leaseMs - msSince(askedAt, runtime) : leaseMs;
    this.#limitMs = Math.min(handlerTimeoutMs, leftMs);
    this.#call = new HandlerCall(parts, work, lease, { askedAt, limitMs: this.#limitMs });
  }

  /** Resolves to `undefined` if this attempt ran without a claim, but the event must be claimed. */
  async run(): Promise<Run | undefined> {
    const { store, inFlight, settings } = this.#parts;
    const { leaseMs, maxAttempts } = settings;
    const { attempt } = this.#lease;
    if (this.#limitMs <= 0) {
      const why = `The handler did not start, because the lease of ${leaseMs} ms had already expired. Either the process was frozen, or the inbox took too long to respond. start() or redrive() will run the event later.`;
      throw leaseLost(this.#lease, why);
    }
    // The last allowed attempt recorded no result, so another run of the handler could crash the process again.
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
      // The overdue handler threw an error only after the connection had failed.
      if (state === 'running' && timeout !== undefined) return this.#fail(timeout);
      throw error;
    }
    if (!isCompleted) return this.#lost();
    return { kind: 'handled', attempt: this.#lease.attempt, handlerMs: this.#call.handlerMs };
  }

  /** The inbox rejected the result, because another attempt has taken the event. */
  #lost(): undefined {
    if (this.#lease.first === undefined) throw leaseLost(this.#lease);
  }

  /** The failure is recorded before the response, because the sender doesn't retry after a 200 for `dead`. */
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

  /** Ends the claim without counting the attempt, because its transaction could not begin and no handler ran. */
  async #giveBack(): Promise<void> {
    if (this.#lease.first !== undefined) return;
    const { store, settings } = this.#parts;
    const retryAfterMs = backoffMs(1, { ...RETRY, random: settings.runtime.random() });
    const error = 'ERR_INBOX_FAILED: The transaction could not begin.';
    const failure = { retryAfterMs, error, later: { maxAgeMs: MAX_AGE_MS } };
    // If this call fails, the event stays claimed until the lease expires.
    await store.fail(this.#lease, failure).catch(() => undefined);
  }

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
      const why = `The handler is still running although the lease of ${leaseMs} ms has expired, so another process could be running the same event. Pass \`signal\` to the calls that the handler waits for, or raise leaseMs.`;
      throw leaseLost(this.#lease, why);
    };
    try {
      // The lease began after the claim was sent, so it outlasts this wait.
      const { kind, error } = await timeLimit(concluded, leaseMs - this.#limitMs, onExpiry, runtime);
      if (error !== undefined) return;
      log(
        logger,
        'warn',
        `${kind} ${event.id}: the handler finished, but took longer than handlerTimeoutMs.`,
      );
    } catch (expired) {
      // The database has ended the transaction of this first attempt, so the inbox has no record of the event yet.
      if (this.#lease.first !== undefined) await this.#fail(timeout).catch(() => undefined);
      logOutcome({ kind: 'busy', origin, event, error: expired as BusyError }, logger);
    }
  }
}

export function toLastError(error: HandlerFault): string {
  const message = error.code === 'ERR_HANDLER_FAILED' ? messageOf(error.cause) : undefined;
  return `${error.code}: ${message ?? messageOf(error)}`;
}

function missingResult(event: WebhookEvent, lease: Lease): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `Attempt ${lease.attempt - 1} at ${event.type} recorded no result: the process died, the handler took longer than leaseMs, or the inbox was unreachable when the handler ended. If you have lowered maxAttempts, that can also be the reason. The handler's effect may have happened, so check the cause and your ledger before you requeue the event.`,
  );
}
