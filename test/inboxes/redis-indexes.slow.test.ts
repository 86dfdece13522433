import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';
import { fromIoredis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';
import { claimed as claimedFor, someEvent } from './claimed.js';

const HOUR_MS = 3_600_000;
const TYPE = 'transfer.settled';
const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const DUE = { dueInMs: 0, origin: 'pull' } as const;
const PARKED = { dueInMs: null, origin: 'pull' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

type Inbox = ReturnType<typeof redisInbox>;
type Options = { readonly leaseMs?: number; readonly key?: string };

const event = (id: string, second = 0) => someEvent({ id, created_at: `2026-01-02T03:04:0${second}Z` });

const claimed = (inbox: Inbox, { id, created_at }: UnknownEvent, options: Options = {}) =>
  claimedFor(inbox, { ...event(id), created_at }, { ...LEASE, ...options });

const fail = async (inbox: Inbox, id: string, retryAfterMs: number | null, options: Options = {}) =>
  inbox.fail(await claimed(inbox, event(id), options), { retryAfterMs, error: 'no' });

const take = async (inbox: Inbox, options: { readonly limit?: number; readonly types?: string[] } = {}) =>
  (await inbox.takeDue({ ...TAKE, ...options })).map(({ id }) => id);

const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);

describeWithRedis('the indexes of the Redis inbox', () => {
  const own = ownRedis();

  /** An empty inbox, and what it has in Redis. */
  function open() {
    const prefix = randomUUID();
    const keyOf = (name: string) => `{${prefix}}:${name}`;
    let scripts = 0;
    const { eval: run } = fromIoredis(own.redis);
    const like: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      eval(...values) {
        scripts += 1;
        if (scripts > 300) throw new Error('The call does not end.');
        return run(...values);
      },
    };
    return {
      inbox: redisInbox(like, { prefix }),
      /** The names of its keys. */
      names: async () => (await own.redis.keys(keyOf('*'))).map((key) => key.slice(prefix.length + 3)).sort(),
      fieldsOf: (id: string) => own.redis.hkeys(keyOf(`event:${id}`)),
      /** The names of the keys that have the id of an event in their name or in what they hold. */
      async mentions(id: string) {
        const found: string[] = [];
        for (const key of await own.redis.keys(keyOf('*'))) {
          const isSet = (await own.redis.type(key)) === 'zset';
          const members = isSet
            ? await own.redis.zrange(key, '0', '-1')
            : [await own.redis.get(key).catch(() => '')];
          if ([key, ...members].some((text) => text?.includes(id))) found.push(key.slice(prefix.length + 3));
        }
        return found.sort();
      },
    };
  }

  test('once every event is done and pruned, Redis keeps the hash of each and its places in two sorted sets', async () => {
    const { inbox, names, fieldsOf } = open();
    const parked = event('evt_1');
    const keyed = event('evt_2');
    const failed = event('evt_3');
    const dead = event('evt_4');
    const lapsed = event('evt_5');
    const holder = event('evt_6');
    const waits = event('evt_7');
    const changes = event('evt_8');
    const events = [parked, keyed, failed, dead, lapsed, holder, waits, changes];
    await inbox.record([parked], PARKED);
    await inbox.record([keyed], { ...PARKED, keys: ['a'] });
    await fail(inbox, failed.id, HOUR_MS);
    expect(await fieldsOf(failed.id)).not.toContain('token');
    await fail(inbox, dead.id, null);
    await inbox.requeue(dead.id);
    await claimed(inbox, lapsed, { leaseMs: 0 });
    const lease = await claimed(inbox, holder, { key: 'b' });
    for (const each of [waits, changes]) {
      expect((await inbox.claim(each, { ...LEASE, key: 'b' })).state).toBe('waiting');
    }
    expect((await take(inbox, { types: [TYPE] })).sort()).toEqual(
      [parked, keyed, dead, lapsed].map(({ id }) => id),
    );
    expect(await fieldsOf(lapsed.id)).not.toContain('token');
    await inbox.complete(await claimed(inbox, changes, { key: 'c' }));
    await inbox.complete(lease);
    for (const each of [parked, keyed, dead, lapsed, waits]) {
      await inbox.complete(await claimed(inbox, each));
    }
    await inbox.complete(await claimedFor(inbox, failed, { early: true }));
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(8);
    expect(await names()).toEqual([
      ...events.map(({ id }) => `event:${id}`),
      ...['in:done', 'since:done', 'version'],
    ]);
  });

  test('a parked event with a key is taken although the clock of the server was set back', async () => {
    const prefix = randomUUID();
    const { eval: run } = fromIoredis(own.redis);
    const setBack: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      eval: (script, keys, values) =>
        run(script.replace("redis.call('TIME')", "{ '1767323045', '0' }"), keys, values),
    };
    const parked = event('parked');
    await redisInbox(fromIoredis(own.redis), { prefix }).record([parked], {
      dueInMs: null,
      origin: 'push',
      keys: ['a'],
    });
    expect(await take(redisInbox(setBack, { prefix }))).toEqual([parked.id]);
  });

  for (const order of ['oldest', 'newest'] as const) {
    test(`a list by ${order} continues behind an event that has left the state, among events of the same time whose ids begin alike or not`, async () => {
      const { inbox } = open();
      await inbox.record(
        ['a', 'a1', 'aa', 'b', 'b1', 'ba', 'bb', 'c'].map((id) => event(id)),
        DUE,
      );
      const all = idsOf(await inbox.list({ state: 'received', limit: 9, order }));
      for (const id of ['a1', 'b', 'ba', 'a', 'c']) {
        await claimed(inbox, event(id));
        const left = idsOf(await inbox.list({ state: 'received', limit: 9, order }));
        const rest = await inbox.list({ state: 'received', limit: 9, order, after: id });
        expect(idsOf(rest)).toEqual(left.filter((each) => all.indexOf(each) > all.indexOf(id)));
      }
    });
  }
});
