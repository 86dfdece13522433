/** One job in a worker: the event is handled, and whatever is wanted again is the engine's to retry. */
import type { UnknownEvent } from '../core/events.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';

/** Endings with an error that the engine is not to try again. */
const GIVEN_UP: ReadonlySet<OutcomeKind> = new Set(['dead', 'rejected']);

/** Handles the event; rejects with the outcome's error when it is wanted again. */
export async function runJob(
  event: UnknownEvent,
  { receiver }: { readonly receiver: Pick<Receiver, 'handle'> },
): Promise<OutcomeKind> {
  const { kind, error } = await receiver.handle(event, 'queue');
  if (error === undefined || GIVEN_UP.has(kind)) return kind;
  throw error;
}
