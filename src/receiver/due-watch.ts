/** The warning that nothing runs what is stored. */
import type { Inbox, InboxOperations, Lease, Logger } from '../core/ports.js';
import { type Runtime, setBackgroundTimeout } from '../core/runtime.js';
import { log } from './outcome.js';

interface DueWatchSettings {
  readonly inbox: () => Inbox<unknown>;
  readonly leaseMs: number;
  readonly logger: Logger;
  readonly runtime: Runtime;
  /** Whether something redrives by now, or the receiver is closed. */
  readonly isOver: () => boolean;
}

/** Watches one event at a time, and says so when nothing has run it two leases after it was due. */
export function createDueWatch({ inbox, leaseMs, logger, runtime, isOver }: DueWatchSettings) {
  let isWatching = false;

  /** `seenAt`: when the event had last changed at the check before. */
  function watch({ id, attempt }: Pick<Lease, 'id' | 'attempt'>, dueInMs: number, seenAt?: number): void {
    const check = async () => {
      const operations: Inbox<unknown> & Partial<InboxOperations> = inbox();
      const record = isOver() ? undefined : await operations.find?.(id);
      if (record?.state !== 'failed' && record?.state !== 'received') {
        isWatching = false;
      } else if (record.attempts !== attempt) {
        // A delivery ran it, and it failed again.
        const { attempts, updatedAt, dueAt } = record;
        watch({ id, attempt: attempts }, (dueAt ?? updatedAt) - updatedAt);
      } else if (record.state === 'received' && record.updatedAt !== seenAt) {
        // It can wait while others of its key run, and then it changes about once per lease.
        watch({ id, attempt }, 0, record.updatedAt);
      } else {
        const waitedS = Math.round((2 * leaseMs) / 1000);
        log(
          logger,
          'warn',
          `${id} is stored and was due ${waitedS} s ago, and nothing runs it. Call receiver.run() or receiver.redrive(), or start a poller, in one of your processes.`,
        );
      }
    };
    const wait = () => {
      check().catch(() => {
        isWatching = false;
      });
    };
    setBackgroundTimeout(runtime, wait, dueInMs + 2 * leaseMs);
  }

  return (event: Pick<Lease, 'id' | 'attempt'>, dueInMs: number): void => {
    if (isWatching || isOver() || !inbox().durable) return;
    isWatching = true;
    watch(event, dueInMs);
  };
}
