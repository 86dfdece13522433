import { type BusyError, StablehooksError } from '../core/errors.js';
import { isKnownEvent, type WebhookEvent } from '../core/events.js';
import type { Claim, Lease, RecordResult } from '../core/ports.js';
import type { Moment } from '../core/runtime.js';
import { Attempt } from './attempt.js';
import type { OutcomeResult } from './outcome.js';
import type { CoreParts } from './parts.js';
import type { Dispatch, Run, Work } from './work.js';

/** For an event that is already running but may not be stored yet. */
const RUNNING_RETRY_MS = 1_000;

const OTHER_PROCESS_RETRY_MS = 5_000;

type KnownWork = Work & { readonly event: WebhookEvent };

export function createDispatch(parts: CoreParts): Dispatch {
  const { store, tally, redriver, settings } = parts;
  const { runtime, leaseMs, handlerTimeoutMs, maxAttempts, handlers } = settings;

  return async (work): Promise<Run> => {
    const { event } = work;
    if (!isKnownEvent(event)) return { result: await park(work) };
    const hasHandler = handlers[event.type] !== undefined;
    if (!hasHandler && work.origin !== 'queue') return { result: await ignore(work) };
    const first = hasHandler ? store.firstLease(work) : undefined;
    const run = first && (await new Attempt(parts, work as KnownWork, first, now()).run());
    if (run !== undefined) return run;
    const askedAt = now();
    const claim = await store.claim(work);
    if (claim.state === 'done' && hasHandler) void tally.duplicate(event);
    if (claim.state !== 'claimed') return { result: toResult(work, claim) };
    // An attempt after the last allowed one needs no handler, because it only dead-letters the event.
    if (!hasHandler && claim.lease.attempt <= maxAttempts)
      return { result: await finish(event.type, claim.lease) };
    const claimed = await new Attempt(parts, work as KnownWork, claim.lease, askedAt).run();
    return claimed as Run;
  };

  function now(): Moment {
    return { elapsed: runtime.elapsed(), now: runtime.now() };
  }

  async function park(work: Work): Promise<OutcomeResult> {
    const recorded = await store.recordOne(work, leaseMs);
    // A process with a newer release may already have handled the event, or may be handling it now.
    if (recorded === 'done' || recorded === 'running') return resultOf(recorded);
    return { kind: recorded === 'dead' ? 'dead' : 'parked' };
  }

  async function ignore(work: Work): Promise<OutcomeResult> {
    const recorded = await store.ignoreOne(work);
    if (recorded === 'new') return { kind: 'ignored' };
    if (recorded === 'received' || recorded === 'leased' || recorded === 'failed') {
      return store.durable ? { kind: 'queued' } : otherProcess();
    }
    return resultOf(recorded);
  }

  /** If another process has already tried the event, that process must run it again. */
  async function finish(type: string, lease: Lease): Promise<OutcomeResult> {
    if (lease.attempt === 1) {
      if (!(await store.complete(lease))) return otherProcess();
      tally.ignored(type);
      return { kind: 'ignored' };
    }
    const result = otherProcess();
    const { code, message } = result.error;
    await store.fail(lease, { retryAfterMs: OTHER_PROCESS_RETRY_MS, error: `${code}: ${message}` });
    return result;
  }

  function toResult(work: Work, claim: Exclude<Claim, { readonly state: 'claimed' }>): OutcomeResult {
    switch (claim.state) {
      case 'done':
      case 'dead':
        return resultOf(claim.state);
      case 'leased':
        return running(claim.retryAfterMs);
      case 'failed':
        return busy(
          'ERR_EVENT_NOT_DUE',
          'The event failed, and its retry time has not come yet.',
          claim.retryAfterMs,
        );
      case 'waiting':
        redriver.warnIfIdle(work);
        return busy(
          'ERR_KEY_BUSY',
          'Another event with the same ordering key is running. This event is stored, and start() or redrive() will run it later.',
          // The other handler should end within its time limit; its lease expires only if its process has died.
          Math.min(claim.retryAfterMs, handlerTimeoutMs),
        );
    }
  }
}

export function resultOf(recorded: RecordResult | undefined): OutcomeResult {
  if (recorded === 'done') return { kind: 'duplicate' };
  if (recorded === 'running') return running(RUNNING_RETRY_MS);
  return { kind: recorded === 'dead' || recorded === 'parked' ? recorded : 'queued' };
}

function running(retryAfterMs: number): OutcomeResult {
  return busy('ERR_EVENT_BUSY', 'Another process or delivery is already running this event.', retryAfterMs);
}

function busy(code: BusyError['code'], message: string, retryAfterMs: number) {
  return { kind: 'busy', error: new StablehooksError(code, message, { retryAfterMs }) } as const;
}

function otherProcess() {
  return busy(
    'ERR_EVENT_BUSY',
    'This process has no handler for the event. Another process is running the event or must run it again. Give all receivers that share this inbox the same handlers.',
    OTHER_PROCESS_RETRY_MS,
  );
}
