/** The contract of a further client of a store: each statement once, and the whole contract of inboxes at night. */
import assert from 'node:assert/strict';
import { exampleEvent } from 'stablehooks/testing';
import { type ContractCase, type InboxUnderTest, inboxContract } from './contracts/index.js';
import { atNight } from './nightly.js';

const CLAIM = { leaseMs: 60_000, origin: 'push' } as const;

async function claim({ inbox }: InboxUnderTest) {
  const event = exampleEvent('transfer.settled');
  const answer = await inbox.claim(event, CLAIM);
  assert(answer.state === 'claimed');
  return { event, lease: answer.lease };
}

const statements: readonly ContractCase<InboxUnderTest>[] = [
  {
    name: 'an event is claimed once and completed, and its pruned id stays done',
    async run(subject) {
      const { inbox, second } = subject;
      const { event, lease } = await claim(subject);
      assert.equal((await second.claim(event, CLAIM)).state, 'leased');
      assert.equal(await inbox.complete(lease), true);
      assert.equal(await second.complete(lease), false);
      assert.equal(await inbox.prune({ olderThanMs: 0 }), 1);
      assert.deepEqual(await second.claim(event, CLAIM), { state: 'done' });
    },
  },
  {
    name: 'a failed event waits for its retry time, is due then, and keeps its error',
    async run(subject) {
      const { inbox, second } = subject;
      const { event, lease } = await claim(subject);
      assert.equal(await inbox.fail(lease, { error: 'the bank is closed', retryAfterMs: 60_000 }), true);
      assert.equal((await second.claim(event, CLAIM)).state, 'failed');
      const found = await second.find(event.id);
      assert.deepEqual([found?.state, found?.lastError], ['failed', 'the bank is closed']);
    },
  },
  {
    name: 'a recorded page is taken once, with the text of its events',
    async run({ inbox, second }) {
      const events = [exampleEvent('transfer.settled'), exampleEvent('redeem.failed')];
      assert.deepEqual(await inbox.record(events, { dueInMs: 0, origin: 'pull' }), ['new', 'new']);
      const take = {
        limit: 10,
        visibilityTimeoutMs: 60_000,
        types: ['transfer.settled', 'redeem.failed'],
      };
      const taken = await second.takeDue(take);
      assert.deepEqual(new Set(taken.map(({ json }) => JSON.parse(json))), new Set(events));
      assert.deepEqual(await inbox.takeDue(take), []);
    },
  },
];

export const driverContract: readonly ContractCase<InboxUnderTest>[] = atNight(inboxContract, statements);
