import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';
import { someEvent } from './claimed.js';
import { connect, freshPath } from './sqlite-drivers.js';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const START = Date.parse('2026-01-02T03:04:05Z');

const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const TAKE = { limit: 100, visibilityTimeoutMs: MINUTE_MS, types: ['transfer.settled'] } as const;

const event = (id: string) => someEvent({ id, created_at: '2026-01-02T03:04:05Z' });

/** An inbox with a clock. */
function openAt(ms: number) {
  const clock = { ms };
  return { inbox: sqliteInbox(connect(freshPath()), { runtime: { now: () => clock.ms } }), clock };
}

test('a record says when its event last changed: at each claim, end, wait and requeue, and at no taking', async () => {
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
  // Both have been received since then.
  expect(await inbox.takeDue(TAKE)).toHaveLength(2);
  expect((await inbox.find('a'))?.updatedAt).toBe(clock.ms - MINUTE_MS);
  expect((await inbox.find('b'))?.updatedAt).toBe(clock.ms - 2 * MINUTE_MS);
  clock.ms += MINUTE_MS;
  await changed('a', keyed('a'));
  clock.ms += HOUR_MS;
  await changed('a', keyed('b'));
  expect((await inbox.find('b'))?.updatedAt).toBe(clock.ms - MINUTE_MS);
  expect((await inbox.find('a'))?.history).toMatchObject([
    { startedAt: START + MINUTE_MS, result: 'dead' },
    { startedAt: clock.ms - HOUR_MS - 2 * MINUTE_MS, result: 'lapsed' },
  ]);
});
