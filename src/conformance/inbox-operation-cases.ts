/** Contract of operating an inbox: looking, counting, requeueing, pruning. */
import assert from 'node:assert/strict';
import { INBOX_STATES, type InboxRecord } from '../core/inbox.js';
import { claimed, DUE, HOUR_MS, type InboxCase, LONG, someEvent, someEvents, TAKE } from './inbox-case.js';

export const inboxOperationCases: readonly InboxCase[] = [
  {
    name: 'find: an id that never came is undefined',
    async run({ inbox }) {
      assert.equal(await inbox.find('evt_nobody'), undefined);
    },
  },
  {
    name: 'find: a record tells when the event came, when it changed and when it is due',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.record([event], { dueInMs: HOUR_MS, origin: 'pull' });
      const record = await inbox.find(event.id);
      assert.ok(record);
      const { receivedAt, updatedAt, dueAt, ...rest } = record;
      assert.deepEqual(rest, {
        id: event.id,
        type: event.type,
        state: 'received',
        attempts: 0,
        origin: 'pull',
        lastError: null,
        event,
      });
      assert.ok(Math.abs(receivedAt - Date.now()) < HOUR_MS, 'receivedAt is epoch ms');
      assert.ok(updatedAt >= receivedAt);
      assert.ok(dueAt !== null && Math.abs(dueAt - receivedAt - HOUR_MS) < 1_000);
    },
  },
  {
    name: 'list: pages through one state, each record once',
    async run({ inbox }) {
      const events = someEvents(7);
      for (const event of events) await inbox.record([event], DUE);
      await claimed(inbox, { event: someEvent() });
      const seen: string[] = [];
      for (let after: string | undefined; ; ) {
        const page = await inbox.list({ state: 'received', limit: 3, after });
        if (page.length === 0) break;
        assert.ok(page.length <= 3 && page.every(({ state }) => state === 'received'));
        seen.push(...page.map(({ id }) => id));
        after = page.at(-1)?.id;
      }
      assert.equal(seen.length, 7);
      assert.deepEqual(new Set(seen), new Set(events.map(({ id }) => id)));
    },
  },
  {
    name: 'list: goes on behind the last one seen, also when that has left the state',
    async run({ inbox }) {
      for (const event of someEvents(6)) {
        await inbox.fail(await claimed(inbox, { event }), { retryAfterMs: null, error: 'no' });
      }
      const all = await inbox.list({ state: 'dead', limit: 6 });
      const [second, fourth] = [all[1], all[3]];
      assert.ok(second && fourth);
      for (const last of [second, fourth]) await inbox.requeue(last.id);
      const after = async ({ id }: InboxRecord) =>
        (await inbox.list({ state: 'dead', limit: 9, after: id })).map((record) => record.id);
      const dead = (from: number) => all.slice(from).flatMap(({ id }) => (id === fourth.id ? [] : [id]));
      assert.deepEqual(await after(second), dead(2));
      assert.deepEqual(await after(fourth), dead(4));
    },
  },
  {
    name: 'count: tells every state, in order, and since when its oldest is there',
    async run({ inbox }) {
      assert.deepEqual(
        await inbox.count(),
        INBOX_STATES.map((state) => ({ state, count: 0, oldest: null })),
      );
      await inbox.record(someEvents(3), DUE);
      await inbox.record(someEvents(1, { type: 'mint.completed' }), { dueInMs: null, origin: 'push' });
      for (const event of someEvents(2)) await inbox.complete(await claimed(inbox, { event }));
      const counts = await inbox.count();
      assert.deepEqual(
        counts.map(({ state, count }) => [state, count]),
        [
          ['received', 3],
          ['leased', 0],
          ['failed', 0],
          ['done', 2],
          ['dead', 0],
          ['parked', 1],
        ],
      );
      for (const { state, oldest } of counts) {
        const since = (await inbox.list({ state, limit: 9 })).map(({ updatedAt }) => updatedAt);
        assert.equal(oldest, since.length === 0 ? null : Math.min(...since));
      }
    },
  },
  {
    name: 'requeue: a dead event is due at once, its attempts counted anew, its old token void',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, { event });
      await inbox.fail(old, { retryAfterMs: null, error: 'given up' });
      assert.equal(await second.requeue(event.id), true);
      assert.equal(await second.requeue(event.id), false);
      assert.deepEqual(await inbox.takeDue(TAKE), [event]);
      const lease = await claimed(inbox, { event });
      assert.equal(lease.attempt, 1);
      assert.notEqual(lease.token, old.token);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'requeue: what is not dead stays as it is',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.complete(await claimed(inbox, { event }));
      assert.equal(await inbox.requeue(event.id), false);
      assert.equal(await inbox.requeue('evt_nobody'), false);
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'prune: drops the JSON of old done events, and their ids stay duplicates',
    async run({ inbox, second }) {
      const [done, dead, waiting] = someEvents(3);
      assert.ok(done && dead && waiting);
      await inbox.complete(await claimed(inbox, { event: done }));
      await inbox.fail(await claimed(inbox, { event: dead }), { retryAfterMs: null, error: 'no' });
      await inbox.record([waiting], DUE);
      assert.equal(await inbox.prune({ olderThanMs: HOUR_MS }), 0);
      assert.deepEqual((await inbox.find(done.id))?.event, done);
      assert.equal(await inbox.prune({ olderThanMs: 0 }), 1);
      assert.equal(await inbox.prune({ olderThanMs: 0 }), 0);
      assert.equal((await inbox.find(done.id))?.event, null);
      assert.equal((await second.claim(done, LONG)).state, 'done');
      assert.deepEqual(await second.record([done, dead, waiting], DUE), ['done', 'dead', 'received']);
      assert.deepEqual((await inbox.find(dead.id))?.event, dead);
      assert.deepEqual(await inbox.takeDue(TAKE), [waiting]);
    },
  },
  {
    name: 'prune: waits until an event is as old as was said',
    async run({ inbox }) {
      await inbox.complete(await claimed(inbox, { event: someEvent() }));
      const until = Date.now() + 10_000;
      while ((await inbox.prune({ olderThanMs: 20 })) === 0) {
        assert.ok(Date.now() < until, 'an event that was done for 10 s is not pruned as older than 20 ms');
      }
    },
  },
];
