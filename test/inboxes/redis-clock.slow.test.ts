import { randomUUID } from 'node:crypto';
import type { UnknownEvent } from 'stablehooks';
import { type RedisLike, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const START_MS = 1_767_323_045_678;
const HOUR_MS = 3_600_000;
const KEY = 'redeem_7';
const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const DUE = { dueInMs: 0, origin: 'pull' } as const;
const TAKE = { limit: 16, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

type Inbox = ReturnType<typeof redisInbox>;

const event = (id: string, second = 0): UnknownEvent => ({
  ...exampleEvent('transfer.settled'),
  id,
  created_at: `2026-01-02T03:04:0${second}Z`,
});

async function claimed(inbox: Inbox, id: string, options: { leaseMs?: number; key?: string } = {}) {
  const claim = await inbox.claim(event(id), { ...LEASE, ...options });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${id} was answered ${claim.state}.`);
  return claim.lease;
}

describeWithRedis('the Redis inbox by the clock of its server', () => {
  const own = ownRedis();

  /** An empty inbox, whose scripts read a clock that stands still until the test sets it. */
  function open() {
    const prefix = randomUUID();
    const clock = { ms: START_MS, micros: 0, scripts: 0 };
    const like: RedisLike = {
      evalsha: () => Promise.reject(new Error('NOSCRIPT')),
      eval(script, keys, values) {
        clock.scripts += 1;
        if (clock.scripts > 100) throw new Error('The call does not end.');
        const timed = script.replace("redis.call('TIME')", 'cjson.decode(table.remove(ARGV))');
        expect(timed).not.toBe(script);
        const time = [Math.floor(clock.ms / 1_000), (clock.ms % 1_000) * 1_000 + clock.micros];
        return own.redis.eval(timed, keys.length, ...keys, ...values, JSON.stringify(time.map(String)));
      },
    };
    return {
      inbox: redisInbox(like, { prefix }),
      clock,
    };
  }

  test('the times of a record are those of the server in whole milliseconds, rounded down', async () => {
    const { inbox, clock } = open();
    clock.ms = 1_767_323_045_999;
    clock.micros = 999;
    await inbox.record([event('evt_1')], { dueInMs: 10, origin: 'pull' });
    expect(await inbox.find('evt_1')).toMatchObject({
      receivedAt: 1_767_323_045_999,
      updatedAt: 1_767_323_045_999,
      dueAt: 1_767_323_046_009,
    });
  });

  test('an attempt in the history begins with its claim and ends with its failure, whenever the event was received', async () => {
    const { inbox, clock } = open();
    await inbox.record([event('evt_1')], DUE);
    clock.ms += 1_000;
    const lease = await claimed(inbox, 'evt_1');
    clock.ms += 20;
    await inbox.fail(lease, { retryAfterMs: 0, error: 'no' });
    expect((await inbox.find('evt_1'))?.history).toMatchObject([
      { startedAt: START_MS + 1_000, endedAt: START_MS + 1_020 },
    ]);
  });

  test('a list is in the order in which its events were received, whatever they did since', async () => {
    const { inbox, clock } = open();
    for (const id of ['evt_c', 'evt_b', 'evt_a']) {
      await inbox.record([event(id)], DUE);
      clock.ms += 1;
    }
    for (const id of ['evt_a', 'evt_b', 'evt_c']) {
      const lease = await claimed(inbox, id);
      clock.ms += 1;
      await inbox.fail(lease, { retryAfterMs: null, error: 'no' });
      clock.ms += 1;
    }
    const ids = async (order: 'oldest' | 'newest') =>
      (await inbox.list({ state: 'dead', limit: 9, order })).map(({ id }) => id);
    expect(await ids('oldest')).toEqual(['evt_c', 'evt_b', 'evt_a']);
    expect(await ids('newest')).toEqual(['evt_a', 'evt_b', 'evt_c']);
  });

  test('an event is taken in the millisecond in which it is due, by one script', async () => {
    const { inbox, clock } = open();
    await inbox.record([event('evt_1')], { dueInMs: 10, origin: 'pull' });
    clock.ms += 9;
    expect(await inbox.takeDue(TAKE)).toEqual([]);
    clock.ms += 1;
    clock.scripts = 0;
    expect((await inbox.takeDue(TAKE)).map(({ event: { id } }) => id)).toEqual(['evt_1']);
    expect(clock.scripts).toBe(1);
  });

  test('of events of a key that were created at the same time and received in one millisecond, the one that was received first is due first', async () => {
    const { inbox, clock } = open();
    const lease = await claimed(inbox, 'evt_0', { key: KEY });
    for (const id of ['evt_c', 'evt_b', 'evt_a']) {
      clock.micros += 100;
      expect((await inbox.claim(event(id), { ...LEASE, key: KEY })).state).toBe('waiting');
    }
    await inbox.complete(lease);
    expect((await inbox.takeDue(TAKE)).map(({ event: { id } }) => id)).toEqual(['evt_c']);
  });

  test('the oldest event of a state is counted from the time at which it got there', async () => {
    const { inbox, clock } = open();
    for (const id of ['evt_1', 'evt_2', 'evt_3', 'evt_4']) {
      await inbox.fail(await claimed(inbox, id), { retryAfterMs: HOUR_MS, error: 'no' });
      clock.ms += 1;
    }
    await inbox.requeue('evt_1');
    const failed = (await inbox.count()).find(({ state }) => state === 'failed');
    expect(failed).toEqual({ state: 'failed', count: 3, oldest: START_MS + 1 });
  });
});
