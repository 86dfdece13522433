/** Contract of claiming: one winner, fenced, and settled once. */
import assert from 'node:assert/strict';
import type { UnknownEvent } from '../core/events.js';
import { claimed, HOUR_MS, type InboxCase, LAPSED, LONG, someEvent, someEvents, TAKE } from './inbox-case.js';

export const inboxClaimCases: readonly InboxCase[] = [
  {
    name: 'claim: a new event is leased, as attempt 1',
    async run({ inbox }) {
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      assert.equal(lease.id, event.id);
      assert.equal(lease.attempt, 1);
      const record = await inbox.find(event.id);
      assert.equal(record?.state, 'leased');
      assert.equal(record?.attempts, 1);
      assert.equal(record?.origin, 'push');
      assert.equal(record?.type, event.type);
    },
  },
  {
    name: "claim: the event's own text, where it is given, is what is kept",
    async run({ inbox }) {
      const json = '{ "id": "evt_text", "type": "transfer.settled", "payload": { "amount": 1.0, "10": 0 } }';
      const event = JSON.parse(json) as UnknownEvent;
      const claim = await inbox.claim({ ...event, payload: {} }, { ...LAPSED, json });
      assert.equal(claim.state, 'claimed');
      assert.deepEqual((await inbox.find('evt_text'))?.event, event);
      assert.deepEqual(await inbox.takeDue(TAKE), [event]);
    },
  },
  {
    name: 'claim: while a lease runs, others learn how long it still does',
    async run({ inbox, second }) {
      const event = someEvent();
      await claimed(inbox, { event });
      const other = await second.claim(event, LONG);
      assert.equal(other.state, 'leased');
      assert.ok(
        other.state === 'leased' && other.retryAfterMs > HOUR_MS / 2 && other.retryAfterMs <= HOUR_MS,
      );
    },
  },
  {
    name: 'claim: of 40 simultaneous claims of one event exactly one wins',
    async run({ inbox, second }) {
      const event = someEvent();
      const claims = await Promise.all(
        Array.from({ length: 40 }, (_, index) => (index % 2 ? inbox : second).claim(event, LONG)),
      );
      assert.equal(claims.filter(({ state }) => state === 'claimed').length, 1);
      assert.equal(claims.filter(({ state }) => state === 'leased').length, 39);
    },
  },
  {
    name: 'claim: of 4 simultaneous claims of each of 50 events exactly one each wins',
    async run({ inbox, second }) {
      const events = someEvents(50);
      const claims = await Promise.all(
        events.flatMap((event) => [inbox, second, inbox, second].map((one) => one.claim(event, LONG))),
      );
      const won = claims.flatMap((claim) => (claim.state === 'claimed' ? [claim.lease.id] : []));
      assert.equal(won.length, 50);
      assert.equal(new Set(won).size, 50);
    },
  },
  {
    name: 'claim: a lapsed lease is won by exactly one of many simultaneous claims',
    async run({ inbox, second }) {
      const event = someEvent();
      await claimed(inbox, { event, leaseMs: 0 });
      const claims = await Promise.all(
        Array.from({ length: 20 }, (_, index) => (index % 2 ? inbox : second).claim(event, LONG)),
      );
      const won = claims.filter(({ state }) => state === 'claimed');
      assert.equal(won.length, 1);
      assert.equal(won[0]?.state === 'claimed' && won[0].lease.attempt, 2);
    },
  },
  {
    name: 'claim: after a lapsed lease was claimed again, the old token settles nothing',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, { event, leaseMs: 0 });
      const current = await claimed(second, { event });
      assert.equal(current.attempt, 2);
      assert.notEqual(current.token, old.token);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: 0, error: 'late' }), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: null, error: 'late' }), false);
      assert.equal((await inbox.find(event.id))?.state, 'leased');
      assert.equal(await second.complete(current), true);
    },
  },
  {
    name: 'claim: a lease that lapsed but that nobody took can still be settled',
    async run({ inbox }) {
      const lease = await claimed(inbox, { event: someEvent(), leaseMs: 0 });
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'complete: the event is done, and stays a duplicate for ever',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      assert.equal(await inbox.complete(lease), true);
      assert.equal((await inbox.claim(event, LONG)).state, 'done');
      assert.equal((await second.claim(event, LAPSED)).state, 'done');
      assert.equal((await second.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'complete: a second time answers false and changes nothing',
    async run({ inbox }) {
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      await inbox.complete(lease);
      assert.equal(await inbox.complete(lease), false);
      assert.equal(await inbox.fail(lease, { retryAfterMs: 0, error: 'late' }), false);
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'complete: of many simultaneous completions with one token exactly one is true',
    async run({ inbox, second }) {
      const lease = await claimed(inbox, { event: someEvent() });
      const answers = await Promise.all([inbox, second, inbox, second].map((one) => one.complete(lease)));
      assert.equal(answers.filter(Boolean).length, 1);
    },
  },
  {
    name: 'complete: an unknown id or a made-up token answers false',
    async run({ inbox }) {
      const lease = await claimed(inbox, { event: someEvent() });
      const madeUp = '00000000-0000-4000-8000-000000000000';
      assert.equal(await inbox.complete({ ...lease, id: 'evt_nobody' }), false);
      assert.equal(await inbox.complete({ ...lease, token: madeUp }), false);
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'fail: a fresh claim of a failed event wins at once, whatever its retry time',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      assert.equal(await inbox.fail(lease, { retryAfterMs: HOUR_MS, error: 'ERR_HANDLER_FAILED: no' }), true);
      const record = await inbox.find(event.id);
      assert.equal(record?.state, 'failed');
      assert.equal(record?.lastError, 'ERR_HANDLER_FAILED: no');
      assert.equal((await claimed(second, { event })).attempt, 2);
    },
  },
  {
    name: 'fail: with null the event is dead and cannot be claimed',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, { event });
      assert.equal(await inbox.fail(lease, { retryAfterMs: null, error: 'given up' }), true);
      assert.equal((await second.claim(event, LONG)).state, 'dead');
      assert.equal((await second.find(event.id))?.dueAt, null);
    },
  },
  {
    name: 'fail: the error is kept, cut at 1,000 characters',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.fail(await claimed(inbox, { event }), { retryAfterMs: 0, error: 'é'.repeat(5_000) });
      assert.equal((await inbox.find(event.id))?.lastError, 'é'.repeat(1_000));
    },
  },
];
