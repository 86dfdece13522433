import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import type { UnknownEvent } from 'stablehooks';
import { fromIoredis, fromNodeRedis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, onTestFinished, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const HOUR_MS = 3_600_000;
const KEY = 'redeem_7';

/** The due events of the key. */
const LEASE = { leaseMs: HOUR_MS, origin: 'push', key: KEY } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

type Inbox = ReturnType<typeof redisInbox>;

/** Events whose ids do not sort as their times of creation do. */
function eventsBySecond(count: number): readonly UnknownEvent[] {
  return Array.from({ length: count }, (_, second) => ({
    ...exampleEvent('transfer.settled'),
    // The first is the last by its id.
    id: `evt_${String(count - 1 - ((second * 7_919) % count)).padStart(5, '0')}`,
    created_at: new Date(1_767_323_045_000 + second * 1_000).toISOString(),
  }));
}

const someEvent = () => ({ ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` });

async function claimed(
  inbox: Inbox,
  event: UnknownEvent,
  options: { readonly leaseMs?: number; readonly key?: string } = {},
) {
  const claim = await inbox.claim(event, { ...LEASE, ...options });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${event.id} was answered ${claim.state}.`);
  return claim.lease;
}

const idsOf = (taken: Awaited<ReturnType<Inbox['takeDue']>>) => taken.map(({ event: { id } }) => id);

describeWithRedis('the ordering keys of the Redis inbox', () => {
  const own = ownRedis();

  /** An empty inbox, and what belongs to it in Redis. */
  function open() {
    const prefix = randomUUID();
    const scripts = { count: 0 };
    const like = fromIoredis(own.redis);
    const counting: RedisLike = {
      eval: like.eval,
      evalsha(...values) {
        scripts.count += 1;
        return like.evalsha(...values);
      },
    };
    return {
      inbox: redisInbox(counting, { prefix }),
      prefix,
      scripts,
      /** The keys that are there for an ordering key. */
      async ofKeys() {
        const all = await own.redis.keys(`{${prefix}}:*`);
        return all.map((key) => key.slice(prefix.length + 3)).filter((key) => /^(holder|waiting):/.test(key));
      },
    };
  }

  test('50 claimers over 5 clients of two kinds never hold a key at the same time, and each event is done once', async () => {
    const prefix = randomUUID();
    const clients = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        if (index % 2 === 0) {
          const client = new Redis(own.server.url);
          onTestFinished(async () => void (await client.quit()));
          return redisInbox(fromIoredis(client), { prefix });
        }
        const client = await createClient({ url: own.server.url }).connect();
        onTestFinished(() => client.close());
        return redisInbox(fromNodeRedis(client), { prefix });
      }),
    );
    const events = eventsBySecond(50);
    let holders = 0;
    let done = 0;
    await Promise.all(
      events.map(async (event, index) => {
        const inbox = clients[index % clients.length] as Inbox;
        for (;;) {
          const claim = await inbox.claim(event, LEASE);
          if (claim.state === 'claimed') {
            holders += 1;
            expect(holders).toBe(1);
            await setImmediate();
            holders -= 1;
            expect(await inbox.complete(claim.lease)).toBe(true);
            done += 1;
            return;
          }
          expect(claim.state).toBe('waiting');
        }
      }),
    );
    expect(done).toBe(50);
  });

  test('an ordering key leaves nothing behind in Redis but in the hashes of its events once they are done, dead, requeued and pruned', async () => {
    const { inbox, prefix, ofKeys } = open();
    const [done, dead, failed, waiting, taken, parked] = eventsBySecond(6);
    if (!done || !dead || !failed || !waiting || !taken || !parked) throw new Error('There are 6.');
    await inbox.record([parked], { dueInMs: null, origin: 'push', keys: [KEY] });
    await inbox.record([taken], { dueInMs: 0, origin: 'push', keys: [KEY] });
    const leases = { done: await claimed(inbox, done) };
    expect((await inbox.claim(waiting, LEASE)).state).toBe('waiting');
    expect((await ofKeys()).sort()).toEqual([`holder:${KEY}`, `waiting:${KEY}`]);
    await inbox.complete(leases.done);
    await inbox.fail(await claimed(inbox, dead), { retryAfterMs: null, error: 'no' });
    await inbox.fail(await claimed(inbox, failed), { retryAfterMs: HOUR_MS, error: 'no' });
    expect(await inbox.requeue(failed.id)).toBe(1);
    for (const event of [failed, waiting, taken, parked]) await inbox.complete(await claimed(inbox, event));
    expect(await ofKeys()).toEqual([]);

    expect(await inbox.requeue(dead.id)).toBe(1);
    expect(idsOf(await inbox.takeDue(TAKE))).toEqual([dead.id]);
    await inbox.complete(await claimed(inbox, dead));
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(6);
    expect(await ofKeys()).toEqual([]);
    const fields = await own.redis.hkeys(`{${prefix}}:event:${dead.id}`);
    expect(fields).not.toContain('turn');
    expect(await inbox.find(dead.id)).toMatchObject({ state: 'done', key: KEY, event: null });
  });

  test('an event whose key is changed or removed by a claim leaves nothing behind at its old key', async () => {
    const { inbox, ofKeys } = open();
    const [first, second] = eventsBySecond(2) as [UnknownEvent, UnknownEvent];
    await claimed(inbox, first, { leaseMs: 0 });
    expect(await inbox.complete(await claimed(inbox, first, { key: 'redeem_8' }))).toBe(true);
    await inbox.record([second], { dueInMs: 0, origin: 'pull', keys: [KEY] });
    const claim = await inbox.claim(second, { leaseMs: HOUR_MS, origin: 'push' });
    expect(claim.state).toBe('claimed');
    expect(await inbox.find(second.id)).toMatchObject({ state: 'leased', key: null });
    expect(await ofKeys()).toEqual([]);
  });

  test('a parked event with a key is taken although the clock of the server was set back', async () => {
    const prefix = randomUUID();
    const { eval: run } = fromIoredis(own.redis);
    const setBack: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      eval: (script, keys, values) =>
        run(script.replace("redis.call('TIME')", "{ '1767323045', '0' }"), keys, values),
    };
    const event = someEvent();
    await redisInbox(fromIoredis(own.redis), { prefix }).record([event], {
      dueInMs: null,
      origin: 'push',
      keys: [KEY],
    });
    const taken = await redisInbox(setBack, { prefix }).takeDue({ ...TAKE, types: [event.type] });
    expect(idsOf(taken)).toEqual([event.id]);
  });

  test('an event whose key is changed keeps its turn among those that were created and received at the same time', async () => {
    const { inbox } = open();
    const events = [someEvent(), someEvent(), someEvent(), someEvent()];
    const [first, second, third, holder] = events as [UnknownEvent, UnknownEvent, UnknownEvent, UnknownEvent];
    await inbox.record([first, second, third], {
      dueInMs: 0,
      origin: 'pull',
      keys: Array(3).fill('redeem_8'),
    });
    const lease = await claimed(inbox, holder);
    for (const event of [third, second, first]) {
      expect((await inbox.claim(event, LEASE)).state).toBe('waiting');
    }
    await inbox.complete(lease);
    expect(idsOf(await inbox.takeDue(TAKE))).toEqual([first.id]);
  });
});
