import { POLL_NOTE } from '../core/ports.js';
import type { OpenSettings } from './options.js';
import { type PollProblem, problemOf, toProblem } from './problems.js';
import { type PollState, readPollState, writePollState } from './state.js';

export interface PollLease {
  readonly state: PollState;
  /** Aborts when another process takes over the lease. */
  readonly lost: AbortSignal;
  /** Resolves to `false` if another process has taken over the lease. Rejects if the inbox fails. */
  readonly renew: () => Promise<boolean>;
  /**
   * Also releases the lease. Resolves to `false` if another process took over the lease, and to `null` if the inbox
   * fails.
   */
  readonly save: (state: PollState, problems: PollProblem[]) => Promise<boolean | null>;
  /** Stops renewing the lease. A lease that is not released expires. */
  readonly drop: () => void;
}

/** Renews the lease until it is released. Resolves to `null` if another poller holds the lease. */
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
      // There is time for two more renewals. If both fail, saving the state fails too, and that failure is reported.
    }
  };
  // Renewals run one at a time. They must not accumulate if the inbox is slow, and none must run after the release.
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
        // If the lease expired before it was renewed, another process may have polled in between.
        const isOurs = (await read()) === note;
        const saved = isOurs && (await store.ask(() => writePollState(inbox, next, { holder })));
        if (!saved) problems.push(problemOf('ERR_LEASE_LOST'));
        // If the release fails, the lease expires by itself.
        await lease(0).catch(() => undefined);
        return saved;
      } catch (error) {
        problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
        return null;
      }
    },
  };
}
