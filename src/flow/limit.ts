import { hasHandler } from '../receiver/options.js';
import type { CoreParts } from '../receiver/parts.js';
import type { Dispatch } from '../receiver/work.js';

/**
 * Runs handlers in slots. If no slot is free, deliveries go to `whenFull` or are `busy`, and stored events and jobs
 * wait.
 */
export function limitConcurrency(
  next: Dispatch,
  { slots, settings }: CoreParts,
  whenFull?: Dispatch,
): Dispatch {
  if (slots === undefined) return next;
  return async (work) => {
    const { event, origin, signal } = work;
    if (!hasHandler(settings, event)) return next(work);
    if (origin === 'push' && slots.free === 0 && whenFull !== undefined) return whenFull(work);
    if (origin === 'push') slots.assertFree();
    await slots.take(signal);
    let rest: Promise<unknown> | undefined;
    try {
      const run = await next(work);
      ({ rest } = run);
      return run;
    } finally {
      if (rest === undefined) slots.release();
      else void rest.then(() => slots.release());
    }
  };
}
