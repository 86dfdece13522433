import type { EventFilter, EventState } from '../../../src/inspector/api.js';
import { startOfToday } from '../time';
import { param } from '../url';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The URL can select any other span with `since` and `until`, in ISO 8601. */
export const TIMES: Readonly<
  Record<string, { readonly title: string; readonly span: () => readonly number[] }>
> = {
  '1h': { title: '1h', span: () => [Date.now() - HOUR_MS] },
  '24h': { title: '24h', span: () => [Date.now() - DAY_MS] },
  today: { title: 'Today', span: () => [startOfToday()] },
  yesterday: { title: 'Yesterday', span: () => [startOfToday() - DAY_MS, startOfToday()] },
  '7d': { title: '7d', span: () => [Date.now() - 7 * DAY_MS] },
};

const TEXTS = ['type', 'error', 'group', 'key', 'id', 'payload', 'text'] as const;
const NAMES = ['state', 'time', 'since', 'until', 'attempts', ...TEXTS] as const;

export function filterKey(): string {
  return JSON.stringify(NAMES.map((name) => param(name) ?? null));
}

export function isFiltered(): boolean {
  return NAMES.some((name) => param(name) !== undefined);
}

export const NO_FILTER = Object.fromEntries([...NAMES, 'after'].map((name) => [name, undefined]));

export function readFilter(): EventFilter {
  const [since, until] = TIMES[param('time') ?? '']?.span() ?? [parseTime('since'), parseTime('until')];
  const [attempts, payload] = [param('attempts'), param('payload')];
  return {
    ...Object.fromEntries(TEXTS.map((name) => [name, param(name)])),
    state: param('state') as EventState | undefined,
    // If the text is not a number, the filter selects no event, so that an action cannot affect the wrong events.
    attempts: attempts === undefined ? undefined : /^[1-9]\d{0,8}$/.test(attempts) ? Number(attempts) : NEVER,
    payload: payload === undefined || payload.includes('=') ? payload : `${payload}=`,
    ...{ since, until },
  };
}

const NEVER = Number.MAX_SAFE_INTEGER;

function parseTime(name: string): number | undefined {
  const time = Date.parse(param(name) ?? '');
  return Number.isNaN(time) ? undefined : time;
}
