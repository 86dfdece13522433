import fc from 'fast-check';
import { createReceiver, EVENT_TYPES, memoryInbox, type UnknownEvent } from 'stablehooks';
import { createPoller, type PollerClient, type PollState, readPollState } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import {
  createAudit,
  createList,
  createRandom,
  LAG_MS,
  type SimulatedServer,
  simulatedServer,
  startOf,
} from './simulated-list.js';

const START = Date.parse('2026-03-01T12:00:00Z');

interface Faults {
  /** Events before the watermark and outside the gaps that the inbox does not have. */
  readonly missed: number;
  readonly twice: number;
  /** Events from before the start date that the poller handled. */
  readonly old: number;
}

const quiet = { warn: () => undefined, error: () => undefined };

/** The same state, with times in ms since the first poll. */
function sinceStart(state: PollState): PollState {
  const shift = (at: number | null) => (at === null ? null : at - START);
  const gaps = state.gaps.map((gap) => ({
    ...gap,
    from: gap.from - START,
    until: Object.fromEntries(Object.entries(gap.until).map(([type, end]) => [type, end - START])),
  }));
  const oldest = state.oldest && {
    at: shift(state.oldest.at),
    // 0: push brought it, and no poll saw it in the list.
    seenAt: state.oldest.seenAt === 0 ? Number.NEGATIVE_INFINITY : state.oldest.seenAt - START,
  };
  return { ...state, since: shift(state.since), watermark: shift(state.watermark), gaps, oldest };
}

async function run(server: SimulatedServer): Promise<Faults> {
  const list = createList(server);
  const random = createRandom(server.seed + 1);
  let time = 0;
  let poll = 0;
  const effects = new Map<string, number>();
  const inbox = memoryInbox({ runtime: { now: () => START + time } });
  const handler = ({ id }: UnknownEvent) => {
    if (random() < 0.1) throw new Error('try again');
    effects.set(id, (effects.get(id) ?? 0) + 1);
  };
  const receiver = createReceiver({
    secret: 'secret',
    inbox,
    logger: quiet,
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, handler])),
  });
  const toEvent = ({
    id,
    type,
    at,
  }: {
    readonly id: string;
    readonly type: string;
    readonly at: number;
  }) => ({
    id,
    type,
    created_at: new Date(START + at).toISOString(),
    payload: {},
  });
  const client: PollerClient = {
    events: {
      listWithProblems: async ({ type, limit }) => {
        time += server.roundTripMs;
        const known = type === undefined ? null : type;
        const answer = list.answer({ type: known, limit }, { time, poll });
        if (answer === null) throw new Error('503');
        return {
          events: [...answer.events.values()].map(toEvent),
          problems: [],
          size: answer.size,
          servedAt: answer.servedAt === null ? null : START + answer.servedAt,
        };
      },
    },
  };
  const { maxLimit } = server;
  const since = new Date(START + server.since);
  const now = () => START + time + server.clockMs;
  const poller = createPoller({
    client,
    receiver,
    maxLimit,
    lagMs: LAG_MS,
    since,
    runtime: { now },
    logger: quiet,
  });

  const audit = createAudit(list);
  let missed = 0;
  for (; poll < server.polls; poll++) {
    const pauseEnd = Math.max(time, startOf(server, poll));
    const pushed = list.events.filter(({ pushedAt }) => pushedAt > time - 1 && pushedAt <= pauseEnd);
    time = pauseEnd;
    for (const event of pushed) await receiver.accept(toEvent(event), 'push');
    const before = await readPollState(inbox);
    await poller.pollOnce();
    const after = await readPollState(inbox);
    const stored = new Set<string>();
    for (const { id } of list.events) if ((await inbox.find(id)) !== undefined) stored.add(id);
    missed += audit.missed({
      before: sinceStart(before),
      after: sinceStart(after),
      time,
      isRecorded: ({ id, pushedAt }) => stored.has(id) || pushedAt <= time,
    }).length;
  }
  // Earlier than the date that was given if a clock is behind.
  const opening = sinceStart(await readPollState(inbox)).since ?? server.since;
  const old = list.events.filter(
    ({ id, at, pushedAt }) => at < opening && pushedAt > time && effects.has(id),
  );
  return { missed, twice: [...effects.values()].filter((count) => count > 1).length, old: old.length };
}

test('with random servers and failing handlers, no event before the watermark is missing from the inbox, none takes effect twice, and none from before the start date is handled', {
  timeout: 300_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(simulatedServer, async (server) => {
      expect(await run(server)).toEqual({ missed: 0, twice: 0, old: 0 });
    }),
    { numRuns: atNight(400, 100) },
  );
});
