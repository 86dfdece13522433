const UNITS_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** The advice to show if {@link parseDuration} returns `undefined`. */
export const DURATION_HINT = 'Enter a duration as a number and a unit, such as 500ms, 2s, 5m, 1h or 7d.';

/** Converts a duration such as `500ms`, `-2h` or `0` to ms, as the command line does. Returns `undefined` for other text. */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === '0') return 0;
  const [, sign, digits, unit] = /^(-?)(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/.exec(trimmed) ?? [];
  if (unit === undefined) return undefined;
  return Math.round(Number(`${sign}${digits}`) * UNITS_MS[unit as keyof typeof UNITS_MS]);
}

/** Formats a duration in the largest unit that gives a whole number. For example, `300000` becomes `5m`. */
export function formatDuration(ms: number): string {
  for (const [unit, size] of Object.entries(UNITS_MS)) {
    if (ms !== 0 && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}`;
}
