/** Pace: the same work many times, one after the other or so many a second. */
import { setTimeout as wait } from 'node:timers/promises';

/** At a rate, no more than this many run at once: an endpoint that is slow is not buried. */
const AT_ONCE = 64;

/**
 * Runs the work `count` times, and begins no more once the signal aborts or one failed; ends when all that began
 * ended.
 *
 * @throws what the first that failed rejected with.
 */
export async function pace(
  count: number,
  { perSecond, signal }: { readonly perSecond: number | undefined; readonly signal: AbortSignal },
  work: () => Promise<void>,
): Promise<void> {
  const start = performance.now();
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  for (let begun = 0; begun < count && !signal.aborted && failures.length === 0; begun++) {
    if (perSecond !== undefined) {
      const dueMs = start + (begun / perSecond) * 1_000 - performance.now();
      if (dueMs > 1) await wait(dueMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
    }
    const one = work()
      .catch((error: unknown) => void failures.push(error))
      .finally(() => running.delete(one));
    running.add(one);
    if (perSecond === undefined || running.size >= AT_ONCE) await Promise.race(running);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
}
