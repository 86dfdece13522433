export function backoffMs(
  attempt: number,
  { baseMs, maxMs, random }: { readonly baseMs: number; readonly maxMs: number; readonly random: number },
): number {
  const full = Math.min(baseMs * 2 ** Math.min(attempt - 1, 52), maxMs);
  return Math.round(full * (0.5 + random / 2));
}
