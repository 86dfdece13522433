/** A client that lost the reply to a script sends it again: ioredis by default, @upstash/redis, and some proxies. */
import { randomUUID } from 'node:crypto';
import { fromIoredis, type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';
import { claimed, someEvent } from './claimed.js';

const LEASE = { leaseMs: 60_000, origin: 'push' } as const;

/** Sends each script twice, and has only the second reply. */
function repeating(redis: RedisLike): RedisLike {
  return {
    async eval(...sent) {
      await redis.eval(...sent);
      return redis.eval(...sent);
    },
    async evalsha(...sent) {
      await redis.evalsha(...sent);
      return redis.evalsha(...sent);
    },
  };
}

describeWithRedis('Redis inbox over a client that sends each script twice', () => {
  const own = ownRedis();

  function open() {
    const prefix = randomUUID();
    const redis = fromIoredis(own.redis);
    return { inbox: redisInbox(repeating(redis), { prefix }), once: redisInbox(redis, { prefix }) };
  }

  test('a claim is answered claimed, uses up one attempt and keeps its lease from others', async () => {
    const { inbox, once } = open();
    const lease = await claimed(inbox);
    expect(lease.attempt).toBe(1);
    expect(await once.find(lease.id)).toMatchObject({ state: 'leased', attempts: 1, history: [] });
    expect(await inbox.claim(someEvent({ id: lease.id }), LEASE)).toMatchObject({ state: 'leased' });
  });

  test('completing succeeds once, and a later call of its own does not', async () => {
    const { inbox, once } = open();
    const lease = await claimed(inbox);
    expect(await inbox.complete(lease)).toBe(true);
    expect(await once.find(lease.id)).toMatchObject({ state: 'done', history: [{ result: 'done' }] });
    expect((await once.find(lease.id))?.history).toHaveLength(1);
    expect(await inbox.complete(lease)).toBe(false);
    expect(await inbox.fail(lease, { retryAfterMs: 0, error: 'late' })).toBe(false);
    expect(await once.find(lease.id)).toMatchObject({ state: 'done', lastError: null });
  });

  test.each([
    ['failed', 1_000],
    ['dead', null],
  ] as const)('failing succeeds once: the event is %s after one attempt', async (state, retryAfterMs) => {
    const { inbox, once } = open();
    const lease = await claimed(inbox);
    expect(await inbox.fail(lease, { retryAfterMs, error: 'no' })).toBe(true);
    const record = await once.find(lease.id);
    expect(record).toMatchObject({ state, attempts: 1, lastError: 'no' });
    expect(record?.history).toMatchObject([{ attempt: 1, result: state, error: 'no' }]);
    expect(await inbox.fail(lease, { retryAfterMs: 0, error: 'again' })).toBe(false);
  });

  test('the end of an attempt makes one event of its key due', async () => {
    const { inbox, once } = open();
    const key = 'wallet';
    const lease = await claimed(inbox, someEvent(), { key });
    const waiting = [someEvent(), someEvent()];
    for (const event of waiting) {
      expect((await inbox.claim(event, { ...LEASE, key })).state).toBe('waiting');
    }
    expect(await inbox.complete(lease)).toBe(true);
    const records = await Promise.all(waiting.map(({ id }) => once.find(id)));
    const later = records.filter((record) => (record?.dueAt ?? 0) > (record?.updatedAt ?? 0));
    expect(later).toHaveLength(1);
  });

  test('the lease of a note and its text are those of one call', async () => {
    const { inbox, once } = open();
    expect(await inbox.leaseNote('a note', { holder: 'a', leaseMs: 60_000 })).toBe(true);
    expect(await inbox.writeNote('a note', 'text', { holder: 'a' })).toBe(true);
    expect(await once.readNote('a note')).toBe('text');
  });

  test('pruning leaves nothing of the calls behind', async () => {
    const { inbox, once } = open();
    const lease = await claimed(inbox);
    await inbox.complete(lease);
    expect(await once.prune({ olderThanMs: 0 })).toBe(1);
    const [key = ''] = await own.redis.keys(`*:event:${lease.id}`);
    expect(await own.redis.hget(key, 'call')).toBeNull();
  });
});
