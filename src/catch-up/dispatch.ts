/** Dispatch: events from the list through the receiver, oldest first, a few at a time. */
import type { UnknownEvent } from '../core/events.js';
import type { Outcome } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { createdAt } from './page.js';

/** What {@link dispatchEvents} needs. */
export interface DispatchRules {
  readonly receiver: Pick<Receiver, 'accept'>;
  readonly concurrency: number;
  /** Once aborted, nothing more is begun; what runs is waited for. */
  readonly signal: AbortSignal;
}

/** Accepts the events; one that fails holds no other up. Answers the outcomes of those that were begun. */
export async function dispatchEvents(
  events: readonly UnknownEvent[],
  { receiver, concurrency, signal }: DispatchRules,
): Promise<readonly Outcome[]> {
  const queue = events
    .map((event) => ({ event, at: createdAt(event) }))
    .sort((a, b) => a.at - b.at)
    .values();
  const outcomes: Outcome[] = [];
  const work = async () => {
    // Looked at before each step: an iterator that was asked has given its event away.
    while (!signal.aborted) {
      const next = queue.next();
      if (next.done) return;
      outcomes.push(await receiver.accept(next.value.event, { source: 'pull' }));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return outcomes;
}
