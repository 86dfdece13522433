/** The lease to poll: one process polls at a time, and the lease is renewed as long as its poll takes. */

import { orUnavailable } from '../core/errors.js';
import type { Inbox, PollState } from '../core/inbox.js';

/** The right to poll, while it is held. */
export interface PollLease {
  /** What the last poll left. */
  readonly state: PollState;
  /** Aborts when another process has taken over. */
  readonly lost: AbortSignal;
  /** Keeps the state and gives the lease back; `false` when another process has it and nothing was kept. */
  release(state: PollState): Promise<boolean>;
  /** Renews it no more; without {@link release} it lapses. */
  drop(): void;
}

/** What {@link acquirePollLease} needs. */
export interface PollLeaseRules {
  readonly holder: string;
  readonly leaseMs: number;
}

/**
 * Takes the lease; `null` while another holder's runs.
 *
 * @throws {UnavailableError} `ERR_INBOX_FAILED`, from `release`, too.
 */
export async function acquirePollLease(
  inbox: Inbox<unknown>,
  { holder, leaseMs }: PollLeaseRules,
): Promise<PollLease | null> {
  const state = await orUnavailable('ERR_INBOX_FAILED', inbox.acquirePoll({ holder, leaseMs }));
  if (state === null) return null;

  const lost = new AbortController();
  let renewal = Promise.resolve();
  const renew = async () => {
    try {
      if (!(await inbox.savePoll(state, { holder, leaseMs }))) lost.abort();
    } catch {
      // Two more renewals fit into the lease; if they fail as well, saving the state at the end says so.
    }
  };
  // One at a time: a slow store must not pile them up, nor a late one follow the release.
  const timer = setInterval(() => {
    renewal = renewal.then(renew);
  }, leaseMs / 3);

  return {
    state,
    lost: lost.signal,
    drop: () => clearInterval(timer),
    async release(next) {
      clearInterval(timer);
      await renewal;
      return orUnavailable('ERR_INBOX_FAILED', inbox.savePoll(next, { holder, leaseMs: 0 }));
    },
  };
}
