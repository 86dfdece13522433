import { ConfigError, createReceiver, type UnknownEvent } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { health } from 'stablehooks/health';
import { findOwed, type OwedOptions } from 'stablehooks/reconcile';
import { describe, expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { runMovements, WITHIN_MS } from './random-movements.js';
import { finish, LEASE, listOf, makeEvent, makeInbox, NOW } from './small-books.js';

const SINCE = new Date('2026-03-01T06:00:00Z');
const settled = (key: string, fields: Partial<UnknownEvent> = {}) =>
  makeEvent(`evt_${key}`, { payload: { transfer_id: key }, created_at: '2026-03-01T06:05:00Z', ...fields });

const search = (options: Partial<OwedOptions> = {}) =>
  findOwed({
    client: listOf([]),
    inbox: makeInbox(),
    pending: () => [{ key: 'a', since: SINCE }],
    keyOf: (event) => event.payload['transfer_id'],
    terminal: ['transfer.settled', 'transfer.failed'],
    withinMs: WITHIN_MS,
    runtime: { now: () => NOW },
    ...options,
  });

describe('the verdict says where the event is', () => {
  test('owed: the list is proven complete and has no event of the movement', async () => {
    const { counts, movements } = await search({ client: listOf([settled('b')]) });
    expect(counts).toMatchObject({ pending: 1, owed: 1 });
    expect(movements).toEqual([
      {
        ...{ key: 'a', since: SINCE.toISOString(), overdueMs: 345 * 60_000, verdict: 'owed' },
        ...{ eventId: null, state: null },
        detail:
          "Overdue by 345 minutes. The service's list is proven complete up to 2026-03-01T11:55:00.000Z and contains no transfer.settled or transfer.failed event for this movement, so the service owes you that event. Ask the service about this movement.",
      },
    ]);
  });

  test('listed-not-received: the next poll brings it', async () => {
    const { movements } = await search({ client: listOf([settled('a')]) });
    expect(movements).toMatchObject([{ verdict: 'listed-not-received', eventId: 'evt_a', state: null }]);
  });

  test('arrived-not-booked: in the inbox, with its state and error', async () => {
    const inbox = makeInbox(NOW - 3_600_000);
    await finish(inbox, settled('a'));
    for (const [key, retryAfterMs] of [
      ['b', null],
      ['c', 1_000],
    ] as const) {
      const claim = await inbox.claim(settled(key), LEASE);
      if (claim.state !== 'claimed') throw new Error(claim.state);
      await inbox.fail(claim.lease, { retryAfterMs, error: 'the account is closed' });
    }
    await inbox.ignore([settled('d')], { origin: 'push' });
    const pending = () => ['a', 'b', 'c', 'd'].map((key) => ({ key, since: SINCE }));
    const { counts, movements } = await search({ inbox, pending });
    expect(counts).toMatchObject({ pending: 4, 'arrived-not-booked': 4 });
    expect(movements.map(({ key, state, detail }) => [key, state, detail])).toEqual([
      ['a', 'done', expect.stringMatching(/has been done since .*still pending/)],
      ['b', 'dead', expect.stringMatching(/is dead\. the account is closed\. Fix the cause, then requeue/)],
      ['c', 'failed', expect.stringMatching(/will run again\. the account is closed/)],
      ['d', 'done', expect.stringMatching(/there was no handler/)],
    ]);
  });

  test('not-proven: a list that may be cut can hide it', async () => {
    const others = Array.from({ length: 50 }, (_, index) => settled(`other_${index}`));
    const { movements } = await search({ client: listOf(others, { limitOf: () => 50 }) });
    expect(movements).toMatchObject([
      {
        verdict: 'not-proven',
        detail: expect.stringMatching(/may be missing between .* and .*cut off\./),
      },
    ]);
  });

  test.each([
    ['is empty', []],
    ['shows other events of the time', [makeEvent('evt_other', { created_at: '2026-03-01T05:30:00Z' })]],
  ])('not-proven: the list lacks events that the inbox has, and %s', async (_, events) => {
    const inbox = makeInbox(NOW - 3_600_000);
    await finish(inbox, settled('pushed'));
    const { movements } = await search({ inbox, client: listOf(events) });
    expect(movements).toMatchObject([
      { verdict: 'not-proven', detail: expect.stringMatching(/pushed to you are not in the list/) },
    ]);
  });

  test('not-proven: its time is over, and later events can still be listed', async () => {
    const pending = () => [{ key: 'a', since: new Date(NOW - WITHIN_MS - 60_000) }];
    expect((await search({ pending })).movements).toMatchObject([
      {
        verdict: 'not-proven',
        detail: expect.stringMatching(/Events created after .* may not be in the service's list yet/),
      },
    ]);
  });

  test('not-proven: the text of an event of that time is pruned', async () => {
    const inbox = makeInbox(NOW - 3_600_000);
    await finish(inbox, settled('a'));
    await inbox.prune({ olderThanMs: 0 });
    expect((await search({ inbox })).movements).toMatchObject([{ verdict: 'not-proven' }]);
    // The list still has its text.
    const { movements } = await search({ inbox, client: listOf([settled('a')]) });
    expect(movements).toMatchObject([{ verdict: 'arrived-not-booked', eventId: 'evt_a', state: 'done' }]);
  });

  test('an event that ended just now is not judged, nor a movement that has time left', async () => {
    const inbox = makeInbox();
    await finish(inbox, settled('a'));
    const pending = async () => [
      { key: 'a', since: SINCE.toISOString() },
      { key: 7, since: new Date(NOW - 60_000) },
    ];
    const { counts, movements } = await search({ inbox, pending });
    expect(counts).toMatchObject({ pending: 2, settling: 1, early: 1 });
    expect(movements).toEqual([]);
  });

  test('a service that removes events can have removed it before the first poll', async () => {
    const inbox = makeInbox(NOW - 3_600_000);
    await finish(inbox, settled('b'));
    const listed = settled('c', { created_at: '2026-03-01T10:00:00Z' });
    expect((await search({ inbox, client: listOf([listed]) })).movements).toMatchObject([
      { verdict: 'not-proven', detail: expect.stringMatching(/may have removed events from the list/) },
    ]);
  });
});

test('a row without a key or a time is refused by its number', async () => {
  const rows = [
    { key: 'a', since: SINCE },
    { key: 'b', since: '2026-03-01' },
  ];
  const error = await search({ pending: () => rows }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ConfigError);
  expect(error).toMatchObject({ message: expect.stringMatching(/row 2 of `pending`/) });
});

test('health repeats the last result, and says when it is old', async () => {
  const inbox = makeInbox();
  const check = async (at = NOW) =>
    (await health(inbox, { runtime: { now: () => at } })).checks.find(({ name }) => name === 'owed');
  expect(await check()).toBeUndefined();
  await search({ inbox });
  expect(await check()).toMatchObject({
    ...{ tone: 'failing', count: 1 },
    message: expect.stringMatching(/^Of 1 pending movement: 1 owed\. findOwed last ran at /),
  });
  await search({ inbox, client: listOf([settled('a')]) });
  expect(await check()).toMatchObject({
    tone: 'warning',
    message: expect.stringMatching(/1 listed-not-received/),
  });
  await search({ inbox, pending: () => [] });
  expect(await check()).toMatchObject({ tone: 'ok', count: 0 });
  expect(await check(NOW + 2 * 86_400_000)).toMatchObject({ tone: 'warning' });
});

describe('what a poller has proven counts where the list of today is cut', () => {
  const silent = { warn: () => undefined, error: () => undefined };
  const client = (events: readonly UnknownEvent[]) =>
    listOf(
      events.toSorted((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at)),
      { limitOf: (limit) => Math.min(limit, 50) },
    );
  const begun = settled('before', { created_at: '2026-03-01T05:00:00Z' });
  const young = Array.from({ length: 60 }, (_, index) =>
    settled(`young_${index}`, { created_at: new Date(NOW - 200_000 + index).toISOString() }),
  );

  async function poll(inbox: ReturnType<typeof makeInbox>) {
    let now = NOW - 4 * 3_600_000;
    const runtime = { now: () => now };
    const handlers = { 'transfer.settled': () => undefined };
    const receiver = createReceiver({ secret: 'whsec_owed', inbox, handlers, runtime, logger: silent });
    const since = new Date('2026-03-01T05:00:00Z');
    const poller = createPoller({ client: client([begun]), receiver, runtime, since, logger: silent });
    await poller.pollOnce();
    now = NOW;
    await poller.pollOnce();
  }

  test('owed', async () => {
    const inbox = makeInbox();
    await poll(inbox);
    const { movements } = await search({ inbox, client: client([begun, ...young]) });
    expect(movements.map(({ verdict }) => verdict)).toEqual(['owed']);
  });

  test('not-proven, if the text of an event of that time is pruned', async () => {
    const inbox = makeInbox();
    await poll(inbox);
    await finish(inbox, settled('a'));
    await inbox.prune({ olderThanMs: 0 });
    const { movements } = await search({ inbox, client: client([begun, ...young]) });
    expect(movements).toMatchObject([
      { verdict: 'not-proven', detail: expect.stringMatching(/were pruned or cannot be read/) },
    ]);
  });
});

describe('random services, lost pushes and killed processes', () => {
  test('owed is never said of a movement whose event there was', async () => {
    const seen = { owed: 0, 'not-proven': 0, 'arrived-not-booked': 0, 'listed-not-received': 0 };
    for (let seed = 1; seed <= atNight(40, 15); seed += 1) {
      const { movements, judged, records, settledAt } = await runMovements(seed);
      for (const { key, event, listedAt } of movements) {
        const verdict = judged.get(key)?.verdict;
        if (verdict === undefined) continue;
        seen[verdict] += 1;
        const because = `seed ${seed}, ${key}`;
        if (verdict === 'owed' && event !== undefined) {
          expect(Date.parse(event.created_at), because).toBeGreaterThan(settledAt);
        }
        if (verdict === 'arrived-not-booked') expect(records.has(event?.id ?? ''), because).toBe(true);
        if (verdict === 'listed-not-received') {
          expect(records.has(event?.id ?? ''), because).toBe(false);
          expect(listedAt, because).toBeLessThanOrEqual(settledAt + 300_000);
        }
      }
    }
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(0);
  });

  test('every owed movement is found where the list is complete', async () => {
    let found = 0;
    for (let seed = 101; seed <= 100 + atNight(12, 5); seed += 1) {
      const { movements, judged, now } = await runMovements(seed, { isPlain: true });
      for (const { key, since, event } of movements) {
        if (event !== undefined || since.getTime() + WITHIN_MS > now - 300_000) continue;
        expect(judged.get(key)?.verdict, `seed ${seed}, ${key}`).toBe('owed');
        found += 1;
      }
    }
    expect(found).toBeGreaterThan(atNight(50, 20));
  });
});
