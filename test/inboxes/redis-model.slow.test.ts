import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';
import {
  anyEvent,
  type Command,
  claims,
  commonCommands,
  events,
  ms,
  openMemory,
  play,
  records,
  START_MS,
  STATES,
  someTypes,
  type World,
} from './model.js';

const anyKey = fc.constantFrom(undefined, 'a', 'a', 'a', 'b', 'b');

const commands: fc.Arbitrary<Command> = fc.oneof(
  ...commonCommands(fc.constant('no')),
  claims(fc.record({ origin: fc.constant('push'), leaseMs: ms, early: fc.boolean(), key: anyKey })),
  records(
    // Of events that are received in one millisecond without a key, Redis does not know which one was first.
    fc.oneof(
      fc.array(fc.tuple(anyEvent, fc.constantFrom('a', 'b')), { maxLength: 8 }),
      fc.tuple(fc.tuple(anyEvent, anyKey)),
    ),
    fc.record({ origin: fc.constant('pull'), dueInMs: fc.option(ms) }),
  ),
  anyEvent.map<Command>(
    (event) =>
      ({ inbox }) =>
        inbox.ignore([event, event], { origin: 'push' }),
  ),
  fc.record({ visibilityTimeoutMs: ms, types: someTypes }).map<Command>((options) => async ({ inbox }) => {
    const taken = await inbox.takeDue({ limit: 100, ...options });
    return taken.map(({ id }) => id).sort();
  }),
  fc.constant<Command>(({ inbox }) => inbox.prune({ olderThanMs: 0 })),
);

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

  test('the Redis inbox returns the same as the memory inbox for random sequences of calls, and keeps nothing of a key that no open event has', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commands, { maxLength: 60, size: 'max' }), async (sequence) => {
        const prefix = randomUUID();
        const world = openWithClock(prefix);
        expect(await play(world, sequence, 1)).toEqual(await play(openMemory(), sequence, 1));

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
