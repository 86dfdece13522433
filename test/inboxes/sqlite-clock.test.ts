import type { UnknownEvent } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, test } from 'vitest';
import { EMPTY_POLL_STATE } from '../../src/core/ports.js';
import { connect, freshPath } from './sqlite-drivers.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const YEAR_MS = 365 * 24 * HOUR_MS;
const START = Date.parse('2026-01-02T03:04:05Z');

const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const TAKE = { limit: 100, visibilityTimeoutMs: MINUTE_MS, types: ['transfer.settled'] } as const;

const event = (id: string): UnknownEvent => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: {},
});

type Inbox = ReturnType<typeof sqliteInbox>;

async function claimed(inbox: Inbox, id: string, leaseMs = HOUR_MS) {
  const claim = await inbox.claim(event(id), { ...LEASE, leaseMs });
  if (claim.state !== 'claimed') throw new Error(`The claim of ${id} was answered ${claim.state}.`);
  return claim.lease;
}

const taken = async (inbox: Inbox) => (await inbox.takeDue(TAKE)).map(({ event: { id } }) => id);

/** The ways in which an inbox meets a clock that was set back: while it is open, or before it is opened. */
const WAYS = ['while the file is open', 'before the file is opened again'] as const;

describe.each(WAYS)('a clock that is set back by a year %s', (way) => {
  /** An inbox with one event leased for an hour, one that is due in ten minutes, and one that is due. */
  async function setBack() {
    const path = freshPath();
    const clock = { ms: START };
    const now = () => clock.ms;
    const before = sqliteInbox(connect(path), { runtime: { now } });
    await before.record([event('due')], { dueInMs: 0, origin: 'pull' });
    const failed = await claimed(before, 'failed');
    await before.fail(failed, { retryAfterMs: 10 * MINUTE_MS, error: 'no' });
    const lease = await claimed(before, 'leased');
    await before.acquirePoll({ holder: 'a', leaseMs: HOUR_MS });
    clock.ms -= YEAR_MS;
    const inbox =
      way === 'while the file is open' ? before : sqliteInbox(connect(path), { runtime: { now } });
    return { inbox, clock, lease };
  }

  test('leases an event for its lease, and not for a year', async () => {
    const { inbox, clock, lease } = await setBack();
    const claim = await inbox.claim(event('leased'), LEASE);
    expect(claim).toEqual({ state: 'leased', retryAfterMs: HOUR_MS });
    clock.ms += HOUR_MS - 1;
    expect((await inbox.claim(event('leased'), LEASE)).state).toBe('leased');
    clock.ms += 1;
    expect((await claimed(inbox, 'leased')).attempt).toBe(2);
    expect(await inbox.complete(lease)).toBe(false);
  });

  test('does not take the lease from a handler that is running', async () => {
    const { inbox, clock, lease } = await setBack();
    expect(await inbox.complete(lease)).toBe(true);
    expect(await inbox.complete(lease)).toBe(false);
    const record = await inbox.find('leased');
    expect(record?.history).toMatchObject([{ startedAt: clock.ms, endedAt: clock.ms, result: 'done' }]);
  });

  test('does not hide an event that is due, and keeps the wait of one that failed', async () => {
    const { inbox, clock } = await setBack();
    expect(await taken(inbox)).toEqual(['due']);
    expect(await inbox.claim(event('failed'), LEASE)).toEqual({
      state: 'failed',
      retryAfterMs: 10 * MINUTE_MS,
    });
    clock.ms += 10 * MINUTE_MS;
    expect(await taken(inbox)).toEqual(['due', 'failed']);
  });

  test('does not keep the lease to poll from others for longer than it is', async () => {
    const { inbox, clock } = await setBack();
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).toBeNull();
    clock.ms += HOUR_MS - 1;
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).toBeNull();
    clock.ms += 1;
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).not.toBeNull();
  });

  test('moves the times once', async () => {
    const { inbox, clock } = await setBack();
    await taken(inbox);
    const record = await inbox.find('leased');
    expect(record).toMatchObject({ updatedAt: clock.ms, dueAt: clock.ms + HOUR_MS });
    clock.ms += MINUTE_MS;
    await inbox.claim(event('leased'), LEASE);
    expect(await inbox.find('leased')).toEqual(record);
  });
});

/** An inbox with a clock. */
function openAt(ms: number) {
  const clock = { ms };
  return { inbox: sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } }), clock };
}

test.each([
  ['taken over', (inbox: Inbox) => inbox.acquirePoll({ holder: 'b', leaseMs: HOUR_MS })],
  ['renewed', (inbox: Inbox) => inbox.savePoll(EMPTY_POLL_STATE, { holder: 'a', leaseMs: HOUR_MS })],
])('a lease to poll that was %s keeps its length when the clock is set back a little', async (_, renew) => {
  const { inbox, clock } = openAt(START);
  await inbox.acquirePoll({ holder: 'a', leaseMs: 0 });
  clock.ms += 10 * MINUTE_MS;
  expect(await renew(inbox)).toBeTruthy();
  clock.ms -= 5 * MINUTE_MS;
  expect(await inbox.acquirePoll({ holder: 'c', leaseMs: 0 })).toBeNull();
  clock.ms += HOUR_MS;
  expect(await inbox.acquirePoll({ holder: 'c', leaseMs: 0 })).not.toBeNull();
});

test('a record says when its event last changed: at each claim, end, wait, requeue and taking', async () => {
  const { inbox, clock } = openAt(START);
  const changed = async (id: string, step: unknown) => {
    await step;
    expect((await inbox.find(id))?.updatedAt).toBe(clock.ms);
    clock.ms += MINUTE_MS;
  };
  const keyed = (id: string) => inbox.claim(event(id), { ...LEASE, key: 'wallet' });

  await changed('a', inbox.record([event('a')], { dueInMs: 0, origin: 'pull' }));
  const first = keyed('a');
  await changed('a', first);
  await changed('b', keyed('b'));
  await changed('b', keyed('b'));
  const claim = await first;
  if (claim.state !== 'claimed') throw new Error(claim.state);
  const failure = inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
  await changed('a', failure);
  // The end of a made b due.
  expect((await inbox.find('b'))?.updatedAt).toBe(clock.ms - MINUTE_MS);
  await changed('a', inbox.requeue('a'));
  await changed('a', inbox.takeDue(TAKE));
  // Of a key one event is taken, and the others wait: b was received later.
  expect((await inbox.find('b'))?.updatedAt).toBe(clock.ms - MINUTE_MS);
  await changed('a', keyed('a'));
  clock.ms += HOUR_MS;
  await changed('a', keyed('b'));
  expect((await inbox.find('b'))?.updatedAt).toBe(clock.ms - MINUTE_MS);
  expect((await inbox.find('a'))?.history).toMatchObject([
    { startedAt: START + MINUTE_MS, result: 'dead' },
    { startedAt: clock.ms - HOUR_MS - 2 * MINUTE_MS, result: 'lapsed' },
  ]);
});

describe('an event that no longer waits for its key gives its turn to the next one', () => {
  function openKeyed() {
    const { inbox, clock } = openAt(START);
    const claim = (id: string, created_at = event(id).created_at) =>
      inbox.claim({ ...event(id), created_at }, { ...LEASE, key: 'wallet' });
    const lease = async (id: string) => {
      const claimed = await claim(id);
      if (claimed.state !== 'claimed') throw new Error(claimed.state);
      return claimed.lease;
    };
    const dueAt = async (id: string) => (await inbox.find(id))?.dueAt;
    return { inbox, clock, claim, lease, dueAt };
  }

  test('when it was claimed, died and was requeued', async () => {
    const { inbox, clock, claim, lease, dueAt } = openKeyed();
    await lease('lapsed');
    expect((await claim('requeued')).state).toBe('waiting');
    clock.ms += HOUR_MS;
    await inbox.fail(await lease('requeued'), { retryAfterMs: null, error: 'no' });
    await inbox.complete(await lease('lapsed'));
    const holder = await lease('holder');
    expect(await inbox.requeue('requeued')).toBe(1);
    expect((await claim('next')).state).toBe('waiting');
    clock.ms += MINUTE_MS;
    await inbox.complete(holder);
    expect(await dueAt('requeued')).toBe(clock.ms - MINUTE_MS);
    expect(await dueAt('next')).toBe(clock.ms);
  });
});

test('pruning drops an event as soon as it has been done for `olderThanMs`', async () => {
  const { inbox, clock } = openAt(START);
  await inbox.complete(await claimed(inbox, 'done'));
  clock.ms += MINUTE_MS - 1;
  expect(await inbox.prune({ olderThanMs: MINUTE_MS })).toBe(0);
  clock.ms += 1;
  expect(await inbox.prune({ olderThanMs: MINUTE_MS })).toBe(1);
});

test('counting says since when the oldest event of each state has been in it', async () => {
  const { inbox, clock } = openAt(START);
  const countOf = async (wanted: string) => (await inbox.count()).find(({ state }) => state === wanted);
  const finish = async (id: string) => {
    clock.ms += MINUTE_MS;
    await inbox.complete(await claimed(inbox, id));
    return clock.ms;
  };
  const [firstPruned] = [await finish('pruned_1'), await finish('pruned_2')];
  expect(await countOf('done')).toMatchObject({ count: 2, oldest: firstPruned });
  await inbox.prune({ olderThanMs: 0 });
  expect(await countOf('done')).toMatchObject({ count: 2, oldest: firstPruned });
  await finish('done_1');
  await finish('done_2');
  expect(await countOf('done')).toMatchObject({ count: 4, oldest: firstPruned });
  for (const id of ['due_1', 'due_2']) {
    clock.ms += MINUTE_MS;
    await inbox.record([event(id)], { dueInMs: 0, origin: 'pull' });
  }
  expect(await countOf('received')).toMatchObject({ count: 2, oldest: clock.ms - MINUTE_MS });
  expect(await countOf('done')).toMatchObject({ count: 4, oldest: firstPruned });
});

test('a clock that was ahead for a moment ends no lease from before', async () => {
  const clock = { ms: START };
  const inbox = sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } });
  await claimed(inbox, 'before');
  clock.ms += YEAR_MS;
  await claimed(inbox, 'ahead');
  clock.ms -= YEAR_MS;
  for (const id of ['before', 'ahead']) {
    expect(await inbox.claim(event(id), LEASE)).toEqual({ state: 'leased', retryAfterMs: HOUR_MS });
  }
});

test('a clock that was ahead, and is set back to just before its old time, ends no lease', async () => {
  const clock = { ms: START };
  const inbox = sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } });
  const lease = await claimed(inbox, 'before');
  clock.ms += YEAR_MS;
  await claimed(inbox, 'ahead');
  clock.ms -= YEAR_MS + 1;
  for (const id of ['before', 'ahead']) {
    expect(await inbox.claim(event(id), LEASE)).toEqual({ state: 'leased', retryAfterMs: HOUR_MS });
  }
  expect(await taken(inbox)).toEqual([]);
  expect(await inbox.complete(lease)).toBe(true);
});

describe('events of an ordering key whose clock is set back by a year', () => {
  const KEYED = { ...LEASE, key: 'wallet' } as const;

  /** An inbox with one event of a key that is leased for an hour, and one that waits for it. */
  async function setBack() {
    const clock = { ms: START };
    const inbox = sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } });
    const claim = await inbox.claim(event('holder'), KEYED);
    expect((await inbox.claim(event('waiting'), KEYED)).state).toBe('waiting');
    clock.ms -= YEAR_MS;
    return { inbox, clock, lease: claim.state === 'claimed' ? claim.lease : undefined };
  }

  test('a new event of the key waits for the lease, and not for a year', async () => {
    const { inbox, clock } = await setBack();
    expect(await inbox.claim(event('new'), KEYED)).toEqual({ state: 'waiting', retryAfterMs: HOUR_MS });
    clock.ms += HOUR_MS;
    expect((await inbox.claim(event('new'), KEYED)).state).toBe('claimed');
    expect((await inbox.find('holder'))?.history).toMatchObject([{ result: 'lapsed', endedAt: clock.ms }]);
  });

  test('the event that waits is due when the lease lapses, and not a year later', async () => {
    const { inbox, clock } = await setBack();
    expect(await taken(inbox)).toEqual([]);
    clock.ms += HOUR_MS;
    expect((await taken(inbox)).sort()).toEqual(['holder', 'waiting']);
  });

  test('the waiting event is due immediately when the other event is completed', async () => {
    const { inbox, lease } = await setBack();
    expect(lease && (await inbox.complete(lease))).toBe(true);
    expect(await taken(inbox)).toEqual(['waiting']);
  });
});

describe('a process whose clock was a year ahead and that is gone', () => {
  /** What it did, and then a step of another process whose clock was never ahead. */
  async function gone(work: (inbox: Inbox) => unknown) {
    const path = freshPath();
    const clock = { ms: START };
    const inbox = sqliteInbox(connect(path), { runtime: { now: () => clock.ms } });
    await claimed(inbox, 'earlier');
    const connection = connect(path);
    await work(sqliteInbox(connection, { runtime: { now: () => clock.ms + YEAR_MS } }));
    connection.close();
    clock.ms += 10_000;
    return { inbox, clock };
  }

  test('leaves a lease that ends after its own time', async () => {
    const { inbox, clock } = await gone((ahead) => claimed(ahead, 'leased'));
    expect(await inbox.claim(event('leased'), LEASE)).toEqual({ state: 'leased', retryAfterMs: HOUR_MS });
    clock.ms += HOUR_MS;
    expect(await taken(inbox)).toEqual(['earlier', 'leased']);
  });

  test('leaves events that another process takes when they are due', async () => {
    const { inbox, clock } = await gone((ahead) =>
      ahead.record([event('recorded')], { dueInMs: MINUTE_MS, origin: 'pull' }),
    );
    expect(await taken(inbox)).toEqual([]);
    clock.ms += MINUTE_MS;
    expect(await taken(inbox)).toEqual(['recorded']);
  });

  test('leaves a lease to poll that ends after its own time', async () => {
    const { inbox, clock } = await gone((ahead) => ahead.acquirePoll({ holder: 'a', leaseMs: HOUR_MS }));
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).toBeNull();
    clock.ms += HOUR_MS;
    expect(await inbox.acquirePoll({ holder: 'b', leaseMs: 0 })).not.toBeNull();
  });
});

test('events that follow each other keep their order when the clock is set back', async () => {
  const clock = { ms: START };
  const inbox = sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } });
  for (const id of ['first', 'second', 'third']) {
    await inbox.record([event(id)], { dueInMs: MINUTE_MS, origin: 'pull' });
    clock.ms += 1_000;
  }
  clock.ms -= YEAR_MS;
  expect(await taken(inbox)).toEqual([]);
  clock.ms += MINUTE_MS;
  expect(await taken(inbox)).toEqual(['first', 'second', 'third']);
});

test('the times are moved by a later step when the first one cannot write', async () => {
  const path = freshPath();
  const clock = { ms: START };
  const inbox = sqliteInbox(connect(path), { runtime: { now: () => clock.ms }, busyTimeoutMs: 30 });
  await inbox.record([event('due')], { dueInMs: 0, origin: 'pull' });
  clock.ms -= YEAR_MS;
  const claims = Promise.allSettled([
    taken(inbox),
    // Fails in the same transaction.
    inbox.record([{ ...event('bad'), id: {} as string }], { dueInMs: 0, origin: 'pull' }),
  ]);
  expect((await claims).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await taken(inbox)).toEqual(['due']);
});
