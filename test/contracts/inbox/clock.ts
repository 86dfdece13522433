/** Leases that a clock wrote which was ahead, and was then set back. */
import assert from 'node:assert/strict';
import type { ContractCase } from '../contract.js';
import { someEvent } from '../contract.js';
import { type InboxUnderTest, TAKE, test } from './given.js';

/** An inbox in two processes, whose clock a case can set back. */
export interface ClockedInbox extends InboxUnderTest {
  readonly setBack: (ms: number) => unknown;
}

const DAY_MS = 86_400_000;
const LEASE = { leaseMs: 30_000, origin: 'push' } as const;
const WHO = { by: 'ana', reason: 'booked by hand' };

const clocked = (
  name: string,
  run: (subject: ClockedInbox) => Promise<void>,
): ContractCase<ClockedInbox> => ({ name, run });

/** An event that a process claimed a day ahead, before the clock was set back. */
async function claimedAhead({ inbox, setBack }: ClockedInbox, key?: string) {
  const event = someEvent();
  const claim = await inbox.claim(event, { ...LEASE, key });
  assert.ok(claim.state === 'claimed');
  await setBack(DAY_MS);
  return { event, lease: claim.lease };
}

/** For every inbox. */
export const clockNoteCases = [
  clocked(
    'a note that was leased by a clock a day ahead is free for others, and the holder can renew it',
    async ({ inbox, second, setBack }) => {
      await inbox.leaseNote('poll', { holder: 'a', leaseMs: 30_000 });
      await setBack(DAY_MS);
      assert.equal(await inbox.leaseNote('poll', { holder: 'a', leaseMs: 30_000 }), true);
      assert.equal(
        await second.leaseNote('poll', { holder: 'b', leaseMs: 30_000 }),
        false,
        'It was renewed now.',
      );
      await setBack(DAY_MS);
      assert.equal(await second.leaseNote('poll', { holder: 'b', leaseMs: 30_000 }), true);
      assert.equal(await inbox.writeNote('poll', 'of a', { holder: 'a' }), false);
    },
  ),
  clocked(
    'a note that was released by a clock a day ahead is free, and one that was leased a second ahead is not',
    async ({ inbox, second, setBack }) => {
      await inbox.leaseNote('poll', { holder: 'a', leaseMs: 0 });
      await setBack(DAY_MS);
      assert.equal(await second.leaseNote('poll', { holder: 'b', leaseMs: 30_000 }), true);
      await setBack(1_000);
      assert.equal(await inbox.leaseNote('poll', { holder: 'a', leaseMs: 30_000 }), false);
    },
  ),
];

/** For inboxes that processes share. */
export const clockLeaseCases = [
  clocked(
    'an event that was leased by a clock a day ahead is due for others, and its old lease is lost',
    async (subject) => {
      const { event, lease } = await claimedAhead(subject);
      const { inbox, second } = subject;
      assert.deepEqual(await inbox.takeDue(TAKE), [], 'Its own process still runs it.');
      assert.deepEqual(
        (await second.takeDue(TAKE)).map(({ id }) => id),
        [event.id],
      );
      assert.equal((await second.find(event.id))?.history.at(-1)?.result, 'lapsed');
      assert.equal(await inbox.complete(lease), false);
      assert.equal((await second.claim(event, LEASE)).state, 'claimed');
    },
  ),
  clocked('the process that holds a lease from the future can complete it', async (subject) => {
    const { event, lease } = await claimedAhead(subject);
    assert.equal(await subject.inbox.complete(lease), true);
    assert.equal((await subject.second.find(event.id))?.state, 'done');
  }),
  clocked(
    'a lease from the future does not keep its event, or another event of its key, from being claimed',
    async (subject) => {
      const { event } = await claimedAhead(subject, 'k');
      const other = someEvent();
      const claim = await subject.second.claim(other, { ...LEASE, key: 'k' });
      assert.equal(claim.state, 'claimed');
      if (claim.state === 'claimed') await subject.second.complete(claim.lease);
      assert.equal((await subject.second.claim(event, { ...LEASE, key: 'k', early: true })).state, 'claimed');
    },
  ),
  clocked('events that were leased by a clock a day ahead can be requeued and discarded', async (subject) => {
    const first = await claimedAhead(subject);
    assert.equal(await subject.second.requeue(first.event.id), 1);
    assert.equal((await subject.second.find(first.event.id))?.attempts, 0);
    const next = await claimedAhead(subject);
    assert.equal(await subject.second.discard({ ids: [next.event.id], ...WHO }), 1);
    assert.equal(await subject.inbox.complete(next.lease), false);
  }),
  clocked('a lease that a clock wrote a second ahead holds', async ({ inbox, second, setBack }) => {
    const event = someEvent();
    await inbox.claim(event, LEASE);
    await setBack(1_000);
    assert.deepEqual(await second.takeDue(TAKE), []);
    assert.equal((await second.claim(event, LEASE)).state, 'leased');
    assert.equal(await second.requeue(event.id), 0);
  }),
];

/** For every inbox: no clock changes. */
export const forceCases = [
  test('a running event is requeued and discarded only with `force`, and its old lease is lost', async (inbox) => {
    for (const work of ['requeue', 'discard'] as const) {
      const event = someEvent();
      const lease = await inbox.claimed(event);
      const change = async (force?: boolean) =>
        work === 'requeue'
          ? inbox.port.requeue({ ids: [event.id], force })
          : inbox.port.discard({ ids: [event.id], ...WHO, force });
      assert.equal(await change(), 0);
      assert.equal((await inbox.find(event)).state, 'leased');
      assert.equal(await change(true), 1);
      assert.equal((await inbox.find(event)).state, work === 'requeue' ? 'received' : 'done');
      assert.equal(await inbox.port.complete(lease), false);
    }
  }),
  test('a forced requeue of a running event lets the next event of its key run', async (inbox) => {
    const [first, next] = [someEvent({ created_at: '2026-01-01T00:00:00Z' }), someEvent()];
    await inbox.claimed(first, { key: 'k' });
    assert.equal((await inbox.claim(next, { key: 'k' })).state, 'waiting');
    assert.equal(await inbox.port.requeue({ ids: [first.id], force: true }), 1);
    assert.equal((await inbox.claimed(next, { key: 'k' })).attempt, 1);
  }),
];
