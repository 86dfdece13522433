/**
 * How long to wait before the next attempt: `baseMs`, doubled for each attempt, at most `maxMs`.
 * A random part of up to a half is subtracted, which spreads attempts that failed together.
 *
 * @param attempt - which attempt failed, from 1.
 * @param random - a number from 0 up to 1.
 */
export function backoffMs(
  attempt: number,
  { baseMs, maxMs, random }: { readonly baseMs: number; readonly maxMs: number; readonly random: number },
): number {
  const full = Math.min(baseMs * 2 ** Math.min(attempt - 1, 52), maxMs);
  return Math.round(full * (0.5 + random / 2));
}
