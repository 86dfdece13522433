/** The poll lease, which one process holds at a time, and the poller's state. */
import { POLL_NOTE } from '../core/ports.js';
import type { OpenSettings } from './options.js';
import { type PollProblem, problemOf, toProblem } from './problems.js';
import { type PollState, readPollState, writePollState } from './state.js';

export interface PollLease {
  readonly state: PollState;
  /** Aborts when another process has taken over. */
  readonly lost: AbortSignal;
  /**
   * Renews the lease, which writes to the inbox. Resolves to `false` when another process has taken over. Rejects
   * when the inbox failed.
   */
  readonly renew: () => Promise<boolean>;
  /**
   * Saves the state and releases the lease. Resolves to `false` when another process has the lease, and to `null`
   * when the inbox failed.
   */
  readonly save: (state: PollState, problems: PollProblem[]) => Promise<boolean | null>;
  /** Stops renewing. Unless it is released, the lease expires. */
  readonly drop: () => void;
}

/** Acquires the lease and renews it until it is released; `null` while another holder has it. */
export async function acquireLease(
  { receiver: { inbox }, parts, leaseMs, runtime }: OpenSettings,
  holder: string,
): Promise<PollLease | null> {
  const { store } = parts;
  const lease = async (ms: number) => store.ask(() => inbox.leaseNote(POLL_NOTE, { holder, leaseMs: ms }));
  const read = () => store.ask(() => inbox.readNote(POLL_NOTE));
  if (!(await lease(leaseMs))) return null;
  const note = await read();

  const lost = new AbortController();
  let renewal = Promise.resolve();
  const renew = async () => {
    try {
      if (await lease(leaseMs)) return;
      lost.abort();
      drop();
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
    state: await readPollState({ readNote: () => note }),
    lost: lost.signal,
    drop,
    renew: () => lease(leaseMs),
    save: async (next, problems) => {
      drop();
      await renewal;
      try {
        // If the lease expired before its renewal, another process may have polled in between.
        const isOurs = (await read()) === note;
        const saved = isOurs && (await store.ask(() => writePollState(inbox, next, { holder })));
        if (!saved) problems.push(problemOf('ERR_LEASE_LOST'));
        // If this fails, the lease expires by itself.
        await lease(0).catch(() => undefined);
        return saved;
      } catch (error) {
        problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
        return null;
      }
    },
  };
}
