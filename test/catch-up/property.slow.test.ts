import fc from 'fast-check';
import { createReceiver, EVENT_TYPES, isEventType, memoryInbox, type UnknownEvent } from 'stablehooks';
import { createPoller, type PollerClient } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import {
  createList,
  createRandom,
  LAG_MS,
  POLLS,
  type SimulatedServer,
  simulatedServer,
} from './simulated-list.js';

const START = Date.parse('2026-03-01T12:00:00Z');

interface Faults {
  /** Events before the watermark that the inbox does not have. */
  readonly missed: number;
  readonly twice: number;
  /** Events from before the opening date that the poller handled. */
  readonly old: number;
}

const quiet = { warn: () => undefined, error: () => undefined };

async function run(server: SimulatedServer): Promise<Faults> {
  const list = createList(server);
  const random = createRandom(server.seed + 1);
  let time = 0;
  let poll = 0;
  const effects = new Map<string, number>();
  const inbox = memoryInbox({ now: () => START + time });
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
          events: answer.events.map(toEvent),
          problems: [],
          size: answer.size,
          servedAt: START + time,
        };
      },
    },
  };
  const { maxLimit } = server;
  const since = new Date(START + server.since);
  // An hour ahead for every second server: the service's own clock limits the watermark.
  const now = () => START + time + (server.seed % 2) * 3_600_000;
  const poller = createPoller({
    client,
    receiver,
    maxLimit,
    lagMs: LAG_MS,
    since,
    now,
    logger: quiet,
  });

  let missed = 0;
  for (; poll < POLLS; poll++) {
    const pauseEnd = Math.max(time, poll * server.pauseMs);
    const pushed = list.events.filter(({ pushedAt }) => pushedAt > time - 1 && pushedAt <= pauseEnd);
    time = pauseEnd;
    for (const event of pushed) await receiver.accept(toEvent(event), 'push');
    const watermark = Date.parse((await poller.pollOnce()).watermark ?? '') - START;
    const behind = list.events.filter(
      ({ type, at }) => isEventType(type) && at > server.since && at <= Math.min(watermark, time),
    );
    for (const { id, pushedAt } of behind) {
      if ((await inbox.find(id)) === undefined && pushedAt > time) missed += 1;
    }
  }
  const old = list.events.filter(
    ({ id, at, pushedAt }) => at < server.since && pushedAt > time && effects.has(id),
  );
  return { missed, twice: [...effects.values()].filter((count) => count > 1).length, old: old.length };
}

test('with random servers and failing handlers, no event before the watermark is missing from the inbox, none takes effect twice, and none from before the opening date is handled', {
  timeout: 300_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(simulatedServer, async (server) => {
      expect(await run(server)).toEqual({ missed: 0, twice: 0, old: 0 });
    }),
    { numRuns: 400 },
  );
});
