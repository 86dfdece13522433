/** One job in a worker: the event is handled, and whatever is wanted again is the engine's to retry. */
import { ConfigError } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';

/** Endings after which the job is finished; the others are wanted again. */
const FINISHED: ReadonlySet<OutcomeKind> = new Set([
  'handled',
  'duplicate',
  'ignored',
  'parked',
  'dead',
  'rejected',
]);

/** Handles the event; rejects with the outcome's error when it is wanted again. */
export async function runJob(
  event: UnknownEvent,
  { receiver }: { readonly receiver: Pick<Receiver, 'handle'> },
): Promise<OutcomeKind> {
  const { kind, error } = await receiver.handle(event, { source: 'queue' });
  if (FINISHED.has(kind)) return kind;
  throw error ?? new ConfigError(`A worker cannot end a job as ${kind}: give its receiver no queue.`);
}
