/** The parts of the diagnosis that an operator acts on. */
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

type Options = Partial<Parameters<typeof compareBooks>[1]>;

const diagnose = async (events: readonly UnknownEvent[], options: Options = {}) =>
  (await compareBooks(events, { inbox: makeInbox(), ledger: [], ...options })).diagnosis;

const [ONE, TWO] = [makeEvent('evt_1'), makeEvent('evt_2')];
const without = async (events: readonly UnknownEvent[]) => ({ inbox: (await booksOf(events)).inbox });

test.each<[name: string, parts: RegExp, events: readonly UnknownEvent[], options: () => Promise<Options>]>([
  [
    'books without an event and an entry',
    /^Nothing was compared: .*T00:00.* to .*T11:55/,
    [],
    async () => ({}),
  ],
  [
    'books whose ids agree, and nothing else is compared',
    /^No problems were found .*\(2 events, 2 ledger entries\)\. Only ids were compared, not amounts or other values\.$/,
    [ONE, TWO, BEFORE],
    () => booksOf([ONE, TWO]),
  ],
  [
    'books that agree',
    /^No problems were found .*\(2 events, 2 ledger entries\)\.$/,
    [ONE, TWO, BEFORE],
    async () => ({ ...(await booksOf([ONE, TWO])), compare: () => undefined }),
  ],
  [
    'one event whose type has no entry',
    /^No problems were found .*\(1 event, 0 ledger entries\)\.$/,
    [ONE, BEFORE],
    async () => ({ ...(await without([ONE])), ledgerTypes: [] }),
  ],
  [
    'findings of several kinds, in their order',
    /^Findings in the span .*T11:55\S*: 1 missing, 1 doubled, 2 extra\.$/,
    [ONE, TWO, BEFORE],
    async () => ({
      ...(await without([ONE, TWO])),
      ledger: ['evt_1', 'evt_1', 'evt_unknown', 'evt_unknown_2'].map((id) => ({ id })),
    }),
  ],
  [
    'unseen events that this run recorded',
    /: 2 unseen\. Recorded 2 unseen events\. Reconcile again/,
    [ONE, TWO, BEFORE],
    async () => ({}),
  ],
  [
    'unseen events of a dry run',
    /: 2 unseen\. .*dry run/,
    [ONE, TWO, BEFORE],
    async () => ({ dryRun: true }),
  ],
  [
    'a dry run in which nothing is unseen',
    /: 1 missing\.$/,
    [ONE, BEFORE],
    async () => ({ ...(await without([ONE])), dryRun: true }),
  ],
  ['a run that records nothing', /: 1 unseen\.$/, [TWO, BEFORE], async () => ({ ledger: [{ id: 'evt_2' }] })],
  [
    'what could not be judged',
    /^No problems were found .* 1 event could not be judged\. .* Reconcile again/,
    [ONE, BEFORE],
    async () => ({ ...(await without([ONE])), copiedAt: new Date(NOW), until: new Date(NOW - 300_000) }),
  ],
  [
    'a gap that a person has acknowledged',
    /T03:00:01\.000Z may be missing\. Someone acknowledged .* but that proves nothing/,
    FIFTY,
    async () =>
      booksOf(FIFTY, await polledInbox({ types: ['transfer.settled'], hours: [3], acknowledged: true })),
  ],
  [
    'a span that ends too late to be settled, in all types',
    /Events created after \S+T11:5\d\S+ and up to \S+T11:59:59\.999Z may be missing\. The span is so recent .* earlier end/,
    [BEFORE],
    async () => ({ until: new Date(NOW) }),
  ],
  [
    'a span that begins before anything that a book shows',
    / No book contains an event from before 2026-03-01T/,
    [ONE],
    async () => ({ dryRun: true }),
  ],
  [
    "a span that begins at the poller's start date, and ends when the ledger was copied",
    / poller's start date, not at `since`\..*`copiedAt`/,
    [BEFORE],
    async () => ({
      inbox: await polledInbox({}),
      since: new Date(SINCE.getTime() - 86_400_000),
      copiedAt: new Date(NOW - 3_600_000),
    }),
  ],
])('of %s: %s', async (_name, parts, events, options) => {
  expect(await diagnose(events, await options())).toMatch(parts);
});

test.each([
  [[3], ''],
  [[3, 5], ' The same is true of 1 other span.'],
  [[3, 5, 7], ' The same is true of 2 other spans.'],
] as const)('of gaps at the hours %j, the first one and how many others', async (hours, more) => {
  const proven = await polledInbox({ types: ['transfer.settled'], hours: hours.toReversed() });
  const gap =
    'Events of transfer.settled created after 2026-03-01T03:00:00.000Z and up to 2026-03-01T03:00:01.000Z';
  const diagnosis = await diagnose(FIFTY, await booksOf(FIFTY, proven));
  expect(diagnosis).toContain(`${gap} may be missing.${more} The list`);
  expect(diagnosis).toMatch(/\(50 events.* may have been cut off/);
});

test('of two types that are not proven', async () => {
  const types = ['transfer.settled', 'redeem.completed'];
  const inbox = await polledInbox({ types, hours: [3] });
  const some = FIFTY.map((event, index) => ({ ...event, type: types[index % 2] ?? '' }));
  const twice = some.map(({ id, ...event }) => ({ ...event, id: `${id}b` }));
  const cut = listOf([...some, ...twice], { limitOf: (limit) => Math.min(limit, 50) });
  expect(await diagnose([], { client: cut, inbox, dryRun: true })).toContain(
    'Events of transfer.settled, redeem.completed created after 2026-03-01T03:00:00.000Z',
  );
});

test('of a list that shows one id with two dates, of which the first is before the span', async () => {
  const events = [makeEvent('evt_1', { created_at: '2026-02-27T00:00:00Z' }), ONE, BEFORE];
  const { agree, diagnosis, problems } = await compareBooks(events, { inbox: makeInbox(), ledger: [] });
  expect(problems.map(({ code }) => code)).toEqual(['ERR_EVENT_CONFLICT']);
  expect(agree).toBe(false);
  expect(diagnosis).toMatch(/contradicts itself.*`problems`/);
});
