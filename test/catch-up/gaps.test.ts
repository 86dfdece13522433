/** Gaps: what a survey opens, makes longer and closes, and how a gap is described. Times are ms, small for legibility. */
import { EVENT_TYPES, type EventType } from 'stablehooks';
import { describeGap, EMPTY_POLL_STATE, type PollState, type StoredGap } from 'stablehooks/catch-up';
import { describe, expect, test } from 'vitest';
import type { SurveyResult } from '../../src/catch-up/conclude.js';
import { exceptIn, toGap } from '../../src/catch-up/gap-text.js';
import { advance, isInGap } from '../../src/catch-up/gaps.js';
import type { GapReason } from '../../src/catch-up/state.js';

const EVERYTHING = Number.NEGATIVE_INFINITY;
const NOTHING = Number.POSITIVE_INFINITY;
const [SETTLED, OTHER] = ['transfer.settled', 'redeem.failed'] as const;

/** The same for each type. */
function forAll<Value>(value: Value): Readonly<Record<EventType, Value>> {
  return Object.fromEntries(EVENT_TYPES.map((type) => [type, value])) as Record<EventType, Value>;
}

const SEEN = { all: 60, type: 0, listMaxRefuted: false };

/** A survey from 1,000 up to 2,000, that proves of each type what is newer than a time. */
function surveyed(
  from: number | Partial<Record<EventType, number>>,
  { reason = 'not-reached', ...rest }: Partial<SurveyResult> & { readonly reason?: GapReason } = {},
): SurveyResult {
  const fromOf = (type: EventType) => (typeof from === 'number' ? from : (from[type] ?? EVERYTHING));
  return {
    ...{ answered: true, watermark: 1_000, isAhead: false, until: 2_300, settledAt: 2_000 },
    ...{ verdicts: [], limit: 100, oldest: { at: 5, seenAt: 2_300 } },
    clocks: { earlier: 2_300, later: 2_300 },
    ...{ seen: SEEN, unconfirmed: null, isCut: false },
    proofs: Object.fromEntries(EVENT_TYPES.map((type) => [type, { from: fromOf(type), reason }])) as never,
    ...rest,
  };
}

function gapOf(fields: Partial<StoredGap> = {}): StoredGap {
  return {
    ...{ from: 100, until: forAll(500), reason: 'no-order', openedAt: 800, acknowledged: null },
    ...fields,
  };
}

function stateOf(gaps: readonly StoredGap[], since = 0): PollState & { readonly since: number } {
  return { ...EMPTY_POLL_STATE, watermark: 1_000, since, gaps };
}

const onTime = { wasAhead: false, lateFrom: Number.POSITIVE_INFINITY, refused: [], stored: [] };
const accepted = { by: 'ops', reason: 'the books agree', at: 900 };

describe('a survey', () => {
  test('that had no answer changes nothing but the limit: the service can refuse one that it accepted before', () => {
    const state = stateOf([gapOf()]);
    const limited = { ...state, limit: 400 };
    expect(advance(limited, surveyed(NOTHING, { answered: false }), onTime)).toEqual({
      ...{ state, proven: false, unconfirmed: false, reason: 'no-answer', opened: [], closed: [] },
    });
  });

  test('that proves everything moves the watermark to where everything is settled', () => {
    const next = advance(stateOf([]), surveyed(EVERYTHING), onTime);
    expect(next).toMatchObject({ proven: true, opened: [], closed: [] });
    const oldest = { at: 5, seenAt: 2_300 };
    expect(next.state).toEqual({
      ...{ since: 0, watermark: 2_000, gaps: [], limit: 100, oldest, seen: SEEN, unconfirmed: null },
    });
  });

  test('that proves a type from a later time on opens a gap of this type up to then, and of others up to the watermark', () => {
    const next = advance(stateOf([]), surveyed({ [SETTLED]: 1_400, [OTHER]: NOTHING }), onTime);
    const gap = {
      ...{ from: 1_000, until: { [SETTLED]: 1_400, [OTHER]: 2_000 } },
      ...{ reason: 'not-reached', openedAt: 2_300, acknowledged: null },
    };
    expect(next).toMatchObject({ proven: false, reason: 'not-reached' });
    expect(next.opened).toEqual([gap]);
    expect(next.state.gaps).toEqual([gap]);
  });

  test('counts an event that was created at the start date itself', () => {
    const state = stateOf([], 1_000);
    expect(advance(state, surveyed(999), onTime).opened).toEqual([]);
    expect(advance(state, surveyed(1_000), onTime).opened).toMatchObject([
      { from: 999, until: forAll(1_000) },
    ]);
  });

  test('never leaves the watermark before the start date, and proves nothing before it', () => {
    const early = advance(stateOf([], 2_200), surveyed(NOTHING), onTime);
    expect(early.state.watermark).toBe(2_200);
    const settled = advance(stateOf([], 1_000), surveyed(NOTHING, { settledAt: 900 }), onTime);
    expect(settled).toMatchObject({ proven: true, opened: [], state: { watermark: 1_000 } });
    const before = gapOf({ until: forAll(1_000) });
    const { state, closed } = advance(stateOf([before], 700), surveyed(EVERYTHING), onTime);
    expect(closed).toEqual([]);
    expect(state.gaps).toEqual([{ ...before, until: forAll(699) }]);
  });

  test('that does not move the watermark leaves the oldest event that was known: what is removed after that is not proven', () => {
    const known = { at: 3, seenAt: 1_200 };
    const oldestAfter = (settledAt: number, oldest: PollState['oldest']) =>
      advance({ ...stateOf([]), oldest }, surveyed(EVERYTHING, { settledAt }), onTime).state.oldest;
    expect(oldestAfter(1_000, known)).toEqual(known);
    expect(oldestAfter(1_001, known)).toEqual({ at: 5, seenAt: 2_300 });
    expect(oldestAfter(1_000, null)).toEqual({ at: 5, seenAt: 2_300 });
  });

  test('after a wrong clock opens a gap from 1970 on, or from the start date on', () => {
    const ahead = surveyed(NOTHING, { isAhead: true, watermark: 9_000 });
    const reasonAndFrom = (since: number, { wasAhead }: { readonly wasAhead: boolean }) =>
      advance(stateOf([], since), ahead, { ...onTime, wasAhead }).opened.map(({ from, reason }) => ({
        from,
        reason,
      }));
    expect(reasonAndFrom(700, { wasAhead: false })).toEqual([{ from: 699, reason: 'clock' }]);
    expect(reasonAndFrom(700, { wasAhead: true })).toEqual([{ from: 0, reason: 'clock' }]);
  });
});

describe('a gap', () => {
  test('that ends where the survey begins becomes longer, for the types that are not proven either', () => {
    const open = gapOf({ until: { [SETTLED]: 1_000, [OTHER]: 1_000 } });
    const elsewhere = gapOf({ until: { [SETTLED]: 900 } });
    const record = gapOf({ until: { [SETTLED]: 1_000 }, acknowledged: accepted });
    const next = advance(stateOf([open, elsewhere, record]), surveyed({ [SETTLED]: NOTHING }), onTime);
    expect(next.opened).toEqual([]);
    expect(next.proven).toBe(false);
    // The other type is proven from the start of the list on, so that its part of the gap is closed.
    expect(next.state.gaps).toEqual([{ ...open, until: { [SETTLED]: 2_000 } }, elsewhere, record]);
  });

  test('ends where a proof begins, and is closed by a proof that begins where it does', () => {
    const gap = gapOf();
    const part = advance(stateOf([gap]), surveyed(101), onTime);
    expect(part).toMatchObject({ closed: [], state: { gaps: [{ from: 100, until: forAll(101) }] } });
    const whole = advance(stateOf([gap]), surveyed(100), onTime);
    expect(whole.closed).toEqual([gap]);
    expect(whole.state.gaps).toEqual([]);
  });

  test('that ends after what is settled stays: a clock was set back, and the proof ends before the gap does', () => {
    const gap = gapOf({ until: { [SETTLED]: 2_001, [OTHER]: 2_000 } });
    const { state } = advance(stateOf([gap]), surveyed(EVERYTHING), onTime);
    expect(state.gaps).toEqual([{ ...gap, until: { [SETTLED]: 2_001 } }]);
  });

  test('of a type that this release does not know stays open', () => {
    const gap = gapOf({ until: { 'wallet.frozen': 500, [SETTLED]: 500 } });
    const { state, closed } = advance(stateOf([gap]), surveyed(EVERYTHING), onTime);
    expect(closed).toEqual([]);
    expect(state.gaps).toEqual([{ ...gap, until: { 'wallet.frozen': 500 } }]);
  });

  test('keeps the oldest event that was known when it was opened, so that a later poll notices what was removed since', () => {
    const known = { at: 3, seenAt: 1_200 };
    const oldestAfter = (gaps: readonly StoredGap[]) =>
      advance({ ...stateOf(gaps), oldest: known }, surveyed(1_000), onTime).state.oldest;
    expect(oldestAfter([gapOf()])).toEqual(known);
    expect(oldestAfter([gapOf({ acknowledged: accepted })])).toEqual({ at: 5, seenAt: 2_300 });
    expect(oldestAfter([])).toEqual({ at: 5, seenAt: 2_300 });
  });
});

describe('a span that is only unconfirmed', () => {
  const unconfirmed = { from: EVERYTHING, size: 60 };
  const unproven = (rest: Partial<SurveyResult> = {}) => surveyed(NOTHING, { unconfirmed, ...rest });
  const pending = { from: 999, until: 2_000, size: 60 };
  const larger = { ...SEEN, all: 61 };

  test('becomes a gap immediately, and is kept with what would confirm it', () => {
    const next = advance(stateOf([], 1_000), unproven(), onTime);
    expect(next).toMatchObject({ proven: false, unconfirmed: true, reason: 'unconfirmed' });
    expect(next.opened).toMatchObject([{ from: 999, until: forAll(2_000), reason: 'unconfirmed' }]);
    expect(next.state).toMatchObject({ watermark: 2_000, gaps: next.opened, unconfirmed: pending });
    // A proof that would not reach back to the watermark, or a wrong clock, is a gap of another reason.
    const short = advance(stateOf([]), unproven({ unconfirmed: { from: 1_001, size: 60 } }), onTime);
    expect(short).toMatchObject({ unconfirmed: false, opened: [{ from: 1_000, reason: 'not-reached' }] });
    expect(advance(stateOf([]), unproven(), { ...onTime, wasAhead: true })).toMatchObject({
      unconfirmed: false,
      opened: [{ reason: 'clock' }],
    });
  });

  test('becomes longer without a larger answer, which closes it', () => {
    const first = advance(stateOf([], 1_000), unproven(), onTime).state;
    const later = { watermark: 2_000, until: 3_300, settledAt: 3_000 };
    const again = advance({ ...first, since: 1_000 }, unproven(later), onTime);
    expect(again).toMatchObject({ opened: [], state: { gaps: [{ from: 999, until: forAll(3_000) }] } });
    const more = { watermark: 3_000, until: 4_300, settledAt: 4_000 };
    const state = { ...again.state, since: 1_000 };
    const closed = advance(state, unproven({ ...more, seen: larger }), onTime);
    expect(closed.closed).toMatchObject([{ from: 999, until: forAll(3_000) }]);
    expect(closed.state.gaps).toMatchObject([{ from: 3_000, until: forAll(4_000) }]);
    const byLimit = { ...state, unconfirmed: { ...pending, until: 3_000, size: null } };
    expect(advance(byLimit, unproven({ ...more, seen: larger }), onTime).closed).toEqual([]);
  });

  test('that became a gap is closed by a larger answer even after polls that prove what followed, and closes no other gap', () => {
    const unconfirmed = { ...pending, until: 1_500 };
    const gap = gapOf({ from: 999, until: forAll(1_500), reason: 'unconfirmed' });
    const other = gapOf({ from: 500, until: forAll(900) });
    const state = { ...stateOf([gap, other]), watermark: 2_000, unconfirmed };
    const proven = (rest: Partial<SurveyResult>) =>
      surveyed(2_000, { watermark: 2_000, until: 3_300, settledAt: 3_000, ...rest });
    const kept = advance(state, proven({}), onTime);
    expect(kept).toMatchObject({ proven: true, closed: [], state: { gaps: [gap, other], unconfirmed } });
    const past = advance(state, proven({ seen: larger }), onTime);
    expect(past).toMatchObject({ closed: [gap], state: { gaps: [other], unconfirmed: null } });
    expect(advance({ ...state, gaps: [other] }, proven({}), onTime).state.unconfirmed).toBeNull();
  });

  test('that a gap with another reason precedes does not make that one longer', () => {
    const other = gapOf({ from: 500, until: forAll(1_000), reason: 'no-order' });
    const next = advance(stateOf([other]), unproven(), onTime);
    expect(next.state.gaps).toEqual([other, ...next.opened]);
    expect(next.opened).toMatchObject([{ from: 1_000, reason: 'unconfirmed' }]);
  });
});

describe('events that were listed late', () => {
  const opened = (lateFrom: number) =>
    advance(stateOf([]), surveyed({ [SETTLED]: 1_000, [OTHER]: 700 }), { ...onTime, lateFrom });

  test('open a gap of the types that nothing proves from their time on, up to where they are proven', () => {
    expect(opened(701)).toMatchObject({ proven: false, reason: 'late' });
    expect(opened(701).opened).toMatchObject([{ from: 700, until: { [SETTLED]: 1_000 }, reason: 'late' }]);
    expect(opened(700).opened).toMatchObject([{ from: 699, until: { [SETTLED]: 1_000, [OTHER]: 700 } }]);
    expect(opened(1_000).opened).toMatchObject([{ from: 999, until: { [SETTLED]: 1_000 } }]);
  });
});

describe('more than 500 open gaps', () => {
  /** So many gaps of one type, ten apart and five long, and one acknowledged gap before them. */
  const record = gapOf({ from: 1, until: { [SETTLED]: 2 }, acknowledged: accepted });
  const open = (count: number) =>
    Array.from({ length: count }, (_, index) =>
      gapOf({ from: index * 10, until: { [SETTLED]: index * 10 + 5 } }),
    );
  const gapsAfter = (gaps: readonly StoredGap[]) =>
    advance(
      stateOf([record, ...gaps]),
      surveyed({ [SETTLED]: NOTHING }, { watermark: 9_000, settledAt: 9_000 }),
      onTime,
    ).state.gaps;

  test('are joined from the oldest on until there are 500, and the joined gap covers what is between', () => {
    const gaps = open(502);
    expect(gapsAfter(gaps.slice(0, 500))).toEqual([record, ...gaps.slice(0, 500)]);
    const one = gapsAfter(gaps.slice(0, 501));
    expect(one).toEqual([record, { ...gaps[0], until: { [SETTLED]: 15 } }, ...gaps.slice(2, 501)]);
    const two = gapsAfter(gaps);
    expect(two).toEqual([record, { ...gaps[0], until: { [SETTLED]: 25 } }, ...gaps.slice(3)]);
  });
});

test('joined gaps are unconfirmed only if both are: a larger answer must not close the other', () => {
  const gaps = Array.from({ length: 501 }, (_, index) =>
    gapOf({
      from: index * 10,
      until: { [SETTLED]: index * 10 + 5 },
      reason: index === 0 ? 'unconfirmed' : 'removed',
    }),
  );
  const survey = surveyed({ [SETTLED]: NOTHING }, { watermark: 9_000, settledAt: 9_000 });
  expect(advance(stateOf(gaps), survey, onTime).state.gaps[0]).toMatchObject({ from: 0, reason: 'removed' });
});

test('an event is in a gap if it was created after the start, up to the end, and is of a type of the gap', () => {
  const state = stateOf([gapOf({ from: 100, until: { [SETTLED]: 500, [OTHER]: 300 } })]);
  const isIn = (type: string, at: number) => isInGap(state, type, at);
  expect([100, 101, 500, 501].map((at) => isIn(SETTLED, at))).toEqual([false, true, true, false]);
  expect([101, 300, 301].map((at) => isIn(OTHER, at))).toEqual([true, true, false]);
  expect(isIn('transfer.failed', 200)).toBe(false);
  expect(isInGap(stateOf([]), SETTLED, 200)).toBe(false);
});

describe('for people', () => {
  const gap = (fields: Partial<StoredGap> = {}) => toGap(gapOf(fields));

  test('a proof names the gaps that it excepts', () => {
    const acknowledged = gapOf({ acknowledged: accepted });
    expect([exceptIn([]), exceptIn([gapOf()])]).toEqual(['', ', except in 1 open gap']);
    expect(exceptIn([gapOf(), acknowledged, gapOf()])).toMatch(/2 open gaps and 1 acknowledged gap$/);
  });

  test('a gap has its types, its start, the end of the last type, and when it was opened', () => {
    expect(gap({ until: { [OTHER]: 300, [SETTLED]: 500 } })).toEqual({
      ...{ state: 'open', types: [SETTLED, OTHER], reason: 'no-order', acknowledged: null },
      ...{ from: '1970-01-01T00:00:00.100Z', until: '1970-01-01T00:00:00.500Z' },
      openedAt: '1970-01-01T00:00:00.800Z',
    });
    expect(gap({ acknowledged: accepted })).toMatchObject({
      state: 'acknowledged',
      acknowledged: { by: 'ops', reason: 'the books agree', at: '1970-01-01T00:00:00.900Z' },
    });
  });

  test('the description names the types, unless it is all of them, the span, and who acknowledged it', () => {
    const span = /created after 1970-01-01T00:00:00.100Z and up to 1970-01-01T00:00:00.500Z/;
    const text = (fields: Partial<StoredGap>) => describeGap(gap(fields));
    expect(text({})).toMatch(span);
    expect(text({})).not.toContain(SETTLED);
    expect(text({ until: { [OTHER]: 300, [SETTLED]: 500 } })).toContain(`${SETTLED}, ${OTHER} created`);
    expect(text({ acknowledged: accepted })).toMatch(/by ops at 1970-01-01T00:00:00.900Z: the books agree$/);
    expect(describeGap({ ...gap(), state: 'closed' })).toContain('are all in the inbox now');
  });
});
