/** Contract of transactions: the effect and the event's "done" are one. */
import assert from 'node:assert/strict';
import { claimed, type InboxCase, someEvent } from './inbox-case.js';

/**
 * The rules of `Inbox.transaction`, for inboxes that have it, beside `inboxContract`. That what an effect wrote is
 * undone with it only its own database can show.
 */
export const inboxTransactionContract: readonly InboxCase[] = [
  {
    name: 'transaction: marks the event done once its effect has resolved, and not when it rejects',
    async run({ inbox, second }) {
      assert.ok(inbox.transaction, 'the inbox has no transaction');
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      const failure = new Error('the effect failed');
      await assert.rejects(
        inbox.transaction(lease, () => Promise.reject(failure)),
        (error) => error === failure,
      );
      assert.equal((await second.find(event.id))?.state, 'leased');
      assert.equal(await inbox.transaction(lease, async () => undefined), true);
      assert.equal((await second.find(event.id))?.state, 'done');
      assert.equal(await inbox.transaction(lease, async () => undefined), false);
    },
  },
  {
    name: 'transaction: a lost lease answers false',
    async run({ inbox, second }) {
      assert.ok(inbox.transaction, 'the inbox has no transaction');
      const event = someEvent();
      const old = await claimed(inbox, { event, leaseMs: 0 });
      const current = await claimed(second, { event });
      assert.equal(await inbox.transaction(old, async () => undefined), false);
      assert.equal((await inbox.find(event.id))?.state, 'leased');
      assert.equal(await second.transaction?.(current, async () => undefined), true);
    },
  },
];
