import { EVENT_TYPES } from 'stablehooks';

import { expect, test } from 'vitest';
import {
  type EventKey,
  type ListAnswer,
  type ListQuery,
  type SurveyOptions,
  type SurveyResult,
  surveyList,
} from '../../src/catch-up/coverage.js';

const HOUR_MS = 3_600_000;
const NOW = 100 * HOUR_MS;
const LAG_MS = 300_000;

/** A list of events a minute apart, newest first, that ends an hour ago; the types in turn. */
function marks(count: number, types: readonly string[] = EVENT_TYPES): readonly EventKey[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `e${index}`,
    type: types[index % types.length] ?? '',
    at: NOW - HOUR_MS - index * 60_000,
  }));
}

type Serve = (query: ListQuery, count: number) => readonly EventKey[] | null;

function cut(list: readonly EventKey[], { type, limit }: ListQuery): readonly EventKey[] {
  return list.filter((mark) => type === null || mark.type === type).slice(0, limit);
}

/** What a survey proves: the types of which it proves less than everything from the watermark on. */
function survey(
  serve: Serve,
  {
    watermark = 0,
    maxLimit = 1_000,
    oldest = null,
  }: {
    readonly watermark?: number;
    readonly maxLimit?: number;
    readonly oldest?: SurveyOptions['oldest'];
  } = {},
): SurveyResult & { readonly requests: number; readonly unproven: readonly string[] } {
  const options = {
    watermark,
    startedAt: NOW,
    lagMs: LAG_MS,
    disorderMs: 1_000,
    limit: 50,
    maxLimit,
    oldest,
  };
  const steps = surveyList(options);
  let requests = 0;
  let step = steps.next();
  while (!step.done) {
    const query = step.value;
    const found = serve(query, requests);
    requests += 1;
    const answer: ListAnswer | null = found && {
      ...query,
      size: found.length,
      events: found,
      unreadable: [],
      servedAt: null,
    };
    step = steps.next(answer);
  }
  const { proofs } = step.value;
  const unproven = EVENT_TYPES.filter((type) => proofs[type].from > watermark);
  return { ...step.value, requests, unproven };
}

test('49 events of a limit of 50 are complete after one request, and everything is proven up to the lag before now', () => {
  const list = marks(49).toReversed();
  expect(survey((query) => cut(list, query))).toMatchObject({
    unproven: [],
    settledAt: NOW - LAG_MS,
    requests: 1,
    verdicts: [{ verdict: 'complete' }],
  });
});

test('50 events of a limit of 100 are not complete, because 50 can be the cap', () => {
  const list = marks(50, ['transfer.settled']).toReversed();
  const { unproven } = survey((query) => cut(list, query));
  expect(unproven).toContain('transfer.settled');
});

test('a whole list of 300 proves types of 60 events only if it is answered a second time', () => {
  const list = marks(300).toReversed();
  const whole = survey((query) => cut(list, query));
  // 50, 100, 200 and 400; the five types; the whole again; and whether types are filtered before the list is cut.
  expect(whole).toMatchObject({ unproven: [], requests: 11 });
  const shrinking = survey((query, count) =>
    cut(list, { ...query, limit: Math.min(query.limit, count < 4 ? 300 : 60) }),
  );
  expect(shrinking.unproven).toEqual(EVENT_TYPES);
});

test('a full answer that reaches back past the watermark is a window once a smaller limit gives its newer part', () => {
  const watermark = NOW - HOUR_MS - 30 * 60_000;
  const list = marks(5_000);
  const newest = survey((query) => cut(list, query), { watermark });
  expect(newest).toMatchObject({ unproven: [], requests: 2 });
  expect(newest.verdicts).toMatchObject([{ type: null, size: 50, verdict: 'window' }]);
  // The third oldest shows the reach, and the window begins the lag and the disorder later.
  const { proofs } = newest;
  expect(proofs['redeem.failed'].from).toBe(NOW - HOUR_MS - 47 * 60_000 + LAG_MS + 1_000);
  const justShort = NOW - HOUR_MS - 43 * 60_000;
  const grown = survey((query) => cut(list, query), { watermark: justShort });
  expect(grown.verdicts).toMatchObject([{ size: 100, limit: 100, verdict: 'window' }]);
  expect(grown.limit).toBe(100);
});

test('a window is proven in either direction, with neighbours out of order and a few late events', () => {
  const watermark = NOW - HOUR_MS - 30 * 60_000;
  const jitter = marks(5_000).map((mark, index) => ({ ...mark, at: mark.at + ((index * 7) % 10) * 100 }));
  const late = jitter.map((mark, index) => (index % 20 === 7 ? { ...mark, at: mark.at - 240_000 } : mark));
  for (const list of [jitter, late]) {
    const descending = survey((query) => cut(list, query), { watermark });
    expect(descending.unproven).toEqual([]);
    const ascending = survey((query) => cut(list, query).toReversed(), { watermark });
    expect(ascending).toMatchObject({ unproven: [], requests: 2 });
  }
});

test('one or two old events at the end of a list do not show that it reaches back', () => {
  const old = [1, 2].map((index) => ({ id: `old${index}`, type: 'redeem.failed', at: index }));
  const answer = [...marks(48), ...old];
  const { unproven, proofs } = survey(() => answer, { watermark: NOW - 50 * HOUR_MS, maxLimit: 50 });
  expect(unproven).toEqual(EVENT_TYPES);
  expect(proofs['transfer.settled'].from).toBeGreaterThan(NOW - 2 * HOUR_MS);
});

test('a list that is cut and shows its oldest events proves nothing, and the verdict says so', () => {
  const list = marks(5_000, ['redeem.failed']).toReversed();
  const oldest = survey((query) => cut(list, { ...query, limit: Math.min(query.limit, 50) }));
  expect(oldest.proofs['redeem.failed']).toEqual({ from: Number.POSITIVE_INFINITY, reason: 'oldest-first' });
});

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

test('a server that ignores the limit proves nothing by being newest first', () => {
  const list = marks(2_000, ['redeem.failed']);
  const all = survey(({ type }) => cut(list, { type, limit: 2_000 }), { watermark: NOW - 2 * HOUR_MS });
  expect(all.unproven).toContain('redeem.failed');
});

test('a few events repeated many times show no order', () => {
  const list = marks(4, ['transfer.settled']).flatMap((mark) => Array.from({ length: 30 }, () => mark));
  const watermark = NOW - HOUR_MS / 4;
  expect(survey((query) => cut(list, query), { watermark }).unproven).toContain('transfer.settled');
  // Distinct events in the same places show an order.
  const distinct = list.map((mark, index) => ({ ...mark, id: `d${index}`, at: mark.at - index }));
  expect(survey((query) => cut(distinct, query), { watermark }).unproven).toEqual([]);
});

test('a server that filters by type after it cuts proves nothing', () => {
  const list = marks(5_000).toReversed();
  const late = survey(({ type, limit }) => cut(cut(list, { type: null, limit }), { type, limit }), {
    maxLimit: 200,
  });
  expect(late.unproven).toEqual(EVENT_TYPES);
  expect(late.proofs['redeem.failed'].reason).toBe('filtered-late');
});

test('a server that ignores the type proves nothing', () => {
  const list = marks(5_000).toReversed();
  expect(survey(({ limit }) => cut(list, { type: null, limit }), { maxLimit: 200 }).unproven).toEqual(
    EVENT_TYPES,
  );
});

test('an answer that lacks an event of another answer of the same poll is not complete', () => {
  const list = marks(80).toReversed();
  const forgetful = survey((query) =>
    cut(list, query).filter(({ id }) => query.type === null || id !== 'e7'),
  );
  expect(forgetful.unproven).toEqual([marks(8)[7]?.type]);
});

test('a query that fails for one type leaves only that type unproven', () => {
  const list = marks(100);
  const failing = survey((query) => (query.type === 'redeem.failed' ? null : cut(list, query)));
  expect(failing.unproven).toEqual(['redeem.failed']);
});
