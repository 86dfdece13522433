/** Contract of recording: what is recorded, what is due, and that an event comes back as it went in. */
import assert from 'node:assert/strict';
import type { UnknownEvent } from '../core/events.js';
import {
  claimed,
  DUE,
  HOUR_MS,
  type InboxCase,
  ids,
  LONG,
  someEvent,
  someEvents,
  TAKE,
} from './inbox-case.js';

export const inboxRecordCases: readonly InboxCase[] = [
  {
    name: 'record: answers in order which events are new, and the states of the others',
    async run({ inbox }) {
      const [done, leased, failed, dead, fresh] = someEvents(5);
      assert.ok(done && leased && failed && dead && fresh);
      await inbox.complete(await claimed(inbox, { event: done }));
      await claimed(inbox, { event: leased });
      await inbox.fail(await claimed(inbox, { event: failed }), { retryAfterMs: HOUR_MS, error: 'no' });
      await inbox.fail(await claimed(inbox, { event: dead }), { retryAfterMs: null, error: 'no' });
      const page = [fresh, done, leased, failed, dead];
      assert.deepEqual(await inbox.record(page, DUE), ['new', 'done', 'leased', 'failed', 'dead']);
      assert.deepEqual(await inbox.record(page, DUE), ['received', 'done', 'leased', 'failed', 'dead']);
      assert.equal((await inbox.find(fresh.id))?.origin, 'pull');
    },
  },
  {
    name: 'record: an empty page is nothing to do',
    async run({ inbox }) {
      assert.deepEqual(await inbox.record([], DUE), []);
    },
  },
  {
    name: 'record: a page of 1,000',
    async run({ inbox }) {
      const page = someEvents(1_000);
      assert.deepEqual(new Set(await inbox.record(page, DUE)), new Set(['new']));
      assert.deepEqual(new Set(await inbox.record(page, DUE)), new Set(['received']));
    },
  },
  {
    name: 'record: an id twice in one page is new once, and its first content stands',
    async run({ inbox }) {
      const first = someEvent();
      const twin = { ...first, payload: { amount: '99.00' } };
      assert.deepEqual(await inbox.record([first, twin], DUE), ['new', 'received']);
      assert.deepEqual(await inbox.record([twin], DUE), ['received']);
      assert.deepEqual((await inbox.find(first.id))?.event, first);
    },
  },
  {
    name: 'record: of two simultaneous pages with the same events each id is new in exactly one',
    async run({ inbox, second }) {
      const page = someEvents(60);
      const answers = await Promise.all([
        inbox.record(page, DUE),
        second.record([...page].reverse(), DUE),
        inbox.record(page, DUE),
      ]);
      assert.equal(answers.flat().filter((answer) => answer === 'new').length, 60);
    },
  },
  {
    name: 'record: beside simultaneous claims, nothing is lost and nothing is claimed twice',
    async run({ inbox, second }) {
      const page = someEvents(30);
      const [, ...claims] = await Promise.all([
        inbox.record(page, DUE),
        ...page.map((event) => second.claim(event, LONG)),
      ]);
      assert.equal(claims.filter(({ state }) => state === 'claimed').length, 30);
      assert.equal((await inbox.takeDue(TAKE)).length, 0);
    },
  },
  {
    name: 'record: a recorded event is claimed as attempt 1, whether due or not',
    async run({ inbox }) {
      const [now, later] = someEvents(2);
      assert.ok(now && later);
      await inbox.record([now], DUE);
      await inbox.record([later], { dueInMs: HOUR_MS, origin: 'pull' });
      assert.equal((await claimed(inbox, { event: now })).attempt, 1);
      assert.equal((await claimed(inbox, { event: later })).attempt, 1);
    },
  },
  {
    name: 'records: every event comes back as it went in',
    async run({ inbox, second }) {
      for (const event of odd) {
        await inbox.record([event], DUE);
        assert.equal(JSON.stringify((await second.find(event.id))?.event), JSON.stringify(event));
      }
      assert.deepEqual(new Set(ids(await second.takeDue(TAKE))), new Set(ids(odd)));
    },
  },
  {
    name: 'records: ids that differ in case, blanks or accents are different events',
    async run({ inbox }) {
      const events = [
        'evt',
        'EVT',
        'evt ',
        ' evt',
        'évt',
        'e\u0301vt',
        "evt'; --",
        'evt%',
        'evt_',
        '{evt}',
        'evt:*',
      ].map((id) => someEvent({ id }));
      assert.deepEqual(new Set(await inbox.record(events, DUE)), new Set(['new']));
      for (const event of events) {
        await inbox.complete(await claimed(inbox, { event }));
        assert.equal((await inbox.find(event.id))?.id, event.id);
      }
    },
  },
  {
    name: 'records: an id of 512 characters',
    async run({ inbox }) {
      const event = someEvent({ id: 'é'.repeat(512) });
      await inbox.complete(await claimed(inbox, { event }));
      assert.equal((await inbox.claim(event, LONG)).state, 'done');
    },
  },
];

/** Events that are awkward to store. */
const odd: readonly UnknownEvent[] = [
  someEvent({ payload: { text: 'zero \u0000, lone \ud800, pair 😀, line\u2028, quote " \\ / \' $1 %s' } }),
  someEvent({ payload: { z: 1, a: 2, 10: 'ten', 2: 'two', nested: { list: [1, [2, [3, null]]], no: {} } } }),
  someEvent({ payload: { amount: '0.10', big: 1e21, small: 1e-7, negative: -0.5, yes: true, none: null } }),
  someEvent({ payload: JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}') }),
  { ...someEvent(), delivered: true, extra: { kept: ['x'] } } as UnknownEvent,
  someEvent({ payload: { long: 'x'.repeat(200_000) } }),
  someEvent({ payload: {} }),
];
