/** What a survey keeps for the next poll: the limit to begin with, the oldest event of the list, and the watermark. */
import { EVENT_TYPES } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import {
  cut,
  DISORDER_MS,
  HOUR_MS,
  LAG_MS,
  MINUTE_MS,
  marks,
  NOW,
  SETTLED_AT,
  survey,
  timeOf,
} from './survey-list.js';

const newest = marks(2_000);

/** A complete list proves nothing of events that were created up to here. */
const removedUntil = ({ proofs }: { readonly proofs: ReturnType<typeof survey>['proofs'] }) =>
  proofs['redeem.failed'].from;
const NOTHING = Number.NEGATIVE_INFINITY;

describe('limit', () => {
  test('the first query has the limit that sufficed last time, at least limit and at most maxLimit', () => {
    const firstLimit = (lastLimit: number) =>
      survey((query) => cut(newest, query), { lastLimit, maxLimit: 400 }).queries[0]?.limit;
    expect([0, 200, 800].map(firstLimit)).toEqual([50, 200, 400]);
  });

  test('after a complete answer, the next limit is the smallest that is more than the list has', () => {
    const next = (count: number) =>
      survey((query) => cut(marks(count), query), { limit: 10, lastLimit: 400 }).limit;
    expect([9, 10, 19, 20, 49].map(next)).toEqual([10, 20, 20, 40, 80]);
  });

  test('after a window, the next limit is more than the events after its start, and three of before', () => {
    /** A window of 100 events that begins with the 47th at so many ms after what it has to reach. */
    const next = (ms: number) => {
      const watermark = timeOf(46) + LAG_MS + DISORDER_MS - ms;
      return survey((query) => cut(newest, query), { watermark, lastLimit: 100 }).limit;
    };
    expect(next(0)).toBe(100);
    expect(next(-1)).toBe(50);
  });
});

describe('oldest', () => {
  const known = { at: timeOf(20), seenAt: NOW - HOUR_MS };

  test('a complete list gives its oldest event and the time, and an empty one nothing', () => {
    const complete = survey((query) => cut(marks(30), query));
    expect(complete.oldest).toEqual({ at: timeOf(29), seenAt: NOW });
    expect(survey(() => []).oldest).toBeNull();
  });

  test('a list that is cut gives that it had events, and keeps an event that is known', () => {
    const options = { watermark: NOW - HOUR_MS };
    const window = survey((query) => cut(newest, query), options);
    expect(window.verdicts).toMatchObject([{ verdict: 'window' }]);
    expect(window.oldest).toEqual({ at: null, seenAt: NOW });
    expect(survey((query) => cut(newest, query), { ...options, oldest: known }).oldest).toEqual(known);
  });

  test('an event that is dated in the future does not hide that events of before are removed', () => {
    const future = { id: 'future', type: EVENT_TYPES[0], at: NOW + 1_000 * HOUR_MS };
    const first = survey(() => [future], { startedAt: NOW - 10 * HOUR_MS });
    const second = survey(() => [future, ...marks(1)], { oldest: first.oldest });
    expect(removedUntil(second)).toBe(NOTHING);
    expect(second.oldest).toEqual({ at: timeOf(0), seenAt: NOW });
    const third = survey(() => [future], { startedAt: NOW + 10 * HOUR_MS, oldest: second.oldest });
    expect(removedUntil(third)).toBe(NOW + 10 * HOUR_MS - HOUR_MS + LAG_MS + DISORDER_MS);
  });

  test('an element that cannot be read counts by its date, so that the gap that contains it stays when it is removed', () => {
    const unreadable = [timeOf(40), null];
    const { oldest } = survey(() => marks(3), { extras: () => ({ unreadable }) });
    expect(oldest).toEqual({ at: timeOf(40), seenAt: NOW });
    const answer = survey(() => marks(3), { oldest, extras: () => ({ unreadable: [timeOf(40)] }) });
    expect(removedUntil(answer)).toBe(timeOf(40));
    expect(removedUntil(survey(() => marks(3), { oldest }))).toBe(timeOf(40) + LAG_MS + DISORDER_MS);
    // Corrected, it has its date still.
    const corrected = { id: 'corrected', type: EVENT_TYPES[0], at: timeOf(40) };
    expect(removedUntil(survey(() => [...marks(3), corrected], { oldest }))).toBe(NOTHING);
  });
});

describe('watermark', () => {
  const ahead = NOW + HOUR_MS;
  const list = marks(100).toReversed();

  test('the first poll sets it to the earlier clock, and later polls keep it', () => {
    const first = survey((query) => cut(list, query), {
      first: true,
      watermark: ahead,
      extras: () => ({ servedAt: NOW - MINUTE_MS }),
    });
    expect(first).toMatchObject({ watermark: NOW - MINUTE_MS, until: NOW - MINUTE_MS, isAhead: false });
    const later = survey((query) => cut(list, query), { watermark: ahead });
    expect(later).toMatchObject({ watermark: ahead, isAhead: true });
  });

  test("without the service's clock, the first poll sets it a lag before our clock, which can be ahead by that", () => {
    expect(survey(() => [], { first: true, watermark: ahead }).watermark).toBe(SETTLED_AT);
    expect(survey(() => null, { first: true, watermark: ahead }).watermark).toBe(SETTLED_AT);
    // The first answer counts: the poll started before it.
    const later = survey((query) => cut(list, query), {
      first: true,
      watermark: ahead,
      extras: (request) => ({ servedAt: NOW + (request + 1) * MINUTE_MS }),
    });
    expect(later.requests).toBeGreaterThan(1);
    expect(later).toMatchObject({ watermark: NOW, clocks: { earlier: NOW, later: NOW + MINUTE_MS } });
  });
});
