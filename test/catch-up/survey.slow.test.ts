import fc from 'fast-check';
import { isEventType } from 'stablehooks';

import { expect, test } from 'vitest';
import {
  type Survey,
  type SurveyOptions,
  type SurveyResult,
  surveyList,
} from '../../src/catch-up/coverage.js';
import { createList, LAG_MS, POLLS, type SimulatedServer, simulatedServer } from './simulated-list.js';

type Surveyor = (options: SurveyOptions) => Survey;

interface Run {
  /** Events of the five types before a watermark that were not recorded, at any poll. */
  readonly missed: number;
  readonly last: SurveyResult;
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
  let last: SurveyResult | undefined;
  let missed = 0;
  let time = 0;
  for (let poll = 0; poll < POLLS; poll++) {
    time = Math.max(time, poll * server.pauseMs);
    for (const { id } of sameList.answer({ type: null, limit: 50 }, { time, poll })?.events ?? [])
      plain.add(id);
    const { limit, maxLimit } = { limit: 50, maxLimit: server.maxLimit };
    const steps = survey({ watermark, startedAt: time, lagMs: LAG_MS, limit, maxLimit });
    let step = steps.next();
    while (!step.done) {
      time += server.roundTripMs / 2;
      const answer = list.answer(step.value, { time, poll });
      time += server.roundTripMs / 2;
      for (const { id } of answer?.events ?? []) recorded.add(id);
      step = steps.next(answer);
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

test('on 10,000 random servers, no unrecorded event is before a watermark', { timeout: 300_000 }, () => {
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
    `${seen.servers} servers: no watermark with a missed event before it, the last poll proven in ${seen.proven}; polls of limit=50 would have lost events in ${seen.plainLost}`,
  );
  expect(seen.plainLost).toBeGreaterThan(seen.servers / 10);
});

test('a server that lists newest first, without a cap and faults, is proven in the end', {
  timeout: 120_000,
}, () => {
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

/** Rules that look right and are wrong. The property must detect each. */
const MISTAKES: Readonly<Record<string, Surveyor>> = {
  'an answer smaller than its limit is complete': function* (options) {
    const answer = yield { type: null, limit: options.maxLimit };
    return toSurvey(options, answer !== null && answer.size < options.maxLimit);
  },
  'an answer that shows nothing new is complete': function* (options) {
    const answer = yield { type: null, limit: 50 };
    const again = yield { type: null, limit: 50 };
    const ids = new Set(answer?.events.map(({ id }) => id));
    return toSurvey(options, again?.events.every(({ id }) => ids.has(id)) === true);
  },
  'an answer that reaches back past the watermark is continuous, whatever its order': function* (options) {
    const answer = yield { type: null, limit: options.maxLimit };
    return toSurvey(options, answer?.events.some(({ at }) => at < options.watermark - LAG_MS) === true);
  },
  'an answer that is shown newest first was cut newest first': function* (options) {
    const answer = yield { type: null, limit: options.maxLimit };
    const times = answer?.events.map(({ at }) => at) ?? [];
    const sorted = times.every((at, index) => index === 0 || at <= (times[index - 1] ?? at));
    return toSurvey(options, sorted && times.length > 20 && (times.at(-1) ?? 0) < options.watermark - LAG_MS);
  },
  'an event is listed as soon as it is created': (options) => surveyList({ ...options, lagMs: 0 }),
};

/** The largest answer of any poll is taken for the cap. */
function rememberLargest(): Surveyor {
  let largest = 50;
  return function* (options) {
    const answer = yield { type: null, limit: 401 };
    const size = answer?.size ?? Number.POSITIVE_INFINITY;
    if (Number.isFinite(size)) largest = Math.max(largest, size);
    return toSurvey(options, size < 401 && size < largest);
  };
}

function toSurvey({ watermark, startedAt, lagMs }: SurveyOptions, proven: boolean): SurveyResult {
  const next = proven ? Math.max(watermark, startedAt - lagMs) : watermark;
  return {
    proven,
    since: watermark,
    watermark: next,
    until: startedAt,
    verdicts: [],
    unproven: proven ? [] : [null],
  };
}

test.each(Object.entries(MISTAKES))(
  'the property detects the mistake "%s"',
  { timeout: 120_000 },
  (_, survey) => {
    const result = fc.check(
      fc.property(simulatedServer, (server) => run(server, survey).missed === 0),
      { numRuns: 3_000, endOnFailure: true },
    );
    expect(result.failed).toBe(true);
  },
);

test('the property detects the mistake "a cap never shrinks between polls"', { timeout: 120_000 }, () => {
  const result = fc.check(
    fc.property(simulatedServer, (server) => run(server, rememberLargest()).missed === 0),
    { numRuns: 3_000, endOnFailure: true },
  );
  expect(result.failed).toBe(true);
});
