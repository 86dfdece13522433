/** Contract of what is due: who is taken, in which order, and by one taker only. */
import assert from 'node:assert/strict';
import type { UnknownEvent } from '../core/events.js';
import { claimed, DUE, HOUR_MS, type InboxCase, ids, someEvent, someEvents, TAKE } from './inbox-case.js';

export const inboxDueCases: readonly InboxCase[] = [
  {
    name: 'due: received, failed and lapsed events are taken; done, dead, running and later ones are not',
    async run({ inbox, second }) {
      const [received, failed, lapsed, later, retryLater, running, done, dead] = someEvents(8);
      assert.ok(received && failed && lapsed && later && retryLater && running && done && dead);
      await inbox.record([received], DUE);
      await inbox.fail(await claimed(inbox, { event: failed }), { retryAfterMs: 0, error: 'no' });
      await claimed(inbox, { event: lapsed, leaseMs: 0 });
      await inbox.record([later], { dueInMs: HOUR_MS, origin: 'pull' });
      await inbox.fail(await claimed(inbox, { event: retryLater }), { retryAfterMs: HOUR_MS, error: 'no' });
      await claimed(inbox, { event: running });
      await inbox.complete(await claimed(inbox, { event: done }));
      await inbox.fail(await claimed(inbox, { event: dead }), { retryAfterMs: null, error: 'no' });
      assert.deepEqual(
        new Set(ids(await second.takeDue(TAKE))),
        new Set([received.id, failed.id, lapsed.id]),
      );
    },
  },
  {
    name: 'due: the longest due come first, at most `limit` of them, whole',
    async run({ inbox }) {
      const events = someEvents(6);
      // Recorded the other way round, so that the order of coming is not the order of being due.
      for (const [index, event] of [...events.entries()].reverse()) {
        await inbox.record([event], { dueInMs: (index - 6) * 1_000, origin: 'pull' });
      }
      const first = await inbox.takeDue({ ...TAKE, limit: 4 });
      assert.equal(first.length, 4);
      const rest = await inbox.takeDue({ ...TAKE, limit: 4 });
      assert.equal(rest.length, 2);
      assert.deepEqual([...first, ...rest], events);
    },
  },
  {
    name: 'due: whoever changes an event that was recorded or taken does not change what is run again',
    async run({ inbox }) {
      const event = someEvent({ payload: { amount: '10.50' } });
      const spoil = (given: UnknownEvent | undefined) => Object.assign(given?.payload ?? {}, { amount: '0' });
      await inbox.record([event], DUE);
      spoil(event);
      for (let take = 0; take < 2; take++) {
        const [taken] = await inbox.takeDue({ ...TAKE, visibilityTimeoutMs: 0 });
        assert.deepEqual(taken?.payload, { amount: '10.50' });
        spoil(taken);
      }
      spoil((await inbox.find(event.id))?.event ?? undefined);
      assert.deepEqual((await inbox.find(event.id))?.event?.payload, { amount: '10.50' });
    },
  },
  {
    name: 'due: what was due for an hour comes before what is due now',
    async run({ inbox }) {
      const [now, hidden] = someEvents(2);
      assert.ok(now && hidden);
      await inbox.record([hidden], { dueInMs: -HOUR_MS, origin: 'pull' });
      await inbox.record([now], DUE);
      assert.deepEqual(ids(await inbox.takeDue({ ...TAKE, limit: 1 })), [hidden.id]);
      assert.deepEqual(ids(await inbox.takeDue({ ...TAKE, limit: 1 })), [now.id]);
    },
  },
  {
    name: 'due: what was taken is hidden for `visibilityTimeoutMs`, and can be claimed all the same',
    async run({ inbox, second }) {
      const [hidden, shown] = someEvents(2);
      assert.ok(hidden && shown);
      await inbox.record([hidden], DUE);
      await inbox.takeDue(TAKE);
      assert.deepEqual(await second.takeDue(TAKE), []);
      assert.equal((await claimed(second, { event: hidden })).attempt, 1);
      await inbox.record([shown], DUE);
      await inbox.takeDue({ ...TAKE, visibilityTimeoutMs: 0 });
      assert.deepEqual(ids(await second.takeDue(TAKE)), [shown.id]);
    },
  },
  {
    name: 'due: simultaneous takers never take the same event, and together take all',
    async run({ inbox, second }) {
      const events = someEvents(60);
      await inbox.record(events, DUE);
      const takes = await Promise.all(
        Array.from({ length: 20 }, (_, index) => (index % 2 ? inbox : second).takeDue({ ...TAKE, limit: 7 })),
      );
      const rest = await inbox.takeDue(TAKE);
      const taken = ids([...takes.flat(), ...rest]);
      assert.equal(taken.length, 60);
      assert.deepEqual(new Set(taken), new Set(ids(events)));
    },
  },
  {
    name: 'due: taking a lapsed event fences its old token, and keeps its attempts',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, { event, leaseMs: 0 });
      assert.equal((await second.takeDue(TAKE)).length, 1);
      assert.equal(await inbox.complete(old), false);
      assert.equal((await inbox.find(event.id))?.state, 'failed');
      assert.equal((await claimed(second, { event })).attempt, 2);
    },
  },
  {
    name: 'due: a parked event waits for its type to be known, then runs',
    async run({ inbox }) {
      const event = someEvent({ type: 'mint.completed' });
      assert.deepEqual(await inbox.record([event], { dueInMs: null, origin: 'push' }), ['new']);
      assert.deepEqual(await inbox.record([event], { dueInMs: null, origin: 'push' }), ['parked']);
      assert.deepEqual(await inbox.takeDue({ ...TAKE, types: ['transfer.settled'] }), []);
      assert.equal((await inbox.find(event.id))?.dueAt, null);
      assert.deepEqual(await inbox.takeDue({ ...TAKE, types: ['mint.completed'] }), [event]);
      assert.equal((await inbox.find(event.id))?.state, 'received');
      await inbox.complete(await claimed(inbox, { event }));
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'due: a parked event can be claimed by whoever knows its type',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.record([event], { dueInMs: null, origin: 'push' });
      assert.equal((await claimed(inbox, { event })).attempt, 1);
    },
  },
];
