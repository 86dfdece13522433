/** Races, many events, exact times and exact texts. */
import assert from 'node:assert/strict';
import type { UnknownEvent } from 'stablehooks';
import { someEvent } from '../contract.js';
import {
  HOUR_MS,
  ODD_NAMES,
  simultaneously,
  someEvents,
  sortedIds,
  TAKE,
  type TestedInbox,
  test,
  textOf512Bytes,
  until,
} from './given.js';

const CLAIM_RACES = [
  ['of 40 simultaneous claims of one event exactly one is answered claimed', 1, 40, 1],
  ['of 4 simultaneous claims of each of 50 events exactly one per event is answered claimed', 50, 4, 1],
  ['of 20 simultaneous claims of an event whose lease has lapsed exactly one is answered claimed', 1, 20, 2],
] as const;

/** Simultaneous steps on one page, and how many of their answers say that an event is the caller's. */
const PAGE_RACES = [
  ['record', 'record'],
  ['ignore', 'ignore'],
  ['record', 'ignore'],
  ['ignore', 'claim'],
] as const;

const stepsOf = (inbox: TestedInbox) => ({
  record: (page: readonly UnknownEvent[]) => inbox.record(page),
  ignore: (page: readonly UnknownEvent[]) => inbox.ignore(page),
  claim: async (page: readonly UnknownEvent[]) =>
    (await Promise.all(page.map((event) => inbox.claim(event)))).map(({ state }) => state),
});

export const raceCases = [
  ...CLAIM_RACES.map(([name, events, claims, attempt]) =>
    test(name, async (inbox) => {
      const raced = someEvents(events);
      for (const event of attempt === 2 ? raced : []) await inbox.claimed(event, { leaseMs: 0 });
      const answers = await simultaneously(claims, () =>
        Promise.all(raced.map((event) => inbox.claim(event))),
      );
      const leases = answers.flat().flatMap((claim) => (claim.state === 'claimed' ? [claim.lease] : []));
      assert.deepEqual(sortedIds(leases), sortedIds(raced));
      assert.ok(leases.every((lease) => lease.attempt === attempt));
      assert.equal(answers.flat().filter(({ state }) => state === 'leased').length, events * (claims - 1));
    }),
  ),
  ...PAGE_RACES.map(([one, other]) =>
    test(`of a simultaneous ${one} and ${other} of the same events, exactly one gets each event`, async (inbox) => {
      for (const page of [someEvents(1), someEvents(60)]) {
        const backwards = other === 'claim' ? page : page.toReversed();
        const steps = stepsOf(inbox);
        const answers = await Promise.all([steps[one](page), steps[other](backwards)]);
        const won = answers.flat().filter((answer) => answer === 'new' || answer === 'claimed');
        assert.equal(won.length, page.length);
        for (const event of page) assert.ok((await inbox.find(event)).event, 'An event is lost.');
      }
    }),
  ),
  test('of a simultaneous record and claim of the same events each is claimed once and not due', async (inbox) => {
    const page = someEvents(30);
    const [, states] = await Promise.all([inbox.record(page), stepsOf(inbox).claim(page)]);
    // A claim does not wait for the record.
    const refused = page.filter((_, index) => states[index] === 'leased');
    for (const event of refused) assert.ok(await inbox.claimed(event));
    assert.equal(states.filter((state) => state === 'claimed').length, page.length - refused.length);
    assert.deepEqual(await inbox.takeDue(), []);
  }),
  test('of a simultaneous requeue and claim of a failed event the claim keeps its lease', async (inbox) => {
    for (const event of someEvents(100)) {
      await inbox.port.fail(await inbox.claimed(event), { retryAfterMs: HOUR_MS, error: 'no' });
      const [, lease] = await Promise.all([
        inbox.port.requeue(event.id),
        inbox.claimed(event, { early: true }),
      ]);
      assert.ok(
        await inbox.port.complete(lease),
        'An event was requeued while it was leased: it can run twice.',
      );
    }
  }),
  test('of 4 simultaneous completions with one token exactly one returns true, and none with an unknown one', async (inbox) => {
    const lease = await inbox.claimed(someEvent());
    for (const wrong of [{ id: 'evt_unknown' }, { token: '00000000-0000-4000-8000-000000000000' }]) {
      assert.equal(await inbox.port.complete({ ...lease, ...wrong }), false);
      assert.equal(await inbox.port.fail({ ...lease, ...wrong }, { retryAfterMs: 0, error: 'no' }), false);
    }
    const answers = await simultaneously(4, () => inbox.port.complete(lease));
    assert.deepEqual(answers.toSorted(), [false, false, false, true]);
  }),
  test('simultaneous calls of takeDue never return the same event, and together return all', async (inbox) => {
    const events = someEvents(60);
    await inbox.record(events);
    const takes = await simultaneously(20, () => inbox.takeDue({ limit: 7 }));
    assert.deepEqual(sortedIds([...takes.flat(), ...(await inbox.takeDue())]), sortedIds(events));
  }),
];

/** No whole numbers of seconds, and one that is longer than a day. */
const DURATIONS_MS = [1, 1_999, 62_503, 25 * HOUR_MS + 1];

/** The steps that make an event due after a time. */
const TIMES: Readonly<
  Record<string, (inbox: TestedInbox, event: UnknownEvent) => Promise<(ms: number) => unknown>>
> = {
  async 'a failed event is due after its retry time, to the ms'(inbox, event) {
    const lease = await inbox.claimed(event);
    return (ms) => inbox.port.fail(lease, { retryAfterMs: ms, error: 'no' });
  },
  async 'an event that takeDue returned is due again after `visibilityTimeoutMs`, to the ms'(inbox, event) {
    await inbox.record([event]);
    return (visibilityTimeoutMs) => inbox.takeDue({ visibilityTimeoutMs });
  },
  'a recorded event is due after `dueInMs`, to the ms': async (inbox, event) => (dueInMs) =>
    inbox.record([event], { dueInMs }),
  'a lease ends after `leaseMs`, to the ms': async (inbox, event) => (leaseMs) =>
    inbox.claimed(event, { leaseMs }),
};

/** The clock of the inbox, epoch ms: when it received an event. */
async function clockOf(inbox: TestedInbox): Promise<number> {
  const probe = someEvent();
  await inbox.record([probe], { dueInMs: HOUR_MS });
  return (await inbox.find(probe)).receivedAt;
}

export const timeCases = [
  ...Object.entries(TIMES).map(([name, prepare]) =>
    test(name, async (inbox) => {
      for (const ms of DURATIONS_MS) {
        const event = someEvent();
        const act = await prepare(inbox, event);
        const from = (await clockOf(inbox)) + ms;
        await act(ms);
        const until = (await clockOf(inbox)) + ms;
        const { dueAt } = await inbox.find(event);
        const range = `It must be from ${from} to ${until}, which is ${ms} ms after the call.`;
        assert.ok(dueAt !== null && dueAt >= from && dueAt <= until, `\`dueAt\` is ${dueAt}. ${range}`);
      }
    }),
  ),
  test('an event that asks for later is dead by its first receipt, however recently it was claimed', async (inbox) => {
    const event = someEvent();
    await inbox.record([event]);
    const { receivedAt } = await inbox.find(event);
    await until('The clock of the inbox stands still.', async () =>
      (await clockOf(inbox)) - receivedAt > 100 ? true : undefined,
    );
    const lease = await inbox.claimed(event);
    const { updatedAt } = await inbox.find(event);
    // Both times are cut to ms.
    const later = { maxAgeMs: updatedAt - receivedAt - 1 };
    assert.equal(await inbox.port.fail(lease, { retryAfterMs: HOUR_MS, error: 'no', later }), 'dead');
    assert.equal((await inbox.find(event)).state, 'dead');
  }),
  test('takeDue returns complete events, those that are due the longest first, and at most `limit` of them', async (inbox) => {
    const events = someEvents(6);
    // Recorded in reverse: the order of recording is not the order in which they are due.
    for (const [index, event] of [...events.entries()].toReversed()) {
      await inbox.record([event], { dueInMs: index === 0 ? -HOUR_MS : (index - 6) * 1_000 });
    }
    assert.deepEqual(await inbox.takeDue({ limit: 1 }), events.slice(0, 1));
    assert.deepEqual(await inbox.takeDue({ limit: 3 }), events.slice(1, 4));
    assert.deepEqual(await inbox.takeDue({ limit: 3 }), events.slice(4));
  }),
  test('events of other types that are due longer do not keep events of `types` back', async (inbox) => {
    const [events, others] = [someEvents(1), someEvents(100, { type: 'mint.completed' })];
    await inbox.record(others, { dueInMs: -HOUR_MS });
    await inbox.record(events);
    assert.deepEqual(await inbox.takeDue({ limit: 2 }), events);
    assert.equal((await inbox.takeDue({ types: ['mint.completed'] })).length, 100);
  }),
  test('an event can be attempted 30 times, each attempt has its number, and the history keeps the last 10', async (inbox) => {
    const event = someEvent();
    for (let attempt = 1; attempt <= 30; attempt++) {
      const lease = await inbox.claimed(event);
      assert.equal(lease.attempt, attempt);
      await inbox.port.fail(lease, { retryAfterMs: attempt === 30 ? null : 0, error: `no ${attempt}` });
    }
    await inbox.port.requeue(event.id);
    await inbox.port.complete(await inbox.claimed(event));
    const { history } = await inbox.find(event);
    const errors = history.map(({ attempt, result, error }) => `${attempt} ${result} ${error}`);
    const failed = [22, 23, 24, 25, 26, 27, 28, 29].map((attempt) => `${attempt} failed no ${attempt}`);
    assert.deepEqual(errors, [...failed, '30 dead no 30', '1 done null']);
  }),
  test('the first of ten attempts stays in the history if its lease expired, however often the event fails later', async (inbox) => {
    const event = someEvent();
    await inbox.claimed(event, { leaseMs: 0 });
    await inbox.claimed(event, { leaseMs: 0 });
    for (let attempt = 3; attempt <= 25; attempt++) {
      await inbox.port.fail(await inbox.claimed(event), {
        retryAfterMs: attempt === 25 ? null : 0,
        error: 'no',
      });
    }
    await inbox.port.requeue({ ids: [event.id], by: 'ana', reason: 'fixed' });
    const { history } = await inbox.find(event);
    const attempts = history.map(({ attempt, result }) => `${attempt} ${result}`);
    const failed = [18, 19, 20, 21, 22, 23, 24].map((attempt) => `${attempt} failed`);
    assert.deepEqual(attempts, ['1 lapsed', ...failed, '25 dead', '25 requeued']);
  }),
];

/** Texts that do not survive being parsed and written again. */
const TEXTS = ['1e999', '-0', '12345678901234567890', '1.0'].map(
  (number, index) =>
    `{ "id": "evt_text_${index}", "type": "transfer.settled", "created_at": "2026-01-02T03:04:05Z", "payload": { "z": ${number}, "1": 0 } }`,
);
const PARSED: readonly UnknownEvent[] = TEXTS.map((text) => JSON.parse(text));
/** Events whose object is not the one of their text. */
const CHANGED = PARSED.map((event) => ({ ...event, payload: {} }));

/** Members that a database can easily change. */
const FRAGILE: readonly object[] = [
  { payload: { text: 'zero \u0000, lone \ud800, pair 😀, line\u2028, quote " \\ / \' $1 %s' } },
  { payload: { z: 1, a: 2, 10: 'ten', 2: 'two', nested: { list: [1, [2, [3, null]]], no: {} } } },
  { payload: { amount: '0.10', big: 1e21, small: 1e-7, negative: -0.5, yes: true, none: null } },
  { payload: JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}') },
  { payload: { long: 'x'.repeat(200_000) } },
  { payload: {}, delivered: true, extra: { kept: ['x'] } },
];

export const textCases = [
  ...(['record', 'ignore'] as const).flatMap((step) => [
    test(`${step} stores a page of 1,100 events in one call, an id twice in a page once, and no empty page`, async (inbox) => {
      const page = someEvents(1_100);
      const state = step === 'record' ? 'received' : 'done';
      assert.deepEqual(await inbox[step]([]), []);
      assert.equal((await inbox[step](page)).join(), Array(1_100).fill('new').join());
      const count = (await inbox.port.count()).find((counted) => counted.state === state)?.count;
      assert.equal(count, 1_100, `Of 1,100 events in one call, ${count} are stored.`);
      assert.equal((await inbox[step](page)).join(), Array(1_100).fill(state).join());
      const first = someEvent();
      assert.deepEqual(await inbox[step]([first, { ...first, payload: {} }]), ['new', state]);
      assert.deepEqual((await inbox.find(first)).event, first);
    }),
    test(`${step} stores the JSON that it is given, and events exactly as they are`, async (inbox) => {
      await inbox[step](CHANGED, { json: TEXTS });
      for (const event of PARSED) assert.deepEqual((await inbox.find(event)).event, event);
      for (const event of FRAGILE.map((members) => ({ ...someEvent(), ...members }))) {
        await inbox[step]([event]);
        assert.equal(JSON.stringify((await inbox.find(event)).event), JSON.stringify(event));
      }
    }),
    test(`${step} takes ids that differ in case, spaces or accents, or have 512 bytes as their type, for different events`, async (inbox) => {
      const ids = [...ODD_NAMES, textOf512Bytes(), textOf512Bytes()];
      const events = ids.map((id) => someEvent({ id, type: textOf512Bytes() }));
      assert.deepEqual(new Set(await inbox[step](events)), new Set(['new']));
      for (const event of events) {
        const due = await inbox.takeDue({ types: [event.type] });
        assert.deepEqual(due, step === 'record' ? [event] : []);
        if (step === 'record') await inbox.port.complete(await inbox.claimed(event));
        const { id, state } = await inbox.find(event);
        assert.deepEqual([id, state], [event.id, 'done']);
      }
    }),
  ]),
  test('takeDue returns the JSON that an event was recorded or claimed with, character for character', async (inbox) => {
    await inbox.record(CHANGED.slice(1), { json: TEXTS.slice(1) });
    await inbox.claimed(CHANGED[0] ?? someEvent(), { leaseMs: 0, json: TEXTS[0] });
    const taken = await inbox.port.takeDue(TAKE);
    assert.deepEqual(taken.map(({ json }) => json).toSorted(), TEXTS);
    for (const { id, json } of taken) assert.equal(JSON.parse(json).id, id);
  }),
  test('the error of a failed event is stored whatever characters it has, cut at 1,000', async (inbox) => {
    const kept = 'pair 😀, line\u2028, quote " \\ / \' $1 %s';
    for (const [error, end] of [
      ['é'.repeat(5_000), 'é'.repeat(1_000)],
      [`\u0000 and \ud800 may be replaced: ${kept}`, kept],
    ] as const) {
      const event = someEvent();
      assert.equal(await inbox.port.fail(await inbox.claimed(event), { retryAfterMs: null, error }), true);
      const { lastError } = await inbox.find(event);
      const isKept = lastError?.endsWith(end) && lastError.length <= 1_000;
      assert.ok(isKept, `It has stored ${JSON.stringify(lastError)}.`);
    }
  }),
  test('changing an event object after it was recorded or returned does not change the stored event', async (inbox) => {
    const event = someEvent();
    const overwrite = (from: UnknownEvent | null | undefined) =>
      Object.assign(from?.payload ?? {}, { amount: '0' });
    await inbox.record([event]);
    overwrite(event);
    for (let take = 0; take < 2; take++) {
      const [taken] = await inbox.takeDue({ visibilityTimeoutMs: 0 });
      assert.deepEqual(taken?.payload, { amount: '10.50' });
      overwrite(taken);
    }
    overwrite((await inbox.find(event)).event);
    assert.deepEqual((await inbox.find(event)).event?.payload, { amount: '10.50' });
  }),
];
