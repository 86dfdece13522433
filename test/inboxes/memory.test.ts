import { memoryInbox, type UnknownEvent } from 'stablehooks';
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

  test('a full memory inbox forgets the oldest done event first', async () => {
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

  test('a memory inbox that stays full keeps the newest done events', async () => {
    const inbox = memoryInbox({ capacity: 3 });
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    for (const id of ids) {
      const claim = await inbox.claim(event(id), lease);
      if (claim.state === 'claimed') await inbox.complete(claim.lease);
      const held = await inbox.list({ state: 'done', limit: 9 });
      expect(held.map((record) => record.id)).toEqual(ids.slice(0, ids.indexOf(id) + 1).slice(-3));
    }
  });

  test('a memory inbox full of events that are not done refuses new events and keeps the old ones', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    await inbox.record([event('a'), event('b')], { dueInMs: 0, origin: 'pull' });
    await expect(inbox.claim(event('c'), lease)).rejects.toThrow(/full/);
    expect((await inbox.claim(event('a'), lease)).state).toBe('claimed');
  });

  test.each([{ capacity: 0 }, { capacity: Number.NaN }, { capacitee: 5 }])(
    'memoryInbox refuses the options %j',
    (options) => {
      expect(() => memoryInbox(options)).toThrow(/capacity/);
    },
  );

  test('the memory inbox is not durable', () => {
    expect(memoryInbox().durable).toBe(false);
  });
});
