import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { createReceiver, type InboxState, type UnknownEvent } from 'stablehooks';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { expect, onTestFinished, test } from 'vitest';
import { ownRedis } from '../services/own-redis.js';
import { startRedis } from '../services/redis.js';
import { describeWithRedis } from '../services/with-redis.js';

const HOUR_MS = 3_600_000;
const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const TYPE = 'transfer.settled';
const TAKE = { limit: 100, visibilityTimeoutMs: HOUR_MS, types: [TYPE] } as const;
const STATES = ['received', 'leased', 'failed', 'done', 'dead', 'parked'] as const;

const event = (id: string): UnknownEvent => ({
  id,
  type: TYPE,
  created_at: '2026-01-02T03:04:05Z',
  payload: { amount: '10.50' },
});

type Inbox = ReturnType<typeof redisInbox>;

async function claimed(inbox: Inbox, id: string) {
  const claim = await inbox.claim(event(id), LEASE);
  if (claim.state !== 'claimed') throw new Error(`The claim of ${id} was answered ${claim.state}.`);
  return claim.lease;
}

/** Brings a new event into a state; a received one is due now, a failed one in an hour. */
const bring: Readonly<Record<InboxState, (inbox: Inbox, id: string) => unknown>> = {
  received: (inbox, id) => inbox.record([event(id)], { dueInMs: 0, origin: 'pull' }),
  leased: (inbox, id) => claimed(inbox, id),
  failed: async (inbox, id) => inbox.fail(await claimed(inbox, id), { retryAfterMs: HOUR_MS, error: 'no' }),
  done: async (inbox, id) => inbox.complete(await claimed(inbox, id)),
  dead: async (inbox, id) => inbox.fail(await claimed(inbox, id), { retryAfterMs: null, error: 'no' }),
  parked: (inbox, id) => inbox.record([event(id)], { dueInMs: null, origin: 'push' }),
};

/** Every kind of key that the inbox has, for an event in a state. */
const KEYS = {
  'the event': (id: string) => `event:${id}`,
  'the JSON': (id: string) => `json:${id}`,
  'the history': (id: string) => `history:${id}`,
  'the events of a state': (_: string, state: string) => `in:${state}`,
  'the ages of a state': (_: string, state: string) => `since:${state}`,
  'the due times of a type': () => `due:${TYPE}`,
  'the events to prune': () => 'whole',
  'the state of the poller': () => 'poll',
} as const;

const CASES = STATES.flatMap((state) => Object.entries(KEYS).map(([kind, key]) => ({ state, kind, key })));

describeWithRedis('the Redis inbox over a cache', () => {
  const own = ownRedis();

  /** An empty inbox, and a function that deletes one of its keys, as an eviction does. */
  function open() {
    const prefix = randomUUID();
    const inbox = redisInbox(fromIoredis(own.redis), { prefix, durable: false });
    return { inbox, prefix, evict: (key: string) => own.redis.del(`{${prefix}}:${key}`) };
  }

  for (const { state, kind, key } of CASES) {
    test(`when ${kind} of a ${state} event is evicted, no call fails and other events run`, async () => {
      const { inbox, evict } = open();
      const others = STATES.map((each) => ({ id: `evt_other_${each}`, state: each }));
      for (const other of others) await bring[other.state](inbox, other.id);
      await bring[state](inbox, 'evt_gone');
      await inbox.acquirePoll({ holder: 'a', leaseMs: HOUR_MS });
      await evict(key('evt_gone', state));

      const isGone = (await inbox.find('evt_gone')) === undefined;
      for (const each of STATES) {
        const listing = inbox.list({ state: each, limit: 2, after: 'evt_gone' });
        // The index of its state can still have its place. Else the caller has to start again.
        if (isGone && (each !== state || kind === 'the JSON'))
          await expect(listing).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
        else await listing;
      }
      await inbox.count();
      await inbox.acquirePoll({ holder: 'b', leaseMs: 0 });
      const taken = await inbox.takeDue(TAKE);
      for (const { event: each, json } of taken) expect(JSON.parse(json)).toEqual(event(each.id));
      const ids = taken.map(({ event: { id } }) => id);
      expect(ids).toContain('evt_other_received');
      expect(ids).toContain('evt_other_parked');
      await inbox.prune({ olderThanMs: 0 });
      await inbox.requeue('evt_gone');

      for (const id of ['evt_other_received', 'evt_other_parked', 'evt_new']) {
        expect(await inbox.complete(await claimed(inbox, id))).toBe(true);
      }
      const all = others.map((other) => event(other.id));
      const recorded = await inbox.record([event('evt_gone'), ...all], { dueInMs: 0, origin: 'pull' });
      expect(recorded.slice(1)).toEqual(['done', 'leased', 'failed', 'done', 'dead', 'done']);
      for (const each of STATES) {
        const records = await inbox.list({ state: each, limit: 100 });
        for (const record of records) expect(record.state).toBe(each);
      }
    });
  }

  const FORGOTTEN = STATES.flatMap((state) => [
    { state, kind: 'hash', key: KEYS['the event'] },
    ...(state === 'done' || state === 'leased' ? [] : [{ state, kind: 'JSON', key: KEYS['the JSON'] }]),
  ]);

  for (const { state, kind, key } of FORGOTTEN) {
    test(`a ${state} event whose ${kind} is evicted is unknown, and is claimed as new`, async () => {
      const { inbox, evict } = open();
      await bring[state](inbox, 'evt_gone');
      await evict(key('evt_gone'));
      expect(await inbox.find('evt_gone')).toBeUndefined();
      expect(await inbox.takeDue(TAKE)).toEqual([]);
      for (const each of STATES) expect(await inbox.list({ state: each, limit: 9 })).toEqual([]);
      expect((await inbox.count()).map(({ count }) => count)).toEqual([0, 0, 0, 0, 0, 0]);

      const lease = await claimed(inbox, 'evt_gone');
      expect(lease.attempt).toBe(1);
      expect(await inbox.complete(lease)).toBe(true);
      const record = await inbox.find('evt_gone');
      expect(record).toMatchObject({ state: 'done', event: event('evt_gone') });
      expect(record?.history).toHaveLength(1);
      expect((await inbox.count()).map(({ count }) => count)).toEqual([0, 0, 0, 1, 0, 0]);
    });

    test(`a ${state} event whose ${kind} is evicted is recorded as new`, async () => {
      const { inbox, evict } = open();
      await bring[state](inbox, 'evt_gone');
      await evict(key('evt_gone'));
      const record = () => inbox.record([event('evt_gone')], { dueInMs: 0, origin: 'pull' });
      expect(await record()).toEqual(['new']);
      expect(await record()).toEqual(['received']);
      expect((await inbox.takeDue(TAKE)).map(({ event: { id } }) => id)).toEqual(['evt_gone']);
      expect(await inbox.list({ state: 'received', limit: 9 })).toHaveLength(1);
      for (const each of STATES.slice(1)) expect(await inbox.list({ state: each, limit: 9 })).toEqual([]);
    });
  }

  test('an event that runs while its JSON is evicted is not run a second time beside itself, and becomes done', async () => {
    const { inbox, evict } = open();
    const lease = await claimed(inbox, 'evt_1');
    await evict('json:evt_1');
    expect((await inbox.claim(event('evt_1'), LEASE)).state).toBe('leased');
    expect(await inbox.record([event('evt_1')], { dueInMs: 0, origin: 'pull' })).toEqual(['leased']);
    expect(await inbox.complete(lease)).toBe(true);
    expect((await inbox.claim(event('evt_1'), LEASE)).state).toBe('done');
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(0);
  });

  test('a done event whose JSON is evicted is still done, and is found without its event', async () => {
    const { inbox, evict } = open();
    await bring.done(inbox, 'evt_1');
    await evict('json:evt_1');
    expect(await inbox.find('evt_1')).toMatchObject({ state: 'done', event: null });
    expect((await inbox.claim(event('evt_1'), LEASE)).state).toBe('done');
  });

  test('when the due times are evicted, no event runs before its time and all run at their time', async () => {
    const { inbox, evict } = open();
    const retry = async (id: string, retryAfterMs: number) =>
      inbox.fail(await claimed(inbox, id), { retryAfterMs, error: 'no' });
    await retry('evt_due', 0);
    await retry('evt_later', HOUR_MS);
    await inbox.takeDue({ ...TAKE, limit: 0 });
    await evict(`due:${TYPE}`);
    await bring.leased(inbox, 'evt_since');
    expect((await inbox.takeDue(TAKE)).map(({ event: { id } }) => id)).toEqual(['evt_due']);
    expect((await inbox.find('evt_later'))?.state).toBe('failed');
    expect(await inbox.takeDue(TAKE)).toEqual([]);
  });

  test('redrive of 3,000 evicted events and one other runs the other', async () => {
    const { inbox, prefix } = open();
    const gone = Array.from({ length: 3_000 }, (_, index) => event(`evt_${index}`));
    await inbox.record(gone, { dueInMs: 0, origin: 'pull' });
    await inbox.record([event('evt_other')], { dueInMs: 0, origin: 'pull' });
    await own.redis.del(gone.map(({ id }, index) => `{${prefix}}:${index % 2 ? 'event' : 'json'}:${id}`));
    const receiver = createReceiver({ secret: 'x', inbox, handlers: { [TYPE]: () => undefined } });
    expect(await receiver.redrive()).toMatchObject({ handled: 1, parked: 0, failed: 0 });
    expect((await inbox.count()).map(({ count }) => count)).toEqual([0, 0, 0, 1, 0, 0]);
  });

  const OF_A_KEY = ['holder:k', 'waiting:k', `keyed:${TYPE.length}:${TYPE}:k`];

  test('whatever is evicted between the calls, no call rejects, and each event can be brought to its end', async () => {
    const ids = ['evt_a', 'evt_b', 'evt_c'];
    const anyId = fc.constantFrom(...ids);
    type Step = (inbox: Inbox, evict: (key: string) => Promise<unknown>) => unknown;
    const step = fc.oneof(
      fc.tuple(anyId, fc.constantFrom(...STATES), fc.constantFrom(...Object.values(KEYS))).map<Step>(
        ([id, state, key]) =>
          (_, evict) =>
            evict(key(id, state)),
      ),
      fc.constantFrom(...OF_A_KEY).map<Step>((key) => (_, evict) => evict(key)),
      fc
        .tuple(
          anyId,
          fc.constantFrom(0, HOUR_MS),
          fc.constantFrom('leave', 'done', 'failed', 'dead'),
          fc.constantFrom(undefined, 'k', 'k'),
        )
        .map<Step>(([id, leaseMs, end, key]) => async (inbox) => {
          const claim = await inbox.claim(event(id), { ...LEASE, leaseMs, key });
          if (claim.state !== 'claimed' || end === 'leave') return;
          if (end === 'done') await inbox.complete(claim.lease);
          else await inbox.fail(claim.lease, { retryAfterMs: end === 'dead' ? null : 0, error: 'no' });
        }),
      fc.tuple(fc.constantFrom(0, HOUR_MS, null), fc.constantFrom(undefined, 'k')).map<Step>(
        ([dueInMs, key]) =>
          (inbox) =>
            inbox.record(ids.map(event), { dueInMs, origin: 'pull', keys: ids.map(() => key) }),
      ),
      fc.constantFrom(0, HOUR_MS).map<Step>((visibilityTimeoutMs) => async (inbox) => {
        for (const { event: taken, json } of await inbox.takeDue({ ...TAKE, visibilityTimeoutMs })) {
          expect(ids).toContain(taken.id);
          expect(JSON.parse(json)).toEqual(event(taken.id));
        }
      }),
      anyId.map<Step>((id) => (inbox) => inbox.requeue(id)),
      fc.constant<Step>((inbox) => inbox.prune({ olderThanMs: 0 })),
      fc.constant<Step>((inbox) => inbox.count()),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30, size: 'max' }), async (steps) => {
        const { inbox, evict } = open();
        for (const each of steps) await each(inbox, evict);
        for (const state of STATES) {
          const records = await inbox.list({ state, limit: 9 });
          expect(new Set(records.map(({ id }) => id)).size).toBe(records.length);
          expect(records.filter((record) => record.state !== state)).toEqual([]);
        }
        for (const id of ids) {
          const claim = await inbox.claim(event(id), { ...LEASE, early: true });
          if (claim.state === 'claimed') expect(await inbox.complete(claim.lease)).toBe(true);
          else expect((await inbox.find(id))?.state).toBe(claim.state);
        }
      }),
      { numRuns: 120 },
    );
  });

  test('while allkeys-lru evicts thousands of keys, no call rejects and every event that is taken is one that was recorded', async () => {
    const cache = await startRedis([
      '--appendonly',
      'no',
      '--maxmemory',
      '4mb',
      '--maxmemory-policy',
      'allkeys-lru',
    ]);
    const client = new Redis(cache.url).on('error', () => undefined);
    onTestFinished(async () => {
      await client.quit();
      await cache.stop();
    });
    const inbox = redisInbox(fromIoredis(client), { durable: false });
    const evicted = async () => Number(/evicted_keys:(\d+)/.exec(await client.info('stats'))?.[1]);
    let taken = 0;
    for (let page = 0; (await evicted()) < 2_000 || taken === 0; page += 1) {
      const events = Array.from({ length: 50 }, (_, index) => ({
        ...event(`evt_${page}_${index}`),
        payload: { note: 'x'.repeat(1_000) },
      }));
      const [, due] = await Promise.all([
        inbox.record(events, { dueInMs: 0, origin: 'pull' }),
        inbox.takeDue({ ...TAKE, limit: 20 }),
        inbox.claim(event(`evt_${page}_0`), LEASE),
        inbox.count(),
        inbox.list({ state: 'done', limit: 20 }),
        inbox.prune({ olderThanMs: 0 }),
      ]);
      taken += due.length;
      for (const { event: each } of due) {
        expect(each.id).toMatch(/^evt_\d+_\d+$/);
        const claim = await inbox.claim(each, LEASE);
        if (claim.state === 'claimed') await inbox.complete(claim.lease);
      }
    }
    expect(taken).toBeGreaterThan(0);
  });
});
