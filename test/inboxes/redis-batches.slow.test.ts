import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';
import { fromIoredis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const HOUR_MS = 3_600_000;
const TYPE = 'transfer.settled';
const KEY = 'redeem_7';
const DUE = { dueInMs: 0, origin: 'pull' } as const;
const LATER = { dueInMs: HOUR_MS, origin: 'pull' } as const;
const PARKED = { dueInMs: null, origin: 'pull' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

type Inbox = ReturnType<typeof redisInbox>;

/** Events in the order in which they were created. */
const someEvents = (count: number, name = 'evt'): readonly UnknownEvent[] =>
  Array.from({ length: count }, (_, index) => ({
    ...exampleEvent(TYPE),
    id: `${name}_${String(index).padStart(5, '0')}`,
    created_at: new Date(1_767_323_045_000 + index).toISOString(),
  }));

async function claimed(inbox: Inbox, event: UnknownEvent) {
  const claim = await inbox.claim(event, { leaseMs: HOUR_MS, origin: 'push', key: KEY });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${event.id} was answered ${claim.state}.`);
  return claim.lease;
}

const hashesOf = (events: readonly UnknownEvent[]) => events.map(({ id }) => `event:${id}`);

const idsOf = (taken: Awaited<ReturnType<Inbox['takeDue']>>) => taken.map(({ event: { id } }) => id);

/** Redis runs nothing else while it runs a script, so none may run for long. */
describeWithRedis('the work of one script of the Redis inbox', () => {
  const own = ownRedis();

  /** How many commands the server has run. */
  async function countCommands(): Promise<number> {
    const stats = await own.redis.info('commandstats');
    const calls = [...stats.matchAll(/^cmdstat_(\w+):calls=(\d+)/gm)];
    return calls.reduce((sum, [, name, count]) => (name === 'info' ? sum : sum + Number(count)), 0);
  }

  /** An inbox whose due times were not evicted, and how many commands each script since has run. */
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
      evict: (...names: readonly string[]) => own.redis.del(names.map((name) => `{${prefix}}:${name}`)),
    };
  }

  test.each([
    [999, 1],
    [1_000, 2],
    [2_999, 3],
    [3_000, 4],
  ])('the number of scripts in which takeDue corrects %d wrong entries is %d', async (count, scripts) => {
    const { inbox, commands, evict } = await open();
    const events = someEvents(count);
    await inbox.record(events, DUE);
    await evict(...hashesOf(events));
    // They are of another type now, and in the index of this one.
    await inbox.record(
      events.map((event) => ({ ...event, type: 'mint.completed' })),
      LATER,
    );
    commands.length = 0;
    expect(await inbox.takeDue({ ...TAKE, types: [TYPE] })).toEqual([]);
    expect(commands).toHaveLength(scripts);
  });

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

  test('takeDue forgets 3,000 events that a cache has evicted in 21 scripts of at most 3,000 commands', async () => {
    const { inbox, commands, evict } = await open();
    const events = someEvents(3_000);
    await inbox.record(events, DUE);
    await evict(...hashesOf(events));
    commands.length = 0;
    expect(await inbox.takeDue(TAKE)).toEqual([]);
    expect(commands.length).toBeLessThanOrEqual(21);
    expect(Math.max(...commands)).toBeLessThan(3_000);
  });

  test('the end of a lease makes the event due that waits behind 900 evicted ones, and looks at no more than 1,000', async () => {
    const { inbox, commands, evict } = await open();
    const [holder, ...events] = someEvents(3_001);
    const next = events[900];
    if (!holder || !next) throw new Error('There are 3,001.');
    const lease = await claimed(inbox, holder);
    await inbox.record(events, { ...DUE, keys: events.map(() => KEY) });
    expect(await inbox.takeDue(TAKE)).toEqual([]);
    await evict(...hashesOf(events.slice(0, 900)));
    expect(await inbox.complete(lease)).toBe(true);
    expect(idsOf(await inbox.takeDue(TAKE))).toEqual([next.id]);

    const second = await claimed(inbox, next);
    await evict(...hashesOf(events.slice(901)));
    commands.length = 0;
    expect(await inbox.complete(second)).toBe(true);
    expect(commands).toHaveLength(1);
    expect(Math.max(...commands)).toBeLessThan(2_100);
  });

  test('one script of takeDue compares 800 events of two keys, and no more than 1,000 of keys that have more', async () => {
    const few = await open();
    for (const key of ['a', 'b']) {
      await few.inbox.record(someEvents(400, key), { ...DUE, keys: Array(400).fill(key) });
    }
    few.commands.length = 0;
    expect(idsOf(await few.inbox.takeDue(TAKE)).sort()).toEqual(['a_00000', 'b_00000']);
    expect(few.commands).toHaveLength(1);

    const many = await open();
    for (const [key, count] of [['a', 900] as const, ['b', 1_800] as const]) {
      await many.inbox.record(someEvents(count, key), { ...DUE, keys: Array(count).fill(key) });
    }
    many.commands.length = 0;
    const taken = [...(await many.inbox.takeDue(TAKE)), ...(await many.inbox.takeDue(TAKE))];
    expect(idsOf(taken).sort()).toEqual(['a_00000', 'b_00000']);
    expect(Math.max(...many.commands)).toBeLessThan(12_000);
  });

  /** Records due events of keys, each after as many that a cache evicts and that then are due later without a key. */
  async function openWithWrongEntries(count: number) {
    const opened = await open();
    const { inbox, evict } = opened;
    const due: string[] = [];
    for (const key of ['a', 'b', 'c']) {
      const events = someEvents(count + 1, key);
      await inbox.record(events, { ...DUE, keys: events.map(() => key) });
      await evict(...hashesOf(events.slice(0, count)));
      await inbox.record(events.slice(0, count), LATER);
      due.push(events[count]?.id ?? '');
    }
    opened.commands.length = 0;
    return { ...opened, due };
  }

  test('one script of takeDue passes over 900 wrong entries of three keys and takes the event of each, and the next finds none of them', async () => {
    const { inbox, commands, due } = await openWithWrongEntries(300);
    expect(idsOf(await inbox.takeDue(TAKE)).sort()).toEqual(due);
    expect(commands).toHaveLength(1);
    commands.length = 0;
    expect(await inbox.takeDue(TAKE)).toEqual([]);
    await inbox.record(someEvents(1, 'd'), { ...DUE, keys: ['a'] });
    expect(idsOf(await inbox.takeDue(TAKE))).toEqual(['d_00000']);
    expect(Math.max(...commands)).toBeLessThan(50);
  });

  test('one script of takeDue passes over no more than 1,000 of 2,400 wrong entries of three keys, and further calls take the event of each', async () => {
    const { inbox, commands, due } = await openWithWrongEntries(800);
    const taken: string[] = [];
    while (taken.length < 3) taken.push(...idsOf(await inbox.takeDue(TAKE)));
    expect(taken.sort()).toEqual(due);
    expect(Math.max(...commands)).toBeLessThan(4_000);
  });

  test('takeDue takes as many events as its limit, also when it is more than 1,000', async () => {
    for (const options of [DUE, PARKED]) {
      const { inbox } = await open();
      await inbox.record(someEvents(1_500), options);
      expect(await inbox.takeDue({ ...TAKE, limit: 1_500, types: [TYPE] })).toHaveLength(1_500);
    }
  });

  test('the events of a key that were passed over are due again after the visibility timeout, also when there are more than one script compares', async () => {
    const { inbox } = await open();
    const events = someEvents(1_500);
    await inbox.record(events, { ...DUE, keys: events.map(() => KEY) });
    expect(idsOf(await inbox.takeDue(TAKE))).toEqual(['evt_00000']);
    for (const { updatedAt, dueAt } of await inbox.list({ state: 'received', limit: 1_500 })) {
      expect(Number(dueAt) - updatedAt).toBe(HOUR_MS);
    }
  });

  test('takeDue looks at 500 events that are due later only once after a cache has evicted the due times', async () => {
    const { inbox, commands, evict } = await open();
    await inbox.record(someEvents(500), LATER);
    for (const isEvicted of [false, true]) {
      if (isEvicted) {
        await evict(`due:${TYPE}`);
        expect(await inbox.takeDue(TAKE)).toEqual([]);
        expect(Math.max(...commands)).toBeGreaterThan(500);
      }
      commands.length = 0;
      expect(await inbox.takeDue(TAKE)).toEqual([]);
      expect(Math.max(...commands)).toBeLessThan(20);
    }
  });
});
