/** The text of each finding, and events that are counted without a finding. */
import assert from 'node:assert/strict';
import type { Inbox, UnknownEvent } from 'stablehooks';
import type { Finding, LedgerEntry } from 'stablehooks/reconcile';
import { expect, test } from 'vitest';
import {
  booksOf,
  compareBooks,
  finish,
  LEASE,
  makeEvent,
  makeInbox,
  SINCE,
  withList,
} from './small-books.js';

const CREATED = '2026-03-01T06:00:00Z';
/** From before the span, so that a list is known to reach back further than that. */
const BEFORE = makeEvent('evt_before', { created_at: '2026-02-20T00:00:00Z' });

type Options = Parameters<typeof compareBooks>[1];

/** Reconciles, and collects the findings in the order of their ids. */
async function findIn(events: readonly UnknownEvent[], options: Options) {
  const findings: Finding[] = [];
  const onFinding = (finding: Finding) => void findings.push(finding);
  const result = await compareBooks([...events, BEFORE], { onFinding, ...options });
  return { result, findings: findings.sort((a, b) => (a.id < b.id ? -1 : 1)) };
}

async function fail(inbox: ReturnType<typeof makeInbox>, event: UnknownEvent, retryAfterMs: number | null) {
  const claim = await inbox.claim(event, LEASE);
  if (claim.state === 'claimed') await inbox.fail(claim.lease, { retryAfterMs, error: 'down' });
}

test('a finding has the type, the time, the state and the entries for its event, and says what to do', async () => {
  const inbox = makeInbox();
  const ids = [
    'dead',
    'dead_booked',
    'doubled',
    'failed',
    'good',
    'missing',
    'received_booked',
    'unseen_booked',
  ];
  const events = ids.map((id) => makeEvent(id));
  const eventOf = (id: string) => events.find((event) => event.id === id) ?? makeEvent(id);
  for (const id of ['doubled', 'good', 'missing']) await finish(inbox, eventOf(id));
  for (const id of ['dead', 'dead_booked']) await fail(inbox, eventOf(id), null);
  await fail(inbox, eventOf('failed'), 60_000);
  await inbox.record([eventOf('received_booked')], { dueInMs: 0, origin: 'pull' });
  await finish(inbox, makeEvent('unlisted'));
  const ledger = [
    ...[
      'dead_booked',
      'doubled',
      'doubled',
      'good',
      'received_booked',
      'unseen_booked',
      'unlisted',
      'not-known',
    ],
  ].map((id) => ({ id }));

  const { result, findings } = await findIn(events, { inbox, ledger });

  const row = (kind: string, id: string, state: string | null, entries: number, detail: string) => ({
    ...{ kind, id, type: 'transfer.settled', createdAt: CREATED, state, entries },
    detail: expect.stringContaining(detail),
  });
  expect(findings).toEqual([
    row('dead', 'dead', 'dead', 0, 'requeue it'),
    row('dead', 'dead_booked', 'dead', 1, 'may double its effect'),
    row('doubled', 'doubled', 'done', 2, '2 entries'),
    row('waiting', 'failed', 'failed', 0, 'no attempt'),
    row('missing', 'missing', 'done', 0, 'write the entry'),
    { ...row('extra', 'not-known', null, 1, 'who wrote the entry'), type: null, createdAt: null },
    row('waiting', 'received_booked', 'received', 1, 'may double its effect'),
    row('unlisted', 'unlisted', 'done', 1, 'Ask the service'),
    row('unseen', 'unseen_booked', null, 1, 'The event was not recorded'),
  ]);
  expect(result).toMatchObject({
    agree: false,
    complete: true,
    totals: { listed: 8, inbox: 8, entries: 8, outside: 0, compared: 0, parked: 0, recorded: 0, unjudged: 0 },
  });
  const counts = {
    dead: 2,
    doubled: 1,
    extra: 1,
    missing: 1,
    mismatched: 0,
    unlisted: 1,
    unseen: 1,
    waiting: 2,
    conflicting: 0,
    'duplicate-movement': 0,
  };
  for (const [kind, count] of Object.entries(counts)) {
    const of = findings.filter((finding) => finding.kind === kind).map(({ id }) => id);
    expect(result.findings).toHaveProperty(kind, { count, ids: expect.arrayContaining(of) });
  }
});

/** An event in which one thing differs from that of the list. */
const OTHERS: readonly (readonly [
  what: string,
  listed: Partial<UnknownEvent>,
  other: Partial<UnknownEvent>,
])[] = [
  ['type', {}, { type: 'transfer.failed' }],
  ['time', {}, { created_at: '2026-03-01T06:00:00.001Z' }],
  ['amount', { payload: { amount: '1000.00' } }, { payload: { amount: '0.01' } }],
  ['additional field', { payload: { a: 1 } }, { payload: { a: 1, b: 2 } }],
  ['name of a field', { payload: { a: null } }, { payload: { b: null } }],
  ['name that objects inherit', { payload: JSON.parse('{"__proto__":{}}') }, { payload: { a: {} } }],
  ['nested value', { payload: { a: { b: [1, { c: 2 }] } } }, { payload: { a: { b: [1, { c: 3 }] } } }],
  ['order of an array', { payload: { a: [1, 2] } }, { payload: { a: [2, 1] } }],
  ['array instead of an object', { payload: { a: { 0: 1 } } }, { payload: { a: [1] } }],
  ['null instead of an object', { payload: { a: {} } }, { payload: { a: null } }],
  ['object instead of null', { payload: { a: null } }, { payload: { a: {} } }],
  ['string instead of a number', { payload: { a: 1 } }, { payload: { a: '1' } }],
];

/** The one finding about `evt_1`, which is conflicting, with these words. */
const conflicting = (words: string) => [
  {
    ...{ kind: 'conflicting', id: 'evt_1', type: 'transfer.settled', createdAt: CREATED },
    ...{ state: 'done', entries: 1, detail: expect.stringContaining(words) },
  },
];

test.each(OTHERS)(
  'a stored event with another %s than the listed one is conflicting, whatever else agrees',
  async (_, listed, stored) => {
    const books = await booksOf([makeEvent('evt_1', stored)]);
    const { result, findings } = await findIn([makeEvent('evt_1', listed)], books);
    expect(findings).toEqual(conflicting('webhook secret'));
    expect(result).toMatchObject({ agree: false, complete: true, unproven: [], totals: { unjudged: 0 } });
    expect(result.diagnosis).toContain(': 1 conflicting.');
    expect(result.findings.conflicting).toEqual({ count: 1, ids: ['evt_1'] });
  },
);

test.each(OTHERS)(
  'two listed events with one id and another %s are conflicting, and the first one counts',
  async (_, first, other) => {
    const [event, twin] = [makeEvent('evt_1', first), makeEvent('evt_1', other)];
    const { result, findings } = await findIn([event, twin], await booksOf([event]));
    expect(findings).toEqual(conflicting('lists two'));
    expect(result).toMatchObject({ agree: false, totals: { listed: 1, inbox: 1 } });
    expect(result.problems).toMatchObject([{ code: 'ERR_EVENT_CONFLICT', id: 'evt_1' }]);
  },
);

test('an event of doctor is not listed, and its finding says so: whoever has the secret can choose its id', async () => {
  const id = 'evt_doctor_1f_genuine';
  const events = [makeEvent(id), makeEvent('good')];
  const { findings } = await findIn([makeEvent('good')], await booksOf(events));
  expect(findings).toMatchObject([
    {
      kind: 'unlisted',
      id,
      detail: expect.stringMatching(/doctor --run-handlers.*change the webhook secret/),
    },
  ]);
});

test('events that say the same in other words are not conflicting', async () => {
  const deep = (depth: number) => JSON.parse(`${'{"a":['.repeat(depth)}1${']}'.repeat(depth)}`);
  const stored = makeEvent('evt_1', { payload: { a: 1, b: [null, { c: '2', d: {} }], deep: deep(1_000) } });
  const listed = {
    ...makeEvent('evt_1', { created_at: '2026-03-01T07:00:00.000+01:00' }),
    ...{ payload: { deep: deep(1_000), b: [null, { d: {}, c: '2' }], a: 1 }, delivered: true, sent: 2 },
  };
  const copies = [listed, { ...listed, delivered: false }, { ...listed }];
  const { result, findings } = await findIn(copies, await booksOf([stored]));
  expect(findings).toEqual([]);
  expect(result).toMatchObject({ agree: true, problems: [], totals: { listed: 1 } });
});

test('a pruned event is not compared with the listed one, but two listed ones still are', async () => {
  const event = makeEvent('evt_1', { payload: { amount: '1' } });
  const twin = makeEvent('evt_1', { payload: { amount: '2' } });
  const books = await booksOf([twin]);
  await books.inbox.prune({ olderThanMs: 0 });
  expect((await findIn([event], books)).result).toMatchObject({ agree: true });
  const { result } = await findIn([event, twin], books);
  expect(result).toMatchObject({ agree: false, findings: { conflicting: { count: 1 } } });
});

test('a finding of a pruned event that the list does not show has its type, and no time', async () => {
  const { inbox } = await booksOf([makeEvent('evt_1')]);
  await inbox.prune({ olderThanMs: 0 });
  const { findings } = await findIn([], { inbox, ledger: [{ id: 'evt_1' }, { id: 'evt_1' }] });
  expect(findings).toMatchObject([
    { kind: 'doubled', type: 'transfer.settled', createdAt: null, state: 'done', entries: 2 },
  ]);
});

test('an event that is conflicting when the inbox is read is reported although it is pruned meanwhile', async () => {
  const inbox = makeInbox();
  await finish(inbox, makeEvent('evt_1', { payload: { amount: '2' } }));
  async function* ledger(): AsyncGenerator<LedgerEntry> {
    await inbox.prune({ olderThanMs: 0 });
    yield { id: 'evt_1' };
  }
  const { findings } = await findIn([makeEvent('evt_1')], { inbox, ledger: ledger() });
  expect(findings).toMatchObject([{ kind: 'conflicting', id: 'evt_1', entries: 1 }]);

  // It is read twice: before it is done, and when it is done and pruned.
  const moving = makeInbox();
  const claim = await moving.claim(makeEvent('evt_1', { payload: { amount: '2' } }), LEASE);
  const ending = withList(moving, async ({ state }) => {
    if (state !== 'done' || claim.state !== 'claimed') return;
    await moving.complete(claim.lease);
    await moving.prune({ olderThanMs: 0 });
  });
  const books = { inbox: ending, ledger: [{ id: 'evt_1' }] };
  const twice = await findIn([makeEvent('evt_1')], books);
  expect(twice.findings).toMatchObject([{ kind: 'conflicting', id: 'evt_1', state: 'done' }]);
});

test('a conflicting event that arrives after the inbox was read is reported', async () => {
  const inbox = makeInbox();
  async function* ledger(): AsyncGenerator<LedgerEntry> {
    await finish(inbox, makeEvent('evt_1', { payload: { amount: '2' } }));
    yield { id: 'evt_1' };
  }
  const { findings } = await findIn([makeEvent('evt_1')], { inbox, ledger: ledger() });
  expect(findings).toMatchObject([{ kind: 'conflicting', id: 'evt_1', state: 'done', entries: 1 }]);
});

test('an unseen event of which the list has two is conflicting and unseen, and the first one is recorded', async () => {
  const inbox = makeInbox();
  const [event, twin] = ['1', '2'].map((amount) => makeEvent('evt_1', { payload: { amount } }));
  assert(event && twin);
  const { result, findings } = await findIn([event, twin, event], { inbox, ledger: [] });
  expect(findings.map(({ kind, state }) => [kind, state])).toEqual([
    ['conflicting', null],
    ['unseen', 'received'],
  ]);
  expect(result.totals.recorded).toBe(1);
  expect((await inbox.find('evt_1'))?.event).toEqual(event);
});

test('a conflicting event is part of the span if the first event that the list shows with its id is', async () => {
  const until = new Date('2026-03-01T08:00:00Z');
  const inside = makeEvent('evt_1', { created_at: '2026-03-01T07:59:59.999Z' });
  const outside = makeEvent('evt_1', { created_at: '2026-03-01T08:00:00Z' });
  const kinds = async (listed: readonly UnknownEvent[], stored: UnknownEvent) => {
    const { result, findings } = await findIn(listed, { ...(await booksOf([stored])), until });
    expect(result.totals.inbox).toBe(result.totals.entries);
    return findings.map(({ kind, detail }) => `${kind} ${/lists two/.test(detail) ? 'listed' : 'stored'}`);
  };
  expect(await kinds([inside], outside)).toEqual(['conflicting stored']);
  expect(await kinds([outside], inside)).toEqual([]);
  expect(await kinds([inside, outside], inside)).toEqual(['conflicting listed']);
  expect(await kinds([inside, outside], outside)).toEqual(['conflicting listed', 'conflicting stored']);
  expect(await kinds([outside, inside], outside)).toEqual([]);
});

test('an unseen event has the state that this run gave it, and none in a dry run', async () => {
  const events = [makeEvent('evt_1'), makeEvent('evt_2', { type: 'wallet.frozen' })];
  const dry = await findIn(events, { inbox: makeInbox(), ledger: [], dryRun: true });
  expect(dry.findings.map(({ state, entries }) => [state, entries])).toEqual([
    [null, 0],
    [null, 0],
  ]);
  expect(dry.findings[0]?.detail).toContain('without a dry run');
  expect(dry.result.totals.recorded).toBe(0);

  const inbox = makeInbox();
  const wet = await findIn(events, { inbox, ledger: [] });
  expect(wet.findings.map(({ kind, state }) => [kind, state])).toEqual([
    ['unseen', 'received'],
    ['unseen', 'parked'],
  ]);
  expect(wet.findings[0]?.detail).toContain('It has been recorded');
  expect(wet.result.totals.recorded).toBe(2);
  expect((await inbox.find('evt_1'))?.origin).toBe('pull');
});

test('an unseen event whose push arrives before it is recorded is unjudged', async () => {
  const inbox = makeInbox();
  const late = {
    ...inbox,
    record: async (...[events, options]: Parameters<Inbox['record']>) => {
      await inbox.record(events.slice(0, 1), options);
      return inbox.record(events, options);
    },
  };
  const events = [makeEvent('evt_1'), makeEvent('evt_2')];
  const { result, findings } = await findIn(events, { inbox: late, ledger: [] });
  expect(findings.map(({ id }) => id)).toEqual(['evt_2']);
  expect(result.totals).toMatchObject({ recorded: 1, unjudged: 1 });
});

test('types without ledger entries need none, and have an extra one otherwise', async () => {
  const events = ['evt_1', 'evt_2'].map((id) => makeEvent(id, { type: 'transfer.failed' }));
  const { inbox } = await booksOf(events);
  const { result, findings } = await findIn(events, {
    inbox,
    ledger: [{ id: 'evt_2' }, { id: 'evt_2' }],
    ledgerTypes: ['transfer.settled'],
  });
  expect(findings).toMatchObject([{ kind: 'extra', id: 'evt_2', entries: 2, state: 'done' }]);
  expect(findings[0]?.detail).toContain('of its type');
  expect(result.findings.doubled.count).toBe(0);
});

test('parked events are counted: unknown types have no finding, known types wait', async () => {
  const inbox = makeInbox();
  const known = makeEvent('evt_known');
  const unknown = makeEvent('evt_unknown', { type: 'wallet.frozen' });
  await inbox.record([known, unknown], { dueInMs: null, origin: 'push' });
  const { result, findings } = await findIn([known, unknown], { inbox, ledger: [] });
  expect(findings).toMatchObject([{ kind: 'waiting', id: 'evt_known', state: 'parked' }]);
  expect(result.totals.parked).toBe(1);
});

test('events of an unknown type are never unlisted, because no list is known to have them all', async () => {
  const inbox = makeInbox();
  await inbox.record([makeEvent('evt_1', { type: 'wallet.frozen' })], { dueInMs: null, origin: 'push' });
  expect((await findIn([], { inbox, ledger: [] })).result).toMatchObject({
    agree: true,
    totals: { parked: 1 },
  });
});

test.each([
  ['one difference', 'the amounts differ', ['the amounts differ']],
  ['two', ['the amounts differ', 'the days differ'], ['the amounts differ', 'the days differ']],
  ['none', undefined, []],
  ['an empty list of them', [], []],
])('compare that returns %s gives as many findings', async (_, returned, details) => {
  const compare = () => returned;
  const books = await booksOf([makeEvent('evt_1')]);
  const { result, findings } = await findIn([makeEvent('evt_1')], { ...books, compare });
  const mismatched = (detail: string) => ({ ...conflicting('')[0], kind: 'mismatched', detail });
  expect(findings).toEqual(details.map(mismatched));
  expect(result.totals.compared).toBe(1);
  expect(result.findings.mismatched).toEqual({
    count: details.length,
    ids: details.length > 0 ? ['evt_1'] : [],
  });
});

test('compare gets each entry with its event, from the list, the inbox or a lookup, and no entry of no event', async () => {
  const listed = makeEvent('evt_listed');
  const { inbox } = await booksOf([listed, makeEvent('evt_kept', { created_at: '2026-03-01T00:00:00Z' })]);
  const late = makeEvent('evt_late', { created_at: '2026-03-01T07:00:00Z' });
  async function* ledger(): AsyncGenerator<LedgerEntry> {
    // It arrives after the inbox was read.
    await finish(inbox, late);
    for (const id of ['evt_listed', 'evt_kept', 'evt_late', 'evt_unknown']) yield { id };
  }
  const seen: string[] = [];
  const compare = (entry: LedgerEntry, event: UnknownEvent) => {
    seen.push(`${entry.id} ${event.id}`);
    return undefined;
  };
  const { result } = await findIn([listed], { inbox, ledger: ledger(), compare });
  expect(seen.sort()).toEqual(['evt_kept evt_kept', 'evt_late evt_late', 'evt_listed evt_listed']);
  expect(result.totals).toMatchObject({ compared: 3, entries: 4, inbox: 3, listed: 1, unjudged: 0 });
});

test('a result holds at most 1,000 ids of a kind, each once, and counts all findings', async () => {
  const ledger = Array.from({ length: 1_200 }, (_, index) => ({ id: `evt_${index}` }));
  const { result } = await findIn([], { inbox: makeInbox(), ledger });
  expect(result.findings.extra.count).toBe(1_200);
  expect(new Set(result.findings.extra.ids).size).toBe(1_000);
  expect(result.findings.extra.ids).toHaveLength(1_000);
});

test('the span includes its first and last ms, and nothing before or after', async () => {
  const until = new Date('2026-03-01T08:00:00Z');
  const at = (ms: number) => new Date(ms).toISOString();
  const events = [
    makeEvent('evt_a', { created_at: at(SINCE.getTime() - 1) }),
    makeEvent('evt_b', { created_at: at(SINCE.getTime()) }),
    makeEvent('evt_c', { created_at: at(until.getTime() - 1) }),
    makeEvent('evt_d', { created_at: at(until.getTime()) }),
  ];
  const seen = await findIn(events, { inbox: makeInbox(), ledger: [], until, dryRun: true });
  expect(seen.findings.map(({ id }) => id)).toEqual(['evt_b', 'evt_c']);
  expect(seen.result).toMatchObject({ until: until.toISOString(), totals: { listed: 2 } });

  const books = await booksOf(events);
  const stored = await findIn([], { ...books, until });
  expect(stored.findings.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
    'unlisted evt_b',
    'unlisted evt_c',
  ]);
  expect(stored.result.totals).toMatchObject({ inbox: 2, entries: 2, outside: 2 });

  const ghosts = events.map(({ id, created_at: createdAt }) => ({ id, createdAt }));
  const entered = await findIn([], { inbox: makeInbox(), ledger: ghosts, until });
  expect(entered.findings.map(({ kind, id }) => `${kind} ${id}`)).toEqual(['extra evt_b', 'extra evt_c']);
  expect(entered.result.totals).toMatchObject({ entries: 2, outside: 2 });

  const listed = await findIn(events, { inbox: makeInbox(), ledger: books.ledger.slice(1), until });
  expect(listed.result.totals).toMatchObject({ listed: 2, entries: 2, outside: 1 });
});

test('a pruned event of the time before the span is left out, by when it was received', async () => {
  for (const [receivedAt, count] of [
    [SINCE.getTime() - 300_001, 0],
    [SINCE.getTime() - 300_000, 1],
  ] as const) {
    const inbox = makeInbox(receivedAt);
    await finish(inbox, makeEvent('evt_1'));
    await inbox.prune({ olderThanMs: 0 });
    const { result } = await findIn([], { inbox, ledger: [] });
    expect(result.totals).toMatchObject({ inbox: count, unjudged: count });
  }
});

test('each failure of the inbox is ERR_INBOX_FAILED, with the cause', async () => {
  const down = new Error('the database is down');
  for (const method of ['readNote', 'count', 'list', 'find', 'record'] as const) {
    const inbox = { ...makeInbox(), [method]: () => Promise.reject(down) };
    const running = compareBooks([makeEvent('evt_1'), BEFORE], { inbox, ledger: [] });
    await expect(running).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED', cause: down });
  }
});

test('progress counts what was read of the inbox and the ledger, and what was judged', async () => {
  const events = Array.from({ length: 501 }, (_, index) => makeEvent(`evt_${index}`));
  const steps: [step: string, done: number, total: number | undefined][] = [];
  await compareBooks([], {
    ...(await booksOf(events)),
    onProgress: ({ step, done, total }) => void steps.push([step, done, total]),
  });
  const of = (name: string) => steps.flatMap(([step, ...progress]) => (step === name ? [progress] : []));
  expect(of('inbox')).toContainEqual([500, 501]);
  expect(of('inbox').at(-1)).toEqual([501, 501]);
  expect(of('ledger')).toEqual([
    [500, undefined],
    [501, undefined],
  ]);
  expect(of('findings')).toEqual([
    [500, 501],
    [501, 501],
  ]);
});

test.each(['2026-03-01T06:05:00.001Z', '2099-01-01T00:00:00Z'])(
  'an event that the list lacks and that is dated %s, more than lagMs after its receipt at 6:00, is unlisted',
  async (created_at) => {
    const forged = makeEvent('evt_forged', { created_at });
    const books = await booksOf([makeEvent('evt_1'), forged], makeInbox(Date.parse(CREATED)));
    const { result, findings } = await findIn([makeEvent('evt_1')], books);
    const [finding] = conflicting('webhook secret');
    expect(findings).toEqual([{ ...finding, kind: 'unlisted', id: forged.id, createdAt: created_at }]);
    expect(result).toMatchObject({ agree: false, totals: { inbox: 2, entries: 2, outside: 0, unjudged: 0 } });
    // Even if the span ends before its date.
    const until = new Date('2026-03-01T06:01:00Z');
    expect((await findIn([makeEvent('evt_1')], { ...books, until })).findings).toHaveLength(1);
  },
);

test('an event that is dated in the future is compared as any other if the list has it, or the receipt is not of the span', async () => {
  const future = makeEvent('evt_future', { created_at: '2099-01-01T00:00:00Z' });
  const inbox = makeInbox(Date.parse(CREATED));
  await finish(inbox, future);
  expect((await findIn([future], { inbox, ledger: [] })).result).toMatchObject({ agree: true });
  const since = new Date(Date.parse(CREATED) + 1);
  expect((await findIn([], { inbox, ledger: [], since })).result).toMatchObject({ agree: true });
  // Clocks can differ by lagMs.
  const ahead = makeInbox(Date.parse(CREATED));
  await finish(ahead, makeEvent('evt_ahead', { created_at: '2026-03-01T06:05:00Z' }));
  const until = new Date('2026-03-01T06:01:00Z');
  expect((await findIn([], { inbox: ahead, ledger: [], until })).result).toMatchObject({ agree: true });
});

test('two events of one type about one movement are reported, whichever book has them', async () => {
  const payload = { transfer_id: 'trf_1' };
  const first = makeEvent('evt_1', { payload });
  const second = makeEvent('evt_2', { payload });
  const other = makeEvent('evt_3', { payload, type: 'transfer.failed' });
  const keyless = [makeEvent('evt_4'), makeEvent('evt_5')];
  const events = [first, second, other, ...keyless];
  const { inbox, ledger } = await booksOf(events);
  const keyOf = (event: UnknownEvent) => event.payload['transfer_id'];
  const { findings } = await findIn(events, { inbox, ledger, keyOf });
  expect(findings).toMatchObject([
    {
      ...{ kind: 'duplicate-movement', id: 'evt_2', type: 'transfer.settled', state: 'done', entries: 1 },
      detail: expect.stringMatching(/same movement as evt_1/),
    },
  ]);
  expect((await compareBooks([...events, BEFORE], { inbox, ledger })).agree).toBe(true);
});
