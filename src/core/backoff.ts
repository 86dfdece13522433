/** How long to wait before the next attempt: exponential, capped, jittered. */

/** The bounds of {@link backoffMs}. */
export interface Backoff {
  /** The wait after the first attempt. */
  readonly baseMs: number;
  readonly maxMs: number;
}

/**
 * The wait after an attempt: `baseMs` doubled for each attempt before it, at most `maxMs`, of which a
 * random half is taken off so that many that failed together do not come back together.
 *
 * @param attempt - which attempt failed, from 1.
 * @param random - a number from 0 up to 1.
 */
export function backoffMs(
  attempt: number,
  { baseMs, maxMs, random }: Backoff & { readonly random: number },
): number {
  const full = Math.min(baseMs * 2 ** Math.min(attempt - 1, 52), maxMs);
  return Math.round(full * (0.5 + random / 2));
}
