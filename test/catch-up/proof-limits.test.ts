/** What takes away from a proof: events that an answer lacks, elements that cannot be read, and events that were removed. */
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

const NOTHING = Number.POSITIVE_INFINITY;
const WATERMARK = timeOf(20);
/** Where the window of the newest 50 of {@link marks} begins. */
const FROM = timeOf(47) + LAG_MS + DISORDER_MS;

describe('an answer that lacks an event of another answer of the same poll', () => {
  /** What the window of the whole list proves if the query that confirms it shows events that the window lacks. */
  function lacking(...times: readonly number[]) {
    const lacked = times.map((at, index) => ({ id: `lacked${index}`, type: 'redeem.failed', at }));
    const { proofs, verdicts, unproven } = survey(
      ({ type, limit }) =>
        limit === 50 ? cut(marks(2_000), { type, limit }) : [...lacked, ...marks(30 - times.length)],
      { watermark: WATERMARK, maxLimit: 50 },
    );
    const { verdict, reason } = verdicts[0] ?? {};
    return { proof: proofs['accept.confirmed'], verdict, reason, unproven };
  }

  test('proves nothing if the event was created after the watermark', () => {
    for (const at of [WATERMARK + 1, SETTLED_AT]) {
      expect(lacking(at)).toMatchObject({
        proof: { from: NOTHING, reason: 'contradiction' },
        verdict: 'unproven',
        reason: 'contradiction',
        unproven: EVENT_TYPES,
      });
    }
  });

  test('proves what is newer than the event if that is from before the watermark, as it can have been removed since', () => {
    const proven = (from: number) => ({
      proof: { from, reason: 'contradiction' },
      verdict: 'window',
      reason: 'contradiction',
      unproven: [],
    });
    expect(lacking(WATERMARK)).toEqual(proven(WATERMARK));
    expect(lacking(FROM + 1)).toEqual(proven(FROM + 1));
    expect(lacking(FROM + MINUTE_MS, FROM + 1)).toEqual(proven(FROM + MINUTE_MS));
  });
});

describe('an element that cannot be read', () => {
  /** What the window of the whole list proves if the answers have elements that were created at these times. */
  function unreadable(...times: readonly (number | null)[]) {
    const { proofs, verdicts } = survey((query) => cut(marks(2_000), query), {
      watermark: WATERMARK,
      maxLimit: 50,
      extras: () => ({ unreadable: times }),
    });
    const { verdict, reason } = verdicts[0] ?? {};
    return { proof: proofs['accept.confirmed'], verdict, reason };
  }

  test('without a date takes the proof away', () => {
    const expected = {
      proof: { from: NOTHING, reason: 'malformed' },
      verdict: 'unproven',
      reason: 'malformed',
    };
    expect(unreadable(null)).toEqual(expected);
    expect(unreadable(WATERMARK, null)).toEqual(expected);
  });

  test('with a date leaves the proof of what is newer', () => {
    const proven = (from: number) => ({
      proof: { from, reason: 'malformed' },
      verdict: 'window',
      reason: 'malformed',
    });
    for (const at of [FROM + 1, WATERMARK, SETTLED_AT]) expect(unreadable(at)).toEqual(proven(at));
    expect(unreadable(WATERMARK, FROM + 1)).toEqual(proven(WATERMARK));
  });

  test('from before the proof, or so new that its correction can still be listed, takes nothing away', () => {
    const whole = { proof: { from: FROM, reason: 'not-reached' }, verdict: 'window', reason: null };
    for (const at of [FROM - 1, FROM, SETTLED_AT + 1]) expect(unreadable(at)).toEqual(whole);
  });
});

describe('a complete list from which events have been removed', () => {
  test('after the oldest event is gone, a complete list proves only what is younger than that event was', () => {
    const list = marks(30);
    const watermark = NOW - 10 * HOUR_MS;
    const kept = survey((query) => cut(list, query), {
      watermark,
      oldest: { at: NOW - HOUR_MS - 29 * 60_000, seenAt: watermark },
    });
    expect(kept.unproven).toEqual([]);
    // It was listed at an age of two hours, so that the service keeps events for two hours at least.
    const removed = survey((query) => cut(list, query), {
      watermark,
      oldest: { at: watermark - 2 * HOUR_MS, seenAt: watermark },
    });
    expect(removed.proofs['redeem.failed']).toEqual({
      from: NOW - 2 * HOUR_MS + LAG_MS + 1_000,
      reason: 'removed',
    });
  });

  test('of single types proves what is newer than its oldest event: of a list so long, the service can keep a number of events', () => {
    const list = marks(80).toReversed();
    const { proofs, verdicts } = survey((query) => cut(list, query), {
      // For ten hours when they were few, and for less since they are many.
      oldest: { at: timeOf(600), seenAt: timeOf(0) },
    });
    const from = timeOf(79) + LAG_MS + DISORDER_MS;
    for (const type of EVENT_TYPES) expect(proofs[type]).toEqual({ from, reason: 'removed' });
    expect(verdicts.map(({ verdict }) => verdict)).toEqual([
      'unproven',
      ...EVENT_TYPES.map(() => 'complete'),
    ]);
  });
});
