/** Contract of polling: one poller at a time, and what it keeps between polls. */
import assert from 'node:assert/strict';
import { HOUR_MS, type InboxCase } from './inbox-case.js';

const A = { holder: 'a', leaseMs: HOUR_MS } as const;
const B = { holder: 'b', leaseMs: HOUR_MS } as const;

export const inboxPollCases: readonly InboxCase[] = [
  {
    name: 'poll: the first taker finds no watermark and no answer',
    async run({ inbox }) {
      assert.deepEqual(await inbox.acquirePoll(A), { watermark: null, largest: 0 });
    },
  },
  {
    name: 'poll: while one holds the lease another gets null, and the holder may take it again',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      assert.equal(await second.acquirePoll(B), null);
      assert.notEqual(await second.acquirePoll(A), null);
    },
  },
  {
    name: 'poll: of many simultaneous takers exactly one gets the lease',
    async run({ inbox, second }) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 ? inbox : second).acquirePoll({ holder: `holder ${index}`, leaseMs: HOUR_MS }),
        ),
      );
      assert.equal(answers.filter((answer) => answer !== null).length, 1);
    },
  },
  {
    name: 'poll: a lapsed lease goes to the next taker, and its old holder saves nothing',
    async run({ inbox, second }) {
      await inbox.acquirePoll({ ...A, leaseMs: 0 });
      assert.notEqual(await second.acquirePoll(B), null);
      assert.equal(await inbox.savePoll({ watermark: 1, largest: 1 }, A), false);
      assert.equal(await second.savePoll({ watermark: 2, largest: 2 }, B), true);
      assert.deepEqual(await second.acquirePoll(B), { watermark: 2, largest: 2 });
    },
  },
  {
    name: 'poll: what was saved is there for the next holder once the lease is given back',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      const state = { watermark: 1_767_323_045_678, largest: 1_000 };
      assert.equal(await inbox.savePoll(state, A), true);
      assert.equal(await second.acquirePoll(B), null);
      assert.equal(await inbox.savePoll(state, { ...A, leaseMs: 0 }), true);
      assert.deepEqual(await second.acquirePoll(B), state);
    },
  },
  {
    name: 'poll: saving before anybody took the lease answers false',
    async run({ inbox }) {
      assert.equal(await inbox.savePoll({ watermark: 1, largest: 1 }, A), false);
      assert.deepEqual(await inbox.acquirePoll(A), { watermark: null, largest: 0 });
    },
  },
  {
    name: 'poll: a watermark may be null again, or long ago',
    async run({ inbox }) {
      await inbox.acquirePoll(A);
      await inbox.savePoll({ watermark: -1, largest: 50 }, A);
      assert.deepEqual(await inbox.acquirePoll(A), { watermark: -1, largest: 50 });
      await inbox.savePoll({ watermark: null, largest: 50 }, A);
      assert.deepEqual(await inbox.acquirePoll(A), { watermark: null, largest: 50 });
    },
  },
];
