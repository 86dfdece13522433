import { hasHandler } from '../receiver/options.js';
import type { CoreParts } from '../receiver/parts.js';
import type { Dispatch } from '../receiver/work.js';

/** If no slot is free, a delivery goes to `whenFull` or is rejected as `busy`, but stored events and jobs wait. */
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
