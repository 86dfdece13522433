/** The right to poll, which one process has at a time, and the state that it reads and saves. */
import type { PollState } from '../core/ports.js';
import type { Runtime } from '../core/runtime.js';
import type { Receiver, ReceiverParts } from '../receiver/receiver.js';
import { type PollProblem, problemOf, toProblem } from './problems.js';

interface LeaseSettings {
  readonly receiver: Receiver;
  readonly parts: ReceiverParts;
  readonly leaseMs: number;
  readonly runtime: Runtime;
}

/** The right to poll. One process has it at a time. */
export interface PollLease {
  /** The state that the last poll saved. */
  readonly state: PollState;
  /** Aborts when another process has taken over. */
  readonly lost: AbortSignal;
  /** Saves the state and returns the lease; `false`, and nothing saved, when another process has it. */
  readonly release: (state: PollState) => Promise<boolean>;
  /** Stops renewing. Unless it is released, the lease lapses. */
  readonly drop: () => void;
}

/**
 * Acquires the lease and renews it until it is released; `null` while another holder has it.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED`, also from `release`.
 */
export async function acquireLease(
  { receiver: { inbox }, parts, leaseMs, runtime }: LeaseSettings,
  holder: string,
): Promise<PollLease | null> {
  const state = await parts.ask(() => inbox.acquirePoll({ holder, leaseMs }));
  if (state === null) return null;

  const lost = new AbortController();
  let renewal = Promise.resolve();
  const renew = async () => {
    try {
      if (!(await parts.ask(() => inbox.savePoll(state, { holder, leaseMs })))) lost.abort();
    } catch {
      // Two more renewals fit into the lease. If they fail too, saving the state at the end fails and is reported.
    }
  };
  // One at a time: with a slow inbox renewals must not accumulate, and none must run after the release.
  const renewLater = () =>
    runtime.setTimeout(() => {
      timer = renewLater();
      renewal = renewal.then(renew);
    }, leaseMs / 3);
  let timer = renewLater();
  const drop = () => runtime.clearTimeout(timer);

  return {
    state,
    lost: lost.signal,
    drop,
    release: async (next) => {
      drop();
      await renewal;
      return parts.ask(() => inbox.savePoll(next, { holder, leaseMs: 0 }));
    },
  };
}

/** Whether the state is saved; `null` if that is not known, because the inbox failed. */
export async function saveState(
  lease: PollLease,
  { state, problems }: { readonly state: PollState; readonly problems: PollProblem[] },
): Promise<boolean | null> {
  try {
    const saved = await lease.release(state);
    if (!saved) problems.push(problemOf('ERR_LEASE_LOST'));
    return saved;
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return null;
  }
}
