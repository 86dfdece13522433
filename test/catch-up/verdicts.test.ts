import { EVENT_TYPES } from 'stablehooks';
import { expect, test } from 'vitest';
import type { EventKey } from '../../src/catch-up/answer.js';
import {
  cut,
  DISORDER_MS,
  HOUR_MS,
  LACKING,
  LAG_MS,
  marks,
  NOW,
  SETTLED_AT,
  type Serve,
  survey,
  timeOf,
} from './survey-list.js';

test('49 events of a limit of 50 are complete after one request, and everything is proven up to the lag before now', () => {
  const list = marks(49).toReversed();
  expect(survey((query) => cut(list, query))).toMatchObject({
    unproven: [],
    settledAt: NOW - LAG_MS,
    requests: 1,
    verdicts: [{ verdict: 'complete' }],
  });
});

test('a whole list of 300 proves types of 60 events, because its cap is larger', () => {
  const list = marks(300).toReversed();
  const whole = survey((query) => cut(list, query));
  // 50, 100, 200 and 400; the five types; and whether types are filtered before the list is cut.
  expect(whole).toMatchObject({ unproven: [], requests: 10 });
});

test.each([
  ['the fourth oldest event', true, timeOf(296)],
  ['the third oldest event, which can have left since', false, timeOf(297)],
  ['the newest event that can be judged', true, SETTLED_AT],
  ['an event that was just created', false, SETTLED_AT + 1],
])(
  'an answer for one type that lacks %s of the whole list was filtered after the cut: %s',
  (_name, isLate, at) => {
    const events = marks(300);
    const hidden = events.find((event) => event.at === at) ?? { id: 'new', type: 'transfer.settled', at };
    const list = [...events.filter(({ id }) => id !== hidden.id), hidden].toReversed();
    const { verdicts } = survey(({ type, limit }) =>
      // A small answer shows that the service filters before it cuts.
      cut(type !== null && limit === 400 ? list.filter((event) => event !== hidden) : list, { type, limit }),
    );
    const { reason } = verdicts.find(({ type }) => type === hidden.type) ?? {};
    expect(reason === 'filtered-late').toBe(isLate);
  },
);

/** An answer of an earlier poll with so many events. */
const seen = (all: number, type = 0) => ({ all, type, listMaxRefuted: false });

test('an answer is complete if a larger one of its kind was seen before, and not if one as large was', () => {
  const list = marks(137, ['transfer.settled']).toReversed();
  const verdictOf = (options: Parameters<typeof survey>[1]) =>
    survey((query) => cut(list, query), { lastLimit: 400, ...options });
  expect(verdictOf({ seen: seen(138) })).toMatchObject({ unproven: [], requests: 1, unconfirmed: null });
  const equal = verdictOf({ seen: seen(137) });
  expect(equal.verdicts[0]).toMatchObject({ type: null, size: 137, verdict: 'unconfirmed' });
  expect(equal).toMatchObject({ unproven: EVENT_TYPES, unconfirmed: { size: 137 }, seen: { all: 137 } });
  // A larger answer of the other kind shows nothing of this one.
  expect(verdictOf({ seen: seen(0, 138) }).verdicts[0]).toMatchObject({ verdict: 'unconfirmed' });
});

test('an answer that has as many events as our own limit is unconfirmed, and no larger answer can confirm it', () => {
  const list = marks(200, ['transfer.settled']).toReversed();
  const { unconfirmed, verdicts } = survey((query) => cut(list, query), { maxLimit: 200, seen: seen(300) });
  expect(verdicts[0]).toMatchObject({ size: 200, limit: 200, verdict: 'unconfirmed' });
  expect(unconfirmed).toMatchObject({ size: null });
});

test('an answer is not unconfirmed but unproven if another one shows an event that it lacks', () => {
  const list = marks(300, ['transfer.settled', 'redeem.failed']);
  // The whole list is cut, and each type by itself is not.
  const capped = survey(({ type, limit }) =>
    cut(list.toReversed(), { type, limit: type === null ? Math.min(limit, 100) : limit }),
  );
  expect(capped.verdicts[0]).toMatchObject({ type: null, verdict: 'unproven' });
  expect(capped.unconfirmed).toBeNull();
  const vanished = survey((query) => cut(list.toReversed(), query), LACKING);
  expect(vanished.unconfirmed).toBeNull();
});

test('with listMax, a smaller answer is complete from the first poll on', () => {
  const list = marks(137, ['transfer.settled']).toReversed();
  expect(survey((query) => cut(list, query), { listMax: 138 })).toMatchObject({ unproven: [], requests: 3 });
  expect(survey((query) => cut(list, query), { listMax: 137 }).unproven).toEqual(EVENT_TYPES);
});

test('listMax replaces what larger answers show, because the cap can have fallen, or differ for a type', () => {
  const list = marks(137, ['transfer.settled']).toReversed();
  const declared = survey((query) => cut(list, query), { listMax: 100, seen: seen(138, 138) });
  expect(declared).toMatchObject({ unproven: EVENT_TYPES, unconfirmed: { size: null } });
});

test('listMax is refuted by an answer that has fewer events and lacks one that another answer shows', () => {
  const list = marks(300, ['transfer.settled', 'redeem.failed']);
  /** Each answer begins elsewhere in the list, and has at most 100 events. */
  const serve: Serve = ({ type, limit }, request) =>
    cut([...list.slice(request * 40), ...list.slice(0, request * 40)], { type, limit: Math.min(limit, 100) });
  expect(survey(serve, { listMax: 200 }).seen.listMaxRefuted).toBe(true);
  expect(survey(serve, { listMax: 100 }).seen.listMaxRefuted).toBe(false);
  // Events that are older than all of an answer can have been removed meanwhile.
  const removing: Serve = (query, request) => cut(list.slice(0, 60 - request), query);
  expect(survey(removing, { listMax: 200 }).seen.listMaxRefuted).toBe(false);
  // The oldest event of the last poll is young, so it was cut off, and not removed for its age.
  const oldest = { at: NOW - LAG_MS - 60_000, seenAt: NOW - 60_000 };
  const young = marks(60, ['transfer.settled']).map((mark, index) => ({ ...mark, at: NOW - index * 100 }));
  const lost = survey((query) => cut(young, query), {
    ...{ listMax: 200, oldest, watermark: NOW - 2 * LAG_MS },
    seen: { ...seen(0), known: [{ id: 'cut', type: 'transfer.settled', at: oldest.at }] },
  });
  expect(lost).toMatchObject({ unproven: EVENT_TYPES, seen: { listMaxRefuted: true } });
});

test('a full answer that reaches back past the watermark is a window once a smaller limit gives its newer part', () => {
  const watermark = NOW - HOUR_MS - 30 * 60_000;
  const list = marks(5_000);
  const newest = survey((query) => cut(list, query), { watermark });
  expect(newest).toMatchObject({ unproven: [], requests: 2 });
  expect(newest.verdicts).toMatchObject([{ type: null, size: 50, verdict: 'window', reason: null }]);
  // The third oldest shows the reach, and the window begins the lag and the disorder later.
  const from = timeOf(47) + LAG_MS + DISORDER_MS;
  expect(newest.proofs['redeem.failed']).toEqual({ from, reason: 'not-reached' });
  const justShort = NOW - HOUR_MS - 43 * 60_000;
  const grown = survey((query) => cut(list, query), { watermark: justShort });
  expect(grown.verdicts).toMatchObject([{ size: 100, limit: 100, verdict: 'window' }]);
  expect(grown.limit).toBe(100);
});

test('a server that filters by type after it cuts proves nothing', () => {
  const list = marks(5_000).toReversed();
  const late = survey(({ type, limit }) => cut(cut(list, { type: null, limit }), { type, limit }), {
    ...{ ...LACKING, maxLimit: 200 },
  });
  expect(late.unproven).toEqual(EVENT_TYPES);
  expect(late.proofs['redeem.failed'].reason).toBe('filtered-late');
});

test('a server that ignores the limit and filters by type after it cuts proves nothing', () => {
  // It looks at 100 events, whatever the limit, and has more.
  const list = marks(300)
    .map((mark, index) => ({ ...mark, at: timeOf((index * 7) % 300) }))
    .toReversed();
  const page = list.slice(0, 100);
  const { unproven, queries, verdicts } = survey((query) => cut(page, { ...query, limit: 100 }), {
    limit: 60,
  });
  expect(queries.some(({ type, limit }) => type !== null && limit === 20)).toBe(true);
  expect(unproven).toEqual(EVENT_TYPES);
  expect(verdicts.slice(1)).toMatchObject(
    EVENT_TYPES.map(() => ({ verdict: 'unproven', reason: 'no-order' })),
  );
});

/** One type after the other, and the newest of each first. */
function grouped(count: number, types: readonly string[]): readonly EventKey[] {
  const list = marks(count, types);
  return types.flatMap((type) => list.filter((mark) => mark.type === type));
}

test('a list that has one type after the other is no window of the types that it does not show', () => {
  const options = { watermark: timeOf(20), maxLimit: 100 };
  const list = grouped(2_000, EVENT_TYPES);
  const shown = survey((query) => cut(list, query), options);
  expect(shown.verdicts[0]).toMatchObject({ type: null, verdict: 'unproven', reason: 'contradiction' });
  // Each type by itself has its newest events first, and is a window.
  expect(shown.unproven).toEqual([]);
  // Each type that is not shown is asked for once, however often the limit grows.
  const small = shown.queries.filter(({ limit }) => limit === 3).map(({ type }) => type);
  expect(small).toEqual([...new Set(small)]);
});

test('a single event of a type that a window does not show is a contradiction, and the types are asked for alone', () => {
  const list = marks(2_000, ['transfer.settled']);
  const hidden = { id: 'hidden', type: 'redeem.failed', at: timeOf(5) };
  const { unproven, verdicts } = survey((query) => cut([...list, hidden], query), {
    watermark: timeOf(20),
    maxLimit: 100,
  });
  expect(verdicts[0]).toMatchObject({ type: null, verdict: 'unproven', reason: 'contradiction' });
  // Its own answer is a window.
  expect(unproven).not.toContain('transfer.settled');
});

test('a window of one type proves nothing if the service answers other types for a type: others can be cut', () => {
  const list = marks(2_000, ['transfer.settled']);
  const { unproven, verdicts } = survey(({ limit }) => cut(list, { type: null, limit }), {
    watermark: timeOf(20),
  });
  expect(verdicts[0]).toMatchObject({ type: null, verdict: 'unconfirmed', reason: 'filtered-late' });
  expect(unproven).toEqual(EVENT_TYPES.filter((type) => type !== 'transfer.settled'));
});

test('a window of the newest events takes one small request for each known type that it does not show', () => {
  const watermark = timeOf(20);
  const list = marks(2_000, ['transfer.settled', 'redeem.failed', 'wallet.frozen']);
  // One that is older than the window or the watermark is no contradiction, nor is one that was just created.
  const others = [timeOf(100), timeOf(25), SETTLED_AT + 1].map((at, index) => ({
    ...{ id: `other${index}`, type: 'redeem.completed', at },
  }));
  const { unproven, queries } = survey(
    (query) => cut(query.type === 'redeem.completed' ? others : list, query),
    { watermark },
  );
  expect(unproven).toEqual([]);
  expect(queries.slice(2)).toEqual(
    ['accept.confirmed', 'transfer.failed', 'redeem.completed'].map((type) => ({ type, limit: 3 })),
  );
});

test('the verdicts say what each answer shows: its size and limit, how far back it goes, and why it proves nothing', () => {
  const list = marks(100).toReversed();
  const { verdicts, unproven } = survey((query) =>
    query.type === 'redeem.failed' ? null : cut(list, query),
  );
  expect(unproven).toEqual(['redeem.failed']);
  const oldest = { windowMs: NOW - timeOf(97), disorderMs: 0 };
  const part = { limit: 200, size: 20, verdict: 'complete', reason: null, windowMs: null, disorderMs: null };
  expect(verdicts).toEqual([
    { type: null, limit: 200, size: 100, verdict: 'unconfirmed', reason: 'oldest-first', ...oldest },
    ...EVENT_TYPES.slice(0, 4).map((type) => ({ type, ...part })),
    {
      ...{ type: 'redeem.failed', limit: 200, size: 0, verdict: 'failed', reason: 'no-answer' },
      ...{ windowMs: null, disorderMs: null },
    },
  ]);
});

test('a window that begins at the watermark reaches it, and one that begins a millisecond later does not', () => {
  const from = timeOf(47) + LAG_MS + DISORDER_MS;
  const options = { watermark: from, maxLimit: 50 };
  expect(survey((query) => cut(marks(2_000), query), options)).toMatchObject({ unproven: [], requests: 2 });
  const short = survey((query) => cut(marks(2_000), query), { ...options, watermark: from - 1 });
  expect(short.verdicts[0]).toMatchObject({ verdict: 'unproven', reason: 'not-reached' });
  expect(short.requests).toBeGreaterThan(2);
});

test('a survey that tries to prove more than from the watermark on asks until a window reaches the target', () => {
  const options = { watermark: timeOf(0), target: timeOf(60) };
  const { unproven, verdicts, proofs } = survey((query) => cut(marks(2_000), query), options);
  expect(unproven).toEqual([]);
  expect(verdicts).toMatchObject([{ limit: 100, verdict: 'window' }]);
  expect(proofs['redeem.failed'].from).toBeLessThanOrEqual(timeOf(60));
});

test('a window whose confirmation fails is not proven, and is not asked for again in this poll', () => {
  const list = marks(2_000, ['redeem.failed']);
  const probes = { whole: 0 };
  const { verdicts, unproven } = survey(
    (query) => {
      if (query.limit === 50) return cut(list, query);
      probes.whole += query.type === null ? 1 : 0;
      return null;
    },
    { watermark: NOW - HOUR_MS, maxLimit: 50 },
  );
  expect(verdicts[0]).toMatchObject({ verdict: 'unconfirmed', reason: 'no-answer' });
  expect(unproven).toContain('redeem.failed');
  expect(probes.whole).toBe(1);
});

test('the start date has nothing before it to prove: while it is not settled, one request is enough', () => {
  const shuffled = marks(2_000).map((mark, index) => ({ ...mark, at: timeOf((index * 7) % 50) }));
  const ask = (watermark: number) => survey((query) => cut(shuffled, query), { watermark }).requests;
  expect(ask(SETTLED_AT)).toBe(1);
  expect(ask(NOW)).toBe(1);
  expect(ask(SETTLED_AT - 1)).toBeGreaterThan(1);
  // An answer without an event from before the start date can be a part of what came after it.
  const after = (at: number) =>
    survey((query) => cut(marks(2_000), query).map((mark) => ({ ...mark, at })), { watermark: NOW });
  expect(after(NOW - 1).requests).toBe(1);
  // An event that was created at the start date itself counts. The list is read as far as limits reach.
  expect(after(NOW).requests).toBe(6);
});

test('an event that the list repeats counts once for the cap: a type of as many events as the whole has is not complete', () => {
  const list = marks(200, ['transfer.settled', 'redeem.failed']).map((mark, index) => ({
    ...{ ...mark, at: timeOf((index * 7) % 200) },
  }));
  // Cut at 60, and one type is repeated after that.
  const { unproven, verdicts } = survey(({ type, limit }) =>
    cut(list, { type, limit: 60 })
      .flatMap((mark) => (mark.type === 'redeem.failed' ? [mark, mark, mark] : [mark]))
      .slice(0, limit),
  );
  expect(verdicts[0]).toMatchObject({ type: null, size: 120 });
  expect(verdicts.find(({ type }) => type === 'transfer.settled')).toMatchObject({ size: 60 });
  expect(unproven).toEqual(expect.arrayContaining(['transfer.settled', 'redeem.failed']));
});

test('what no query for a type proves, the window of the whole list proves as far as it reaches', () => {
  const list = marks(2_000);
  const options = { ...LACKING, watermark: 0, maxLimit: 100 };
  for (const failing of [EVENT_TYPES.slice(0, 1), EVENT_TYPES.slice(4), EVENT_TYPES]) {
    const isFailing = (type: string | null) => failing.some((each) => each === type);
    const { proofs, verdicts } = survey(
      (query) => (isFailing(query.type) ? null : cut(list, query)),
      options,
    );
    for (const type of failing) {
      expect(proofs[type]).toEqual({ from: timeOf(97) + LAG_MS + DISORDER_MS, reason: 'not-reached' });
    }
    expect(verdicts[0]).toMatchObject({ type: null, verdict: 'window' });
  }
});

test('types are proven only after a query has shown that the service filters before it cuts', () => {
  const list = marks(100).toReversed();
  const isProbe = ({ type, limit }: { readonly type: string | null; readonly limit: number }) =>
    type !== null && limit === 20;
  const failing = survey((query) => (isProbe(query) ? null : cut(list, query)));
  expect(failing).toMatchObject({ unproven: EVENT_TYPES, verdicts: { 1: { reason: 'no-answer' } } });
});

test.each(['in its order', 'reversed'])(
  'a list that has one type after the other, shown %s, shows nothing of when the service filters',
  (order) => {
    const [first, second] = [marks(30, ['transfer.settled']), marks(45, ['transfer.failed'])];
    // Not in the order of their dates, and cut before it is filtered.
    const stored = [...first, ...second].map((mark, index) => ({
      ...mark,
      id: `s${index}`,
      at: timeOf((index * 31) % 75),
    }));
    const { proofs } = survey(({ type, limit }) => {
      const listed = cut(stored, { type: null, limit });
      return cut(order === 'reversed' ? listed.toReversed() : listed, { type, limit });
    }, LACKING);
    expect(proofs['transfer.settled']).toEqual({ from: Number.POSITIVE_INFINITY, reason: 'no-order' });
    expect(proofs['transfer.failed']).toEqual({ from: Number.POSITIVE_INFINITY, reason: 'no-order' });
  },
);
