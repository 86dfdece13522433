import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';
import { fromIoredis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const HOUR_MS = 3_600_000;
const TYPE = 'transfer.settled';
const DUE = { dueInMs: 0, origin: 'pull' } as const;
const PARKED = { dueInMs: null, origin: 'pull' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

/** Events in the order in which they were created. */
const someEvents = (count: number, name = 'evt'): readonly UnknownEvent[] =>
  Array.from({ length: count }, (_, index) => ({
    ...exampleEvent(TYPE),
    id: `${name}_${String(index).padStart(5, '0')}`,
    created_at: new Date(1_767_323_045_000 + index).toISOString(),
  }));

/** Redis runs nothing else while it runs a script, so none may run for long. */
describeWithRedis('the work of one script of the Redis inbox', () => {
  const own = ownRedis();

  /** How many commands the server has run. */
  async function countCommands(): Promise<number> {
    const stats = await own.redis.info('commandstats');
    const calls = [...stats.matchAll(/^cmdstat_(\w+):calls=(\d+)/gm)];
    return calls.reduce((sum, [, name, count]) => (name === 'info' ? sum : sum + Number(count)), 0);
  }

  /** An inbox, and how many commands each script since has run. */
  async function open() {
    const prefix = randomUUID();
    const commands: number[] = [];
    const { eval: run } = fromIoredis(own.redis);
    const like: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      async eval(...values) {
        if (commands.length > 100) throw new Error('The call does not end.');
        const before = await countCommands();
        const reply = await run(...values);
        commands.push((await countCommands()) - before);
        return reply;
      },
    };
    const inbox = redisInbox(like, { prefix });
    await inbox.takeDue(TAKE);
    return {
      inbox,
      commands,
    };
  }

  test('takeDue runs as many commands when 3,000 events of another type have been due for longer', async () => {
    const { inbox, commands } = await open();
    const events = someEvents(3_002);
    const others = events.slice(2).map((event) => ({ ...event, type: 'mint.completed' }));
    await inbox.record(others, { dueInMs: -HOUR_MS, origin: 'pull' });
    await inbox.record(events.slice(0, 2), DUE);
    commands.length = 0;
    expect(await inbox.takeDue(TAKE)).toHaveLength(2);
    expect(commands).toHaveLength(1);
    expect(Math.max(...commands)).toBeLessThan(40);
  });

  test('takeDue takes as many events as its limit, also when it is more than 1,000', async () => {
    for (const options of [DUE, PARKED]) {
      const { inbox } = await open();
      await inbox.record(someEvents(1_600), options);
      expect(await inbox.takeDue({ ...TAKE, limit: 1_500, types: [TYPE] })).toHaveLength(1_500);
    }
  });
});
