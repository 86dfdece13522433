const UNITS_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** The advice where {@link parseDuration} returns `undefined`. */
export const DURATION_HINT = 'Enter a duration as a number and a unit, such as 500ms, 2s, 5m, 1h or 7d.';

/** Reads a duration such as `500ms`, `-2h` or `0` into ms, as the command line does; `undefined` if it is none. */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === '0') return 0;
  const [, sign, digits, unit] = /^(-?)(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/.exec(trimmed) ?? [];
  if (unit === undefined) return undefined;
  return Math.round(Number(`${sign}${digits}`) * UNITS_MS[unit as keyof typeof UNITS_MS]);
}

/** A duration in the largest unit that gives a whole number: `300000` is `5m`. */
export function formatDuration(ms: number): string {
  for (const [unit, size] of Object.entries(UNITS_MS)) {
    if (ms !== 0 && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}`;
}
