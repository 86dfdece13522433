/** Operations on the events that a filter finds, and events whose stored text is odd or cannot be read. */
import assert from 'node:assert/strict';
import { encodeEvent, type InboxFilter, type UnknownEvent } from 'stablehooks';
import { health } from 'stablehooks/health';
import { someEvent } from '../contract.js';
import { HOUR_MS, someEvents, sortedIds, TAKE, type TestedInbox, TYPE, test, until } from './given.js';

const WHO = { by: 'ana@example.com', reason: 'booked by hand "#12"\nwith \u{1f600}' };

/** One event in each state, and some in which one thing differs. */
async function fill(inbox: TestedInbox) {
  const fail = async (event: UnknownEvent, retryAfterMs: number | null, error: string, key?: string) => {
    await inbox.port.fail(await inbox.claimed(event, { key }), { retryAfterMs, error });
  };
  const [received, leased, failed, done, dead, keyed, quoted] = someEvents(7);
  const parked = someEvent({ type: 'mint.completed' });
  assert.ok(received && leased && failed && done && dead && keyed && quoted);
  await inbox.record([received]);
  await inbox.claimed(leased, { leaseMs: 0 });
  await fail(failed, HOUR_MS, 'The bank answered 503');
  await inbox.port.complete(await inbox.claimed(done));
  await fail(dead, null, 'The account is closed');
  await fail(keyed, null, 'the bank answered 100%', 'wallet 1');
  await fail(quoted, null, 'a line\nanother');
  await inbox.record([parked], { dueInMs: null });
  return { received, leased, failed, done, dead, keyed, quoted, parked };
}

type Named = Awaited<ReturnType<typeof fill>>;
type Name = keyof Named;

const FILTERS: readonly (readonly [InboxFilter, readonly Name[]])[] = [
  [{}, ['received', 'leased', 'failed', 'done', 'dead', 'keyed', 'quoted', 'parked']],
  [{ state: 'dead' }, ['dead', 'keyed', 'quoted']],
  [{ state: 'leased' }, ['leased']],
  [{ type: 'mint.completed' }, ['parked']],
  [{ type: 'mint' }, []],
  [{ key: 'wallet 1' }, ['keyed']],
  [{ error: 'bank answered' }, ['failed', 'keyed']],
  [{ error: 'The bank' }, ['failed']],
  [{ error: '0%' }, ['keyed']],
  [{ error: 'answered_' }, []],
  [{ error: 'line\nanother' }, ['quoted']],
  // As JSON the text would be found.
  [{ error: 'nanother' }, []],
  [{ error: 'bank answered', state: 'dead', type: 'transfer.settled' }, ['keyed']],
  [{ ids: [] }, []],
];

async function statesOf(inbox: TestedInbox, events: Named) {
  const entries = Object.entries(events).map(async ([name, event]) => [
    name,
    (await inbox.find(event)).state,
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

const WRONG_FILTERS: readonly object[] = [
  ...[
    { state: 'deed' },
    { types: 'x' },
    { type: 1 },
    { key: '' },
    { error: '' },
    { ids: 'evt' },
    { ids: [1] },
    { ids: new Array(1) },
  ],
  ...[{ receivedSince: '2026-01-02' }, { updatedUntil: -1 }],
  // A variable that is missing by mistake.
  ...[{ ids: undefined }, { key: undefined }, { state: 'dead', error: undefined }, { damaged: true }],
];
const INVALID = { code: 'ERR_CONFIG_INVALID' };

export const filterCases = [
  test('list and count return exactly the events that meet every condition of a filter', async (inbox) => {
    const events = await fill(inbox);
    for (const [filter, names] of FILTERS) {
      const what = JSON.stringify(filter);
      const expected = names.map((name) => events[name]);
      const listed = await inbox.port.list({ ...filter, limit: 100 });
      assert.deepEqual(sortedIds(listed), sortedIds(expected), `list(${what})`);
      const newest = await inbox.port.list({ ...filter, limit: 100, order: 'newest' });
      assert.deepEqual(newest, listed.toReversed(), `list(${what}) with the newest first`);
      const counts = await inbox.port.count(filter);
      for (const { state, count, oldest } of counts) {
        const since = listed.filter((record) => record.state === state).map(({ updatedAt }) => updatedAt);
        const counted = since.length === 0 || state === 'done' ? null : Math.min(...since);
        assert.deepEqual([count, oldest], [since.length, counted], `count(${what}) of ${state} events`);
      }
    }
    const { dead, done } = events;
    const both = { ids: [dead.id, done.id, dead.id, 'evt_unknown'], limit: 10 };
    assert.deepEqual(sortedIds(await inbox.port.list(both)), sortedIds([dead, done]));
    assert.deepEqual(sortedIds(await inbox.port.list({ ...both, state: 'done' })), [done.id]);
  }),
  test('a list without events differs from the list only in the events, even for ids and for pruned events', async (inbox) => {
    const { done } = await fill(inbox);
    const every = await inbox.port.list({ limit: 100 });
    for (const filter of [{}, { ids: every.map(({ id }) => id) }, { ignored: true as const }]) {
      const all = await inbox.port.list({ ...filter, limit: 100 });
      const without = await inbox.port.list({ ...filter, limit: 100, withEvents: false });
      assert.deepEqual(
        without,
        all.map((record) => ({ ...record, event: null })),
      );
    }
    await inbox.port.prune({ olderThanMs: 0 });
    const [pruned] = await inbox.port.list({ ids: [done.id], limit: 1, withEvents: false });
    assert.deepEqual(pruned, await inbox.find(done));
  }),
  test('pages of a list of every state, and of a filter, continue after the given id', async (inbox) => {
    await fill(inbox);
    for (const filter of [
      {},
      { error: 'bank' },
      { ids: (await inbox.port.list({ limit: 5 })).map(({ id }) => id) },
    ]) {
      for (const order of ['oldest', 'newest'] as const) {
        const all = await inbox.port.list({ ...filter, order, limit: 100 });
        const seen = [];
        for (let after: string | undefined; ; after = seen.at(-1)?.id) {
          const page = await inbox.port.list({ ...filter, order, limit: 1, after });
          if (page.length === 0) break;
          seen.push(...page);
        }
        assert.deepEqual(seen, all);
      }
    }
  }),
  test('an event that is taken and never claimed has been received since it was recorded', async (inbox) => {
    const event = someEvent();
    await inbox.record([event]);
    const { updatedAt } = await inbox.find(event);
    for (const until = Date.now() + 5; Date.now() < until; ) await inbox.takeDue({ visibilityTimeoutMs: 0 });
    assert.equal((await inbox.find(event)).updatedAt, updatedAt);
    assert.equal((await inbox.port.count({ ids: [event.id] }))[0]?.oldest, updatedAt);
  }),
  test('times of a filter include their start and exclude their end', async (inbox) => {
    const event = someEvent();
    await inbox.record([event]);
    await until('The clock of the inbox stands still.', async () => {
      await inbox.port.fail(await inbox.claimed(event), { retryAfterMs: 0, error: 'no' });
      const { receivedAt, updatedAt } = await inbox.find(event);
      return updatedAt > receivedAt || undefined;
    });
    const { receivedAt, updatedAt } = await inbox.find(event);
    const finds = async (filter: InboxFilter) =>
      (await inbox.port.list({ ...filter, limit: 1 })).length === 1;
    assert.ok(await finds({ receivedSince: receivedAt, receivedUntil: receivedAt + 1 }));
    assert.ok(await finds({ updatedSince: updatedAt, updatedUntil: updatedAt + 1 }));
    assert.ok(
      !(await finds({ receivedSince: receivedAt + 1 })) && !(await finds({ receivedUntil: receivedAt })),
    );
    assert.ok(!(await finds({ updatedSince: updatedAt + 1 })) && !(await finds({ updatedUntil: updatedAt })));
    const { dueAt } = await inbox.find(event);
    assert.ok(
      dueAt !== null && (await finds({ dueUntil: dueAt + 1 })) && !(await finds({ dueUntil: dueAt })),
    );
    await inbox.port.complete(await inbox.claimed(event));
    assert.ok(!(await finds({ dueUntil: dueAt + 1 })));
  }),
  test('a requeue by a filter makes dead and failed events due, starts again at attempt 1, and changes no other event', async (inbox) => {
    const events = await fill(inbox);
    const before = await statesOf(inbox, events);
    assert.equal(await inbox.port.requeue({ error: 'bank' }), 2);
    assert.deepEqual(await statesOf(inbox, events), { ...before, failed: 'received', keyed: 'received' });
    assert.equal((await inbox.claimed(events.failed)).attempt, 1);
    assert.equal(await inbox.port.requeue({ state: 'leased' }), 1, 'Its lease has lapsed.');
    for (const state of ['received', 'done', 'parked'] as const) {
      assert.equal(await inbox.port.requeue({ state }), 0);
      assert.equal(await inbox.port.requeue(events[state].id), 0);
    }
    assert.equal(await inbox.port.requeue({}), 2);
    const requeued = ['received', 'keyed', 'quoted', 'dead', 'leased', 'parked'] as const;
    const due = await inbox.takeDue({ types: ['transfer.settled', 'mint.completed'] });
    assert.deepEqual(sortedIds(due), sortedIds(requeued.map((name) => events[name])));
  }),
  test('an ignored event is marked, and a requeue of ignored events makes it due, and no other done event', async (inbox) => {
    const events = await fill(inbox);
    const [ignored, imported, discarded] = [someEvent(), someEvent(), someEvent()];
    await inbox.ignore([ignored]);
    await inbox.port.importDone([imported.id]);
    await inbox.record([discarded]);
    await inbox.port.discard({ ...WHO, ids: [discarded.id] });
    const before = await statesOf(inbox, events);
    const marked = await inbox.port.list({ ignored: true, limit: 10 });
    assert.deepEqual([marked.map(({ id }) => id), marked[0]?.ignored], [[ignored.id], true]);
    assert.equal((await inbox.find(discarded)).ignored, false);
    assert.equal(await inbox.port.requeue({ ids: [ignored.id] }), 0);
    assert.equal(await inbox.port.requeue({ ignored: true }), 1);
    assert.deepEqual(await statesOf(inbox, events), before);
    const { state, attempts, ignored: isIgnored } = await inbox.find(ignored);
    assert.deepEqual([state, attempts, isIgnored], ['received', 0, false]);
    await inbox.port.complete(await inbox.claimed(ignored));
    assert.equal(await inbox.port.requeue({ ignored: true }), 0);
    assert.equal((await inbox.claim(ignored)).state, 'done');
    assert.equal(
      await inbox.port.prune({ olderThanMs: 0 }),
      3,
      'The ignored, the discarded and the done event.',
    );
  }),
  test('a requeue and a discard change at most `limit` events, those that were received first', async (inbox) => {
    const events = someEvents(5);
    for (const event of events) {
      await inbox.port.fail(await inbox.claimed(event), { retryAfterMs: null, error: 'no' });
    }
    const order = (await inbox.port.list({ limit: 10 })).map(({ id }) => id);
    assert.equal(await inbox.port.requeue({ state: 'dead', limit: 2 }), 2);
    assert.equal(await inbox.port.discard({ ...WHO, state: 'dead', limit: 1 }), 1);
    const states = new Map((await inbox.port.list({ limit: 10 })).map(({ id, state }) => [id, state]));
    const expected = ['received', 'received', 'done', 'dead', 'dead'];
    assert.deepEqual(
      order.map((id) => states.get(id)),
      expected,
    );
  }),
  test('discarded events are done and never run: received, failed, dead, parked and lapsed ones, never a running one', async (inbox) => {
    const events = await fill(inbox);
    const { leased, done, failed, dead } = events;
    await inbox.claimed(leased);
    const ids = Object.values(events).map(({ id }) => id);
    assert.equal(await inbox.port.discard({ ...WHO, ids }), 6);
    const all = await statesOf(inbox, events);
    assert.deepEqual(new Set(Object.values({ ...all, leased: 'done' })), new Set(['done']));
    assert.equal(all.leased, 'leased');
    assert.equal((await inbox.find(done)).history.at(-1)?.result, 'done');
    for (const [name, event] of Object.entries(events)) {
      if (name === 'leased') continue;
      assert.equal((await inbox.claim(event, { early: true })).state, 'done');
      assert.deepEqual(await inbox.record([event]), ['done']);
    }
    assert.deepEqual(await inbox.takeDue({ types: ['transfer.settled', 'mint.completed'] }), []);
    for (const event of [failed, dead]) {
      const { history, dueAt, lastError } = await inbox.find(event);
      const [attempt, { startedAt, endedAt, ...discarded } = { startedAt: 0, endedAt: 0 }] = history;
      assert.equal(attempt?.error, event === failed ? 'The bank answered 503' : 'The account is closed');
      assert.deepEqual(discarded, { attempt: 1, result: 'discarded', error: null, ...WHO });
      assert.ok(startedAt >= (attempt?.endedAt ?? Infinity) && endedAt >= startedAt);
      assert.deepEqual([history.length, dueAt, lastError], [2, null, null]);
    }
    assert.equal((await inbox.find(events.received)).history[0]?.attempt, 0);
    assert.equal(await inbox.port.requeue({ ids }), 0);
    assert.equal(await inbox.port.discard({ ...WHO, ids, force: true }), 1);
  }),
  test('the history of a requeued event says who requeued it and why, if that was given, and its attempts count from 0', async (inbox) => {
    const { failed, dead } = await fill(inbox);
    assert.equal(await inbox.port.requeue({ ...WHO, ids: [dead.id] }), 1);
    const { history, attempts, state } = await inbox.find(dead);
    assert.deepEqual([state, attempts, history.length], ['received', 0, 2]);
    const { startedAt, endedAt, ...requeued } = history[1] ?? { startedAt: 0, endedAt: 0 };
    assert.deepEqual(requeued, { attempt: 1, result: 'requeued', error: null, ...WHO });
    assert.ok(startedAt >= (history[0]?.endedAt ?? Infinity) && endedAt >= startedAt);
    await inbox.port.complete(await inbox.claimed(dead));
    const after = await inbox.find(dead);
    assert.deepEqual(
      [after.attempts, after.history.map(({ result }) => result)],
      [1, ['dead', 'requeued', 'done']],
    );
    assert.equal(await inbox.port.requeue(failed.id), 1);
    assert.equal((await inbox.find(failed)).history.length, 1);
  }),
  test('a discarded event keeps no other event of its key from running', async (inbox) => {
    const [first, second] = someEvents(2);
    assert.ok(first && second);
    await inbox.record([first, second], { keys: ['k', 'k'] });
    assert.equal(await inbox.port.discard({ ...WHO, ids: [first.id] }), 1);
    assert.deepEqual(await inbox.takeDue(), [second]);
    await inbox.port.complete(await inbox.claimed(second, { key: 'k' }));
  }),
  test('an imported id is done without an event: its deliveries are duplicates, and ids that are there do not change', async (inbox) => {
    const events = await fill(inbox);
    const before = await statesOf(inbox, events);
    const old = someEvent();
    const ids = [...Object.values(events), old, old].map(({ id }) => id);
    assert.equal(await inbox.port.importDone(ids), 1);
    assert.equal(await inbox.port.importDone(ids), 0);
    assert.deepEqual(await statesOf(inbox, events), before);
    const { receivedAt, updatedAt, ...rest } = await inbox.find(old);
    assert.deepEqual(rest, {
      ...{ id: old.id, type: '', state: 'done', attempts: 0, origin: 'import', key: null },
      ...{ dueAt: null, lastError: null, ignored: false, history: [], event: null },
    });
    assert.ok(Math.abs(receivedAt - Date.now()) < HOUR_MS && updatedAt >= receivedAt);
    assert.equal((await inbox.claim(old)).state, 'done');
    assert.deepEqual([await inbox.record([old]), await inbox.ignore([old])], [['done'], ['done']]);
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 1);
  }),
  test('importDone takes 2,500 ids in one call', async (inbox) => {
    const ids = someEvents(2_500).map(({ id }) => id);
    assert.equal(await inbox.port.importDone(ids), 2_500);
    const done = (await inbox.port.count()).find(({ state }) => state === 'done');
    assert.equal(done?.count, 2_500);
  }),
  test('a stored text that cannot be read has a record without an event, and keeps no other event from being taken', async (inbox) => {
    const [first, ...rest] = someEvents(5);
    const other = someEvent();
    assert.ok(first);
    // Not JSON, the JSON of something else, and the JSON of another event.
    const texts = ['{"id":', 'null', '{}', '"text"', JSON.stringify(other)];
    await inbox.record([first, ...rest], { json: texts, dueInMs: -1_000 });
    await inbox.record([other]);
    const taken = await inbox.port.takeDue(TAKE);
    assert.deepEqual(new Set(taken.map(({ json }) => json)), new Set(texts));
    assert.deepEqual(sortedIds(taken), sortedIds([first, ...rest, other]));
    for (const { id, event, state } of await inbox.port.list({ limit: 10 })) {
      assert.deepEqual([event, state], [id === other.id ? other : null, 'received']);
    }
    assert.equal((await inbox.find(first)).event, null);
    await inbox.port.complete(await inbox.claimed(first));
    assert.equal(await inbox.port.discard({ ...WHO, ids: rest.map(({ id }) => id) }), 4);
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 5);
  }),
  test('an event is read from its stored text as JSON.parse reads it', async (inbox) => {
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    // Half an emoji, more levels than databases read, and an id twice.
    const texts = [
      '"\\ud83d"',
      '1234567890123456789012',
      nested(1_001),
      nested(400_000),
      '0 }, "id": "evt_twice", "more": { "b": 0',
    ].map(
      (value, index) =>
        `{ "id": "evt_${index}", "type": "${TYPE}", "created_at": "2026-01-02T03:04:05Z", "payload": { "a": ${value} } }`,
    );
    const events: readonly UnknownEvent[] = texts.map((text) => JSON.parse(text));
    await inbox.record(events, { json: texts });
    const listed = await inbox.port.list({ limit: 10 });
    assert.deepEqual(
      listed.map(({ event }) => event?.id),
      sortedIds(events),
    );
    for (const [index, event] of events.entries()) {
      const found = (await inbox.find(event)).event ?? event;
      assert.equal(found.id, event.id);
      assert.equal(encodeEvent(found), texts[index]);
    }
    assert.equal((await health(inbox.port)).healthy, true);
    const taken = await inbox.port.takeDue(TAKE);
    assert.deepEqual(new Set(taken.map(({ json }) => json)), new Set(texts));
  }),
  test('wrong filters, and a discard without a condition, reject with ERR_CONFIG_INVALID and change nothing', async (inbox) => {
    const events = await fill(inbox);
    const before = await statesOf(inbox, events);
    for (const wrong of [...WRONG_FILTERS, { limit: 0 }, { limit: 10_001 }]) {
      const what = JSON.stringify(wrong);
      const filter = wrong as InboxFilter;
      await assert.rejects(async () => inbox.port.requeue(filter), INVALID, `requeue(${what})`);
      await assert.rejects(
        async () => inbox.port.discard({ ...WHO, ...filter }),
        INVALID,
        `discard(${what})`,
      );
      if ('limit' in filter) continue;
      await assert.rejects(async () => inbox.port.count(filter), INVALID, `count(${what})`);
      await assert.rejects(async () => inbox.port.list({ limit: 10, ...filter }), INVALID, `list(${what})`);
    }
    const { dead } = events;
    for (const wrong of [
      WHO,
      { ...WHO, ids: undefined },
      { ids: [dead.id], by: 'ana', reason: '' },
      { ids: [dead.id] },
    ]) {
      await assert.rejects(
        async () => inbox.port.discard(wrong as typeof WHO),
        INVALID,
        JSON.stringify(wrong),
      );
    }
    for (const wrong of ['evt', [''], [dead.id, 1], new Array(1)]) {
      const ids = wrong as readonly string[];
      await assert.rejects(async () => inbox.port.importDone(ids), INVALID, JSON.stringify(wrong));
    }
    assert.deepEqual(await statesOf(inbox, events), before);
  }),
];
