/** Each layer wraps the next one, or is left out if its option isn't set. */
import { createDispatch } from '../receiver/dispatch.js';
import type { CoreParts, Flows } from '../receiver/parts.js';
import { answerFirst, awaitIdle, storeForLater } from './answer-first.js';
import { enqueueEvents } from './enqueue.js';
import { limitConcurrency } from './limit.js';
import { wakeAfter } from './order.js';

export function composeFlows(parts: CoreParts): Flows {
  const run = wakeAfter(createDispatch(parts), parts);
  const handle = limitConcurrency(run, parts);
  const accept = enqueueEvents(handle, parts);
  if (parts.settings.answer === 'handled') return { deliver: accept, accept, handle };
  const recorded = limitConcurrency(answerFirst(run, parts), parts, storeForLater(parts));
  return { deliver: awaitIdle(recorded, parts), accept, handle };
}
