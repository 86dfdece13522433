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

  test('a memory inbox that was full of running events takes events again, round after round, once those are done', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    for (let round = 0; round < 4; round++) {
      const claims = [];
      for (const id of [`a${round}`, `b${round}`]) claims.push(await inbox.claim(event(id), lease));
      await expect(inbox.claim(event(`c${round}`), lease)).rejects.toThrow(/full/);
      for (const claim of claims) {
        if (claim.state !== 'claimed') throw new Error(claim.state);
        expect(await inbox.complete(claim.lease)).toBe(true);
      }
      expect(await inbox.list({ state: 'done', limit: 9 })).toHaveLength(2);
    }
  });

  test('a memory inbox full of dead events forgets a hundredth of them at once, the oldest first', async () => {
    const inbox = memoryInbox({ capacity: 250, logger: { warn: () => undefined, error: () => undefined } });
    for (let index = 0; index < 250; index++) {
      const claim = await inbox.claim(event(`dead ${index}`), lease);
      if (claim.state !== 'claimed') throw new Error(claim.state);
      await inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
    }
    await inbox.claim(event('a'), lease);
    const counts = await inbox.count();
    expect(counts.find(({ state }) => state === 'dead')?.count).toBe(247);
    for (const [id, state] of [['dead 0'], ['dead 2'], ['dead 3', 'dead']] as const) {
      expect((await inbox.find(id))?.state).toBe(state);
    }
  });

  test('a memory inbox full of parked and dead events takes good events: dead ones give way, then parked ones, with one warning', async () => {
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    const inbox = memoryInbox({ capacity: 4, logger: { warn: log, error: log } });
    await inbox.record([event('parked 1'), event('parked 2')], { dueInMs: null, origin: 'push' });
    for (const id of ['dead 1', 'dead 2']) {
      const claim = await inbox.claim(event(id), lease);
      if (claim.state !== 'claimed') throw new Error(claim.state);
      await inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
    }
    const left = async () => {
      const counts = await inbox.count();
      return ['dead', 'parked', 'leased'].map((name) => counts.find(({ state }) => state === name)?.count);
    };
    for (const [id, expected] of [
      ['a', [1, 2, 1]],
      ['b', [0, 2, 2]],
      ['c', [0, 1, 3]],
      ['d', [0, 0, 4]],
    ] as const) {
      expect((await inbox.claim(event(id), lease)).state).toBe('claimed');
      expect(await left()).toEqual(expected);
    }
    expect(await inbox.find('dead 1')).toBeUndefined();
    expect(lines).toEqual([expect.stringMatching(/full and forgets dead events.*durable inbox/)]);
    await expect(inbox.claim(event('e'), lease)).rejects.toThrow(/full/);
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
