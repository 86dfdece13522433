import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { type InboxState, memoryInbox, type UnknownEvent } from 'stablehooks';
import { type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

type TestedInbox = ReturnType<typeof memoryInbox>;
type Claim = Awaited<ReturnType<TestedInbox['claim']>>;

/** An inbox with its clock and the leases that it gave; the tokens of two inboxes differ. */
interface World {
  readonly inbox: TestedInbox;
  readonly pass: (ms: number) => void;
  readonly leases: Extract<Claim, { state: 'claimed' }>['lease'][];
}

/** Calls the inbox and returns plain data, which must be the same for both inboxes. */
type Command = (world: World) => unknown;

const START_MS = 1_767_323_045_678;
const TYPES = ['transfer.settled', 'mint.completed'];
const STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];
// Created in another order than that of their ids, some of them at the same time.
const CREATED = [3, 1, 2, 1, 3, 0];
const events: readonly UnknownEvent[] = CREATED.map((second, index) => ({
  id: `evt_${index}`,
  type: TYPES[index % 2] ?? '',
  created_at: `2026-01-02T03:04:0${second}Z`,
  payload: { index },
}));

const anyEvent = fc.constantFrom(...events);
const anyKey = fc.constantFrom(undefined, 'a', 'a', 'a', 'b', 'b');
const traceparent = fc.constantFrom(undefined, 'trace 1', 'trace 2');
const ms = fc.constantFrom(0, 10, 20, 40);
const pick = fc.nat(30);

const commands: fc.Arbitrary<Command> = fc.oneof(
  fc
    .tuple(anyEvent, fc.record({ leaseMs: ms, early: fc.boolean(), key: anyKey, traceparent }))
    .map<Command>(([event, options]) => async ({ inbox, leases }) => {
      const claim = await inbox.claim(event, { origin: 'push', ...options });
      if (claim.state !== 'claimed') return claim;
      const { token: _, ...lease } = claim.lease;
      leases.push(claim.lease);
      return lease;
    }),
  pick.map<Command>((index) => async ({ inbox, leases }) => {
    const lease = leases[index % leases.length];
    return lease && inbox.complete(lease);
  }),
  fc.tuple(pick, fc.option(ms)).map<Command>(([index, retryAfterMs]) => async ({ inbox, leases }) => {
    const lease = leases[index % leases.length];
    return lease && inbox.fail(lease, { retryAfterMs, error: 'no' });
  }),
  fc
    .tuple(
      // Of events that are received in one millisecond without a key, Redis does not know which one was first.
      fc.oneof(
        fc.array(fc.tuple(anyEvent, fc.constantFrom('a', 'b')), { maxLength: 8 }),
        fc.tuple(fc.tuple(anyEvent, anyKey)),
      ),
      fc.record({ dueInMs: fc.option(ms), traceparent }),
    )
    .map<Command>(
      ([page, options]) =>
        ({ inbox }) =>
          inbox.record(
            page.map(([event]) => event),
            { ...options, origin: 'pull', keys: page.map(([, key]) => key) },
          ),
    ),
  fc.tuple(anyEvent, traceparent).map<Command>(
    ([event, traceparent]) =>
      ({ inbox }) =>
        inbox.ignore([event, event], { origin: 'push', traceparent }),
  ),
  fc
    .record({ visibilityTimeoutMs: ms, types: fc.subarray(TYPES) })
    .map<Command>((options) => async ({ inbox }) => {
      const taken = await inbox.takeDue({ limit: 100, ...options });
      return taken.map(({ event: { id } }) => id).sort();
    }),
  anyEvent.map<Command>(
    ({ id }) =>
      ({ inbox }) =>
        inbox.requeue(id),
  ),
  fc.constantFrom(undefined, ...STATES).map<Command>((state) => async ({ inbox }) => {
    const first = await inbox.list({ state, limit: 2 });
    return [first, await inbox.list({ state, limit: 2, after: first.at(-1)?.id })];
  }),
  fc.constant<Command>(({ inbox }) => inbox.prune({ olderThanMs: 0 })),
  ms.map<Command>(
    (passed) =>
      async ({ pass }) =>
        pass(passed),
  ),
);

/** Runs the commands in order and returns their results, with all counts and records after each. */
async function play(world: World, sequence: readonly Command[]): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (const command of sequence) {
    seen.push(await command(world), await world.inbox.count());
    seen.push(await Promise.all(events.map(({ id }) => world.inbox.find(id))));
    world.pass(1);
  }
  return seen;
}

describeWithRedis('the Redis inbox with ordering keys', () => {
  const own = ownRedis();

  /** An inbox whose scripts read a clock of the test instead of the server's; each reads a later microsecond. */
  function openWithClock(prefix: string): World {
    let nowMs = START_MS;
    let micros = 0;
    const like: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      eval(script, keys, values) {
        micros = (micros + 1) % 1_000;
        const time = `{ '${Math.floor(nowMs / 1_000)}', tostring(${(nowMs % 1_000) * 1_000} + ARGV[#ARGV]) }`;
        const timed = script.replace("redis.call('TIME')", `${time}\ntable.remove(ARGV)`);
        expect(timed).not.toBe(script);
        return own.redis.eval(timed, keys.length, ...keys, ...values, String(micros));
      },
    };
    const pass = (passed: number) => {
      nowMs += passed;
      if (passed > 0) micros = 0;
    };
    return { inbox: redisInbox(like, { prefix }), pass, leases: [] };
  }

  function openMemory(): World {
    let nowMs = START_MS;
    const pass = (passed: number) => {
      nowMs += passed;
    };
    return { inbox: memoryInbox({ runtime: { now: () => nowMs } }), pass, leases: [] };
  }

  test('the Redis inbox returns the same as the memory inbox for random sequences of calls, and keeps nothing of a key that no open event has', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commands, { maxLength: 60, size: 'max' }), async (sequence) => {
        const prefix = randomUUID();
        const world = openWithClock(prefix);
        expect(await play(world, sequence)).toEqual(await play(openMemory(), sequence));

        const { inbox } = world;
        for (const state of STATES) {
          for (const { id } of await inbox.list({ state, limit: 9 })) await inbox.requeue(id);
        }
        world.pass(1_000);
        for (const event of events) {
          const claim = await inbox.claim(event, { leaseMs: 1_000, origin: 'push', key: 'a' });
          if (claim.state === 'claimed') expect(await inbox.complete(claim.lease)).toBe(true);
          else expect(claim.state).toBe('done');
        }
        const left = (await own.redis.keys(`{${prefix}}:*`)).map((key) => key.slice(prefix.length + 3));
        expect(left.filter((key) => /^(holder|waiting):/.test(key))).toEqual([]);
      }),
      { numRuns: atNight(300, 100) },
    );
    // 6,000 round trips and more: minutes, when several processes keep both cores busy.
  }, 600_000);
});
