import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';
import { fromIoredis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const HOUR_MS = 3_600_000;
const TYPE = 'transfer.settled';
const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const DUE = { dueInMs: 0, origin: 'pull' } as const;
const LATER = { dueInMs: HOUR_MS, origin: 'pull' } as const;
const PARKED = { dueInMs: null, origin: 'pull' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

type Inbox = ReturnType<typeof redisInbox>;
type Options = { readonly leaseMs?: number; readonly key?: string };

const event = (id: string, second = 0): UnknownEvent => ({
  ...exampleEvent(TYPE),
  id,
  created_at: `2026-01-02T03:04:0${second}Z`,
});

async function claimed(inbox: Inbox, { id, created_at }: UnknownEvent, options: Options = {}) {
  const claim = await inbox.claim({ ...event(id), created_at }, { ...LEASE, ...options });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${id} was answered ${claim.state}.`);
  return claim.lease;
}

const fail = async (inbox: Inbox, id: string, retryAfterMs: number | null, options: Options = {}) =>
  inbox.fail(await claimed(inbox, event(id), options), { retryAfterMs, error: 'no' });

const take = async (inbox: Inbox, options: { readonly limit?: number; readonly types?: string[] } = {}) =>
  (await inbox.takeDue({ ...TAKE, ...options })).map(({ event: { id } }) => id);

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
      evict: (...names: readonly string[]) => own.redis.del(names.map(keyOf)),
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

  test('once every event is done and pruned, Redis keeps the hash of each, its places in two sorted sets, and the set of due times without any', async () => {
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
    const again = await inbox.claim(failed, { ...LEASE, early: true });
    if (again.state !== 'claimed') throw new Error(again.state);
    await inbox.complete(again.lease);
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(8);
    expect(await names()).toEqual([
      `due:${TYPE}`,
      ...events.map(({ id }) => `event:${id}`),
      'in:done',
      'since:done',
    ]);
  });

  test('an event that waits for a key and is claimed after a cache has evicted the holder has no place among those that wait', async () => {
    const { inbox, evict, names } = open();
    await claimed(inbox, event('evt_1'), { key: 'k' });
    expect((await inbox.claim(event('evt_2'), { ...LEASE, key: 'k' })).state).toBe('waiting');
    await evict('holder:k');
    await claimed(inbox, event('evt_2'), { key: 'k' });
    expect(await names()).not.toContain('waiting:k');
  });

  test('takeDue removes the holder of a key whose hash a cache has evicted', async () => {
    const { inbox, evict, names } = open();
    await claimed(inbox, event('evt_1'), { key: 'k' });
    await evict('event:evt_1');
    await inbox.record([event('evt_2')], { ...DUE, keys: ['k'] });
    expect(await take(inbox)).toEqual(['evt_2']);
    expect(await names()).not.toContain('holder:k');
  });

  const BRING: Readonly<Record<string, (inbox: Inbox, id: string, key?: string) => unknown>> = {
    received: (inbox, id, key) => inbox.record([event(id)], { ...LATER, keys: [key] }),
    lapsed: (inbox, id, key) => claimed(inbox, event(id), { leaseMs: 0, ...(key && { key }) }),
    failed: (inbox, id, key) => fail(inbox, id, HOUR_MS, key ? { key } : {}),
    dead: (inbox, id, key) => fail(inbox, id, null, key ? { key } : {}),
    parked: (inbox, id, key) => inbox.record([event(id)], { ...PARKED, keys: [key] }),
    async waiting(inbox, id, key = 'k') {
      await claimed(inbox, event('other'), { key });
      await inbox.claim(event(id), { ...LEASE, key });
    },
  };

  for (const [state, bring] of Object.entries(BRING)) {
    test(`of a ${state} event whose JSON a cache has evicted, Redis has nothing once it was asked for`, async () => {
      for (const key of ['k', undefined]) {
        const { inbox, evict, mentions } = open();
        await bring(inbox, 'evt_gone', key);
        expect((await mentions('evt_gone')).length).toBeGreaterThan(3);
        await evict('json:evt_gone');
        expect(await inbox.find('evt_gone')).toBeUndefined();
        expect(await mentions('evt_gone')).toEqual([]);
      }
    });
  }

  for (const state of ['lapsed', 'dead', 'parked', 'done'] as const) {
    test(`of a ${state} event whose hash a cache has evicted, Redis has nothing once the events were counted and those of its type taken`, async () => {
      const { inbox, evict, mentions } = open();
      if (state === 'done') await inbox.complete(await claimed(inbox, event('evt_gone')));
      else await BRING[state]?.(inbox, 'evt_gone');
      await evict('event:evt_gone');
      expect((await inbox.count()).map(({ count }) => count)).toEqual([0, 0, 0, 0, 0, 0]);
      expect(await take(inbox, { types: [TYPE] })).toEqual([]);
      expect(await mentions('evt_gone')).toEqual([]);
    });
  }

  test('an event whose hash a cache has evicted and that is recorded again has the history of the new one', async () => {
    const { inbox, evict } = open();
    await fail(inbox, 'evt_1', 0);
    await evict('event:evt_1');
    expect(await inbox.record([event('evt_1')], DUE)).toEqual(['new']);
    expect((await inbox.find('evt_1'))?.history).toEqual([]);
    await evict('event:evt_1');
    await fail(inbox, 'evt_1', 0);
    expect((await inbox.find('evt_1'))?.history).toMatchObject([{ attempt: 1, result: 'failed' }]);
  });

  test('the history has the last 10 attempts after each attempt', async () => {
    const { inbox } = open();
    for (let attempt = 1; attempt <= 13; attempt += 1) {
      await fail(inbox, 'evt_1', 0);
      const first = Math.max(1, attempt - 9);
      const attempts = (await inbox.find('evt_1'))?.history.map((each) => each.attempt);
      expect(attempts).toEqual(Array.from({ length: attempt - first + 1 }, (_, index) => first + index));
    }
  });

  for (const order of ['oldest', 'newest'] as const) {
    test(`a list by ${order} continues page by page, whatever the length of its pages`, async () => {
      const { inbox } = open();
      await inbox.record(
        ['evt_1', 'evt_2', 'evt_3', 'evt_4'].map((id) => event(id)),
        DUE,
      );
      const all = idsOf(await inbox.list({ state: 'received', limit: 9, order }));
      expect(all).toHaveLength(4);
      for (const limit of [1, 2, 3]) {
        const seen: string[] = [];
        while (seen.length < all.length) {
          const page = await inbox.list({ state: 'received', limit, order, after: seen.at(-1) });
          expect(page).toHaveLength(Math.min(limit, all.length - seen.length));
          seen.push(...idsOf(page));
        }
        expect(seen).toEqual(all);
      }
    });

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

    test(`a list by ${order} that continues after an event that a cache has evicted is refused`, async () => {
      const { inbox, evict } = open();
      await inbox.record(
        ['evt_1', 'evt_2', 'evt_3'].map((id) => event(id)),
        DUE,
      );
      await evict('event:evt_2');
      const page = await inbox.list({ state: 'received', limit: 9, order });
      expect(page).toHaveLength(2);
      const rest = inbox.list({ state: 'received', limit: 9, order, after: 'evt_2' });
      await expect(rest).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    });

    test(`a page by ${order} has as many records as its limit, although a cache has evicted some between them`, async () => {
      const { inbox, evict } = open();
      const ids = ['evt_1', 'evt_2', 'evt_3', 'evt_4', 'evt_5', 'evt_6', 'evt_7'];
      await inbox.record(
        ids.map((id) => event(id)),
        DUE,
      );
      await evict('event:evt_1', 'event:evt_7');
      const left = ids.slice(1, 6);
      const expected = order === 'oldest' ? left : left.toReversed();
      expect(idsOf(await inbox.list({ state: 'received', limit: 2, order }))).toEqual(expected.slice(0, 2));
    });
  }

  test('takeDue takes as many parked events as its limit', async () => {
    const { inbox } = open();
    await inbox.record(
      ['evt_1', 'evt_2', 'evt_3', 'evt_4', 'evt_5', 'evt_6'].map((id) => event(id)),
      PARKED,
    );
    for (const limit of [1, 2, 3]) {
      expect(await take(inbox, { limit, types: [TYPE] })).toHaveLength(limit);
    }
  });

  test('takeDue takes as many events as its limit, although a cache has evicted the first of them', async () => {
    for (const options of [DUE, PARKED]) {
      const { inbox, evict } = open();
      await inbox.record(
        ['evt_1', 'evt_2', 'evt_3', 'evt_4', 'evt_5', 'evt_6', 'evt_7'].map((id) => event(id)),
        options,
      );
      await evict('event:evt_1');
      expect(await take(inbox, { limit: 3, types: [TYPE] })).toEqual(['evt_2', 'evt_3', 'evt_4']);
    }
  });

  test('takeDue with a limit of 1 takes the event behind one that is not due', async () => {
    const waits = open();
    await claimed(waits.inbox, event('evt_0'), { key: 'k' });
    await waits.inbox.record([event('evt_1')], { ...DUE, keys: ['k'] });
    await waits.inbox.record([event('evt_2')], DUE);
    expect(await take(waits.inbox, { limit: 1 })).toEqual(['evt_2']);

    // Without the due times an event is looked for where it was received.
    const later = open();
    await later.inbox.record([event('evt_1')], LATER);
    await later.inbox.record([event('evt_2')], DUE);
    await later.evict(`due:${TYPE}`);
    expect(await take(later.inbox, { limit: 1 })).toEqual(['evt_2']);
  });

  test('when the due times and another index are evicted, the events of the other indexes are due at their time all the same', async () => {
    const { inbox, evict } = open();
    await inbox.record([event('evt_1')], { ...LATER, keys: ['k'] });
    await fail(inbox, 'evt_2', 0);
    await evict(`due:${TYPE}`, 'in:received');
    await claimed(inbox, event('evt_3'), { key: 'k' });
    // It is due by now, and not in the index of received events.
    expect((await inbox.claim(event('evt_1'), { ...LEASE, key: 'k' })).state).toBe('waiting');
    expect(await take(inbox)).toEqual(['evt_2']);
  });

  test('an entry of the due times of a key counts only for an event that has the key and is not leased', async () => {
    const prepare = async () => {
      const opened = open();
      const { inbox, evict } = opened;
      await inbox.record([event('evt_1', 0), event('evt_2', 1)], { ...DUE, keys: ['k', 'k'] });
      await evict('event:evt_1');
      return opened;
    };
    const gone = await prepare();
    expect(await take(gone.inbox)).toEqual(['evt_2']);
    expect(await gone.mentions('evt_1')).toEqual([]);

    const other = await prepare();
    await other.inbox.record([event('evt_1')], { ...DUE, keys: ['j'] });
    expect((await take(other.inbox)).sort()).toEqual(['evt_1', 'evt_2']);
    expect(await other.mentions('evt_1')).not.toContain(`keyed:16:${TYPE}:k`);

    const leased = await prepare();
    await claimed(leased.inbox, event('evt_1'), { key: 'j' });
    expect(await take(leased.inbox)).toEqual(['evt_2']);
    expect((await leased.inbox.find('evt_1'))?.state).toBe('leased');
  });

  test('a lease of a key that lapses is one attempt in the history, whether takeDue takes its event or makes it wait', async () => {
    const first = open();
    await first.inbox.record([event('evt_1', 1)], { ...DUE, keys: ['k'] });
    await claimed(first.inbox, event('evt_2', 0), { leaseMs: 0, key: 'k' });
    expect(await take(first.inbox)).toEqual(['evt_2']);
    expect((await first.inbox.find('evt_2'))?.history).toMatchObject([{ result: 'lapsed' }]);
    expect(await first.mentions('evt_2')).not.toContain('waiting:k');

    const second = open();
    await second.inbox.record([event('evt_1', 0)], { ...DUE, keys: ['k'] });
    await claimed(second.inbox, event('evt_2', 1), { leaseMs: 0, key: 'k' });
    expect(await take(second.inbox)).toEqual(['evt_1']);
    expect((await second.inbox.find('evt_2'))?.history).toMatchObject([{ result: 'lapsed' }]);
  });

  test('events of a key that were created at the same time and recorded in one step are due in their order, whatever their ids', async () => {
    const { inbox } = open();
    const ids = ['evt_e', 'evt_d', 'evt_c', 'evt_b', 'evt_a'];
    await inbox.record(
      ids.map((id) => event(id)),
      { ...DUE, keys: ids.map(() => 'k') },
    );
    for (const id of ids) {
      expect(await take(inbox)).toEqual([id]);
      await inbox.complete(await claimed(inbox, event(id), { key: 'k' }));
    }
  });
});
