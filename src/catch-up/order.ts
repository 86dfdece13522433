import { EVENT_TYPES } from '../core/events.js';
import type { EventKey, ListAnswer, ListQuery } from './answer.js';
import type { GapReason } from './state.js';

/** The maximum probability of a chance result that still counts as evidence. */
const MAX_CHANCE = 1e-9;

/** A list counts as reaching back to a time only if this many of its events are that old: one or two may be listed late. */
export const REACH_EVENTS = 3;

/** One in this many events can be listed late: older than its place in the list suggests, by more than the disorder. */
const LATE_SHARE = 10;

export interface Order {
  /** The events in order, newest first, without late events. */
  readonly events: readonly EventKey[];
  /** At least {@link REACH_EVENTS} events are as old as this time, which is in epoch ms. */
  readonly tail: number;
  /** The most by which an event is newer than its place suggests, in ms. A lag in listing events looks the same. */
  readonly sink: number;
}

/** `null` if a shuffled list could look the same by chance, for example because fifty events have the same time. */
export function readOrder(answer: ListAnswer, disorderMs: number): Order | null {
  const dated = datedEvents(answer);
  for (const events of [dated, dated.toReversed()]) {
    const lateness = latenessOf(events);
    // Late events say nothing about the order of the others.
    const kept = events.filter((_, index) => (lateness[index] ?? 0) <= disorderMs);
    const outliers = events.length - kept.length;
    const times = kept.map(({ at }) => at).sort((a, b) => b - a);
    const tail = times.at(-REACH_EVENTS);
    if (tail === undefined || outliers * LATE_SHARE > events.length) continue;
    // Each way of choosing the outliers is another way to get this result by chance.
    const maxChance = Math.log(MAX_CHANCE) - outliers * Math.log(events.length);
    if (isMoreThanChance(times, { disorderMs, maxChance })) {
      return { events: kept, tail, sink: measureSink(events) };
    }
  }
  return null;
}

/** Leaves out events whose time a `Date` cannot represent. */
function datedEvents({ events }: ListAnswer): readonly EventKey[] {
  return [...events.values()].filter(({ at }) => Number.isFinite(at));
}

/** Returns by how many ms each event is older than the newest event after it, or 0. The events are listed newest first. */
function latenessOf(events: readonly EventKey[]): readonly number[] {
  let newest = Number.NEGATIVE_INFINITY;
  const lateness = events.toReversed().map(({ at }) => {
    newest = Math.max(newest, at);
    return newest - at;
  });
  return lateness.reverse();
}

/** An event is below its place if it is newer than most of this many events before it. One of these events may be late. */
const SINK_NEIGHBOURS = 3;

/** Returns the most by which any event is newer than most events just before it, in ms. The events are newest first. */
function measureSink(events: readonly EventKey[]): number {
  return events.reduce((deepest, { at }, index) => {
    const before = events.slice(Math.max(0, index - SINK_NEIGHBOURS), index).map((event) => event.at);
    const [, second = Number.POSITIVE_INFINITY] = before.sort((a, b) => a - b);
    return Math.max(deepest, at - second);
  }, 0);
}

/** Multiplies the shares of each event's possible places that fit the order. `maxChance` is a logarithm. */
function isMoreThanChance(
  times: readonly number[],
  { disorderMs, maxChance }: { readonly disorderMs: number; readonly maxChance: number },
): boolean {
  let chance = 0;
  let first = 0;
  for (const [index, at] of times.entries()) {
    while ((times[first] ?? at) > at + disorderMs) first += 1;
    chance += Math.log((index - first + 1) / (index + 1));
    if (chance < maxChance) return true;
  }
  return false;
}

/** In ms, for the direction that fits better. The worst events, one in {@link LATE_SHARE}, are ignored. */
export function measureDisorder(answer: ListAnswer): number | null {
  const dated = datedEvents(answer);
  if (dated.length < REACH_EVENTS) return null;
  const last = Math.ceil(dated.length * (1 - 1 / LATE_SHARE)) - 1;
  const measure = (events: readonly EventKey[]) => latenessOf(events).toSorted((a, b) => a - b)[last] ?? 0;
  const newestFirst = measure(dated);
  return newestFirst === 0 ? 0 : Math.min(newestFirst, measure(dated.toReversed()));
}

/** The limit of the query that confirms a window, as a share of the number of events in the window. */
export const PROBED_SHARE = 0.6;

/** The minimum number of events in a probe. A server that cuts off the list at random passes once in a million times. */
export const MIN_PROBED_EVENTS = 20;

/** `null` if the probe contains the newest events. A server that picks any fifty events and sorts them fails this test. */
export function refutesWindow(order: Order, probe: ListAnswer, disorderMs: number): GapReason | null {
  // A server that ignores the limit returns the same list again, which proves nothing.
  if (ignoresLimit(probe)) return 'no-order';
  const times = datedEvents(probe)
    .map(({ at }) => at)
    .sort((a, b) => a - b);
  const hasAll = (events: readonly EventKey[]) =>
    events.length >= MIN_PROBED_EVENTS && events.every(({ id }) => probe.events.has(id));

  const from = (times[REACH_EVENTS - 1] ?? Number.POSITIVE_INFINITY) + disorderMs;
  if (hasAll(order.events.filter(({ at }) => at > from))) return null;
  const to = (times.at(-REACH_EVENTS) ?? Number.NEGATIVE_INFINITY) - disorderMs;
  return hasAll(order.events.filter(({ at }) => at < to)) ? 'oldest-first' : 'no-order';
}

/** The order of a response that ignores the limit is not read, because no probe could confirm the order. */
export function ignoresLimit({ size, limit }: ListAnswer): boolean {
  return size > limit;
}

/** The maximum probability of passing the test for a server that cuts off a shuffled list before it filters. */
const MAX_FILTER_CHANCE = 1e-6;

/** `null` if no type is scattered widely enough over the response. */
export function chooseFilterProbe(whole: ListAnswer): ListQuery | null {
  const events = datedEvents(whole);
  const probes = EVENT_TYPES.map((type) => {
    const limit = events.filter((event) => event.type === type).length;
    const isAllAt = (part: readonly EventKey[]) => part.every((event) => event.type === type);
    const tells = !isAllAt(events.slice(0, limit)) && !isAllAt(events.slice(-limit));
    return { type, limit, chance: tells ? (limit / events.length) ** limit : 1 };
  });
  const [best] = probes.sort((a, b) => a.chance - b.chance);
  return best && best.chance < MAX_FILTER_CHANCE ? { type: best.type, limit: best.limit } : null;
}
