import { orUnavailable } from '../core/errors.js';
import { isKnownEvent } from '../core/events.js';
import { resultOf } from '../receiver/dispatch.js';
import { type Enqueue, wrap } from '../receiver/layers.js';
import type { CoreParts } from '../receiver/parts.js';
import type { Dispatch } from '../receiver/work.js';

/** If this process ends between recording and enqueuing an event, `redrive` enqueues it once `leaseMs` has passed. */
export function enqueueEvents(next: Dispatch, { settings, store }: CoreParts): Dispatch {
  const { queue, use, leaseMs } = settings;
  if (queue === undefined) return next;
  const send: Enqueue = async (event, { json, traceparent }) => {
    await orUnavailable('ERR_QUEUE_FAILED', () => queue.enqueue(event, { json, traceparent }));
  };
  const enqueue = wrap(use, (layer, inner) => layer.enqueue?.(inner), send);
  return async (work) => {
    const { event, json } = work;
    if (!isKnownEvent(event)) return next(work);
    const recorded = await store.recordOne(work, leaseMs);
    if (recorded === 'done' || recorded === 'dead' || recorded === 'running')
      return { result: resultOf(recorded) };
    await enqueue(event, { json });
    return { result: { kind: 'queued' } };
  };
}
