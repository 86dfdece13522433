import assert from 'node:assert/strict';
import type { UnknownEvent } from 'stablehooks';
import { someEvent } from '../contract.js';
import {
  HOUR_MS,
  ODD_NAMES,
  otherTurn,
  simultaneously,
  someEvents,
  test,
  textOf512Bytes,
  until,
} from './given.js';
import { scenarios } from './scenario.js';

const K = { key: 'k' } as const;

/** Events that a leased key keeps waiting: how A was stored, and its attempts and error. */
const WAITING = [
  ['received', 'record A:k', '0 null'],
  ['due later', 'record A:k later', '0 null'],
  ['parked', 'record A:k parked', '0 null'],
  ['failed', 'claim A:k; fail A', '1 no'],
];

/** The ways in which the lease of a key ends. */
const ENDS = ['complete', 'delay', 'kill'];

export const keyCases = [
  ...scenarios({
    'while an event of a key is leased, its other events wait, and events of other keys or without one are claimed':
      'claim A:k; claim B:k = waiting; claim C:m; claim D; claim A:k = leased; claim E:m = waiting',
    'a new event that waits is stored as received with its key, is due when the lease lapses, and has used up no attempt': `
      claim A:k; claim B:k = waiting; claim B:k = waiting; is B = received 0 null; get B key = k; history B = none; keeps B
      waits B; due = none`,
    ...Object.fromEntries(
      WAITING.map(([name, store, kept]) => [
        `an event of a leased key that was ${name} waits as received, keeps its attempts and error, and runs after that lease`,
        `${store}; claim B:k; claim A:k = waiting; is A = received ${kept}; due = none; complete B
        is A = received ${kept}; run A:k`,
      ]),
    ),
    'an event that failed and waits for its retry time does not keep its key':
      'claim A:k; delay A; claim B:k; claim A:k = failed',
    'a dead event of a key that is requeued while the key is leased runs after that lease':
      'claim A:k; kill A; claim B:k; requeue A; due = A; claim A:k = waiting; due = none; complete B; run A:k',
    ...Object.fromEntries(
      ENDS.map((end) => [
        `after ${end} of a lease with a key, its event that was created first is due, and only that one`,
        `claim E:k; claim D:k = waiting; claim B:k = waiting; claim C:k = waiting; ${end} E
        waits B = false; waits C; waits D; run B:k C:k D:k`,
      ]),
    ),
    'events of a key that were created at the same time are due in the order in which they were received':
      'claim A1:k; claim A2:k = waiting; claim A3:k = waiting; claim A4:k = waiting; complete A1; run A2:k A3:k A4:k',
    'an event that was recorded without its key has its place among the events of the key when it gets it': `
      record D C; claim C:k; fail C; claim A:k; claim D:k = waiting; claim B:k = waiting; claim C:k = waiting
      complete A; run B:k C:k D:k`,
    'a lost lease with a key makes no event of the key due':
      'claim A:k lapsed; claim A:k = 2; claim B:k = waiting; lost A.1; due = none; complete A; run B:k',
    'the claim of another event of the key takes a lapsed lease away, and the event that had it waits': `
      claim A:k lapsed; claim B:k; is A = received 1; history A = 1 lapsed null; due = none; complete B
      due = A; claim A:k = 2`,
    'the end of a lease makes no event of another key due':
      'claim A:k; claim B:m; claim D:k = waiting; claim C:m = waiting; complete A; waits C; due = D',
    'each lease of a key that ends makes one more of its waiting events due': `
      claim A:k; claim D:k = waiting; claim C:k = waiting; complete A; waits C = false; waits D
      claim B:k; complete B; waits D = false`,
    'an event that takeDue returned is not returned again because another event of its key ends':
      'record A:k; due = A; claim B:k; complete B; due = none',
    'the end of a lease leaves events of its key that do not wait as they are': `
      record A:k later; record B:k; due = B; claim C:k; complete C; claim D:k; complete D; waits A; waits B`,
    'an event that waits for its new key is not made due by its old key, which it does not hold': `
      claim H:n; claim A:k lapsed; claim A:n = waiting; claim B:k; complete B; waits A; claim C:k`,
    'record stores the key of each event, and a claim replaces it': `
      record A:a B:b C; get A key = a; get B key = b; get C key = null
      claim A:c; complete A; claim B; claim C:b; get A key = c; get B key = null; get C key = b`,
    'an event that is claimed with another key after its lease has lapsed does not hold the key that it had':
      'record C:k later; claim A:k lapsed; claim A:m = 2; claim B:k = 1',
    'an event that waits for a key and is claimed with another neither frees the key nor keeps its other events back': `
      claim A:k; claim B:k = waiting; claim C:k = waiting; claim B:m; claim C:k = waiting; complete A; complete B
      run C:k; is B = done 1`,
    'an event that waits for a key and is claimed without it is not made due by the key':
      'claim A:k; claim B:k = waiting; claim C:k = waiting; claim C; complete C; complete A; run B:k; is C = done 1',
    'an event that is discarded while it waits does not keep back the next event of its key':
      'claim A:k; claim B:k = waiting; claim C:k = waiting; discard B = 1; complete A; run C:k; is B = done 0',
    'takeDue takes all due events of a key, and after the claim of one of them the others run in the order of their creation':
      'record D:k C:k B:k A:k E; due = A B C D E; due = none; claim D:k; claim C:k = waiting; claim A:k = waiting; claim B:k = waiting; complete D; run A:k B:k C:k',
  }),
  test('an event that waits is due when the lease lapses, without the end of any attempt', async (inbox) => {
    // A machine that stalls for longer than the lease lets the second claim win: then it is tried again.
    const waiting = await until('A claim of a key that is leased was never answered waiting.', async () => {
      const [key, event] = [crypto.randomUUID(), someEvent({ created_at: '2026-01-01T00:00:00Z' })];
      await inbox.claimed(someEvent(), { key, leaseMs: 200 });
      return (await inbox.claim(event, { key })).state === 'waiting' ? event : undefined;
    });
    const taken = await until('The event that waits was not due after the lease had lapsed.', async () => {
      return (await inbox.takeDue()).find(({ id }) => id === waiting.id);
    });
    assert.deepEqual(taken, waiting);
  }),
  test('an event that gets its key after later events of that key have theirs is still the one that was received first', async (inbox) => {
    const early = someEvent();
    const lease = await inbox.claimed(someEvent(), K);
    await inbox.record([early], { dueInMs: HOUR_MS });
    const { receivedAt } = await inbox.find(early);
    // Within a millisecond, an inbox need not know which event was received first.
    await until('The clock of the inbox stands still.', async () => {
      const late = someEvent();
      await inbox.claim(late, K);
      return (await inbox.find(late)).receivedAt !== receivedAt || undefined;
    });
    await inbox.claim(early, K);
    await inbox.port.complete(lease);
    assert.deepEqual(await inbox.takeDue(), [early]);
  }),
  test('of 40 simultaneous claims of events of one key exactly one is answered claimed, and of distinct keys all are', async (inbox) => {
    const claims = (keyOf: (index: number) => string) =>
      simultaneously(40, async (index) => (await inbox.claim(someEvent(), { key: keyOf(index) })).state);
    const states = (await claims(() => 'k')).toSorted();
    assert.deepEqual(states, ['claimed', ...Array(39).fill('waiting')]);
    assert.deepEqual(new Set(await claims(String)), new Set(['claimed']));
  }),
  test('10 takers and 50 claimers run each event of 5 keys once, no two of a key at the same time', async (inbox) => {
    const [running, done] = [new Set<string>(), new Set<UnknownEvent>()];
    const run = async (event: UnknownEvent, key: string) => {
      const claim = await inbox.claim(event, { key });
      if (claim.state !== 'claimed') return claim.state === 'done';
      assert.ok(!running.has(key), 'Two events of one key were leased at the same time.');
      running.add(key);
      await otherTurn();
      running.delete(key);
      assert.equal(await inbox.port.complete(claim.lease), true);
      assert.ok(!done.has(event), 'An event ran twice.');
      done.add(event);
      return true;
    };
    const keyed = (count: number) =>
      someEvents(count).map((event, index) => [event, `redeem_${index % 5}`] as const);
    const [recorded, delivered] = [keyed(60), keyed(50)];
    const known = new Map([...recorded, ...delivered].map(([event, key]) => [event.id, { event, key }]));
    await inbox.record(
      recorded.map(([event]) => event),
      { keys: recorded.map(([, key]) => key) },
    );
    const takers = simultaneously(10, () =>
      until('takeDue did not return every event of the keys.', async () => {
        for (const { id } of await inbox.takeDue({ limit: 3 })) {
          const { event, key } =
            known.get(id) ?? assert.fail(`takeDue returned ${id}, which was not recorded.`);
          await run(event, key);
        }
        return recorded.every(([event]) => done.has(event)) || undefined;
      }),
    );
    const claimers = simultaneously(50, (index) => {
      const [event, key] = delivered[index] ?? assert.fail();
      const claim = async () => (await run(event, key)) || undefined;
      return until('A claim of a key was never answered claimed.', claim);
    });
    await Promise.all([takers, claimers]);
    assert.equal(done.size, 110);
  }),
  test('keys that differ in case, spaces or accents, and keys of 512 bytes, are different keys', async (inbox) => {
    const long = textOf512Bytes();
    for (const key of [...ODD_NAMES, long, `${long.slice(0, -1)}.`]) {
      await inbox.claimed(someEvent(), { key });
      assert.equal((await inbox.claim(someEvent(), { key })).state, 'waiting');
    }
  }),
];
