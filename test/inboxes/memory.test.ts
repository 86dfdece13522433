/** The memory inbox keeps the contract, and its own promise: a bounded memory. */
import type { UnknownEvent } from 'stablehooks';
import { memoryInbox } from 'stablehooks';
import { inboxContract } from 'stablehooks/conformance';
import { describe, expect, test } from 'vitest';

const lease = { leaseMs: 60_000, origin: 'push' } as const;
const event = (id: string): UnknownEvent => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: {},
});

describe('memory inbox', () => {
  for (const { name, run } of inboxContract) {
    test(name, () => {
      const inbox = memoryInbox();
      return run({ inbox, second: inbox });
    });
  }

  test('full, forgets what is done first, oldest first', async () => {
    const inbox = memoryInbox({ capacity: 3 });
    for (const id of ['a', 'b', 'waiting']) {
      const claim = await inbox.claim(event(id), lease);
      if (claim.state === 'claimed' && id !== 'waiting') await inbox.complete(claim.lease);
    }
    await inbox.record([event('c')], { dueInMs: 0, origin: 'pull' });
    expect(await inbox.find('a')).toBeUndefined();
    expect((await inbox.claim(event('b'), lease)).state).toBe('done');
    expect((await inbox.find('waiting'))?.state).toBe('leased');
  });

  test('full again and again, holds the newest that are done', async () => {
    const inbox = memoryInbox({ capacity: 3 });
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    for (const id of ids) {
      const claim = await inbox.claim(event(id), lease);
      if (claim.state === 'claimed') await inbox.complete(claim.lease);
      const held = await inbox.list({ state: 'done', limit: 9 });
      expect(held.map((record) => record.id)).toEqual(ids.slice(0, ids.indexOf(id) + 1).slice(-3));
    }
  });

  test('full of events that are not done, takes nothing new and loses nothing', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    await inbox.record([event('a'), event('b')], { dueInMs: 0, origin: 'pull' });
    await expect(inbox.claim(event('c'), lease)).rejects.toThrow(/full/);
    expect((await inbox.claim(event('a'), lease)).state).toBe('claimed');
  });

  test.each([{ capacity: 0 }, { capacity: Number.NaN }, { capacitee: 5 }])('%j is refused', (options) => {
    expect(() => memoryInbox(options)).toThrow(/capacity/);
  });

  test('says that it is not durable', () => {
    expect(memoryInbox().durable).toBe(false);
  });
});
