/** Dispatch: events from the list through the receiver, oldest first, a few at a time. */
import { emptyCounts, type OutcomeCounts } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import type { Arrival } from './intake.js';
import { createdAt } from './page.js';
import { type Problem, toProblem } from './problem.js';

/** What {@link dispatchEvents} needs. */
export interface DispatchRules {
  readonly receiver: Pick<Receiver, 'accept'>;
  readonly concurrency: number;
  /** Once aborted, nothing more is begun; what runs is waited for. */
  readonly signal: AbortSignal;
}

/** How the dispatch went. Counted as it goes: a backlog may be long. */
export interface Dispatched {
  readonly ended: OutcomeCounts;
  /** How many took effect, or were queued, that nobody had before. */
  readonly recovered: number;
  readonly problems: readonly Problem[];
}

/** Accepts the events; one that fails holds no other up. */
export async function dispatchEvents(
  arrivals: readonly Arrival[],
  { receiver, concurrency, signal }: DispatchRules,
): Promise<Dispatched> {
  const ended = emptyCounts();
  const problems: Problem[] = [];
  let recovered = 0;
  const queue = arrivals
    .map((arrival) => ({ arrival, at: createdAt(arrival.event) }))
    .sort((a, b) => a.at - b.at)
    .values();

  async function accept({ event, result }: Arrival): Promise<void> {
    const { kind, error } = await receiver.accept(event, 'pull');
    ended[kind] += 1;
    if (result === 'new' && (kind === 'handled' || kind === 'ignored' || kind === 'queued')) recovered += 1;
    // Busy is well: a push of the event came meanwhile.
    if (error !== undefined && error.code !== 'ERR_EVENT_BUSY') {
      problems.push(toProblem(error, { code: error.code, id: event.id }));
    }
  }

  const work = async () => {
    // Looked at before each step: an iterator that was asked has given its event away.
    while (!signal.aborted) {
      const next = queue.next();
      if (next.done) return;
      await accept(next.value.arrival);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return { ended, recovered, problems };
}
