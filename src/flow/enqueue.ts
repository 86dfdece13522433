/** `queue`: events are recorded and put into a queue, and workers run them. */
import { orUnavailable } from '../core/errors.js';
import { isKnownEvent } from '../core/events.js';
import type { Queue } from '../core/ports.js';
import type { Store } from '../receiver/store.js';
import type { Dispatch, Enqueue } from '../receiver/work.js';

/** The call of the queue, which layers can wrap. */
export function enqueueInto(queue: Queue): Enqueue {
  return async (event, { json, traceparent }) => {
    await orUnavailable('ERR_QUEUE_FAILED', () => queue.enqueue(event, { json, traceparent }));
  };
}

/** Enqueues known events. If this process ends between the record and the queue, `redrive` enqueues the event after `leaseMs`. */
export function enqueueEvents(
  enqueue: Enqueue,
  { store, leaseMs }: { readonly store: Store; readonly leaseMs: number },
): (next: Dispatch) => Dispatch {
  return (next) => async (work) => {
    const { event, json } = work;
    if (!isKnownEvent(event)) return next(work);
    const recorded = await store.recordOne(work, leaseMs);
    if (recorded === 'done') return { result: { kind: 'duplicate' } };
    if (recorded === 'dead') return { result: { kind: 'dead' } };
    await enqueue(event, { json });
    return { result: { kind: 'queued' } };
  };
}
