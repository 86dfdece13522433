const UNITS_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

export const DURATION_HINT = 'Enter a duration as a number and a unit, such as 500ms, 2s, 5m, 1h or 7d.';

/** Reads durations such as `500ms`, `-2h` or `0`, as the command line does. */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === '0') return 0;
  const [, sign, digits, unit] = /^(-?)(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/.exec(trimmed) ?? [];
  if (unit === undefined) return undefined;
  return Math.round(Number(`${sign}${digits}`) * UNITS_MS[unit as keyof typeof UNITS_MS]);
}

export function formatDuration(ms: number): string {
  for (const [unit, size] of Object.entries(UNITS_MS)) {
    if (ms !== 0 && ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}`;
}
