/** What single answers prove, one rule at a time. */
import { EVENT_TYPES } from 'stablehooks';
import { type Answer, type Mark, type Question, type Survey, surveyList } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';

const HOUR_MS = 3_600_000;
const NOW = 100 * HOUR_MS;

/** A list of events a minute apart, newest first, that ends an hour ago; the types in turn. */
function marks(count: number, types: readonly string[] = EVENT_TYPES): readonly Mark[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `e${index}`,
    type: types[index % types.length] ?? '',
    at: NOW - HOUR_MS - index * 60_000,
  }));
}

type Serve = (question: Question, count: number) => readonly Mark[] | null;

function cut(list: readonly Mark[], { type, limit }: Question): readonly Mark[] {
  return list.filter((mark) => type === null || mark.type === type).slice(0, limit);
}

function survey(
  serve: Serve,
  { watermark = 0, maxLimit = 1_000 } = {},
): Survey & { readonly requests: number } {
  const inquiry = surveyList({ watermark, startedAt: NOW, lagMs: 300_000, limit: 50, maxLimit });
  let requests = 0;
  let step = inquiry.next();
  while (!step.done) {
    const question = step.value;
    const found = serve(question, requests);
    requests += 1;
    const answer: Answer | null = found && {
      ...question,
      size: found.length,
      marks: found,
      unreadable: [],
      servedAt: null,
    };
    step = inquiry.next(answer);
  }
  return { ...step.value, requests };
}

test('49 of 50 are complete, in one request, and the watermark follows the clock less the lag', () => {
  const list = marks(49).toReversed();
  expect(survey((question) => cut(list, question))).toMatchObject({
    proven: true,
    watermark: NOW - 300_000,
    requests: 1,
    findings: [{ verdict: 'complete' }],
  });
});

test('50 of 100 are not complete by themselves, as 50 may be the cap', () => {
  const list = marks(50, ['transfer.settled']).toReversed();
  expect(survey((question) => cut(list, question))).toMatchObject({
    proven: false,
    open: ['transfer.settled'],
  });
});

test('a whole of 300 proves types of 60, as long as it is given again', () => {
  const list = marks(300).toReversed();
  const whole = survey((question) => cut(list, question));
  expect(whole).toMatchObject({ proven: true, requests: 10 });
  const shrinking = survey((question, count) =>
    cut(list, { ...question, limit: Math.min(question.limit, count < 4 ? 300 : 60) }),
  );
  expect(shrinking).toMatchObject({ proven: false, open: EVENT_TYPES, watermark: 0 });
});

test('a full page that reaches back past the watermark is continuous, once half the limit gave the newer half', () => {
  const watermark = NOW - HOUR_MS - 30 * 60_000;
  const list = marks(5_000);
  expect(survey((question) => cut(list, question), { watermark })).toMatchObject({
    proven: true,
    requests: 2,
    findings: [{ type: null, size: 50, verdict: 'continuous' }],
  });
  const justShort = NOW - HOUR_MS - 53 * 60_000;
  const grown = survey((question) => cut(list, question), { watermark: justShort });
  expect(grown.findings).toMatchObject([{ size: 100, limit: 100, verdict: 'continuous' }]);
});

test('a server that heeds no limit proves nothing by being newest first', () => {
  const list = marks(2_000, ['redeem.failed']);
  const all = survey(({ type }) => cut(list, { type, limit: 2_000 }), { watermark: NOW - 2 * HOUR_MS });
  expect(all.proven).toBe(false);
});

test('a few events over and over show no order', () => {
  const list = marks(4, ['transfer.settled']).flatMap((mark) => Array.from({ length: 30 }, () => mark));
  const watermark = NOW - HOUR_MS / 4;
  expect(survey((question) => cut(list, question), { watermark }).proven).toBe(false);
  // Distinct events in the same places would do.
  const distinct = list.map((mark, index) => ({ ...mark, id: `d${index}`, at: mark.at - index }));
  expect(survey((question) => cut(distinct, question), { watermark }).proven).toBe(true);
});

test('a filter that works on what was cut already is not believed', () => {
  const list = marks(5_000).toReversed();
  const late = survey(({ type, limit }) => cut(cut(list, { type: null, limit }), { type, limit }), {
    maxLimit: 200,
  });
  expect(late).toMatchObject({ proven: false, open: EVENT_TYPES });
});

test('a filter that is ignored is not believed', () => {
  const list = marks(5_000).toReversed();
  expect(survey(({ limit }) => cut(list, { type: null, limit }), { maxLimit: 200 }).proven).toBe(false);
});

test('an answer that lacks what another one of the same poll holds is not complete', () => {
  const list = marks(80).toReversed();
  const forgetful = survey((question) =>
    cut(list, question).filter(({ id }) => question.type === null || id !== 'e7'),
  );
  expect(forgetful.proven).toBe(false);
  expect(forgetful.open).toEqual([marks(8)[7]?.type]);
});

test('a type that fails leaves only that type open', () => {
  const list = marks(100);
  const failing = survey((question) => (question.type === 'redeem.failed' ? null : cut(list, question)));
  expect(failing).toMatchObject({ proven: false, open: ['redeem.failed'], watermark: 0 });
});
