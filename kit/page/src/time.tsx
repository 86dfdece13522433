/** Times for people: in the zone and the language of the browser. */

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
const CLOCK = new Intl.DateTimeFormat(undefined, clock);
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', ...clock });

/** A time in epoch ms or ISO 8601. The day is left out if it is today. */
export function Time({ at }: { readonly at: number | string }) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <>at an unknown time</>;
  const isToday = date.toDateString() === new Date().toDateString();
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {(isToday ? CLOCK : DAY_AND_CLOCK).format(date)}
    </time>
  );
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** A duration in ms in its largest unit, such as `3 min`. */
export function formatAge(ms: number): string {
  const [unit, size] = UNITS.find(([, each]) => ms >= each) ?? ['s', 1_000];
  return `${Math.max(0, Math.floor(ms / size)).toLocaleString()} ${unit}`;
}
