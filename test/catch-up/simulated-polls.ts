/** Polls of a simulated list in virtual time: the survey and what follows from it, without an inbox or requests. */
import fc from 'fast-check';
import { EMPTY_POLL_STATE, type PollState } from 'stablehooks/catch-up';
import { expect } from 'vitest';
import { type Survey, surveyList } from '../../src/catch-up/coverage.js';
import type { SurveyOptions } from '../../src/catch-up/evidence.js';
import { type Advance, advance } from '../../src/catch-up/gaps.js';
import {
  createAudit,
  createList,
  declaresTooMuch,
  LAG_MS,
  type SimulatedServer,
  simulatedServer,
  startOf,
} from './simulated-list.js';

/** The rules of the poller, or others in their place. */
export interface Rules {
  readonly survey: (options: SurveyOptions) => Survey;
  readonly advance: typeof advance;
}

export interface Polled {
  /** Events that are missing from what is proven, counted at each poll. */
  readonly missed: number;
  readonly polls: readonly Advance[];
  /** Whether a plain poll of the newest 50 would have lost events. */
  readonly plainLoses: boolean;
}

/** Polls a server a few times in virtual time. */
export function pollServer(server: SimulatedServer, rules: Partial<Rules> = {}): Polled {
  const { survey, advance: toNext }: Rules = { survey: surveyList, advance, ...rules };
  const list = createList(server);
  const plainList = createList(server);
  const audit = createAudit(list);
  const plainAudit = createAudit(plainList);
  const recorded = new Set<string>();
  const plain = new Set<string>();
  const polls: Advance[] = [];
  let state: PollState = EMPTY_POLL_STATE;
  let missed = 0;
  let plainMissed = 0;
  let time = 0;
  for (let poll = 0; poll < server.polls; poll++) {
    time = Math.max(time, startOf(server, poll));
    const plainAnswer = plainList.answer({ type: null, limit: 50 }, { time, poll });
    for (const id of plainAnswer?.events.keys() ?? []) plain.add(id);

    const before = state;
    const steps = survey({
      watermark: state.watermark ?? server.since,
      first: state.watermark === null,
      startedAt: time + server.clockMs,
      lagMs: LAG_MS,
      disorderMs: 1_000,
      limit: 50,
      maxLimit: server.maxLimit,
      state,
      listMax: server.listMax,
    });
    let step = steps.next();
    while (!step.done) {
      time += server.roundTripMs / 2;
      const answer = list.answer(step.value, { time, poll });
      time += server.roundTripMs / 2;
      for (const id of answer?.events.keys() ?? []) recorded.add(id);
      step = steps.next(answer);
    }
    const { until } = step.value;
    // Until a poll has an answer, the start date is that of the clocks.
    const since = (state.watermark === null ? null : state.since) ?? Math.min(server.since, until);
    const advanced = toNext({ ...state, since }, step.value, {
      wasAhead: false,
      refused: [],
      stored: [],
      lateFrom: Number.POSITIVE_INFINITY,
    });
    polls.push(advanced);
    state = advanced.state;

    const now = time;
    const seenBy =
      (ids: ReadonlySet<string>) =>
      ({ id, pushedAt }: { readonly id: string; readonly pushedAt: number }) =>
        ids.has(id) || pushedAt <= now;
    // Until an answer shows that the app has declared too much, the poller cannot know.
    if (declaresTooMuch(server) && before.seen?.listMaxRefuted !== true) audit.forget(state);
    missed += audit.missed({ before, after: state, time, isRecorded: seenBy(recorded) }).length;
    const proven = { ...state, gaps: [], watermark: time - LAG_MS };
    plainMissed += plainAudit.missed({ before, after: proven, time, isRecorded: seenBy(plain) }).length;
  }
  return { missed, polls, plainLoses: plainMissed > 0 };
}

/** The mean number of events per minute with which a window of this size is twice as long as needed. */
function calmRate(cap: number): number {
  const intervalMs = 60_000;
  const neededMs = 2 * LAG_MS + intervalMs;
  return (Math.min(cap, 400) / (2 * neededMs)) * intervalMs;
}

/** A server with a window that is long enough for each of its polls, but the one after an outage. */
export const calmServer = fc
  .record({
    server: simulatedServer,
    order: fc.constantFrom('newest', 'listed', 'newest-shown-oldest', 'listed-shown-reversed'),
    cap: fc.oneof(fc.integer({ min: 100, max: 400 }), fc.constant(Number.POSITIVE_INFINITY)),
    outageMs: fc.constantFrom(0, 2 * 3_600_000),
    jitterMs: fc.constantFrom(0, 50, 900),
  })
  .map(({ server, order, cap, outageMs, jitterMs }): SimulatedServer => {
    const [polls, pauseMs] = [12, 60_000];
    const rate = calmRate(cap);
    const minutes = (polls * pauseMs + outageMs) / 60_000;
    return {
      ...server,
      ...{ order, caps: [cap], outageMs, jitterMs, polls, pauseMs, types: 5, maxLimit: 1_000 },
      ...{ backlog: Math.ceil(rate * 120), arrivals: Math.ceil(rate * minutes), since: 0 },
      ...{ faults: 0, filtersLate: false, latenessMs: 0, backdated: 0, stepMs: 1 },
      // Two beside each other make the next event look newer than its place, and the window then proves less.
      strays: Math.min(server.strays, 1),
      ...{ clockMs: 0, dateMs: 0, roundTripMs: 100, retentionMs: Number.POSITIVE_INFINITY },
      // The poll that finds out that the app declared too much proves nothing.
      listMax: server.listMax > cap ? 0 : server.listMax,
    };
  });

/** No event of a calm server is missing, each poll proves everything but the one after an outage, and that leaves one gap at most. */
export function expectProvenPolls(server: SimulatedServer): void {
  const { missed, polls } = pollServer(server);
  const afterOutage = polls[server.polls / 2];
  const others = polls.filter((poll) => poll !== afterOutage);
  expect(missed).toBe(0);
  expect(others.map(({ proven }) => proven)).toEqual(others.map(() => true));
  expect(polls.flatMap(({ opened }) => opened)).toHaveLength(afterOutage?.proven === true ? 0 : 1);
  if (server.outageMs === 0) expect(afterOutage?.proven).toBe(true);
}
