import assert from 'node:assert/strict';
import { INBOX_STATES, type InboxOperations, type InboxRecord, type InboxState } from 'stablehooks';
import { someEvent } from '../contract.js';
import { someEvents, sortedIds, type TestedInbox, test, until } from './given.js';

type ListOptions = Parameters<InboxOperations['list']>[0];

const list = (inbox: TestedInbox, state: InboxState, options: Partial<ListOptions> = {}) =>
  inbox.port.list({ state, limit: 10, ...options });

const INVALID = { code: 'ERR_CONFIG_INVALID' };
const DONE = { state: 'done', limit: 10 };
const WRONG_LISTS: readonly object[] = [
  ...[{ state: 'done' }, { ...DONE, state: 'donne' }, { ...DONE, order: 'newst' }],
  ...[{ ...DONE, afetr: 'evt' }, ...[-1, 0.5, Number.NaN, '10'].map((limit) => ({ ...DONE, limit }))],
];
const WRONG_PRUNES: readonly object[] = [
  ...[{}, { olderThan: 0 }, { olderThanMs: 0, order: 'oldest' }],
  ...[-1, 0.5, Number.NaN, '1d'].map((olderThanMs) => ({ olderThanMs })),
];

export const operationCases = [
  test('a record contains where the event came from, when it was received and when it changed; an unknown id has none', async (inbox) => {
    const event = someEvent();
    await inbox.record([event], { dueInMs: 5_000 });
    const { receivedAt, updatedAt, dueAt, ...rest } = await inbox.find(event);
    assert.deepEqual(rest, {
      ...{ id: event.id, type: event.type, state: 'received', attempts: 0, origin: 'pull', event },
      ...{ key: null, lastError: null, ignored: false, history: [] },
    });
    assert.ok(Math.abs(receivedAt - Date.now()) < 3_600_000, '`receivedAt` is not a time in epoch ms.');
    assert.ok(updatedAt >= receivedAt && dueAt !== null && dueAt >= receivedAt);
    await inbox.claimed(event);
    assert.equal((await inbox.find(event)).origin, 'pull');
    assert.equal(await inbox.port.find('evt_unknown'), undefined);
  }),
  test('listing page by page returns each record of the state once, the first received first, or last with `newest`', async (inbox) => {
    const [first, ...events] = someEvents(7);
    const receivedAt = async (event = someEvent()) => {
      await inbox.record([event]);
      return (await inbox.find(event)).receivedAt;
    };
    const earliest = await receivedAt(first);
    const others = await until('The clock of the inbox stands still.', async () => {
      const event = someEvent();
      if ((await receivedAt(event)) > earliest) return [event, ...events];
      return inbox.claimed(event).then(() => undefined);
    });
    // Six of them at the same time: their ids decide.
    await inbox.record(events);
    const seen = { oldest: [] as string[], newest: [] as string[] };
    for (const order of ['oldest', 'newest'] as const) {
      for (let page: readonly InboxRecord[] | undefined; page?.length !== 0; ) {
        const position = { limit: 3, after: page?.at(-1)?.id };
        page = await list(inbox, 'received', order === 'oldest' ? position : { ...position, order });
        assert.ok(page.length <= 3);
        const isAgain = page.some(({ id }) => seen[order].includes(id));
        assert.ok(!isAgain, 'A page has a record again: it must begin after `after`.');
        assert.deepEqual(page, await Promise.all(page.map((record) => inbox.find(record))));
        seen[order].push(...page.map(({ id }) => id));
      }
    }
    assert.equal(seen.oldest[0], first?.id);
    assert.deepEqual(seen.oldest.slice(1).toSorted(), sortedIds(others));
    assert.deepEqual(seen.newest, seen.oldest.toReversed());
  }),
  test('listing returns as many records as `limit` asks for, if there are as many', async (inbox) => {
    const events = someEvents(1_001);
    await inbox.record(events);
    const first = await list(inbox, 'received', { limit: 1_000 });
    assert.equal(first.length, 1_000, `With 1,000 asked for and 1,001 there, ${first.length} were listed.`);
    const rest = await list(inbox, 'received', { limit: 1_000, after: first.at(-1)?.id });
    assert.deepEqual(sortedIds([...first, ...rest]), sortedIds(events));
  }),
  test('listing continues after the given id, even if that record has left the state', async (inbox) => {
    for (const event of someEvents(6)) {
      await inbox.port.fail(await inbox.claimed(event), { retryAfterMs: null, error: 'no' });
    }
    const all = (await list(inbox, 'dead')).map(({ id }) => id);
    const after = async (at: number, order?: 'newest') =>
      (await list(inbox, 'dead', { after: all[at], order })).map(({ id }) => all.indexOf(id));
    for (const at of [1, 3]) await inbox.port.requeue(all[at] ?? '');
    assert.deepEqual(
      [await after(1), await after(3)],
      [
        [2, 4, 5],
        [4, 5],
      ],
    );
    assert.deepEqual([await after(1, 'newest'), await after(3, 'newest')], [[0], [2, 0]]);
  }),
  test('listing after an event that the inbox does not have rejects with ERR_CONFIG_INVALID', async (inbox) => {
    for (const event of someEvents(2)) await inbox.record([event]);
    // After the last event the page is empty.
    const [last] = await list(inbox, 'received', { limit: 1, order: 'newest' });
    for (const state of ['received', 'dead'] as const) {
      assert.deepEqual(await list(inbox, state, { after: last?.id }), []);
      for (const order of ['oldest', 'newest'] as const) {
        const unknown = async () => list(inbox, state, { after: 'evt_unknown', order });
        await assert.rejects(unknown, INVALID, `The list of ${state} events must not answer.`);
      }
    }
  }),
  test('list and prune reject with ERR_CONFIG_INVALID when an option is missing, unknown or makes no sense, and remove nothing', async (inbox) => {
    const event = someEvent();
    await inbox.port.complete(await inbox.claimed(event));
    for (const options of WRONG_LISTS) {
      const wrong = async () => inbox.port.list(options as ListOptions);
      await assert.rejects(wrong, INVALID, `list(${JSON.stringify(options)}) must be refused.`);
    }
    for (const options of WRONG_PRUNES) {
      const wrong = async () => inbox.port.prune(options as Parameters<InboxOperations['prune']>[0]);
      await assert.rejects(wrong, INVALID, `prune(${JSON.stringify(options)}) must be refused.`);
    }
    assert.deepEqual((await inbox.find(event)).event, event);
  }),
  test('counting returns every state in order, with the time since which its oldest event waits in it', async (inbox) => {
    const none = INBOX_STATES.map((state) => ({ state, count: 0, oldest: null }));
    assert.deepEqual(await inbox.port.count(), none);
    await inbox.record(someEvents(3));
    await inbox.record(someEvents(1, { type: 'mint.completed' }), { dueInMs: null });
    await inbox.ignore(someEvents(1));
    for (const event of someEvents(2)) await inbox.port.complete(await inbox.claimed(event));
    const counts = await inbox.port.count();
    const expected = { received: 3, leased: 0, failed: 0, done: 3, dead: 0, parked: 1 };
    assert.deepEqual(
      counts.map(({ state, count }) => [state, count]),
      Object.entries(expected),
    );
    for (const { state, oldest } of counts) {
      const since = (await list(inbox, state)).map(({ updatedAt }) => updatedAt);
      assert.equal(oldest, since.length === 0 || state === 'done' ? null : Math.min(...since));
    }
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 3);
    assert.deepEqual(await inbox.port.count(), counts);
    await inbox.ignore(someEvents(1));
    assert.equal((await inbox.port.count()).find(({ state }) => state === 'done')?.count, 4);
  }),
  test('pruning drops the JSON of 2,500 events in one call and keeps every id', async (inbox) => {
    const events = someEvents(2_500);
    await inbox.ignore(events);
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 2_500);
    assert.equal(await inbox.port.prune({ olderThanMs: 0 }), 0);
    assert.deepEqual(new Set(await inbox.record(events)), new Set(['done']));
  }),
  test('pruning skips an event until it has been done for `olderThanMs`', async (inbox) => {
    await inbox.port.complete(await inbox.claimed(someEvent()));
    await until('A done event was not pruned by `olderThanMs: 20`.', async () => {
      return (await inbox.port.prune({ olderThanMs: 20 })) > 0 || undefined;
    });
  }),
];
