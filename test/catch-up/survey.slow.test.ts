import fc from 'fast-check';
import { EVENT_TYPES, type EventType } from 'stablehooks';
import { EMPTY_POLL_STATE } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import type { ListAnswer } from '../../src/catch-up/answer.js';
import type { SurveyResult } from '../../src/catch-up/conclude.js';
import { surveyList } from '../../src/catch-up/coverage.js';
import type { SurveyOptions } from '../../src/catch-up/evidence.js';
import { advance } from '../../src/catch-up/gaps.js';
import { atNight } from '../nightly.js';
import {
  changingServer,
  declaredServer,
  LAG_MS,
  type SimulatedServer,
  simulatedServer,
} from './simulated-list.js';
import { calmServer, expectProvenPolls, pollServer, type Rules } from './simulated-polls.js';
import { byId } from './survey-list.js';

/** Servers on which this property or the simulator once found an event missing. */
const FOUND: readonly Partial<SimulatedServer>[] = [
  // Our clock is so slow that events were removed from the list before it reached their date.
  {
    seed: 12,
    backlog: 20,
    arrivals: 3,
    types: 1,
    backdated: 0.2,
    retentionMs: 2_619_534,
    clockMs: -3_600_000,
  },
  // The list was cut, and the service removed what no poll had seen before it was asked for.
  {
    backlog: 109,
    types: 2,
    caps: [50],
    retentionMs: 3_739_239,
    dateMs: -3_600_000,
    lostPushes: 0.5,
    outageMs: 0,
    maxLimit: 1_000,
  },
  // Our own limit cut the list, and the service removed what no poll had seen before a larger answer came.
  {
    seed: 1_627_400_938,
    backlog: 117,
    arrivals: 97,
    types: 1,
    stepMs: 1_000,
    retentionMs: 3_965_002,
    faults: 0.1,
    outageMs: 0,
    since: -100_000_000,
    maxLimit: 1_000,
  },
];

const FOUND_BASE: SimulatedServer = {
  ...{ seed: 1, backlog: 0, arrivals: 0, types: 5, order: 'newest', caps: [Number.POSITIVE_INFINITY] },
  typeCap: null,
  ...{ filtersLate: false, latenessMs: 0, jitterMs: 0, backdated: 0, strays: 0, faults: 0, stepMs: 1 },
  ...{ retentionMs: Number.POSITIVE_INFINITY, clockMs: 0, dateMs: 0, roundTripMs: 1, lostPushes: 0.05 },
  ...{ polls: 4, pauseMs: 600_000, outageMs: 10_800_000, since: 0, maxLimit: 50 },
  listMax: 0,
};

test.each(FOUND)('no event is missing on a server where one once was: %j', (server) => {
  expect(pollServer({ ...FOUND_BASE, ...server }).missed).toBe(0);
});

const SERVERS = atNight(10_000, 1_000);

test(`on ${SERVERS} random servers, no event before a watermark and outside the gaps is missing`, {
  timeout: 600_000,
}, () => {
  const seen = { servers: 0, proven: 0, gaps: 0, plainLost: 0 };
  fc.assert(
    fc.property(simulatedServer, (server) => {
      const { missed, polls, plainLoses } = pollServer(server);
      seen.servers += 1;
      seen.proven += polls.at(-1)?.proven === true ? 1 : 0;
      seen.gaps += polls.some(({ opened }) => opened.length > 0) ? 1 : 0;
      seen.plainLost += plainLoses ? 1 : 0;
      expect(missed).toBe(0);
    }),
    { numRuns: SERVERS },
  );
  console.log(
    `${seen.servers} servers: no event is missing; the last poll is proven in ${seen.proven}, gaps in ${seen.gaps}; polls of limit=50 would have lost events in ${seen.plainLost}`,
  );
  expect(seen.plainLost).toBeGreaterThan(seen.servers / 10);
});

test('the property detects that the cap is assumed not to change, and to be the same for a type', {
  timeout: 300_000,
}, () => {
  const result = fc.check(
    fc.property(changingServer, (server) => pollServer(server).missed === 0),
    { numRuns: 20_000, endOnFailure: true },
  );
  expect(result.failed).toBe(true);
});

test('with caps that fall, or differ for a type, no event is missing if the app declares the lowest', {
  timeout: 300_000,
}, () => {
  fc.assert(
    fc.property(declaredServer, (server) => {
      expect(pollServer(server).missed).toBe(0);
    }),
    { numRuns: atNight(10_000, 1_000) },
  );
});

const INSTANT = simulatedServer.map(
  (server): SimulatedServer => ({
    ...{ ...server, stepMs: 100 * 3_600_000, jitterMs: 0, backdated: 0, latenessMs: 0, strays: 0 },
    ...{ backlog: 0, since: 0, clockMs: 0, dateMs: 0 },
  }),
);

test('with all events created at one instant, the start date, no event is missing', {
  timeout: 300_000,
}, () => {
  fc.assert(
    fc.property(INSTANT, (server) => {
      expect(pollServer(server).missed).toBe(0);
    }),
    { numRuns: atNight(3_000, 500) },
  );
});

test('a server that lists its newest events, in either direction and by date or id, is proven at each poll, and an outage leaves one gap at most', {
  timeout: 300_000,
}, () => {
  fc.assert(fc.property(calmServer, expectProvenPolls), { numRuns: atNight(300, 60) });
});

test('a burst of 100,000 events at the same few times shows no order, and the survey ends', () => {
  // To compare each event with each would take much longer than the time limit of this test.
  const burst = Array.from({ length: 100_000 }, (_, index) => ({
    id: `b${index}`,
    type: EVENT_TYPES[0],
    at: index % 7,
  }));
  const steps = surveyList({
    watermark: -1,
    startedAt: 3_600_000,
    lagMs: LAG_MS,
    disorderMs: 1_000,
    limit: 50,
    maxLimit: 100_000,
    state: EMPTY_POLL_STATE,
  });
  let step = steps.next();
  while (!step.done) {
    const { type, limit } = step.value;
    const events = burst.filter((event) => type === null || event.type === type).slice(0, limit);
    step = steps.next({
      ...step.value,
      size: events.length,
      events: byId(events),
      unreadable: [],
      servedAt: null,
    });
  }
  expect(step.value.proofs[EVENT_TYPES[0]]).toMatchObject({ from: Number.POSITIVE_INFINITY });
});

/** A survey that calls everything created after a time proven, for all types or for some. */
function toSurvey(
  { watermark, startedAt, lagMs }: SurveyOptions,
  proofs: number | Partial<Record<EventType, number>>,
): SurveyResult {
  const fromOf = (type: EventType) =>
    typeof proofs === 'number' ? proofs : (proofs[type] ?? Number.POSITIVE_INFINITY);
  const entries = EVENT_TYPES.map((type) => [type, { from: fromOf(type), reason: 'no-order' }]);
  return {
    answered: true,
    watermark: Math.min(watermark, startedAt),
    until: startedAt,
    settledAt: startedAt - lagMs,
    proofs: Object.fromEntries(entries),
    verdicts: [],
    limit: 50,
    oldest: null,
    isAhead: false,
    clocks: { earlier: startedAt, later: startedAt },
    seen: { all: 0, type: 0, listMaxRefuted: false },
    unconfirmed: null,
    isCut: false,
  };
}

const EVERYTHING = Number.NEGATIVE_INFINITY;
const NOTHING = Number.POSITIVE_INFINITY;

function timesOf(answer: ListAnswer | null): readonly number[] {
  return [...(answer?.events.values() ?? [])].map(({ at }) => at);
}

function isNewestFirst(times: readonly number[]): boolean {
  return times.every((at, index) => index === 0 || at <= (times[index - 1] ?? at));
}

/** Rules that look right and are wrong. The property must detect each. */
const MISTAKES: Readonly<
  Record<string, () => Partial<Rules> & { readonly servers?: Partial<SimulatedServer> | undefined }>
> = {
  'an answer smaller than its limit is complete': () => ({
    *survey(options) {
      const answer = yield { type: null, limit: options.maxLimit };
      return toSurvey(options, answer !== null && answer.size < options.maxLimit ? EVERYTHING : NOTHING);
    },
  }),
  'an answer that shows nothing new is complete': () => ({
    *survey(options) {
      const answer = yield { type: null, limit: 50 };
      const again = yield { type: null, limit: 50 };
      const isSame = again !== null && [...again.events.keys()].every((id) => answer?.events.has(id));
      return toSurvey(options, isSame ? EVERYTHING : NOTHING);
    },
  }),
  'an answer is a window, whatever its order': () => ({
    *survey(options) {
      const times = timesOf(yield { type: null, limit: options.maxLimit });
      return toSurvey(options, Math.min(...times) + LAG_MS);
    },
  }),
  'the newest of a sorted list needs no probe': () => ({
    *survey(options) {
      const times = timesOf(yield { type: null, limit: options.maxLimit });
      const isWindow = isNewestFirst(times) && times.length > 20;
      return toSurvey(options, isWindow ? Math.min(...times) + LAG_MS : NOTHING);
    },
  }),
  'a single new event shows reach': () => ({
    *survey(options) {
      const times = timesOf(yield { type: null, limit: 50 });
      const half = timesOf(yield { type: null, limit: 30 });
      const inOrder = times.filter((at, index) => index === 0 || at <= (times[index - 1] ?? at));
      const isWindow = inOrder.length > 20 && half.every((at) => times.includes(at));
      return toSurvey(options, isWindow ? Math.min(...times) + LAG_MS : NOTHING);
    },
  }),
  'a window begins at its oldest event': () => ({
    *survey(options) {
      const times = timesOf(yield { type: null, limit: 50 });
      const half = timesOf(yield { type: null, limit: 25 });
      const isWindow =
        isNewestFirst(times) && times.length > 20 && half.every((at, index) => at === times[index]);
      return toSurvey(options, isWindow ? Math.min(...times) : NOTHING);
    },
    // The last event of a page of such a list is often created long before its neighbour.
    servers: { order: 'listed', backdated: 0.02, latenessMs: 0, clockMs: 0, backlog: 200 },
  }),
  'a window of some types is one of all types': () => ({
    *survey(options) {
      const steps = surveyList(options);
      let step = steps.next();
      // The queries for the types that a window does not show are answered with nothing.
      while (!step.done) {
        const { type, limit } = step.value;
        const nothing = { ...step.value, size: 0, events: byId([]), unreadable: [], servedAt: null };
        step = steps.next(type !== null && limit === 3 ? nothing : yield step.value);
      }
      return step.value;
    },
  }),
  'a filter is applied before the cap': () => ({
    *survey(options) {
      const froms: Partial<Record<EventType, number>> = {};
      for (const type of EVENT_TYPES) {
        const answer = yield { type, limit: options.maxLimit };
        if (answer !== null && answer.size < Math.min(50, options.maxLimit)) froms[type] = EVERYTHING;
      }
      return toSurvey(options, froms);
    },
  }),
  'a complete list has never lost an event': () => ({
    survey: (options) => surveyList({ ...options, state: { ...options.state, oldest: null } }),
  }),
  'an event is listed as soon as it is created': () => ({
    survey: (options) => surveyList({ ...options, lagMs: 0 }),
  }),
  'the clock of this machine is right': () => ({
    *survey(options) {
      const result = yield* surveyList(options);
      const { startedAt, lagMs } = options;
      return { ...result, until: startedAt, settledAt: startedAt - lagMs };
    },
  }),
  'a gap ends at the next proof': () => ({
    advance(state, survey, opening) {
      const next = advance(state, survey, opening);
      return next.proven ? { ...next, state: { ...next.state, gaps: [] } } : next;
    },
  }),
  'the watermark moves on without a gap': () => ({
    advance(state, survey, opening) {
      const next = advance(state, survey, opening);
      return { ...next, state: { ...next.state, gaps: state.gaps } };
    },
  }),
};

test.each(Object.entries(MISTAKES))(
  'the property detects the mistake "%s"',
  { timeout: 300_000 },
  (_, rules) => {
    let detected = 0;
    fc.check(
      fc.property(simulatedServer, (server) => {
        const { servers, ...wrong } = rules();
        const { missed } = pollServer({ ...server, ...servers }, wrong);
        detected += missed;
        return missed === 0;
      }),
      // It ends with the first detection; some mistakes need hundreds of servers.
      { numRuns: 20_000, endOnFailure: true },
    );
    expect(detected).toBeGreaterThan(0);
  },
);
