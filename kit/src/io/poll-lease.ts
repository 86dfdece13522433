import type { Inbox } from 'stablehooks';
import { POLL_NOTE } from 'stablehooks/catch-up';
import { unreachableError } from './errors.js';
import { inTime } from './in-time.js';

/** How long no other process can poll after this process was killed, in ms. */
export const POLL_LEASE_MS = 10_000;

/** How long a release may take, in ms. After that, the lease has almost lapsed by itself. */
const MAX_RELEASE_MS = 5_000;

/**
 * Acquires the poll lease and renews it between polls, so no second process forwards from the same inbox.
 * If another process acquires it nevertheless, because this one was suspended, the next poll reports `ERR_POLL_BUSY`.
 *
 * @throws {CommandError} exit 3 while another process has the lease.
 */
export async function holdPollLease<Held extends Pick<Inbox, 'leaseNote' | 'writeNote'>>(inbox: Held) {
  const holder = crypto.randomUUID();
  const lease = async (leaseMs: number) => inbox.leaseNote(POLL_NOTE, { holder, leaseMs });
  const acquire = () => lease(POLL_LEASE_MS);
  if (!(await acquire())) {
    throw unreachableError(
      `Another process polls with this inbox. Stop it, or pass another --inbox. If it was killed, try again in ${POLL_LEASE_MS / 1_000} s.`,
    );
  }
  let renewal: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    // The next poll fails as well, and reports it.
    renewal ??= acquire()
      .catch(() => undefined)
      .finally(() => {
        renewal = undefined;
      });
  }, POLL_LEASE_MS / 3);

  async function releaseLease(): Promise<void> {
    await renewal;
    await lease(0);
  }

  return {
    /** The inbox for a poller: its polls neither acquire nor release the lease. */
    inbox: {
      ...inbox,
      leaseNote: acquire,
      writeNote: (name, text) => inbox.writeNote(name, text, { holder }),
    } satisfies Held as Held,
    /** Lets other processes poll. After an error, or 5 seconds, the lease lapses by itself. Never rejects. */
    async release(): Promise<void> {
      clearInterval(timer);
      await inTime(releaseLease(), MAX_RELEASE_MS, () => new Error('late')).catch(() => undefined);
    },
  };
}
