/** The warning that nothing runs what is stored. */
import type { Inbox, InboxOperations, InboxState, Lease, Logger } from '../core/ports.js';
import { type Runtime, setBackgroundTimeout } from '../core/runtime.js';
import { log } from './outcome.js';

interface DueWatchSettings {
  readonly inbox: () => Inbox<unknown>;
  readonly leaseMs: number;
  readonly logger: Logger;
  readonly runtime: Runtime;
  /** Whether a runner runs, or `redrive` was called within the last two leases: something runs what is due. */
  readonly isRedriven: () => boolean;
  readonly isClosed: () => boolean;
}

/** The states of an event that has to be run. */
const OPEN_STATES: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed']);

/** Watches one event at a time, and says so once when nothing has run it two leases after it was due. */
export function createDueWatch(settings: DueWatchSettings) {
  const { inbox, leaseMs, logger, runtime, isRedriven, isClosed } = settings;
  let isWatching = false;

  /** `seenAt`: when the event had last changed at the check before. */
  function watch({ id, attempt }: Pick<Lease, 'id' | 'attempt'>, dueInMs: number, seenAt?: number): void {
    const again = () => watch({ id, attempt }, 0, seenAt);
    const check = async () => {
      if (isClosed()) return;
      // Whatever redrives can end before it has run the event.
      if (isRedriven()) return again();
      const operations: Inbox<unknown> & Partial<InboxOperations> = inbox();
      const record = await operations.find?.(id);
      if (record === undefined || !OPEN_STATES.has(record.state)) {
        isWatching = false;
      } else if (record.attempts !== attempt || (record.state !== 'failed' && record.updatedAt !== seenAt)) {
        // It was run, and runs, failed again, or its process ended; the attempts of one that was requeued count from 1
        // again. Or it waits while others of its key run, and then it changes about once per lease.
        const { state, attempts, updatedAt, dueAt } = record;
        const waitMs = state === 'received' ? 0 : (dueAt ?? updatedAt) - updatedAt;
        watch({ id, attempt: attempts }, waitMs, updatedAt);
      } else {
        const waitedS = Math.round((2 * leaseMs) / 1000);
        log(
          logger,
          'warn',
          `${id} is stored and was due ${waitedS} s ago, and nothing runs it. Call receiver.run(), or receiver.redrive() at least every ${waitedS} s, or start a poller, in one of your processes.`,
        );
      }
    };
    // An inbox that is down for a moment must not end the watch.
    const wait = () => void check().catch(again);
    setBackgroundTimeout(runtime, wait, dueInMs + 2 * leaseMs);
  }

  return (event: Pick<Lease, 'id' | 'attempt'>, dueInMs: number): void => {
    if (isWatching || isClosed() || !inbox().durable) return;
    isWatching = true;
    watch(event, dueInMs);
  };
}
