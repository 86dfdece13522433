/** Which answers show an order, how far back, and what a smaller answer must contain to confirm it. */
import { expect, test } from 'vitest';
import type { EventKey, ListAnswer } from '../../src/catch-up/answer.js';
import type { ListVerdict } from '../../src/catch-up/conclude.js';
import { measureDisorder, readOrder } from '../../src/catch-up/order.js';
import {
  byId,
  cut,
  DISORDER_MS,
  HOUR_MS,
  LAG_MS,
  MINUTE_MS,
  marks,
  NOW,
  type Serve,
  survey,
  timeOf,
} from './survey-list.js';

/** The verdict on the whole list, with so many events as the limit. */
function verdictOf(
  list: readonly EventKey[],
  {
    limit = 50,
    maxLimit = 1_000,
    watermark = 0,
    serve = (query) => cut(list, query),
  }: {
    readonly limit?: number;
    readonly maxLimit?: number;
    readonly watermark?: number;
    readonly serve?: Serve;
  } = {},
): ListVerdict | undefined {
  return survey(serve, { limit, maxLimit, watermark }).verdicts[0];
}

function answerOf(events: readonly EventKey[]): ListAnswer {
  return {
    type: null,
    limit: 1_000,
    size: events.length,
    events: byId(events),
    unreadable: [],
    servedAt: null,
  };
}

/** How far back a list shows its events in order; `null` if it shows no order. */
function windowOf(list: readonly EventKey[]): number | null {
  const order = readOrder(answerOf(list), DISORDER_MS);
  return order && NOW - order.tail;
}

/** The list with other dates for some of its events. */
function redated(list: readonly EventKey[], dates: Readonly<Record<number, number>>): readonly EventKey[] {
  return list.map((mark, index) => ({ ...mark, at: dates[index] ?? mark.at }));
}

/** Events with so much time between neighbours, newest first. */
function spaced(count: number, stepMs: number): readonly EventKey[] {
  return marks(count).map((mark, index) => ({ ...mark, at: timeOf(0) - index * stepMs }));
}

test('13 events in order show an order, and 12 do not: of a billion shuffled lists one can look like them', () => {
  expect(windowOf(marks(12))).toBeNull();
  // The third oldest shows how far back.
  expect(windowOf(marks(13))).toBe(NOW - timeOf(10));
  expect(windowOf(marks(13).toReversed())).toBe(NOW - timeOf(10));
});

test('events that can change places with their neighbours within disorderMs show less: 17 are needed', () => {
  expect(windowOf(spaced(16, DISORDER_MS))).toBeNull();
  expect(windowOf(spaced(17, DISORDER_MS))).not.toBeNull();
  // 16 are enough if the last two cannot change places.
  const last = { 15: timeOf(0) - 15 * DISORDER_MS - 1 };
  expect(windowOf(redated(spaced(16, DISORDER_MS), last))).not.toBeNull();
  expect(windowOf(spaced(13, DISORDER_MS + 1))).not.toBeNull();
  // The third can change places with the first, although the second, which is too new for that, is between them.
  const swapped = (byMs: number) =>
    redated(marks(13), {
      ...{ 1: timeOf(0) + DISORDER_MS, 2: timeOf(0) - byMs },
      12: timeOf(11) - DISORDER_MS,
    });
  expect(windowOf(swapped(DISORDER_MS))).toBeNull();
  expect(windowOf(swapped(DISORDER_MS + 1))).not.toBeNull();
});

test('an event that was listed late is left out, and then 15 events are needed', () => {
  const late = { 5: timeOf(5) - HOUR_MS };
  expect(windowOf(redated(marks(14), late))).toBeNull();
  expect(windowOf(redated(marks(15), late))).toBe(NOW - timeOf(12));
  expect(windowOf(redated(marks(15), late).toReversed())).toBe(NOW - timeOf(12));
});

/** Where the window of these 100 newest of 2,000 events begins. */
function beginOf(list: readonly EventKey[]): number {
  const all = [...list, ...marks(2_000).slice(list.length)];
  const options = { limit: 100, maxLimit: 100, watermark: timeOf(20) };
  return survey((query) => cut(all, query), options).proofs['redeem.failed'].from;
}

test('an event a little below its place moves the begin of the window by as much as it is newer than most of those before it', () => {
  const begin = timeOf(97) + LAG_MS + DISORDER_MS;
  expect(beginOf(marks(100))).toBe(begin);
  const sinkMs = LAG_MS + DISORDER_MS + 1;
  // Of the three before it, two are at least as old as the second.
  const sunk = (byMs: number) => redated(marks(100), { 50: timeOf(48) + byMs });
  expect(beginOf(sunk(sinkMs))).toBe(begin + sinkMs);
  // A list in the order of listing can look so, and begins a lag later anyway.
  expect(beginOf(sunk(sinkMs - 1))).toBe(begin);
  // One late event before it does not make an event look newer than its place.
  expect(beginOf(redated(marks(100), { 50: timeOf(50) - 10 * HOUR_MS }))).toBe(begin);
  // Two beside each other do: they cannot be told from an event that is below its place.
  const late = (place: number) => timeOf(place) - HOUR_MS / 2;
  expect(beginOf(redated(marks(100), { 50: late(50), 51: late(51) }))).toBe(begin + timeOf(52) - late(50));
});

test('one event in ten can be out of order, and more show no order', () => {
  const late = (count: number) => {
    const places = Array.from({ length: count }, (_, index) => 5 + index * 8);
    return Object.fromEntries(places.map((place) => [place, timeOf(place) - HOUR_MS / 2]));
  };
  expect(windowOf(redated(marks(100), late(10)))).toBe(NOW - timeOf(97));
  expect(windowOf(redated(marks(100), late(11)))).toBeNull();
});

test('neighbours that are out of order by disorderMs are in order, and those by more are not', () => {
  // One of 19 is left out anyway, so that a second is too many.
  const late = { 2: timeOf(19) };
  const swapped = (byMs: number) => redated(marks(19), { ...late, 8: timeOf(9), 9: timeOf(9) + byMs });
  expect(windowOf(swapped(DISORDER_MS))).not.toBeNull();
  expect(windowOf(swapped(DISORDER_MS + 1))).toBeNull();
});

test('an event with a date that no clock shows is left out, and counts as no disorder', () => {
  const list = marks(13);
  const endless = { id: 'endless', type: 'redeem.failed', at: Number.POSITIVE_INFINITY };
  expect(windowOf([...list.slice(0, 5), endless, ...list.slice(5)])).toBe(NOW - timeOf(10));
});

test('the disorder is by how much events are out of order, without the latest tenth, in the better direction', () => {
  const disorderOf = (list: readonly EventKey[]) => measureDisorder(answerOf(list));
  expect(disorderOf(marks(2))).toBeNull();
  expect(disorderOf(marks(3))).toBe(0);
  const late = redated(marks(20), {
    1: timeOf(2) - 9_000,
    5: timeOf(6) - 6_000,
    9: timeOf(10) - 3_000,
  });
  expect(disorderOf(late)).toBe(3_000);
  expect(disorderOf(late.toReversed())).toBe(3_000);
});

/** The verdict on as many events as the limit, of a list of 2,000. */
function verdictAt(limit: number, list: readonly EventKey[]) {
  return verdictOf(list, { limit, maxLimit: limit, watermark: NOW - HOUR_MS / 2 });
}

test('a window is confirmed by 20 events that a smaller limit shows again, and not by 19', () => {
  // The smaller limit is six tenths, and its last three show only how far back it reaches.
  expect(verdictAt(36, marks(2_000))).toMatchObject({ verdict: 'unproven', reason: 'no-order' });
  expect(verdictAt(37, marks(2_000))).toMatchObject({ verdict: 'window', reason: null });
  // What can change places with the last three does not count either.
  expect(verdictAt(38, spaced(2_000, DISORDER_MS))).toMatchObject({
    verdict: 'unproven',
    reason: 'no-order',
  });
  expect(verdictAt(39, spaced(2_000, DISORDER_MS))).toMatchObject({ verdict: 'window', reason: null });
});

test('a list is called oldest first by 20 events that a smaller limit shows again, and not by 19', () => {
  const oldest = (stepMs: number) => spaced(2_000, stepMs).toReversed();
  expect(verdictAt(36, oldest(MINUTE_MS))).toMatchObject({ verdict: 'unproven', reason: 'no-order' });
  expect(verdictAt(37, oldest(MINUTE_MS))).toMatchObject({ verdict: 'unproven', reason: 'oldest-first' });
  expect(verdictAt(38, oldest(DISORDER_MS))).toMatchObject({ verdict: 'unproven', reason: 'no-order' });
  expect(verdictAt(39, oldest(DISORDER_MS))).toMatchObject({
    verdict: 'unproven',
    reason: 'oldest-first',
  });
});

test('a server that ignores the limit confirms no window', () => {
  const list = marks(300);
  const verdict = verdictOf(list, {
    watermark: NOW - 2 * HOUR_MS,
    serve: ({ type }) => cut(list, { type, limit: 300 }),
  });
  expect(verdict).toMatchObject({ verdict: 'unconfirmed', reason: 'no-order' });
});

/** Events, and how often the time of one of them was read. */
function counted(events: readonly EventKey[]) {
  const counter = { reads: 0, list: [] as readonly EventKey[] };
  counter.list = events.map(({ id, type, at }) => ({
    ...{ id, type },
    get at() {
      counter.reads += 1;
      return at;
    },
  }));
  return counter;
}

test.for([
  { name: 'at one instant', stepMs: 0 },
  { name: 'in order', stepMs: 10 },
])('each of 10,000 events $name is read a bounded number of times to find their order', ({ stepMs }) => {
  const counter = counted(spaced(10_000, stepMs));
  windowOf(counter.list);
  expect(counter.reads / 10_000).toBeLessThan(15);
});

test('each event of a list that ignores the limit is read at most twice for each answer', () => {
  const counter = counted(spaced(10_000, 0));
  const { requests } = survey(() => counter.list);
  expect(counter.reads / 10_000 / requests).toBeLessThan(2);
});
