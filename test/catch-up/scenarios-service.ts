/** A service with a list of its events on a virtual clock, made for runs of days: a request costs what it shows. */
import { EVENT_TYPES, type UnknownEvent } from 'stablehooks';
import type { ListedEvents } from 'stablehooks/catch-up';
import { createRandom } from './simulated-list.js';

export const SECOND = 1_000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

/** A span of virtual time. Times are epoch ms. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** An event of the service. Times are epoch ms. */
export interface ServiceEvent {
  readonly at: number;
  /** When the list begins to show it. */
  readonly listedAt: number;
  /** When a push of it arrives; infinite for a push that is lost. */
  readonly pushedAt: number;
  readonly event: UnknownEvent;
  /** The same event as the list shows it once its push has arrived. */
  readonly deliveredEvent: UnknownEvent;
}

/** How events arrive. */
export interface Traffic extends Span {
  readonly seed: number;
  /** The mean number of events per day of 24 hours. */
  readonly perDay: number;
  /** How many times the mean rate applies at a time. @default always 1 */
  readonly factor?: ((time: number) => number) | undefined;
  /** `created_at` is up to this much earlier than the time at which the event is listed. @default 0 */
  readonly jitterMs?: number | undefined;
  /** Whether pushes arrive, a second after the event is created. @default false: all are lost */
  readonly pushed?: boolean | undefined;
}

/** The factor of {@link Traffic} for a business that is open from 9 to 18 h: nearly all events arrive in these hours. */
export function businessHours(time: number): number {
  const hour = (time % DAY) / HOUR;
  return hour >= 9 && hour < 18 ? 2.5 : 0.1;
}

/** 60 % of the events are of one type, 10 % of each of the four others. */
function pickType(random: number): string {
  const [main, ...others] = EVENT_TYPES;
  return random < 0.6 ? main : (others[Math.floor(((random - 0.6) / 0.4) * others.length)] ?? main);
}

/** Poisson arrivals, in the order in which they are listed. */
export function arrivals(traffic: Traffic): readonly ServiceEvent[] {
  const { seed, perDay, from, until, factor = () => 1, jitterMs = 0, pushed = false } = traffic;
  const random = createRandom(seed);
  const events: ServiceEvent[] = [];
  for (let time = from; ; ) {
    const rate = (perDay * factor(time)) / DAY;
    time += -Math.log(1 - random()) / rate;
    if (time >= until) return events;
    const at = time - random() * jitterMs;
    const id = `evt_${seed}_${events.length}`;
    events.push(createEvent({ id, type: pickType(random()), at, listedAt: time, pushed }));
  }
}

/** A number of events within one second. */
export function burst(options: {
  readonly at: number;
  readonly size: number;
  readonly pushed: boolean;
}): readonly ServiceEvent[] {
  const random = createRandom(options.at);
  return Array.from({ length: options.size }, (_, index) => {
    const at = options.at + (index * SECOND) / options.size;
    const id = `evt_burst_${options.at}_${index}`;
    return createEvent({ id, type: pickType(random()), at, listedAt: at, pushed: options.pushed });
  });
}

function createEvent({
  id,
  type,
  at,
  listedAt,
  pushed,
}: {
  readonly id: string;
  readonly type: string;
  readonly at: number;
  readonly listedAt: number;
  readonly pushed: boolean;
}): ServiceEvent {
  const createdAt = new Date(at);
  const event = { id, type, created_at: createdAt.toISOString(), payload: {}, delivered: false };
  const pushedAt = pushed ? listedAt + SECOND : Number.POSITIVE_INFINITY;
  return {
    at: createdAt.getTime(),
    listedAt,
    pushedAt,
    event,
    deliveredEvent: { ...event, delivered: true },
  };
}

/** The same events, all of one type. */
export function ofOneType(events: readonly ServiceEvent[], type: string): readonly ServiceEvent[] {
  return events.map(({ event, deliveredEvent, ...times }) => ({
    ...times,
    event: { ...event, type },
    deliveredEvent: { ...deliveredEvent, type },
  }));
}

/** The same event, created earlier. */
export function backdate({ event, deliveredEvent, ...times }: ServiceEvent, byMs: number): ServiceEvent {
  const at = times.at - byMs;
  const created = { created_at: new Date(at).toISOString() };
  return { ...times, at, event: { ...event, ...created }, deliveredEvent: { ...deliveredEvent, ...created } };
}

/** The behaviour that the service does not specify. */
export interface ServiceOptions {
  readonly events: readonly ServiceEvent[];
  /** The order of the list: by `created_at`, or by when an event was listed, as ids that are counted up are. */
  readonly order?: 'created' | 'listed' | undefined;
  /** Which part of the list is shown: the newest first, or the oldest first. */
  readonly window?: 'newest' | 'oldest' | undefined;
  readonly cap?: number | undefined;
  /** When each request fails. */
  readonly outages?: readonly Span[] | undefined;
}

/** The service, with the part of its list that is shown at the moment. */
export interface Service {
  /** Answers as of now. Throws during an outage. */
  list(query: { readonly type?: string | undefined; readonly limit: number }): ListedEvents;
  /** The events that the list began to show since this was last called. */
  takeListed(): readonly ServiceEvent[];
}

/** `now` gives the virtual time, epoch ms. */
export function createService(options: ServiceOptions, now: () => number): Service {
  const { order = 'created', window = 'newest', cap = Number.POSITIVE_INFINITY } = options;
  const rank = ({ at, listedAt }: ServiceEvent) => (order === 'created' ? at : listedAt);
  const pending = [...options.events].sort((a, b) => b.listedAt - a.listedAt);
  /** Ascending. */
  const all: ServiceEvent[] = [];
  const byType = new Map<string, ServiceEvent[]>();
  let unread: ServiceEvent[] = [];

  function insert(list: ServiceEvent[], event: ServiceEvent): void {
    let index = list.length;
    while (index > 0 && rank(list[index - 1] ?? event) > rank(event)) index -= 1;
    list.splice(index, 0, event);
  }

  function update(): void {
    const time = now();
    for (let next = pending.at(-1); next !== undefined && next.listedAt <= time; next = pending.at(-1)) {
      pending.pop();
      insert(all, next);
      const same = byType.get(next.event.type) ?? [];
      insert(same, next);
      byType.set(next.event.type, same);
      unread.push(next);
    }
  }

  function cut(list: readonly ServiceEvent[], size: number): readonly ServiceEvent[] {
    if (window === 'oldest') return list.slice(0, size);
    return list.slice(Math.max(0, list.length - size)).reverse();
  }

  return {
    list({ type, limit }) {
      const time = now();
      if (options.outages?.some(({ from, until }) => time >= from && time < until)) throw new Error('503');
      update();
      const matching = type === undefined ? all : (byType.get(type) ?? []);
      const shown = cut(matching, Math.min(limit, cap));
      const events = shown.map(({ pushedAt, event, deliveredEvent }) =>
        pushedAt <= time ? deliveredEvent : event,
      );
      return { events, problems: [], size: events.length, servedAt: time };
    },
    takeListed() {
      update();
      const taken = unread;
      unread = [];
      return taken;
    },
  };
}
