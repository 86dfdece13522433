/** Settling one claimed event: the attempt, and then done, failed or dead under its lease. */
import { backoffMs } from '../core/backoff.js';
import { BusyError, HandlerError } from '../core/errors.js';
import type { WebhookEvent } from '../core/events.js';
import type { Lease, Origin } from '../core/inbox.js';
import { attempt, type HandlerFault, isHandlerFault } from './attempt.js';
import { reach } from './dependency.js';
import type { ReceiverRules } from './options.js';
import type { Ending } from './outcome.js';

/** After a failed attempt: 1 s, 2 s, 4 s, … up to an hour, less a random half. */
const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/** What is settled, and how it came. */
export interface Settlement<Tx> {
  readonly lease: Lease;
  readonly origin: Origin;
  readonly rules: ReceiverRules<Tx>;
}

/**
 * Makes one attempt at a claimed event and settles it.
 *
 * @throws {BusyError} `ERR_LEASE_LOST` when another process took the event meanwhile.
 * @throws {UnavailableError} `ERR_INBOX_FAILED`; the lease then lapses, and the event is run again.
 */
export async function settle<Tx>(event: WebhookEvent, settlement: Settlement<Tx>): Promise<Ending> {
  const { lease, origin, rules } = settlement;
  const { inbox } = rules;
  if (inbox.durable && lease.attempt > rules.maxAttempts) {
    // Every attempt before this one ended without a word: the event may be what kills the process.
    return fail(settlement, unfinished(event, lease));
  }
  const run = (tx: Tx) => attempt(event, { rules, context: { tx, attempt: lease.attempt, origin } });
  let handled = false;
  let settled: boolean;
  try {
    if (inbox.transaction) {
      const effect = async (tx: Tx) => {
        handled = await run(tx);
      };
      settled = await reach('ERR_INBOX_FAILED', inbox.transaction(lease, effect));
    } else {
      handled = await run(undefined as Tx);
      settled = await reach('ERR_INBOX_FAILED', inbox.complete(lease));
    }
    if (!settled) throw leaseLost(lease);
    return { kind: handled ? 'handled' : 'ignored', attempt: lease.attempt };
  } catch (error) {
    if (isHandlerFault(error)) return fail(settlement, error);
    throw error;
  }
}

/** Records the failure before anything is said of it: a 200 for `dead` must never be the last trace. */
async function fail<Tx>({ lease, rules }: Settlement<Tx>, error: HandlerFault): Promise<Ending> {
  const { inbox, maxAttempts } = rules;
  const dead = error.code === 'ERR_HANDLER_PERMANENT' || (inbox.durable && lease.attempt >= maxAttempts);
  const retryAfterMs = dead ? null : backoffMs(lease.attempt, { ...RETRY, random: Math.random() });
  const recorded = inbox.fail(lease, { retryAfterMs, error: describe(error) });
  if (!(await reach('ERR_INBOX_FAILED', recorded))) throw leaseLost(lease);
  return { kind: dead ? 'dead' : 'failed', attempt: lease.attempt, error };
}

/** What operators read in the inbox: the code, and the words of whatever the handler threw. */
function describe(error: HandlerFault): string {
  const { cause } = error;
  const words = error.code === 'ERR_HANDLER_FAILED' && cause instanceof Error ? cause.message : error.message;
  return `${error.code}: ${words}`;
}

function unfinished(event: WebhookEvent, lease: Lease): HandlerError {
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `${lease.attempt - 1} attempts at ${event.type} began and none ended: the process may have died in each. Look for what kills it, then requeue the event.`,
  );
}

function leaseLost(lease: Lease): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `Attempt ${lease.attempt} outlived its lease and another process may have the event. Raise leaseMs, or make the handler faster.`,
    { retryAfterMs: 1_000 },
  );
}
