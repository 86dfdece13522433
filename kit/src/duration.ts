/** Durations and times as people type them: `500ms`, `2s`, `5m`, `1h`, `7d`, or an RFC 3339 time. */
import { InvalidArgumentError } from 'commander';

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Reads a duration into ms. */
export function parseDuration(text: string): number {
  const [, digits, unit] = DURATION.exec(text) ?? [];
  const ms = Number(digits) * (UNIT_MS[unit as keyof typeof UNIT_MS] ?? Number.NaN);
  if (Number.isFinite(ms)) return Math.round(ms);
  throw new InvalidArgumentError('Write a duration as a number and a unit: 500ms, 2s, 5m, 1h or 7d.');
}

/** The longest wait, in ms: timers hold no more than 2³¹ − 1, and time limits are put on top of each other. */
const LONGEST_WAIT_MS = 24 * UNIT_MS.d;

/** Reads a duration that is waited for: 0 would be no wait, and more than a timer holds is none either. */
export function parseWait(text: string): number {
  const ms = parseDuration(text);
  if (ms >= 1 && ms <= LONGEST_WAIT_MS) return ms;
  throw new InvalidArgumentError('Write a duration from 1ms to 24d.');
}

/** A moment that was typed: a time of its own, or so long ago. */
export type Moment = { readonly at: Date } | { readonly agoMs: number };

/** Reads `2026-01-31T12:00:00Z`, or a duration, which means so long ago. */
export function parseMoment(text: string): Moment {
  if (DURATION.test(text)) return { agoMs: parseDuration(text) };
  const at = new Date(text);
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(at.getTime())) return { at };
  throw new InvalidArgumentError('Write a time as 2026-01-31T12:00:00Z, or how long ago: 30m, 2h, 7d.');
}

/** The moment as a date. */
export function toDate(moment: Moment, { now }: { readonly now: number }): Date {
  // A date reaches only so far back, and no event is older than 1970.
  return 'at' in moment ? moment.at : new Date(Math.max(0, now - moment.agoMs));
}

/** An age for people: the two largest units at most. */
export function formatAge(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  const seconds = Math.floor(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  const shown = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return shown.map(([count, unit]) => `${count}${unit}`).join(' ');
}
