import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { memoryInbox, type UnknownEvent } from 'stablehooks';
import { describe, expect, test } from 'vitest';
import { inboxClockNoteContract, inboxContract } from '../contracts/index.js';
import { claimed, someEvent } from './claimed.js';

const lease = { leaseMs: 60_000, origin: 'push' } as const;
const event = (id: string): UnknownEvent => someEvent({ id, created_at: '2026-01-02T03:04:05Z' });

/** Makes events dead. */
async function kill(inbox: ReturnType<typeof memoryInbox>, ...ids: readonly string[]) {
  for (const id of ids)
    await inbox.fail(await claimed(inbox, event(id)), { retryAfterMs: null, error: 'no' });
}

function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}

describe('memory inbox', () => {
  for (const { name, run } of inboxContract) {
    test(name, () => {
      const inbox = memoryInbox();
      return run({ inbox, second: inbox });
    });
  }

  for (const { name, run } of inboxClockNoteContract) {
    test(name, () => {
      let now = Date.now();
      const inbox = memoryInbox({ runtime: { now: () => now } });
      return run({ inbox, second: inbox, setBack: (ms) => (now -= ms) });
    });
  }

  test('a memory inbox that stays full keeps the newest done events', async () => {
    const inbox = memoryInbox({ capacity: 3 });
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    for (const id of ids) {
      await inbox.complete(await claimed(inbox, event(id)));
      const held = await inbox.list({ state: 'done', limit: 9 });
      expect(held.map((record) => record.id)).toEqual(ids.slice(0, ids.indexOf(id) + 1).slice(-3));
    }
  });

  test('a memory inbox full of events that are not done refuses new events and keeps the old ones', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    await inbox.record([event('a'), event('b')], { dueInMs: 0, origin: 'pull' });
    expect(() => inbox.claim(event('c'), lease)).toThrow(/full/);
    expect((await inbox.claim(event('a'), lease)).state).toBe('claimed');
  });

  test('a memory inbox that was full of running events takes events again, round after round, once those are done', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    for (let round = 0; round < 4; round++) {
      const leases = [];
      for (const id of [`a${round}`, `b${round}`]) leases.push(await claimed(inbox, event(id)));
      expect(() => inbox.claim(event(`c${round}`), lease)).toThrow(/full/);
      for (const each of leases) expect(await inbox.complete(each)).toBe(true);
      expect(await inbox.list({ state: 'done', limit: 9 })).toHaveLength(2);
    }
  });

  test('a memory inbox full of dead events forgets the oldest one for a new event', async () => {
    const inbox = memoryInbox({ capacity: 250 });
    await kill(inbox, ...Array.from({ length: 250 }, (_, index) => `dead ${index}`));
    await inbox.claim(event('a'), lease);
    const counts = await inbox.count();
    expect(counts.find(({ state }) => state === 'dead')?.count).toBe(249);
    for (const [id, state] of [['dead 0'], ['dead 1', 'dead']] as const) {
      expect((await inbox.find(id))?.state).toBe(state);
    }
  });

  test('a memory inbox full of parked and dead events takes good events: dead ones give way, then parked ones', async () => {
    const inbox = memoryInbox({ capacity: 4 });
    await inbox.record([event('parked 1'), event('parked 2')], { dueInMs: null, origin: 'push' });
    await kill(inbox, 'dead 1', 'dead 2');
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
    expect(() => inbox.claim(event('e'), lease)).toThrow(/full/);
  });

  test('takeDue does not return a parked event that a full memory inbox has forgotten', async () => {
    const inbox = memoryInbox({ capacity: 2 });
    await inbox.record([event('a'), event('b')], { dueInMs: null, origin: 'push' });
    const options = { limit: 1, visibilityTimeoutMs: 60_000, types: [event('').type] };
    const [first] = await inbox.takeDue(options);
    expect((await inbox.claim(event('c'), lease)).state).toBe('claimed');
    expect((await inbox.list({ state: 'received', limit: 9 })).map(({ id }) => id)).toEqual([first?.id]);
    expect(await inbox.takeDue(options)).toEqual([]);
  });

  test('a memory inbox holds 100,000 events if no capacity is given', async () => {
    const inbox = memoryInbox();
    const page = Array.from({ length: 100_000 }, (_, index) => event(`${index}`));
    await inbox.record(page, { dueInMs: 0, origin: 'pull' });
    expect(() => inbox.claim(event('one more'), lease)).toThrow(/full.*100000/);
  });

  test('a memory inbox keeps nothing of the ordering keys of events that are done', async () => {
    const inbox = memoryInbox({ capacity: 10 });
    const run = async (first: number, count: number) => {
      for (let index = first; index < first + count; index++) {
        await inbox.complete(await claimed(inbox, event(`${index}`), { key: `the key ${index}` }));
      }
    };
    await run(0, 5_000);
    const before = heapBytes();
    await run(5_000, 50_000);
    // The keys and what belongs to them would be more than 10 MB.
    expect(heapBytes() - before).toBeLessThan(5_000_000);
  });

  test('no attempt ends before it starts, even if the clock goes on during a call or is set back', async () => {
    let clock = 1_000_000;
    let step = 1;
    const now = () => {
      clock += step;
      return clock;
    };
    const inbox = memoryInbox({ runtime: { now } });
    await claimed(inbox, event('a'), { leaseMs: 0 });
    const second = await claimed(inbox, event('a'));
    step = -1_000;
    await inbox.complete(second);
    const history = (await inbox.find('a'))?.history ?? [];
    expect(history.map(({ result }) => result)).toEqual(['lapsed', 'done']);
    expect(history.filter(({ startedAt, endedAt }) => endedAt < startedAt)).toEqual([]);
  });

  test('the events that wait for a key run in the order of their creation, whatever the time zones that they name', async () => {
    const inbox = memoryInbox();
    const keyed = { leaseMs: 60_000, origin: 'push', key: 'k' } as const;
    const times = ['2026-01-02T03:00:00Z', '2026-01-02T04:30:00+02:00', '2026-01-02T05:00:00+01:00'];
    const events = times.map((created_at, index) => ({ ...event(`e${index}`), created_at }));
    let running = await claimed(inbox, event('first'), keyed);
    for (const each of events) expect((await inbox.claim(each, keyed)).state).toBe('waiting');
    for (const index of [1, 0, 2]) {
      await inbox.complete(running);
      const [next] = await inbox.takeDue({ limit: 9, visibilityTimeoutMs: 60_000, types: [event('').type] });
      expect(next?.id).toBe(events[index]?.id);
      running = await claimed(inbox, events[index], keyed);
    }
  });
});
