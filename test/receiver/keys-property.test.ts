import fc from 'fast-check';
import { createReceiver, type Inbox, type InboxOperations, memoryInbox, type Receiver } from 'stablehooks';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { anEvent, delivery, secret } from './delivery.js';

const HOUR_MS = 3_600_000;
const EVENTS = 8;
const due = { dueInMs: 0, origin: 'pull' } as const;

/** Ways for events to reach the app: a delivery, an event from the list, a page that a poller records, a redrive. */
const step = fc.record({
  kind: fc.constantFrom('push', 'push', 'push', 'pull', 'page', 'redrive'),
  event: fc.nat(EVENTS - 1),
  process: fc.nat(1),
});

const scenario = fc.record({
  steps: fc.array(step, { minLength: 4, maxLength: 24 }),
  keys: fc.array(fc.constantFrom('a', 'b', undefined), { minLength: EVENTS, maxLength: EVENTS }),
  /** How often the handler of each event fails before it succeeds. */
  failures: fc.array(fc.nat(1), { minLength: EVENTS, maxLength: EVENTS }),
  processes: fc.tuple(
    ...[0, 1].map(() =>
      fc.record({
        answer: fc.constantFrom('handled' as const, 'recorded' as const),
        maxConcurrency: fc.constantFrom(undefined, 1, 2),
      }),
    ),
  ),
});

type Scenario = typeof scenario extends fc.Arbitrary<infer Value> ? Value : never;
type MemoryInbox = Inbox & InboxOperations;

/** Runs a scenario in two receivers that share an inbox; every step of theirs waits for its turn from the scheduler. */
async function runScenario(
  scheduler: fc.Scheduler,
  { steps, keys, failures, processes }: Scenario,
  change: (inbox: MemoryInbox) => MemoryInbox,
) {
  let now = 1_000_000;
  const inbox = change({ ...memoryInbox({ runtime: { now: () => now } }), durable: true });
  const events = keys.map((key, index) =>
    anEvent({
      id: `evt_${index}`,
      created_at: new Date(Date.UTC(2026, 0, 1 + ((index * 5) % EVENTS))).toISOString(),
      payload: { key, index },
    }),
  );
  const running = new Map<string, number>();
  const overlaps: string[] = [];
  const effects = events.map(() => 0);
  const attempts = events.map(() => 0);
  const turn = (name: string) => scheduler.schedule(Promise.resolve(), name);

  const inTurn = (): MemoryInbox => ({
    ...inbox,
    ...Object.fromEntries(
      (['claim', 'complete', 'fail', 'ignore', 'record', 'takeDue'] as const).map((name) => [
        name,
        async (...args: never[]) => {
          await turn(name);
          const answer: unknown = await (inbox[name] as (...values: never[]) => unknown)(...args);
          await turn(`${name} answers`);
          return answer;
        },
      ]),
    ),
  });

  const open = (options: Partial<Scenario['processes'][number]>, own: MemoryInbox): Receiver =>
    createReceiver({
      secret,
      inbox: own,
      ...options,
      logger: { warn: () => undefined, error: () => undefined },
      orderingKey: ({ payload }) => payload['key'] as string | undefined,
      handlers: {
        'transfer.settled': async ({ payload }) => {
          const key = payload['key'] as string | undefined;
          const index = Number(payload['index']);
          if (key !== undefined) {
            running.set(key, (running.get(key) ?? 0) + 1);
            if ((running.get(key) ?? 0) > 1) overlaps.push(key);
          }
          await turn('handler');
          if (key !== undefined) running.set(key, (running.get(key) ?? 0) - 1);
          attempts[index] = (attempts[index] ?? 0) + 1;
          if ((attempts[index] ?? 0) <= (failures[index] ?? 0)) throw new Error('no');
          effects[index] = (effects[index] ?? 0) + 1;
        },
      },
    });

  const receivers = processes.map((options) => open(options, inTurn()));
  const works: Promise<unknown>[] = [];
  const ran = steps.map(async ({ kind, event: index, process }) => {
    const receiver = receivers[process];
    const event = events[index];
    if (receiver === undefined || event === undefined) return;
    await turn(kind);
    if (kind === 'redrive') await receiver.redrive();
    else if (kind === 'pull') await receiver.accept(event, 'pull');
    else if (kind === 'page') await inbox.record(events.slice(index), { ...due, keys: keys.slice(index) });
    else await receiver.receive({ ...(await delivery(event)), waitUntil: (work) => void works.push(work) });
  });
  await scheduler.waitFor(Promise.all(ran));
  await scheduler.waitFor(Promise.all(receivers.map((receiver) => receiver.close())));
  await scheduler.waitFor(Promise.all(works));

  // One more process at a time, when the retry times and the leases of all that ended are over.
  for (let left = EVENTS * 4; left > 0; left--) {
    now += 2 * HOUR_MS;
    const last = open({}, inbox);
    await scheduler.waitFor(last.redrive());
    // A handler that still ran when the clock moves on would lose its lease.
    await scheduler.waitFor(last.close());
  }
  const reached = new Set<number>();
  for (const { kind, event: from } of steps) {
    if (kind === 'page') for (let index = from; index < EVENTS; index++) reached.add(index);
    else if (kind !== 'redrive') reached.add(from);
  }
  const states = await Promise.all(events.map(async ({ id }) => (await inbox.find(id))?.state));
  return { overlaps, effects, states, reached };
}

const property = (change: (inbox: MemoryInbox) => MemoryInbox) =>
  fc.asyncProperty(fc.scheduler(), scenario, async (scheduler, given) => {
    const { overlaps, effects, states, reached } = await runScenario(scheduler, given, change);
    expect(overlaps).toEqual([]);
    for (const [index, effect] of effects.entries()) {
      // A delivery that was refused for want of a slot is not stored.
      if (states[index] === undefined) expect(effect).toBe(0);
      else expect([states[index], effect]).toEqual(['done', 1]);
      if (!reached.has(index)) expect(states[index]).toBeUndefined();
    }
  });

test('in any order of deliveries, polls, redrives and their steps, no two events of a key run at once, and each takes effect once', async () => {
  await fc.assert(
    property((inbox) => inbox),
    { numRuns: atNight(250, 80) },
  );
});

test('the same property fails for an inbox that ignores keys', async () => {
  const ignoring = (inbox: MemoryInbox): MemoryInbox => ({
    ...inbox,
    claim: async (event, { key, ...options }) => {
      const claim = await inbox.claim(event, options);
      return claim.state === 'claimed' ? { ...claim, lease: { ...claim.lease, key } } : claim;
    },
  });
  const { errorInstance } = await fc.check(property(ignoring), { numRuns: 250, endOnFailure: true });
  expect(String(errorInstance)).toMatch(/expected \[ '[ab]'/);
});
