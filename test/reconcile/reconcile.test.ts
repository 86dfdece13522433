import { ConfigError, EVENT_TYPES, memoryInbox } from 'stablehooks';
import type { LedgerEntry } from 'stablehooks/reconcile';
import { expect, test } from 'vitest';
import {
  booksOf,
  compareBooks,
  FIFTY,
  finish,
  LEASE,
  listOf,
  makeEvent,
  makeInbox,
  NOW,
  SINCE,
  savePoll,
  withList,
} from './small-books.js';

test('an event that is pushed and handled while the books are read has no finding', async () => {
  const inbox = makeInbox();
  const events = [makeEvent('evt_1')];
  const [event = makeEvent('')] = events;
  async function* ledger() {
    // The list and the inbox have been read. Its handler writes the entry before the event is done.
    const claim = await inbox.claim(event, LEASE);
    yield { id: event.id };
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
  }
  const result = await compareBooks(events, { inbox, ledger: ledger() });
  expect(result).toMatchObject({ agree: true, totals: { listed: 1, entries: 1, recorded: 0 } });
});

test('an event that ends after the ledger was read is unjudged, neither missing nor in agreement', async () => {
  const inbox = makeInbox();
  const event = makeEvent('evt_1');
  async function* ledger(): AsyncGenerator<LedgerEntry> {
    yield { id: 'evt_old', createdAt: '2026-02-01T00:00:00Z' };
    await finish(inbox, event);
  }
  const result = await compareBooks([event], { inbox, ledger: ledger() });
  expect(result).toMatchObject({ agree: false, complete: true, totals: { unjudged: 1 } });
  expect(Object.values(result.findings).every(({ count }) => count === 0)).toBe(true);
  expect(result.diagnosis).toContain('Reconcile again');
});

test('an event that was done after the ledger was copied is unjudged', async () => {
  const inbox = makeInbox();
  await finish(inbox, makeEvent('evt_1'));
  const at = (time: number) => ({
    inbox,
    ledger: [],
    copiedAt: new Date(time),
    until: new Date(NOW - 400_000),
  });
  expect((await compareBooks([makeEvent('evt_1')], at(NOW))).totals.unjudged).toBe(1);
  expect((await compareBooks([makeEvent('evt_1')], at(NOW + 1))).findings.missing.ids).toEqual(['evt_1']);
});

test('an unseen event is recorded and due immediately, but not if the ledger has an entry for it', async () => {
  const inbox = makeInbox();
  const events = [
    makeEvent('evt_new'),
    makeEvent('evt_booked'),
    makeEvent('evt_type', { type: 'wallet.frozen' }),
  ];
  const details: string[] = [];
  const result = await compareBooks(events, {
    inbox,
    ledger: [{ id: 'evt_booked' }],
    onFinding: ({ kind, id, detail, entries }) => void details.push(`${kind} ${id} ${entries} ${detail}`),
  });
  expect(result.findings.unseen.count).toBe(3);
  expect(result.totals.recorded).toBe(2);
  expect(details.find((line) => line.startsWith('unseen evt_booked 1'))).toContain('might double its effect');
  const due = await inbox.takeDue({ limit: 10, visibilityTimeoutMs: 1_000, types: EVENT_TYPES });
  expect(due.map(({ id }) => id)).toEqual(['evt_new']);
  expect((await inbox.find('evt_type'))?.state).toBe('parked');
  expect(await inbox.find('evt_booked')).toBeUndefined();
});

test('events from before the start date of the poller are left alone', async () => {
  const inbox = makeInbox();
  await savePoll(inbox, { since: Date.parse('2026-03-01T06:00:00Z') });
  const old = makeEvent('evt_old', { created_at: '2026-03-01T05:59:59.999Z' });
  const result = await compareBooks([old], { inbox, ledger: [] });
  expect(result).toMatchObject({ agree: true, since: '2026-03-01T06:00:00.000Z' });
  expect(await inbox.find('evt_old')).toBeUndefined();
});

test('a span is complete by the polls before, except where a gap is open', async () => {
  const books = await booksOf(FIFTY);
  expect(await compareBooks(FIFTY, books)).toMatchObject({ agree: false, complete: false });
  await savePoll(books.inbox);
  expect(await compareBooks(FIFTY, books)).toMatchObject({ agree: true, unproven: [] });

  const from = Date.parse('2026-03-01T07:00:00Z');
  const gap = {
    from,
    until: { 'transfer.settled': from + 1_000 },
    reason: 'not-reached',
    openedAt: NOW,
    acknowledged: null,
  } as const;
  await savePoll(books.inbox, { gaps: [gap] });
  const result = await compareBooks(FIFTY, books);
  expect(result).toMatchObject({ agree: false, complete: false });
  expect(result.unproven).toMatchObject([
    { types: ['transfer.settled'], from: '2026-03-01T07:00:00.000Z', until: '2026-03-01T07:00:01.000Z' },
  ]);
  const acknowledged = { by: 'ops', reason: 'compared by hand', at: NOW };
  await savePoll(books.inbox, { gaps: [{ ...gap, acknowledged }] });
  expect((await compareBooks(FIFTY, books)).unproven).toMatchObject([{ reason: 'acknowledged' }]);
});

test('a list from which the service has removed events proves only what is newer than the oldest that it shows', async () => {
  const removed = makeEvent('evt_removed', { created_at: '2026-03-01T01:00:00Z' });
  const kept = makeEvent('evt_kept');
  const books = await booksOf([removed, kept]);
  const result = await compareBooks([kept], books);
  expect(result).toMatchObject({ agree: false, complete: false, findings: { unlisted: { count: 0 } } });
  expect(result.unproven).toMatchObject([{ until: '2026-03-01T06:05:01.000Z', reason: 'removed' }]);
  // Older events are listed, so that this one was not removed for its age.
  const older = makeEvent('evt_older', { created_at: '2026-02-01T00:00:00Z' });
  expect(await compareBooks([kept, older], books)).toMatchObject({
    complete: true,
    findings: { unlisted: { ids: [removed.id] } },
  });
});

/** An inbox that finished each event when the clock showed this time. */
async function inboxWith(events: readonly (readonly [id: string, createdAt: string, receivedAt: string])[]) {
  let now = NOW;
  const inbox = memoryInbox({ runtime: { now: () => now } });
  for (const [id, created_at, receivedAt] of events) {
    now = Date.parse(receivedAt);
    await finish(inbox, makeEvent(id, { created_at }));
  }
  now = NOW;
  return inbox;
}

test('an event that the service has removed from its list shows that also once the inbox has pruned it', async () => {
  const removed = ['evt_removed', '2026-03-01T01:00:00Z', '2026-03-01T01:00:01Z'] as const;
  const kept = ['evt_kept', '2026-03-01T06:00:00Z', '2026-03-01T06:00:01Z'] as const;
  const inbox = await inboxWith([removed, kept]);
  const books = { inbox, ledger: [{ id: 'evt_removed' }, { id: 'evt_kept' }] };
  const expected = {
    ...{ agree: false, complete: false, totals: { unjudged: 0 } },
    unproven: [{ from: '2026-02-28T23:59:59.999Z', until: '2026-03-01T06:05:01.000Z', reason: 'removed' }],
  };
  expect(await compareBooks([makeEvent('evt_kept')], books)).toMatchObject(expected);
  await inbox.prune({ olderThanMs: 0 });
  expect(await compareBooks([makeEvent('evt_kept')], books)).toMatchObject(expected);
  // A list that shows older events has removed nothing from the span.
  const older = makeEvent('evt_older', { created_at: '2026-02-01T00:00:00Z' });
  expect(await compareBooks([makeEvent('evt_kept'), older], books)).toMatchObject({ complete: true });
});

test('a pruned event shows nothing if it was received so late that it need not be listed yet, or has an unknown type', async () => {
  const inbox = await inboxWith([
    ['evt_kept', '2026-03-01T06:00:00Z', '2026-03-01T06:00:01Z'],
    ['evt_young', '2026-03-01T11:56:00Z', '2026-03-01T11:56:00Z'],
  ]);
  const claim = await inbox.claim(makeEvent('evt_unknown', { type: 'mint.completed' }), LEASE);
  if (claim.state === 'claimed') await inbox.complete(claim.lease);
  await inbox.prune({ olderThanMs: 0 });
  const ledger = ['evt_kept', 'evt_young'].map((id) => ({ id }));
  expect(await compareBooks([makeEvent('evt_kept')], { inbox, ledger })).toMatchObject({ complete: true });
});

test('an event that the service need not list yet does not show that it removes events', async () => {
  const inbox = await inboxWith([['evt_young', '2026-03-01T11:56:00Z', '2026-03-01T11:56:01Z']]);
  const books = { inbox, ledger: [{ id: 'evt_young' }] };
  expect(await compareBooks([], books)).toMatchObject({ agree: true, complete: true });
});

test('an event from before the span that is not listed any more shows that the service removes events', async () => {
  const inbox = await inboxWith([
    ['evt_removed', '2026-02-20T00:00:00Z', '2026-02-20T00:00:01Z'],
    ['evt_kept', '2026-03-01T06:00:00Z', '2026-03-01T06:00:01Z'],
  ]);
  const result = await compareBooks([makeEvent('evt_kept')], { inbox, ledger: [{ id: 'evt_kept' }] });
  expect(result).toMatchObject({
    ...{ agree: false, complete: false, totals: { inbox: 1 } },
    unproven: [{ until: '2026-03-01T06:05:01.000Z', reason: 'removed' }],
  });
});

test('where the service removes events, a first poll that looked back has proven nothing of the time before the inbox began', async () => {
  const inbox = await inboxWith([
    // The first poll, with an earlier `since`, found this one, and not what was removed before.
    ['evt_found', '2026-03-01T02:00:00Z', '2026-03-01T03:00:00Z'],
    ['evt_pushed', '2026-03-01T04:00:00Z', '2026-03-01T04:00:01Z'],
    ['evt_kept', '2026-03-01T06:00:00Z', '2026-03-01T06:00:01Z'],
  ]);
  await savePoll(inbox, { oldest: { at: Date.parse('2026-03-01T06:00:00Z'), seenAt: NOW - 60_000 } });
  const books = { inbox, ledger: ['evt_found', 'evt_pushed', 'evt_kept'].map((id) => ({ id })) };
  const unproven = { from: '2026-02-28T23:59:59.999Z', until: '2026-03-01T03:00:00.000Z', reason: 'removed' };
  expect(await compareBooks([makeEvent('evt_kept')], books)).toMatchObject({
    agree: false,
    unproven: [unproven],
  });
  // The poller has seen later events on the list before they were removed.
  const since = new Date('2026-03-01T03:00:00.001Z');
  expect(await compareBooks([makeEvent('evt_kept')], { ...books, since })).toMatchObject({ agree: true });
  // A list that shows everything that the inbox has does not show a removal.
  const all = [
    makeEvent('evt_found', { created_at: '2026-03-01T02:00:00Z' }),
    makeEvent('evt_pushed', { created_at: '2026-03-01T04:00:00Z' }),
    makeEvent('evt_kept'),
  ];
  expect(await compareBooks(all, books)).toMatchObject({ agree: true });
});

test('a short list that shows every event of the inbox proves the whole span, and of the others only what it must show', async () => {
  const kept = makeEvent('evt_kept');
  const { inbox, ledger } = await booksOf([kept]);
  expect(await compareBooks([kept], { inbox, ledger })).toMatchObject({ agree: true, unproven: [] });

  // The service need not list it yet.
  const young = makeEvent('evt_young', { created_at: '2026-03-01T11:59:00Z' });
  await finish(inbox, young);
  const unknown = makeEvent('evt_unknown', { type: 'mint.completed', created_at: '2026-03-01T01:00:00Z' });
  await inbox.record([unknown], { dueInMs: null, origin: 'push' });
  const withYoung = { inbox, ledger: [...ledger, { id: young.id }] };
  expect(await compareBooks([kept], { ...withYoung, until: new Date(NOW) })).toMatchObject({
    findings: { unlisted: { count: 0 } },
    unproven: [{ reason: 'not-settled' }],
  });
  expect(await compareBooks([kept], withYoung)).toMatchObject({ agree: true, unproven: [] });

  const unlisted = makeEvent('evt_unlisted', { created_at: '2026-03-01T07:00:00Z' });
  await finish(inbox, unlisted);
  expect(await compareBooks([kept], withYoung)).toMatchObject({
    findings: { unlisted: { ids: [unlisted.id] } },
    unproven: [],
  });
});

test('what was removed from the list in a gap of the poller is not proven by a list that is complete now', async () => {
  const inbox = makeInbox();
  const end = Date.parse('2026-03-01T02:00:00Z');
  const gap = {
    from: SINCE.getTime() - 1,
    until: { 'transfer.settled': end },
    reason: 'removed',
    openedAt: NOW,
    acknowledged: null,
  } as const;
  // The list had events when the gap was opened, and has none now.
  await savePoll(inbox, { gaps: [gap], oldest: { at: null, seenAt: end } });
  expect((await compareBooks([], { inbox, ledger: [] })).unproven).toMatchObject([
    { types: ['transfer.settled'], until: '2026-03-01T02:00:00.000Z', reason: 'removed' },
  ]);
});

test('books do not agree while the list has an element whose date is no RFC 3339 date-time', async () => {
  const value = { ...makeEvent('evt_1'), created_at: '2026-02-01' };
  const client = listOf([], { problems: [{ index: 0, fields: ['created_at'], value }] });
  const result = await compareBooks([], { client, inbox: makeInbox(), ledger: [] });
  expect(result).toMatchObject({
    agree: false,
    unproven: [{ types: EVENT_TYPES, reason: 'malformed' }],
    problems: [{ code: 'ERR_EVENT_MALFORMED' }],
  });
});

test('a first poll, whose watermark is still the start date, has proven nothing, not even of that time', async () => {
  const inbox = makeInbox();
  const since = SINCE.getTime();
  await savePoll(inbox, { watermark: since });
  const value = makeEvent('', { created_at: SINCE.toISOString() });
  const client = listOf([], { problems: [{ index: 0, fields: ['id'], value }] });
  expect(await compareBooks([], { client, inbox, ledger: [] })).toMatchObject({
    agree: false,
    unproven: [{ from: new Date(since - 1).toISOString(), until: SINCE.toISOString(), reason: 'malformed' }],
  });
});

test('the list is read with the lowest limit, because the service can refuse the limit that sufficed the poller', async () => {
  const books = await booksOf([makeEvent('evt_1')]);
  await savePoll(books.inbox, { limit: 400 });
  const limitOf = (limit: number) => {
    if (limit > 50) throw new Error('400');
    return limit;
  };
  const client = listOf([makeEvent('evt_1')], { limitOf });
  const result = await compareBooks([], { client, ...books });
  expect(result).toMatchObject({ agree: true, requests: 1, problems: [] });
});

test('a list that always shows the same events looks like the newest ones, and every later event of the inbox is unlisted', async () => {
  const at = (minutes: number) => new Date(SINCE.getTime() + minutes * 60_000).toISOString();
  const frozen = Array.from({ length: 200 }, (_, index) =>
    makeEvent(`evt_${index}`, { created_at: at(100 - index) }),
  );
  const pushed = makeEvent('evt_pushed', { created_at: at(200) });
  const books = await booksOf([...frozen.slice(0, 101), pushed]);
  expect(await compareBooks(frozen, books)).toMatchObject({
    ...{ agree: false, complete: true, findings: { unlisted: { ids: [pushed.id] } } },
  });
});

test('an event is unlisted only if it is newer than the oldest listed one by more than the lag and the disorder', async () => {
  const events = [
    makeEvent('evt_kept'),
    makeEvent('evt_at', { created_at: '2026-03-01T06:05:01.000Z' }),
    makeEvent('evt_after', { created_at: '2026-03-01T06:05:01.001Z' }),
  ];
  const { findings } = await compareBooks(events.slice(0, 1), await booksOf(events));
  expect(findings.unlisted.ids).toEqual(['evt_after']);
});

test('a failed event that is taken to run again while the inbox is read is found', async () => {
  const inbox = makeInbox();
  const claim = await inbox.claim(makeEvent('evt_1'), LEASE);
  if (claim.state === 'claimed') await inbox.fail(claim.lease, { retryAfterMs: 0, error: 'down' });
  const moving = withList(
    inbox,
    ({ state }) =>
      state === 'failed' && inbox.takeDue({ limit: 1, visibilityTimeoutMs: 1_000, types: EVENT_TYPES }),
  );
  const result = await compareBooks([], { inbox: moving, ledger: [] });
  expect(result).toMatchObject({ totals: { inbox: 1 }, findings: { waiting: { ids: ['evt_1'] } } });
});

test('a span that ends later than the lag allows is not complete', async () => {
  const result = await compareBooks([], { inbox: makeInbox(), ledger: [], until: new Date(NOW) });
  expect(result).toMatchObject({ agree: false, unproven: [{ reason: 'not-settled' }] });
});

test('pruned events are matched by id, and unjudged where their time or content is needed', async () => {
  const inbox = memoryInbox({ runtime: { now: () => NOW } });
  for (const id of ['evt_entered', 'evt_alone']) await finish(inbox, makeEvent(id));
  await inbox.prune({ olderThanMs: 0 });
  const ledger = [{ id: 'evt_entered' }];
  const books = { inbox, ledger, since: SINCE };
  expect(await compareBooks([], books)).toMatchObject({ totals: { entries: 1, outside: 0, unjudged: 1 } });
  const compared = await compareBooks([], { ...books, compare: () => undefined });
  expect(compared).toMatchObject({ agree: false, totals: { compared: 0, unjudged: 2 } });
});

test('the polls before prove nothing of what is not settled yet', async () => {
  const books = await booksOf(FIFTY);
  await savePoll(books.inbox, { since: null, watermark: NOW });
  expect(await compareBooks(FIFTY, books)).toMatchObject({ agree: true, unproven: [] });
  expect((await compareBooks(FIFTY, { ...books, until: new Date(NOW) })).unproven).toEqual([
    {
      types: EVENT_TYPES,
      from: '2026-03-01T11:55:00.000Z',
      until: '2026-03-01T11:59:59.999Z',
      reason: 'not-settled',
    },
  ]);
});

test('a list that can be cut leaves one span unproven, the whole one, for the types that it can lack', async () => {
  const { unproven } = await compareBooks(FIFTY, { inbox: makeInbox(), ledger: [], dryRun: true });
  expect(unproven).toEqual([
    {
      types: EVENT_TYPES.filter((type) => unproven[0]?.types.includes(type)),
      from: '2026-02-28T23:59:59.999Z',
      until: '2026-03-01T11:54:59.999Z',
      reason: 'unconfirmed',
    },
  ]);
});

test('an acknowledged gap is that of its types and its span only', async () => {
  const inbox = makeInbox();
  const types = ['transfer.settled', 'redeem.completed'];
  const events = FIFTY.map((event, index) => ({ ...event, type: types[index % 2] ?? '' }));
  const twice = [...events, ...events.map(({ id, ...event }) => ({ ...event, id: `${id}b` }))];
  const client = listOf(twice, { limitOf: (limit) => Math.min(limit, 50) });
  const gapAt = (hour: number, type: string, acknowledged: boolean) => {
    const from = SINCE.getTime() + hour * 3_600_000;
    return {
      ...{ from, until: { [type]: from + 1_000 }, reason: 'not-reached' as const, openedAt: NOW },
      acknowledged: acknowledged ? { by: 'ops', reason: 'compared by hand', at: NOW } : null,
    };
  };
  const gaps = [
    gapAt(1, 'transfer.settled', false),
    gapAt(3, 'transfer.settled', true),
    gapAt(3, 'redeem.completed', false),
    gapAt(5, 'transfer.settled', false),
  ];
  await savePoll(inbox, { gaps });
  const { unproven } = await compareBooks([], { client, inbox, ledger: [], dryRun: true });
  const rows = unproven.map(({ types, from, reason }) => `${from.slice(11, 13)} ${types.join()} ${reason}`);
  expect(rows).toEqual([
    '01 transfer.settled no-order',
    '03 transfer.settled acknowledged',
    '03 redeem.completed no-order',
    '05 transfer.settled no-order',
  ]);
});

test('a maxLimit that is lower than the limit bounds the first query', async () => {
  const limits: number[] = [];
  const client = listOf([], { limitOf: (limit) => limits.push(limit) });
  await compareBooks([], { client, inbox: makeInbox(), ledger: [], maxLimit: 20 });
  expect(Math.max(...limits)).toBe(20);
});

test('daily totals without amounts and currencies count events and entries, each once', async () => {
  const [both, listed] = [makeEvent('evt_both'), makeEvent('evt_listed')];
  const { inbox } = await booksOf([both, makeEvent('evt_stored')]);
  // It is leased while one page is read, and done in the next.
  const claim = await inbox.claim(makeEvent('evt_moves'), LEASE);
  const moving = {
    ...inbox,
    list: async (options: Parameters<typeof inbox.list>[0]) => {
      const page = await inbox.list(options);
      if (options.state === 'leased' && claim.state === 'claimed') await inbox.complete(claim.lease);
      return page;
    },
  };
  const ledger = [{ id: 'evt_both' }, { id: 'evt_stored' }, { id: 'evt_stored' }, { id: 'evt_unknown' }];
  const options = { inbox: moving, ledger, daily: true, dryRun: true };
  const result = await compareBooks([both, listed], options);
  const row = { date: '2026-03-01', type: 'transfer.settled', currency: null, events: 4, entries: 3 };
  expect(result.daily).toEqual([{ ...row, eventAmount: null, entryAmount: null }]);
  expect(result.totals).toMatchObject({ listed: 2, inbox: 3 });
});

test('a missing amount adds nothing, and an amount that is not decimal makes its sum null', async () => {
  const amounts = new Map([
    ['evt_1', '1.5'],
    ['evt_2', undefined],
    ['evt_3', '2.5'],
  ]);
  const books = await booksOf([...amounts.keys()].map((id) => makeEvent(id)));
  const sums = async (entry: (entry: LedgerEntry) => string | undefined) =>
    (
      await compareBooks([], {
        ...{ ...books, daily: true },
        amounts: { event: ({ id }) => amounts.get(id), entry },
      })
    ).daily;
  const row = { date: '2026-03-01', type: 'transfer.settled', currency: null, events: 3, entries: 3 };
  expect(await sums(({ id }) => amounts.get(id))).toEqual([{ ...row, eventAmount: '4', entryAmount: '4' }]);
  expect(await sums(({ id }) => (id === 'evt_1' ? 'much' : '1'))).toEqual([
    { ...row, eventAmount: '4', entryAmount: null },
  ]);
});

test('daily totals are per day in UTC, type and currency, with exact sums', async () => {
  const events = [
    makeEvent('evt_1', {
      created_at: '2026-03-01T00:30:00+01:00',
      payload: { amount: '9', currency: 'USDC' },
    }),
    makeEvent('evt_2', { payload: { amount: '0.1', currency: 'USDC' } }),
    makeEvent('evt_3', { payload: { amount: '0.2', currency: 'USDC' } }),
    makeEvent('evt_4', { payload: { amount: '7', currency: 'EURC' } }),
    makeEvent('evt_5', { type: 'redeem.completed', payload: { amount: 'much', currency: 'USDC' } }),
  ];
  const { daily } = await compareBooks(events, {
    ...(await booksOf(events)),
    since: new Date('2026-02-28T00:00:00Z'),
    daily: true,
    amounts: {
      event: ({ payload }) => String(payload['amount']),
      entry: () => '0.10',
      currency: ({ payload }) => String(payload['currency']),
    },
  });
  const row = (date: string, type: string, currency: string, events: number, eventAmount: string | null) => ({
    date,
    type,
    currency,
    events,
    entries: events,
    eventAmount,
    entryAmount: events === 2 ? '0.2' : '0.1',
  });
  expect(daily).toEqual([
    row('2026-02-28', 'transfer.settled', 'USDC', 1, '9'),
    row('2026-03-01', 'redeem.completed', 'USDC', 1, null),
    row('2026-03-01', 'transfer.settled', 'EURC', 1, '7'),
    row('2026-03-01', 'transfer.settled', 'USDC', 2, '0.3'),
  ]);
});

test('it rejects with the error of the client when the service answers nothing', async () => {
  const error = new Error('refused');
  const client = { events: { listWithProblems: () => Promise.reject(error) } };
  await expect(compareBooks([], { client, inbox: makeInbox(), ledger: [] })).rejects.toBe(error);
});

test('it ends with the reason of its signal, at every step', async () => {
  const books = await booksOf([makeEvent('evt_1')]);
  for (const step of ['inbox', 'ledger', 'findings']) {
    const stop = new AbortController();
    const running = compareBooks([makeEvent('evt_1')], {
      ...books,
      signal: stop.signal,
      onProgress: (progress) => {
        if (progress.step === step) stop.abort(new Error(`stopped at ${step}`));
      },
    });
    await expect(running).rejects.toThrow(`stopped at ${step}`);
  }
});

test.each([
  ['client', { events: { list: () => [] } }, '`client`'],
  ['inbox', {}, '`inbox`'],
  ['amounts', { event: () => '1' }, '`event` and `entry`'],
  ['ledgerTypes', ['transfer.settled', 'x'], '(accept.confirmed, transfer.settled, '],
  ['until', SINCE, 'the span is empty'],
])('the option %s is refused as %j', async (name, value, message) => {
  const running = compareBooks([], { inbox: makeInbox(), ledger: [], [name]: value });
  await expect(running).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
  await expect(running).rejects.toThrow(message);
});

test('other work of the process runs between the pages, even with a synchronous database', async () => {
  const { inbox } = await booksOf(Array.from({ length: 1_200 }, (_, index) => makeEvent(`evt_${index}`)));
  let [turns, running] = [0, true];
  const other = (async () => {
    for (; running; turns += 1) await new Promise((resolve) => setTimeout(resolve, 0));
  })();
  await compareBooks([], { inbox, ledger: [] });
  running = false;
  await other;
  // After each of two full pages of the inbox and of the findings.
  expect(turns).toBeGreaterThanOrEqual(4);
});

test.each([
  [{ id: 'evt_ghost', createdAt: new Date(NOW) }, /`createdAt` .*toISOString/],
  [{ id: 'evt_ghost', createdAt: '12345' }, /`createdAt`/],
  [{ id: 'evt_ghost', createdAt: '2026-03-01' }, /`createdAt` .*offset/],
  [{ id: 'evt_ghost', createdAt: '2026-03-01T06:00:00' }, /`createdAt`/],
  [{ id: 'evt_ghost', createdAt: '2026-03-01 06:00:00Z' }, /`createdAt`/],
  [{ id: 'evt_ghost', createdAt: '2026-02-31T00:00:00Z' }, /`createdAt`/],
  [{ id: '' }, /has no `id`/],
  [{ id: 7 }, /has no `id`/],
])('a ledger with the entry %j is refused', async (entry, message) => {
  const run = compareBooks([], { inbox: makeInbox(), ledger: [entry as LedgerEntry] });
  await expect(run).rejects.toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  await expect(run).rejects.toThrow(message);
});

test.each([
  ['2026-03-01T06:00:00Z', 1],
  ['2026-03-01T06:00:00.5+02:00', 1],
  ['2026-02-28T23:59:59.999Z', 0],
  // The same hour of the span, but in another zone.
  ['2026-03-01T00:30:00+01:00', 0],
])('an entry of an unknown event with createdAt %j is extra %i times', async (createdAt, count) => {
  const ledger = [{ id: 'evt_ghost', createdAt }];
  const { findings } = await compareBooks([], { inbox: makeInbox(), ledger });
  expect(findings.extra.count).toBe(count);
});

test('an inbox whose pages are shorter than asked for is read to its end', async () => {
  const { inbox } = await booksOf(FIFTY.slice(0, 7));
  const capped = {
    ...inbox,
    list: (options: Parameters<typeof inbox.list>[0]) => inbox.list({ ...options, limit: 3 }),
  };
  const before = makeEvent('evt_before', { created_at: '2026-02-20T00:00:00Z' });
  const result = await compareBooks([before], { inbox: capped, ledger: [] });
  expect(result).toMatchObject({ agree: false, totals: { inbox: 7 } });
  expect(result.findings.missing.count).toBe(7);
});

test.for([
  ['its first page', () => true],
  ['every later page', (after: string | undefined) => after !== undefined],
] as const)('an inbox that refuses %s ends the comparison', async ([, refuses]) => {
  const inbox = makeInbox();
  await finish(inbox, makeEvent('evt_a'));
  const refusing = withList(inbox, ({ after }) => {
    if (refuses(after)) throw new ConfigError('The list cannot be read.');
  });
  await expect(compareBooks([], { inbox: refusing, ledger: [] })).rejects.toThrow('The list cannot be read.');
});
