import { computed, signal } from '@preact/signals';

/** In epoch ms. Components that read this signal are rendered again each second. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 1_000);

const KEY = 'stablehooks-inspector:zone';
const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const zone = signal<'UTC' | 'local'>(localStorage.getItem(KEY) === 'UTC' ? 'UTC' : 'local');

export const zoneName = computed(() => (zone.value === 'UTC' ? 'UTC' : LOCAL));

export function switchZone(): void {
  zone.value = zone.value === 'UTC' ? 'local' : 'UTC';
  localStorage.setItem(KEY, zone.value);
}

const format = computed(
  () =>
    new Intl.DateTimeFormat('en-CA', {
      ...{ year: 'numeric', month: '2-digit', day: '2-digit', hourCycle: 'h23' },
      ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', timeZone: zoneName.value },
    }),
);

function read(date: Date): { readonly day: string; readonly time: string } {
  const part = Object.fromEntries(format.value.formatToParts(date).map(({ type, value }) => [type, value]));
  return {
    day: `${part['year']}-${part['month']}-${part['day']}`,
    time: `${part['hour']}:${part['minute']}:${part['second']}`,
  };
}

export function Time({ at, full = false }: { readonly at: number | string; readonly full?: boolean }) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <>at an unknown time</>;
  const [{ day, time }, today] = [read(date), read(new Date()).day];
  const shortDay = day.slice(0, 4) === today.slice(0, 4) ? day.slice(5) : day;
  return (
    <time dateTime={date.toISOString()} title={`${date.toISOString()}`}>
      {full ? `${day} ${time}` : day === today ? time : `${shortDay} ${time}`}
    </time>
  );
}

export function startOfToday(): number {
  const date = new Date();
  const [hours, minutes, seconds] = read(date).time.split(':').map(Number);
  const sinceMidnightMs = (((hours ?? 0) * 60 + (minutes ?? 0)) * 60 + (seconds ?? 0)) * 1_000;
  return Math.floor(date.getTime() / 1_000) * 1_000 - sinceMidnightMs;
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** `since` is in epoch ms. The age is in its largest unit, such as `3 min`. */
export function Age({ since }: { readonly since: number }) {
  const ms = Math.max(0, now.value - since);
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ['s', 1_000];
  return (
    <>
      {Math.floor(ms / size).toLocaleString('en')} {unit}
    </>
  );
}

export function formatMs(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(2)} s`;
}
