import { createReceiver, EVENT_TYPES, memoryInbox } from 'stablehooks';
import { createPoller, type PollerClient, type PollerOptions, readPollState } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { cut, startList } from './list-server.js';

const START = Date.parse('2026-03-01T12:00:00Z');
const HOUR_MS = 3_600_000;

function event(
  id: string,
  { minutes = 0, type = 'transfer.settled', ...rest }: Record<string, unknown> = {},
) {
  const created_at = new Date(START - Number(minutes) * 60_000).toISOString();
  return { id, type: String(type), delivered: true, created_at, payload: { amount: '1.00' }, ...rest };
}

const quiet = { warn: () => undefined, error: () => undefined };

function setUp(client: PollerClient, options: Partial<PollerOptions> = {}) {
  const handled: string[] = [];
  const inbox = memoryInbox({ runtime: { now: () => START } });
  const handler = ({ id }: { readonly id: string }) => void handled.push(id);
  const handlers = Object.fromEntries(EVENT_TYPES.map((type) => [type, handler]));
  const receiver = createReceiver({ secret: 'secret', inbox, handlers });
  const since = new Date(START - 10 * HOUR_MS);
  const rules = { client, receiver, since, runtime: { now: () => START }, logger: quiet, ...options };
  return { handled, inbox, poller: createPoller(rules) };
}

test('an event that the list repeats is handled once, even if `delivered` differs', async () => {
  const list = [event('a'), event('a'), event('a', { delivered: false })];
  const { poller, handled } = setUp(await startList(() => list));
  expect(await poller.pollOnce()).toMatchObject({ proven: true, fetched: 1, new: 1, problems: [] });
  expect(handled).toEqual(['a']);
});

test('of two different events with one id the first is used and the conflict is reported', async () => {
  const list = [event('a'), event('a', { payload: { amount: '9.00' } })];
  const lines: string[] = [];
  const logger = { warn: () => undefined, error: (line: string) => void lines.push(line) };
  const { poller, handled, inbox } = setUp(await startList(() => list), { logger });
  const report = await poller.pollOnce();
  expect(report.problems).toMatchObject([{ code: 'ERR_EVENT_CONFLICT', id: 'a' }]);
  expect((await readPollState(inbox)).doubts).toEqual(['ERR_EVENT_CONFLICT']);
  await poller.pollOnce();
  expect(lines).toEqual([expect.stringMatching(/^stablehooks: ERR_EVENT_CONFLICT: a: /)]);
  expect(JSON.stringify(report)).not.toContain('9.00');
  expect(handled).toEqual(['a']);
  expect((await inbox.find('a'))?.event?.payload).toEqual({ amount: '1.00' });
});

test('an element that is not an event is reported, does not stop the others, and is a gap', async () => {
  const list = [event('a'), { id: 'b', type: 'transfer.settled' }, null, event('c', { created_at: 'today' })];
  const { poller, handled } = setUp(await startList(() => list));
  const report = await poller.pollOnce();
  expect(report.problems.map(({ code }) => code)).toContain('ERR_EVENT_MALFORMED');
  expect(report).toMatchObject({ proven: false, fetched: 1, handled: 1 });
  expect(report.gaps).toMatchObject([
    // An event that was created at the start date itself counts.
    { types: EVENT_TYPES, from: new Date(START - 10 * HOUR_MS - 1).toISOString(), reason: 'malformed' },
  ]);
  expect(handled).toEqual(['a']);
});

test.each([
  '2026-02-01',
  '2026-02-01T00:00:00',
  '2026-02-01T00:00Z',
  '2026-02-30T00:00:00Z',
  'Sun, 01 Feb 2026 00:00:00 GMT',
  '0',
])(
  'an element with the date %j, which is no RFC 3339 date-time, is reported and in a gap, although Date.parse may read it as before the start date',
  async (created_at) => {
    const list = [event('a', { minutes: 10 }), event('b', { created_at })];
    const { poller, handled } = setUp(await startList(() => list));
    const report = await poller.pollOnce();
    expect(report).toMatchObject({
      proven: false,
      problems: [{ code: 'ERR_EVENT_MALFORMED', message: expect.stringContaining('at index 1') }],
      gaps: [{ types: EVENT_TYPES, from: new Date(START - 10 * HOUR_MS - 1).toISOString() }],
    });
    expect(handled).toEqual(['a']);
  },
);

test('a list that has one type after the other is no window of the next one, although an element of that is no event', async () => {
  const list = ['accept.confirmed', 'redeem.failed'].flatMap((type) =>
    Array.from({ length: 1_500 }, (_, minutes) => event(`${type}-${minutes}`, { type, minutes })),
  );
  const newest = list.find(({ type }) => type === 'redeem.failed');
  const broken = list.map((each) => (each === newest ? { ...each, id: 7 } : each));
  const { poller, inbox } = setUp(await startList((asked) => cut(broken, asked)), { maxLimit: 1_000 });
  const { verdicts } = await poller.pollOnce();
  expect(verdicts[0]).toMatchObject({ type: null, verdict: 'unproven', reason: 'contradiction' });
  expect(await inbox.find('redeem.failed-599')).toMatchObject({ state: 'done' });
});

test('an event from the future is handled and does not move the watermark', async () => {
  const list = [event('late', { minutes: -100_000 }), event('a', { minutes: 1 })];
  const { poller, handled } = setUp(await startList(() => list));
  const report = await poller.pollOnce();
  expect(report).toMatchObject({ proven: true, watermark: new Date(START - 300_000).toISOString() });
  expect(handled.toSorted()).toEqual(['a', 'late']);
});

test('when the queries of two types fail, the events of the others are handled and the span is unconfirmed', async () => {
  const list = Array.from({ length: 100 }, (_, index) =>
    event(`e${index}`, { type: EVENT_TYPES[index % 5] }),
  );
  const failing: Record<string, number> = { 'transfer.failed': 429, 'redeem.failed': 503 };
  const { poller, handled } = setUp(
    await startList(
      (asked) => failing[asked.type ?? ''] ?? cut(list, { ...asked, limit: Math.min(asked.limit, 50) }),
    ),
  );
  const report = await poller.pollOnce();
  expect(report).toMatchObject({ proven: false, failed: 0 });
  expect(report.verdicts.filter(({ verdict }) => verdict === 'failed').map(({ type }) => type)).toEqual(
    Object.keys(failing),
  );
  // The whole list can be complete.
  expect(report).toMatchObject({ unconfirmed: true, gaps: [{ state: 'unconfirmed' }] });
  expect(report.problems).toHaveLength(2);
  expect(handled).toHaveLength(80);
});

test('when the service refuses a larger limit, the types are queried with the last one', async () => {
  const list = Array.from({ length: 100 }, (_, index) =>
    event(`e${index}`, { minutes: index + 10, type: EVENT_TYPES[index % 5] }),
  );
  const { poller, handled } = setUp(await startList((asked) => (asked.limit > 50 ? 400 : cut(list, asked))));
  const report = await poller.pollOnce();
  expect(report).toMatchObject({ proven: true, recovered: 100 });
  expect(report.problems).toMatchObject([{ code: 'ERR_API_STATUS' }]);
  expect(handled).toHaveLength(100);
});

test('an old event that a smaller answer than listMax lacked ends the belief in listMax, which is reported once', async () => {
  const list = Array.from({ length: 80 }, (_, index) => event(`e${index}`, { minutes: 400 - index }));
  // Sixty events at most, and others each time.
  let from = 0;
  const { poller, inbox } = setUp(
    await startList((asked) =>
      cut(list.slice(from, from + 60).toReversed(), { ...asked, limit: asked.limit }),
    ),
    { listMax: 200 },
  );
  expect(await poller.pollOnce()).toMatchObject({ proven: true, problems: [] });
  from = 20;
  const second = await poller.pollOnce();
  expect(second.problems.map(({ code }) => code)).toEqual(['ERR_LIST_MAX', 'ERR_EVENT_LATE']);
  expect((await readPollState(inbox)).seen).toMatchObject({ all: 60, listMaxRefuted: true });
  expect((await poller.pollOnce()).problems).toEqual([]);
});

test("a service's clock that is behind once neither moves the watermark back nor opens a gap", async () => {
  let servedAt = START;
  const client: PollerClient = {
    events: {
      listWithProblems: async ({ type, limit }) => {
        const list = Array.from({ length: 500 }, (_, index) =>
          event(`e${index}`, { minutes: index, type: EVENT_TYPES[index % 5] }),
        );
        const events = cut(list, { type: type ?? null, limit: Math.min(limit, 50) });
        return { events, problems: [], size: events.length, servedAt };
      },
    },
  };
  const { poller } = setUp(client, { since: new Date(START - 20 * 60_000) });
  const { watermark } = await poller.pollOnce();
  expect(watermark).toBe(new Date(START - 300_000).toISOString());
  // Such as an answer from a cache.
  servedAt = START - 7 * 60_000;
  const stale = await poller.pollOnce();
  expect(stale).toMatchObject({ watermark, gaps: [], late: 0 });
  expect(stale.problems).toMatchObject([{ code: 'ERR_CLOCK_BEHIND' }]);
});
