import { signal } from '@preact/signals';

/** Times for people: in the zone and the language of the browser. */

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
const CLOCK = new Intl.DateTimeFormat(undefined, clock);
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', ...clock });

/** The time in epoch ms; what reads it is rendered again each second. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 1_000);

/** A time in epoch ms or ISO 8601. The day is left out if it is today. With `exact`, always as wide and with ms. */
export function Time({ at, exact = false }: { readonly at: number | string; readonly exact?: boolean }) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <>at an unknown time</>;
  const isToday = date.toDateString() === new Date().toDateString();
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {exact ? formatExact(date, isToday) : (isToday ? CLOCK : DAY_AND_CLOCK).format(date)}
    </time>
  );
}

function formatExact(date: Date, isToday: boolean): string {
  const two = (value: number) => `${value}`.padStart(2, '0');
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map(two).join('-');
  return isToday ? `${time}.${`${date.getMilliseconds()}`.padStart(3, '0')}` : `${day} ${time}`;
}

/** The time of the sandbox and of events, which is UTC. */
export function toUtc(iso: string): string {
  return iso.slice(0, 19).replace('T', ' ');
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** How long ago a time (epoch ms) is, in its largest unit, such as `3 min`. */
export function Age({ since }: { readonly since: number }) {
  const ms = Math.max(0, now.value - since);
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ['s', 1_000];
  return (
    <>
      {Math.floor(ms / size).toLocaleString()} {unit}
    </>
  );
}
