/** Surveys of thousands of random lists: no watermark has an unrecorded event behind it. */
import fc from 'fast-check';
import { isEventType } from 'stablehooks';
import { type Inquiry, type Survey, type SurveyRules, surveyList } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { createList, LAG_MS, POLLS, type SimulatedServer, simulatedServer } from './simulated-list.js';

type Surveyor = (rules: SurveyRules) => Inquiry<Survey>;

interface Run {
  /** Events of the five types behind a watermark and not recorded, at any poll. */
  readonly missed: number;
  readonly last: Survey;
  /** Settled events that neither a push nor a plain poll of 50 ever showed. */
  readonly lostByPlainPolls: number;
}

/** Polls a server a few times in virtual time. */
function run(server: SimulatedServer, survey: Surveyor = surveyList): Run {
  const list = createList(server);
  const sameList = createList(server);
  const recorded = new Set<string>();
  const plain = new Set<string>();
  let watermark = server.since;
  let last: Survey | undefined;
  let missed = 0;
  let time = 0;
  for (let poll = 0; poll < POLLS; poll++) {
    time = Math.max(time, poll * server.pauseMs);
    for (const { id } of sameList.answer({ type: null, limit: 50 }, { time, poll })?.marks ?? [])
      plain.add(id);
    const { limit, maxLimit } = { limit: 50, maxLimit: server.maxLimit };
    const inquiry = survey({ watermark, startedAt: time, lagMs: LAG_MS, limit, maxLimit });
    let step = inquiry.next();
    while (!step.done) {
      time += server.roundTripMs / 2;
      const answer = list.answer(step.value, { time, poll });
      time += server.roundTripMs / 2;
      for (const { id } of answer?.marks ?? []) recorded.add(id);
      step = inquiry.next(answer);
    }
    last = step.value;
    watermark = last.watermark;
    const behind = list.events.filter(
      ({ type, at }) => isEventType(type) && at > server.since && at <= Math.min(watermark, time),
    );
    missed += behind.filter(({ id, pushedAt }) => !recorded.has(id) && pushedAt > time).length;
  }
  const settled = list.events.filter(
    ({ at, type }) => isEventType(type) && at > server.since && at <= time - LAG_MS,
  );
  const lostByPlainPolls = settled.filter(({ id, pushedAt }) => !plain.has(id) && pushedAt > time).length;
  if (last === undefined) throw new Error('No poll was made.');
  return { missed, last, lostByPlainPolls };
}

test('no watermark has an unrecorded event behind it, on 10,000 random servers', { timeout: 60_000 }, () => {
  const seen = { servers: 0, proven: 0, plainLost: 0 };
  fc.assert(
    fc.property(simulatedServer, (server) => {
      const { missed, last, lostByPlainPolls } = run(server);
      seen.servers += 1;
      seen.proven += last.proven ? 1 : 0;
      seen.plainLost += lostByPlainPolls > 0 ? 1 : 0;
      expect(missed).toBe(0);
    }),
    { numRuns: 10_000 },
  );
  console.log(
    `${seen.servers} servers: 0 horizons with an event missed behind them, the last poll proven in ${seen.proven}; polls of limit=50 would have lost events in ${seen.plainLost}`,
  );
  expect(seen.plainLost).toBeGreaterThan(seen.servers / 10);
});

test('a server that lists newest first, uncapped and without faults, ends proven', () => {
  const calm = simulatedServer.map((server) => ({
    ...server,
    order: 'newest' as const,
    caps: [Number.POSITIVE_INFINITY],
    faults: 0,
    types: 5,
    maxLimit: 1_000,
  }));
  fc.assert(
    fc.property(calm, (server) => {
      expect(run(server).last.proven).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});

/** Rules that look right and are not. The property must catch each, or it would show nothing. */
const MISTAKES: Readonly<Record<string, Surveyor>> = {
  'an answer smaller than its limit is complete': function* (rules) {
    const answer = yield { type: null, limit: rules.maxLimit };
    return toSurvey(rules, answer !== null && answer.size < rules.maxLimit);
  },
  'an answer that shows nothing new is complete': function* (rules) {
    const answer = yield { type: null, limit: 50 };
    const again = yield { type: null, limit: 50 };
    const ids = new Set(answer?.marks.map(({ id }) => id));
    return toSurvey(rules, again?.marks.every(({ id }) => ids.has(id)) === true);
  },
  'an answer that reaches back past the watermark is continuous, whatever its order': function* (rules) {
    const answer = yield { type: null, limit: rules.maxLimit };
    return toSurvey(rules, answer?.marks.some(({ at }) => at < rules.watermark - LAG_MS) === true);
  },
  'what is shown newest first was cut newest first': function* (rules) {
    const answer = yield { type: null, limit: rules.maxLimit };
    const times = answer?.marks.map(({ at }) => at) ?? [];
    const sorted = times.every((at, index) => index === 0 || at <= (times[index - 1] ?? at));
    return toSurvey(rules, sorted && times.length > 20 && (times.at(-1) ?? 0) < rules.watermark - LAG_MS);
  },
  'an event is listed as soon as it is created': (rules) => surveyList({ ...rules, lagMs: 0 }),
};

/** Design section 6, rule 1, as it was first written: the largest answer of any poll stands for the cap. */
function rememberLargest(): Surveyor {
  let largest = 50;
  return function* (rules) {
    const answer = yield { type: null, limit: 401 };
    const size = answer?.size ?? Number.POSITIVE_INFINITY;
    if (Number.isFinite(size)) largest = Math.max(largest, size);
    return toSurvey(rules, size < 401 && size < largest);
  };
}

function toSurvey({ watermark, startedAt, lagMs }: SurveyRules, proven: boolean): Survey {
  const next = proven ? Math.max(watermark, startedAt - lagMs) : watermark;
  return {
    proven,
    since: watermark,
    watermark: next,
    present: startedAt,
    findings: [],
    open: proven ? [] : [null],
  };
}

test.each(Object.entries(MISTAKES))('the property catches the mistake "%s"', (_, survey) => {
  const result = fc.check(
    fc.property(simulatedServer, (server) => run(server, survey).missed === 0),
    { numRuns: 3_000, endOnFailure: true },
  );
  expect(result.failed).toBe(true);
});

test('the property catches a cap that is believed from poll to poll', () => {
  const result = fc.check(
    fc.property(simulatedServer, (server) => run(server, rememberLargest()).missed === 0),
    { numRuns: 3_000, endOnFailure: true },
  );
  expect(result.failed).toBe(true);
});
