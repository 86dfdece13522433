/** The sentences that an operator reads. */
import { EVENT_TYPES, type UnknownEvent } from 'stablehooks';
import { expect, test } from 'vitest';
import {
  booksOf,
  compareBooks,
  FIFTY,
  listOf,
  makeEvent,
  makeInbox,
  NOW,
  SINCE,
  savePoll,
} from './small-books.js';

const SPAN = 'created from 2026-03-01T00:00:00.000Z and before 2026-03-01T11:55:00.000Z';
/** From before the span, so that the list is known to reach back further than that. */
const BEFORE = makeEvent('evt_before', { created_at: '2026-02-20T00:00:00Z' });

/** The spans that a poller has proven, and the others. */
interface Polled {
  readonly types?: readonly string[];
  readonly hours?: readonly number[];
  readonly acknowledged?: boolean;
}

/** An inbox whose poller has gaps of a second at these hours, in a type or in all. */
async function polledInbox({ types = EVENT_TYPES, hours = [], acknowledged = false }: Polled) {
  const inbox = makeInbox();
  const gaps = hours.map((hour) => {
    const from = SINCE.getTime() + hour * 3_600_000;
    return {
      ...{ from, until: Object.fromEntries(types.map((name) => [name, from + 1_000])), openedAt: NOW },
      reason: 'not-reached' as const,
      acknowledged: acknowledged ? { by: 'ops', reason: 'compared by hand', at: NOW } : null,
    };
  });
  await savePoll(inbox, { gaps });
  return inbox;
}

const diagnose = async (
  events: readonly UnknownEvent[],
  options: Partial<Parameters<typeof compareBooks>[1]> = {},
) => (await compareBooks(events, { inbox: makeInbox(), ledger: [], ...options })).diagnosis;

test('of books without an event and an entry', async () => {
  expect(await diagnose([])).toBe(
    `Nothing was compared: neither the list nor the inbox has an event ${SPAN}, and the ledger has no entry of one.`,
  );
});

test('of books that agree', async () => {
  const events = FIFTY.slice(0, 3);
  expect(await diagnose([...events, BEFORE], await booksOf(events))).toBe(
    `Nothing is wrong with the 3 events ${SPAN} and their 3 ledger entries.`,
  );
});

test('of books that have one event and no entry, because its type has none', async () => {
  const { inbox } = await booksOf([makeEvent('evt_1')]);
  expect(await diagnose([makeEvent('evt_1'), BEFORE], { inbox, ledgerTypes: [] })).toBe(
    `Nothing is wrong with the 1 events ${SPAN} and their 0 ledger entries.`,
  );
});

test('of findings of several kinds, in their order', async () => {
  const events = [makeEvent('evt_1'), makeEvent('evt_2')];
  const { inbox } = await booksOf(events);
  const ledger = [{ id: 'evt_1' }, { id: 'evt_1' }, { id: 'evt_unknown' }, { id: 'evt_unknown_2' }];
  expect(await diagnose([...events, BEFORE], { inbox, ledger })).toBe(
    `Of the events ${SPAN}: 1 missing, 1 doubled, 2 extra.`,
  );
});

test('of unseen events that this run recorded, or found in a dry run', async () => {
  const events = [makeEvent('evt_1'), makeEvent('evt_2'), BEFORE];
  expect(await diagnose(events)).toBe(
    `Of the events ${SPAN}: 2 unseen. Recorded 2 unseen, which the app's redrive or poller runs. Reconcile again afterwards.`,
  );
  expect(await diagnose(events, { dryRun: true })).toBe(
    `Of the events ${SPAN}: 2 unseen. This was a dry run: nothing was recorded.`,
  );
});

test('of a dry run in which nothing is unseen, and of a run that records nothing', async () => {
  const { inbox } = await booksOf([makeEvent('evt_1')]);
  for (const dryRun of [true, false]) {
    expect(await diagnose([makeEvent('evt_1'), BEFORE], { inbox, dryRun })).toBe(
      `Of the events ${SPAN}: 1 missing.`,
    );
  }
  const ledger = [{ id: 'evt_2' }];
  expect(await diagnose([makeEvent('evt_2'), BEFORE], { ledger })).toBe(`Of the events ${SPAN}: 1 unseen.`);
});

test('of what could not be judged', async () => {
  const { inbox } = await booksOf([makeEvent('evt_1')]);
  const options = { inbox, copiedAt: new Date(NOW), until: new Date(NOW - 300_000) };
  expect(await diagnose([makeEvent('evt_1'), BEFORE], options)).toBe(
    `Nothing is wrong with the 1 events ${SPAN} and their 0 ledger entries. 1 could not be judged, because they ended while the books were read, or because their events are pruned. Reconcile again, and more often than the inbox is pruned.`,
  );
});

test.each([
  [[3], ''],
  [[3, 5], ' and 1 other span'],
  [[3, 5, 7], ' and 2 other spans'],
] as const)('of gaps at the hours %j, the first one and how many others', async (hours, more) => {
  const proven = await polledInbox({ types: ['transfer.settled'], hours: hours.toReversed() });
  expect(await diagnose(FIFTY, await booksOf(FIFTY, proven))).toBe(
    `Nothing is wrong with the 50 events ${SPAN} and their 50 ledger entries. It is not proven that these are all events: events of transfer.settled created after 2026-03-01T03:00:00.000Z and up to 2026-03-01T03:00:01.000Z${more} can be missing. The list can be complete or cut, because no larger answer was seen. Set listMax if you know how many events the service returns.`,
  );
});

test('of a gap that a person has acknowledged', async () => {
  const inbox = await polledInbox({ types: ['transfer.settled'], hours: [3], acknowledged: true });
  expect(await diagnose(FIFTY, await booksOf(FIFTY, inbox))).toMatch(
    /up to 2026-03-01T03:00:01.000Z can be missing\. A person acknowledged the gap there, which proves nothing: the list of gaps says who, when and why\.$/,
  );
});

test('of a span that ends too late to be settled, in all types', async () => {
  expect(await diagnose([BEFORE], { until: new Date(NOW) })).toMatch(
    /It is not proven that these are all events: events created after 2026-03-01T11:5\d:\S+ and up to 2026-03-01T11:59:59.999Z can be missing\. They are so new that more of them can still be listed\. Choose an earlier end, or reconcile again later\.$/,
  );
});

test('of two types that are not proven', async () => {
  const types = ['transfer.settled', 'redeem.completed'];
  const inbox = await polledInbox({ types, hours: [3] });
  const some = FIFTY.map((event, index) => ({ ...event, type: types[index % 2] ?? '' }));
  const twice = some.map(({ id, ...event }) => ({ ...event, id: `${id}b` }));
  const cut = listOf([...some, ...twice], { limitOf: (limit) => Math.min(limit, 50) });
  expect(await diagnose([], { client: cut, inbox, dryRun: true })).toContain(
    'events of transfer.settled, redeem.completed created after 2026-03-01T03:00:00.000Z and up to 2026-03-01T03:00:01.000Z can be missing.',
  );
});

test('of a list that does not show that it reaches back to the beginning', async () => {
  const events = Array.from({ length: 80 }, (_, index) =>
    makeEvent(`evt_${index}`, { created_at: new Date(NOW - (index + 10) * 60_000).toISOString() }),
  );
  const client = listOf(events.slice(0, 50));
  expect(await diagnose(events, { client, dryRun: true })).toMatch(
    /The list can be complete or cut, because no larger answer was seen\. Set listMax if you know how many events the service returns\.$/,
  );
});

test('of a span that begins before anything that a book shows', async () => {
  expect(await diagnose([makeEvent('evt_1')], { dryRun: true })).toMatch(
    / No book shows an event from before 2026-03-01T\S+: whether the service keeps events for so long is not shown\.$/,
  );
});

test("of a span that begins at the poller's start date, and ends when the ledger was copied", async () => {
  const inbox = await polledInbox({});
  const since = new Date(SINCE.getTime() - 86_400_000);
  const copiedAt = new Date(NOW - 3_600_000);
  expect(await diagnose([BEFORE], { inbox, since, copiedAt })).toMatch(
    / The span begins at the poller's start date, not at `since`\. The span ends when the ledger was copied \(`copiedAt`\)\.$/,
  );
});

test('of a list that shows one id with two dates, of which the first is before the span', async () => {
  const events = [makeEvent('evt_1', { created_at: '2026-02-27T00:00:00Z' }), makeEvent('evt_1'), BEFORE];
  const { agree, diagnosis, problems } = await compareBooks(events, { inbox: makeInbox(), ledger: [] });
  expect(problems.map(({ code }) => code)).toEqual(['ERR_EVENT_CONFLICT']);
  expect(agree).toBe(false);
  expect(diagnosis).toMatch(/ The list contradicts itself: `problems` says how\.$/);
});
