import { EVENT_TYPES } from 'stablehooks';

import { expect, test } from 'vitest';
import {
  type EventKey,
  type ListAnswer,
  type ListQuery,
  type SurveyResult,
  surveyList,
} from '../../src/catch-up/coverage.js';

const HOUR_MS = 3_600_000;
const NOW = 100 * HOUR_MS;

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

function survey(
  serve: Serve,
  { watermark = 0, maxLimit = 1_000 } = {},
): SurveyResult & { readonly requests: number } {
  const steps = surveyList({ watermark, startedAt: NOW, lagMs: 300_000, limit: 50, maxLimit });
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
  return { ...step.value, requests };
}

test('49 events of a limit of 50 are complete after one request, and the watermark is the clock less the lag', () => {
  const list = marks(49).toReversed();
  expect(survey((query) => cut(list, query))).toMatchObject({
    proven: true,
    watermark: NOW - 300_000,
    requests: 1,
    verdicts: [{ verdict: 'complete' }],
  });
});

test('50 events of a limit of 100 are not complete, because 50 can be the cap', () => {
  const list = marks(50, ['transfer.settled']).toReversed();
  expect(survey((query) => cut(list, query))).toMatchObject({
    proven: false,
    unproven: ['transfer.settled'],
  });
});

test('a whole list of 300 proves types of 60 events only if it is answered a second time', () => {
  const list = marks(300).toReversed();
  const whole = survey((query) => cut(list, query));
  expect(whole).toMatchObject({ proven: true, requests: 10 });
  const shrinking = survey((query, count) =>
    cut(list, { ...query, limit: Math.min(query.limit, count < 4 ? 300 : 60) }),
  );
  expect(shrinking).toMatchObject({ proven: false, unproven: EVENT_TYPES, watermark: 0 });
});

test('a full answer that begins before the watermark is continuous once half the limit gives the newer half', () => {
  const watermark = NOW - HOUR_MS - 30 * 60_000;
  const list = marks(5_000);
  expect(survey((query) => cut(list, query), { watermark })).toMatchObject({
    proven: true,
    requests: 2,
    verdicts: [{ type: null, size: 50, verdict: 'continuous' }],
  });
  const justShort = NOW - HOUR_MS - 53 * 60_000;
  const grown = survey((query) => cut(list, query), { watermark: justShort });
  expect(grown.verdicts).toMatchObject([{ size: 100, limit: 100, verdict: 'continuous' }]);
});

test('a server that ignores the limit proves nothing by being newest first', () => {
  const list = marks(2_000, ['redeem.failed']);
  const all = survey(({ type }) => cut(list, { type, limit: 2_000 }), { watermark: NOW - 2 * HOUR_MS });
  expect(all.proven).toBe(false);
});

test('a few events repeated many times show no order', () => {
  const list = marks(4, ['transfer.settled']).flatMap((mark) => Array.from({ length: 30 }, () => mark));
  const watermark = NOW - HOUR_MS / 4;
  expect(survey((query) => cut(list, query), { watermark }).proven).toBe(false);
  // Distinct events in the same places show an order.
  const distinct = list.map((mark, index) => ({ ...mark, id: `d${index}`, at: mark.at - index }));
  expect(survey((query) => cut(distinct, query), { watermark }).proven).toBe(true);
});

test('a server that filters by type after it cuts proves nothing', () => {
  const list = marks(5_000).toReversed();
  const late = survey(({ type, limit }) => cut(cut(list, { type: null, limit }), { type, limit }), {
    maxLimit: 200,
  });
  expect(late).toMatchObject({ proven: false, unproven: EVENT_TYPES });
});

test('a server that ignores the type proves nothing', () => {
  const list = marks(5_000).toReversed();
  expect(survey(({ limit }) => cut(list, { type: null, limit }), { maxLimit: 200 }).proven).toBe(false);
});

test('an answer that lacks an event of another answer of the same poll is not complete', () => {
  const list = marks(80).toReversed();
  const forgetful = survey((query) =>
    cut(list, query).filter(({ id }) => query.type === null || id !== 'e7'),
  );
  expect(forgetful.proven).toBe(false);
  expect(forgetful.unproven).toEqual([marks(8)[7]?.type]);
});

test('a query that fails for one type leaves only that type unproven', () => {
  const list = marks(100);
  const failing = survey((query) => (query.type === 'redeem.failed' ? null : cut(list, query)));
  expect(failing).toMatchObject({ proven: false, unproven: ['redeem.failed'], watermark: 0 });
});
