import assert from 'node:assert/strict';
import { EVENT_TYPES, type UnknownEvent } from '../core/events.js';
import {
  type Claim,
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type InboxRecord,
  type Lease,
  type PollState,
  type StoredGap,
} from '../core/ports.js';
import { type ContractCase, someEvent } from './contract.js';

/** An empty inbox, seen through two connections. Every case needs a new one. */
export interface InboxUnderTest {
  readonly inbox: Inbox<unknown> & InboxOperations;
  /** The same inbox over another connection; the same object where an inbox has no connections. */
  readonly second: Inbox<unknown> & InboxOperations;
}

type InboxCase = ContractCase<InboxUnderTest>;

const HOUR_MS = 3_600_000;

/** Claims with a lease that does not end during a test. */
const LONG = { leaseMs: HOUR_MS, origin: 'push' } as const;

/** Claims with a lease that has lapsed at once. */
const LAPSED = { leaseMs: 0, origin: 'push' } as const;

/** Records events that are due at once. */
const DUE = { dueInMs: 0, origin: 'pull' } as const;

/** Takes everything that is due, and hides it until the test has ended. */
const TAKE = { limit: 1_000, visibilityTimeoutMs: HOUR_MS, types: ['transfer.settled'] } as const;

/** Events with unique ids. */
function someEvents(count: number, overrides: Partial<UnknownEvent> = {}): readonly UnknownEvent[] {
  return Array.from({ length: count }, () => someEvent(overrides));
}

/** Claims the event, and fails when the claim is not answered `claimed`. */
async function claimed(inbox: Inbox<unknown>, event: UnknownEvent, leaseMs = HOUR_MS): Promise<Lease> {
  const claim = await inbox.claim(event, { leaseMs, origin: 'push' });
  assert.equal(claim.state, 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
  return claim.lease;
}

/** The events that are due. */
async function takeDue(
  inbox: Inbox<unknown>,
  options: Parameters<Inbox['takeDue']>[0],
): Promise<readonly UnknownEvent[]> {
  return (await inbox.takeDue(options)).map(({ event }) => event);
}

/** The history of an event without its times. */
async function historyOf(inbox: InboxOperations, { id }: UnknownEvent) {
  const record = await inbox.find(id);
  return record?.history.map(({ attempt, result, error }) => ({ attempt, result, error }));
}

/** How long a case waits for what an inbox must do in the end, in ms. */
const PATIENCE_MS = 30_000;

/** A check that fails once that time is over: an inbox that breaks a rule must not keep a case running. */
function within(message: string): () => void {
  const until = Date.now() + PATIENCE_MS;
  return () => assert.ok(Date.now() < until, message);
}

const idsOf = (events: readonly UnknownEvent[]) => events.map(({ id }) => id);

const claimCases: readonly InboxCase[] = [
  {
    name: 'the claim of a new event leases it as attempt 1',
    async run({ inbox }) {
      const event = someEvent();
      const lease = await claimed(inbox, event);
      assert.equal(lease.id, event.id);
      assert.equal(lease.attempt, 1);
      const record = await inbox.find(event.id);
      assert.equal(record?.state, 'leased');
      assert.equal(record?.attempts, 1);
      assert.equal(record?.origin, 'push');
      assert.equal(record?.type, event.type);
    },
  },
  {
    name: "a claim with the event's own JSON stores that JSON",
    async run({ inbox }) {
      const json = '{ "id": "evt_text", "type": "transfer.settled", "payload": { "amount": 1.0, "10": 0 } }';
      const event = JSON.parse(json) as UnknownEvent;
      const claim = await inbox.claim({ ...event, payload: {} }, { ...LAPSED, json });
      assert.equal(claim.state, 'claimed');
      assert.deepEqual((await inbox.find('evt_text'))?.event, event);
      assert.deepEqual(await inbox.takeDue(TAKE), [{ event, json }]);
    },
  },
  {
    name: 'a claim of a leased event is answered leased, with the time until the lease ends',
    async run({ inbox, second }) {
      const event = someEvent();
      await claimed(inbox, event);
      const other = await second.claim(event, LONG);
      assert.equal(other.state, 'leased');
      assert.ok(
        other.state === 'leased' && other.retryAfterMs > HOUR_MS / 2 && other.retryAfterMs <= HOUR_MS,
      );
    },
  },
  {
    name: 'of 40 simultaneous claims of one event exactly one is answered claimed',
    async run({ inbox, second }) {
      const event = someEvent();
      const claims = await Promise.all(
        Array.from({ length: 40 }, (_, index) => (index % 2 ? inbox : second).claim(event, LONG)),
      );
      assert.equal(claims.filter(({ state }) => state === 'claimed').length, 1);
      assert.equal(claims.filter(({ state }) => state === 'leased').length, 39);
    },
  },
  {
    name: 'of 4 simultaneous claims of each of 50 events exactly one per event is answered claimed',
    async run({ inbox, second }) {
      const events = someEvents(50);
      const claims = await Promise.all(
        events.flatMap((event) => [inbox, second, inbox, second].map((one) => one.claim(event, LONG))),
      );
      const won = claims.flatMap((claim) => (claim.state === 'claimed' ? [claim.lease.id] : []));
      assert.equal(won.length, 50);
      assert.equal(new Set(won).size, 50);
    },
  },
  {
    name: 'of 20 simultaneous claims of an event whose lease has lapsed exactly one is answered claimed',
    async run({ inbox, second }) {
      const event = someEvent();
      await claimed(inbox, event, 0);
      const claims = await Promise.all(
        Array.from({ length: 20 }, (_, index) => (index % 2 ? inbox : second).claim(event, LONG)),
      );
      const won = claims.filter(({ state }) => state === 'claimed');
      assert.equal(won.length, 1);
      assert.equal(won[0]?.state === 'claimed' && won[0].lease.attempt, 2);
    },
  },
  {
    name: 'after another claim of a lapsed lease, the old token can neither complete nor fail the event',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, event, 0);
      const current = await claimed(second, event);
      assert.equal(current.attempt, 2);
      assert.notEqual(current.token, old.token);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: 0, error: 'late' }), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: null, error: 'late' }), false);
      assert.equal((await inbox.find(event.id))?.state, 'leased');
      assert.equal(await second.complete(current), true);
    },
  },
  {
    name: 'a lapsed lease that nobody else has claimed can still complete the event',
    async run({ inbox }) {
      const lease = await claimed(inbox, someEvent(), 0);
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'a completed event is done, and every later claim is answered done',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, event);
      assert.equal(await inbox.complete(lease), true);
      assert.equal((await inbox.claim(event, LONG)).state, 'done');
      assert.equal((await second.claim(event, LAPSED)).state, 'done');
      assert.equal((await second.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'completing or failing an event that is done returns false and changes nothing',
    async run({ inbox }) {
      const event = someEvent();
      const lease = await claimed(inbox, event);
      await inbox.complete(lease);
      assert.equal(await inbox.complete(lease), false);
      assert.equal(await inbox.fail(lease, { retryAfterMs: 0, error: 'late' }), false);
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'of 4 simultaneous completions with one token exactly one returns true',
    async run({ inbox, second }) {
      const lease = await claimed(inbox, someEvent());
      const answers = await Promise.all([inbox, second, inbox, second].map((one) => one.complete(lease)));
      assert.equal(answers.filter(Boolean).length, 1);
    },
  },
  {
    name: 'completing with an unknown id or an unknown token returns false',
    async run({ inbox }) {
      const lease = await claimed(inbox, someEvent());
      const unknownToken = '00000000-0000-4000-8000-000000000000';
      assert.equal(await inbox.complete({ ...lease, id: 'evt_nobody' }), false);
      assert.equal(await inbox.complete({ ...lease, token: unknownToken }), false);
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'a claim of a failed event before its retry time is answered failed with the time until then, and uses up no attempt',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, event);
      assert.equal(await inbox.fail(lease, { retryAfterMs: HOUR_MS, error: 'ERR_HANDLER_FAILED: no' }), true);
      const record = await inbox.find(event.id);
      assert.equal(record?.state, 'failed');
      assert.equal(record?.lastError, 'ERR_HANDLER_FAILED: no');
      for (let replay = 0; replay < 30; replay++) {
        const claim = await second.claim(event, LONG);
        assert.ok(claim.state === 'failed', `The claim was answered ${claim.state}.`);
        assert.ok(claim.retryAfterMs > HOUR_MS / 2 && claim.retryAfterMs <= HOUR_MS);
      }
      assert.deepEqual(await inbox.find(event.id), record);
    },
  },
  {
    name: 'a failed event can be claimed at its retry time, and before it with `early`',
    async run({ inbox, second }) {
      const [due, waiting] = someEvents(2);
      assert.ok(due && waiting);
      await inbox.fail(await claimed(inbox, due), { retryAfterMs: 0, error: 'no' });
      assert.equal((await claimed(second, due)).attempt, 2);
      await inbox.fail(await claimed(inbox, waiting), { retryAfterMs: HOUR_MS, error: 'no' });
      const claim = await second.claim(waiting, { ...LONG, early: true });
      assert.ok(claim.state === 'claimed' && claim.lease.attempt === 2);
    },
  },
  {
    name: 'an event that fails without a retry time is dead and cannot be claimed',
    async run({ inbox, second }) {
      const event = someEvent();
      const lease = await claimed(inbox, event);
      assert.equal(await inbox.fail(lease, { retryAfterMs: null, error: 'given up' }), true);
      assert.equal((await second.claim(event, LONG)).state, 'dead');
      assert.equal((await second.find(event.id))?.dueAt, null);
    },
  },
  {
    name: 'a record has the history of the attempts that have ended, with what ended each',
    async run({ inbox, second }) {
      const event = someEvent();
      assert.deepEqual((await historyOf(inbox, event)) ?? [], []);
      await inbox.fail(await claimed(inbox, event), { retryAfterMs: 0, error: 'first "error" \'é\'' });
      await claimed(inbox, event, 0);
      const lease = await claimed(second, event, 0);
      assert.deepEqual(await historyOf(inbox, event), [
        { attempt: 1, result: 'failed', error: 'first "error" \'é\'' },
        { attempt: 2, result: 'lapsed', error: null },
      ]);
      await inbox.takeDue(TAKE);
      assert.equal(await second.complete(lease), false);
      await second.complete(await claimed(second, event));
      const history = (await inbox.find(event.id))?.history ?? [];
      assert.deepEqual(
        history.map(({ attempt, result }) => [attempt, result]),
        [
          [1, 'failed'],
          [2, 'lapsed'],
          [3, 'lapsed'],
          [4, 'done'],
        ],
      );
      for (const { startedAt, endedAt } of history) {
        assert.ok(Math.abs(startedAt - Date.now()) < HOUR_MS, '`startedAt` is not a time in epoch ms.');
        assert.ok(endedAt >= startedAt, 'An attempt ended before it started.');
      }
    },
  },
  {
    name: 'an event can be attempted 30 times, and each attempt has its number',
    async run({ inbox }) {
      const event = someEvent();
      for (let attempt = 1; attempt <= 30; attempt++) {
        assert.equal((await claimed(inbox, event, 0)).attempt, attempt);
      }
      const record = await inbox.find(event.id);
      assert.equal(record?.attempts, 30);
      assert.deepEqual(
        record?.history.map(({ attempt }) => attempt),
        [20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
      );
    },
  },
  {
    name: 'the history keeps the last 10 attempts, also after a requeue',
    async run({ inbox }) {
      const event = someEvent();
      for (let attempt = 1; attempt <= 11; attempt++) {
        const retryAfterMs = attempt === 11 ? null : 0;
        await inbox.fail(await claimed(inbox, event), { retryAfterMs, error: `no ${attempt}` });
      }
      await inbox.requeue(event.id);
      await inbox.complete(await claimed(inbox, event));
      const history = await historyOf(inbox, event);
      assert.deepEqual(
        history?.map(({ attempt, result, error }) => `${attempt} ${result} ${error}`),
        [
          ...[3, 4, 5, 6, 7, 8, 9, 10].map((attempt) => `${attempt} failed no ${attempt}`),
          '11 dead no 11',
          '1 done null',
        ],
      );
    },
  },
  {
    name: 'the error of a failed event is stored, cut at 1,000 characters',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.fail(await claimed(inbox, event), { retryAfterMs: 0, error: 'é'.repeat(5_000) });
      assert.equal((await inbox.find(event.id))?.lastError, 'é'.repeat(1_000));
    },
  },
  {
    name: 'the error of a failed event is stored whatever characters it has',
    async run({ inbox }) {
      const event = someEvent();
      const kept = 'pair 😀, line\u2028, quote " \\ / \' $1 %s';
      const failure = { retryAfterMs: null, error: `\u0000 and \ud800 may be replaced: ${kept}` };
      assert.equal(await inbox.fail(await claimed(inbox, event), failure), true);
      const record = await inbox.find(event.id);
      assert.equal(record?.state, 'dead');
      assert.ok(record?.lastError?.endsWith(kept), `It has stored ${JSON.stringify(record?.lastError)}.`);
    },
  },
];

/** Events that a database can easily change. A function, because Workers give no random ids while they load a module. */
const fragileEvents = (): readonly UnknownEvent[] => [
  someEvent({ payload: { text: 'zero \u0000, lone \ud800, pair 😀, line\u2028, quote " \\ / \' $1 %s' } }),
  someEvent({ payload: { z: 1, a: 2, 10: 'ten', 2: 'two', nested: { list: [1, [2, [3, null]]], no: {} } } }),
  someEvent({ payload: { amount: '0.10', big: 1e21, small: 1e-7, negative: -0.5, yes: true, none: null } }),
  someEvent({ payload: JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}') }),
  { ...someEvent(), delivered: true, extra: { kept: ['x'] } } as UnknownEvent,
  someEvent({ payload: { long: 'x'.repeat(200_000) } }),
  someEvent({ payload: {} }),
];

const recordCases: readonly InboxCase[] = [
  {
    name: 'recording a page returns for each event, in order, whether it is new or which state it has',
    async run({ inbox }) {
      const [done, leased, failed, dead, fresh] = someEvents(5);
      assert.ok(done && leased && failed && dead && fresh);
      await inbox.complete(await claimed(inbox, done));
      await claimed(inbox, leased);
      await inbox.fail(await claimed(inbox, failed), { retryAfterMs: HOUR_MS, error: 'no' });
      await inbox.fail(await claimed(inbox, dead), { retryAfterMs: null, error: 'no' });
      const page = [fresh, done, leased, failed, dead];
      assert.deepEqual(await inbox.record(page, DUE), ['new', 'done', 'leased', 'failed', 'dead']);
      assert.deepEqual(await inbox.record(page, DUE), ['received', 'done', 'leased', 'failed', 'dead']);
      assert.equal((await inbox.find(fresh.id))?.origin, 'pull');
    },
  },
  {
    name: 'recording with the JSON of each event stores that JSON',
    async run({ inbox }) {
      const texts = ['1e999', '-0', '12345678901234567890', '1.0'].map(
        (number, index) =>
          `{ "id": "evt_text_${index}", "type": "transfer.settled", "created_at": "2026-01-02T03:04:05Z", "payload": { "z": ${number}, "1": 0 } }`,
      );
      const events = texts.map((text) => JSON.parse(text) as UnknownEvent);
      await inbox.record(events, { ...DUE, json: texts });
      const taken = await inbox.takeDue(TAKE);
      assert.deepEqual(new Set(taken.map(({ json }) => json)), new Set(texts));
    },
  },
  {
    name: 'recording an empty page returns an empty list',
    async run({ inbox }) {
      assert.deepEqual(await inbox.record([], DUE), []);
    },
  },
  {
    name: 'a page of 1,100 events is recorded in one call, and each is stored',
    async run({ inbox }) {
      const page = someEvents(1_100);
      assert.deepEqual(
        await inbox.record(page, DUE),
        page.map(() => 'new'),
      );
      const count = (await inbox.count()).find(({ state }) => state === 'received')?.count;
      assert.equal(count, 1_100, `Of 1,100 events that were recorded in one call, ${count} are stored.`);
      assert.deepEqual(new Set(await inbox.record(page, DUE)), new Set(['received']));
    },
  },
  {
    name: 'an id that is twice in one page is new once, and its first content is kept',
    async run({ inbox }) {
      const first = someEvent();
      const twin = { ...first, payload: { amount: '99.00' } };
      assert.deepEqual(await inbox.record([first, twin], DUE), ['new', 'received']);
      assert.deepEqual(await inbox.record([twin], DUE), ['received']);
      assert.deepEqual((await inbox.find(first.id))?.event, first);
    },
  },
  {
    name: 'of simultaneous pages with the same events each id is new in exactly one',
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
    name: 'simultaneous recording and claiming of the same events loses none and claims each once',
    async run({ inbox, second }) {
      const page = someEvents(30);
      const [, ...claims] = await Promise.all([
        inbox.record(page, DUE),
        ...page.map((event) => second.claim(event, LONG)),
      ]);
      assert.equal(claims.filter(({ state }) => state === 'claimed').length, 30);
      assert.equal((await takeDue(inbox, TAKE)).length, 0);
    },
  },
  {
    name: 'a recorded event is claimed as attempt 1, whether it is due or not',
    async run({ inbox }) {
      const [now, later] = someEvents(2);
      assert.ok(now && later);
      await inbox.record([now], DUE);
      await inbox.record([later], { dueInMs: HOUR_MS, origin: 'pull' });
      assert.equal((await claimed(inbox, now)).attempt, 1);
      assert.equal((await claimed(inbox, later)).attempt, 1);
    },
  },
  {
    name: 'every event is returned exactly as it was recorded',
    async run({ inbox, second }) {
      const events = fragileEvents();
      for (const event of events) {
        await inbox.record([event], DUE);
        assert.equal(JSON.stringify((await second.find(event.id))?.event), JSON.stringify(event));
      }
      assert.deepEqual(new Set(idsOf(await takeDue(second, TAKE))), new Set(idsOf(events)));
    },
  },
  {
    name: 'ids that differ in case, spaces or accents are different events',
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
        await inbox.complete(await claimed(inbox, event));
        assert.equal((await inbox.find(event.id))?.id, event.id);
      }
    },
  },
  {
    name: 'an event whose id and type have 512 bytes is recorded, parked, claimed and completed',
    async run({ inbox }) {
      // Random, because an index can compress what repeats.
      const name = () => Buffer.from(crypto.getRandomValues(new Uint8Array(384))).toString('base64url');
      const [event, parked] = [
        someEvent({ id: name(), type: name() }),
        someEvent({ id: name(), type: name() }),
      ];
      await inbox.complete(await claimed(inbox, event));
      assert.equal((await inbox.claim(event, LONG)).state, 'done');
      assert.deepEqual(await inbox.record([parked], { dueInMs: null, origin: 'push' }), ['new']);
      assert.deepEqual(await takeDue(inbox, { ...TAKE, types: [parked.type] }), [parked]);
    },
  },
];

/** The clock of the inbox, epoch ms: when it received an event. */
async function clockOf(inbox: InboxUnderTest['inbox']): Promise<number> {
  const probe = someEvent();
  await inbox.record([probe], { dueInMs: HOUR_MS, origin: 'pull' });
  return (await inbox.find(probe.id))?.receivedAt ?? Number.NaN;
}

/** Fails unless `act` makes the event due after `ms`, by the clock of the inbox and to the ms. */
async function assertDueIn(
  inbox: InboxUnderTest['inbox'],
  { event, ms, act }: { readonly event: UnknownEvent; readonly ms: number; act(): unknown },
): Promise<void> {
  const from = (await clockOf(inbox)) + ms;
  await act();
  const until = (await clockOf(inbox)) + ms;
  const dueAt = (await inbox.find(event.id))?.dueAt ?? Number.NaN;
  const range = `It must be from ${from} to ${until}, which is ${ms} ms after the call.`;
  assert.ok(dueAt >= from && dueAt <= until, `\`dueAt\` is ${dueAt}. ${range}`);
}

/** No whole numbers of seconds, and one that is longer than a day. */
const DURATIONS_MS = [1, 1_999, 62_503, 25 * HOUR_MS + 1];

const dueCases: readonly InboxCase[] = [
  {
    name: 'a failed event is due after its retry time, to the ms',
    async run({ inbox }) {
      for (const ms of DURATIONS_MS) {
        const event = someEvent();
        const lease = await claimed(inbox, event);
        const act = () => inbox.fail(lease, { retryAfterMs: ms, error: 'no' });
        await assertDueIn(inbox, { event, ms, act });
      }
    },
  },
  {
    name: 'an event that takeDue returned is due again after `visibilityTimeoutMs`, to the ms',
    async run({ inbox }) {
      for (const ms of DURATIONS_MS) {
        const event = someEvent();
        await inbox.record([event], DUE);
        const act = async () => {
          // Those of before are due again after their own times.
          const taken = await takeDue(inbox, { ...TAKE, visibilityTimeoutMs: ms });
          assert.ok(idsOf(taken).includes(event.id), 'An event that is due was not taken.');
        };
        await assertDueIn(inbox, { event, ms, act });
      }
    },
  },
  {
    name: 'a recorded event is due after `dueInMs`, and a lease ends after `leaseMs`, to the ms',
    async run({ inbox }) {
      for (const ms of DURATIONS_MS) {
        const [recorded, leased] = someEvents(2);
        assert.ok(recorded && leased);
        const record = () => inbox.record([recorded], { dueInMs: ms, origin: 'pull' });
        await assertDueIn(inbox, { event: recorded, ms, act: record });
        await assertDueIn(inbox, { event: leased, ms, act: () => claimed(inbox, leased, ms) });
      }
    },
  },
  {
    name: 'takeDue returns received, failed and lapsed events, and none that is done, dead, leased or due later',
    async run({ inbox, second }) {
      const [received, failed, lapsed, later, retryLater, running, done, dead] = someEvents(8);
      assert.ok(received && failed && lapsed && later && retryLater && running && done && dead);
      await inbox.record([received], DUE);
      await inbox.fail(await claimed(inbox, failed), { retryAfterMs: 0, error: 'no' });
      await claimed(inbox, lapsed, 0);
      await inbox.record([later], { dueInMs: HOUR_MS, origin: 'pull' });
      await inbox.fail(await claimed(inbox, retryLater), { retryAfterMs: HOUR_MS, error: 'no' });
      await claimed(inbox, running);
      await inbox.complete(await claimed(inbox, done));
      await inbox.fail(await claimed(inbox, dead), { retryAfterMs: null, error: 'no' });
      assert.deepEqual(
        new Set(idsOf(await takeDue(second, TAKE))),
        new Set([received.id, failed.id, lapsed.id]),
      );
    },
  },
  {
    name: 'takeDue returns complete events, those that are due the longest first, and at most `limit` of them',
    async run({ inbox }) {
      const events = someEvents(6);
      // Recorded in reverse, so that the order of recording is not the order in which they are due.
      for (const [index, event] of [...events.entries()].reverse()) {
        await inbox.record([event], { dueInMs: (index - 6) * 1_000, origin: 'pull' });
      }
      const first = await takeDue(inbox, { ...TAKE, limit: 4 });
      assert.equal(first.length, 4);
      const rest = await takeDue(inbox, { ...TAKE, limit: 4 });
      assert.equal(rest.length, 2);
      assert.deepEqual([...first, ...rest], events);
    },
  },
  {
    name: 'takeDue with `limit: 0` returns no event and leaves what is due',
    async run({ inbox, second }) {
      const [due, parked] = someEvents(2);
      assert.ok(due && parked);
      await inbox.record([due], { ...DUE, keys: [KEY] });
      await inbox.record([parked], { dueInMs: null, origin: 'pull' });
      const take = { ...TAKE, types: [parked.type] };
      assert.deepEqual(await takeDue(inbox, { ...take, limit: 0 }), []);
      assert.deepEqual(new Set(idsOf(await takeDue(second, take))), new Set([due.id, parked.id]));
    },
  },
  {
    name: 'changing an event object after it was recorded or returned does not change the stored event',
    async run({ inbox }) {
      const event = someEvent({ payload: { amount: '10.50' } });
      const overwrite = (given: UnknownEvent | undefined) =>
        Object.assign(given?.payload ?? {}, { amount: '0' });
      await inbox.record([event], DUE);
      overwrite(event);
      for (let take = 0; take < 2; take++) {
        const [taken] = await takeDue(inbox, { ...TAKE, visibilityTimeoutMs: 0 });
        assert.deepEqual(taken?.payload, { amount: '10.50' });
        overwrite(taken);
      }
      overwrite((await inbox.find(event.id))?.event ?? undefined);
      assert.deepEqual((await inbox.find(event.id))?.event?.payload, { amount: '10.50' });
    },
  },
  {
    name: 'takeDue returns an event that has been due for an hour before one that is due now',
    async run({ inbox }) {
      const [now, hidden] = someEvents(2);
      assert.ok(now && hidden);
      await inbox.record([hidden], { dueInMs: -HOUR_MS, origin: 'pull' });
      await inbox.record([now], DUE);
      assert.deepEqual(idsOf(await takeDue(inbox, { ...TAKE, limit: 1 })), [hidden.id]);
      assert.deepEqual(idsOf(await takeDue(inbox, { ...TAKE, limit: 1 })), [now.id]);
    },
  },
  {
    name: 'an event that takeDue returned is not returned again for `visibilityTimeoutMs`, and can be claimed meanwhile',
    async run({ inbox, second }) {
      const [hidden, shown] = someEvents(2);
      assert.ok(hidden && shown);
      await inbox.record([hidden], DUE);
      await takeDue(inbox, TAKE);
      assert.deepEqual(await takeDue(second, TAKE), []);
      assert.equal((await claimed(second, hidden)).attempt, 1);
      await inbox.record([shown], DUE);
      assert.deepEqual(idsOf(await takeDue(inbox, { ...TAKE, visibilityTimeoutMs: 0 })), [shown.id]);
      assert.deepEqual(idsOf(await takeDue(second, TAKE)), [shown.id]);
    },
  },
  {
    name: 'takeDue does not return an event that was claimed since an earlier call left it for its limit',
    async run({ inbox, second }) {
      const [first, next] = someEvents(2);
      assert.ok(first && next);
      await inbox.record([first], { ...DUE, dueInMs: -HOUR_MS });
      await inbox.record([next], DUE);
      assert.deepEqual(idsOf(await takeDue(inbox, { ...TAKE, limit: 1 })), [first.id]);
      await claimed(second, next);
      assert.deepEqual(await takeDue(inbox, TAKE), []);
      assert.equal((await inbox.find(next.id))?.state, 'leased');
    },
  },
  {
    name: 'simultaneous calls of takeDue never return the same event, and together return all',
    async run({ inbox, second }) {
      const events = someEvents(60);
      await inbox.record(events, DUE);
      const takes = await Promise.all(
        Array.from({ length: 20 }, (_, index) => takeDue(index % 2 ? inbox : second, { ...TAKE, limit: 7 })),
      );
      const rest = await takeDue(inbox, TAKE);
      const taken = idsOf([...takes.flat(), ...rest]);
      assert.equal(taken.length, 60);
      assert.deepEqual(new Set(taken), new Set(idsOf(events)));
    },
  },
  {
    name: 'takeDue of a lapsed event voids its old token, keeps its number of attempts and makes it received',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, event, 0);
      assert.equal((await takeDue(second, TAKE)).length, 1);
      assert.equal(await inbox.complete(old), false);
      assert.equal((await inbox.find(event.id))?.state, 'received');
      assert.equal((await claimed(second, event)).attempt, 2);
    },
  },
  {
    name: 'a failed event that takeDue returned can be claimed, keeps its attempts and its error until it ends again',
    async run({ inbox, second }) {
      const event = someEvent();
      await inbox.fail(await claimed(inbox, event), { retryAfterMs: 0, error: 'no' });
      assert.deepEqual(await takeDue(second, TAKE), [event]);
      const record = await inbox.find(event.id);
      assert.deepEqual([record?.state, record?.attempts, record?.lastError], ['received', 1, 'no']);
      assert.deepEqual(await historyOf(inbox, event), [{ attempt: 1, result: 'failed', error: 'no' }]);
      assert.equal((await claimed(inbox, event)).attempt, 2);
    },
  },
  {
    name: 'takeDue returns a parked event only when its type is among `types`',
    async run({ inbox }) {
      const event = someEvent({ type: 'mint.completed' });
      assert.deepEqual(await inbox.record([event], { dueInMs: null, origin: 'push' }), ['new']);
      assert.deepEqual(await inbox.record([event], { dueInMs: null, origin: 'push' }), ['parked']);
      assert.deepEqual(await takeDue(inbox, { ...TAKE, types: ['transfer.settled'] }), []);
      assert.equal((await inbox.find(event.id))?.dueAt, null);
      assert.deepEqual(await takeDue(inbox, { ...TAKE, types: ['mint.completed'] }), [event]);
      assert.equal((await inbox.find(event.id))?.state, 'received');
      await inbox.complete(await claimed(inbox, event));
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'a parked event can be claimed',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.record([event], { dueInMs: null, origin: 'push' });
      assert.equal((await claimed(inbox, event)).attempt, 1);
    },
  },
];

const KEY = 'redeem_1';

/** Events of one day, the earliest last, so that the order of recording is not the order of creation. */
function eventsByDay(count: number): readonly UnknownEvent[] {
  return someEvents(count).map((event, index) => ({
    ...event,
    created_at: new Date(Date.UTC(2026, 0, count - index)).toISOString(),
  }));
}

/** Claims the event with an ordering key, and fails when the claim is not answered `claimed`. */
async function claimedWithKey(
  inbox: Inbox<unknown>,
  event: UnknownEvent,
  { key = KEY, leaseMs = HOUR_MS }: { readonly key?: string; readonly leaseMs?: number } = {},
): Promise<Lease> {
  const claim = await inbox.claim(event, { leaseMs, origin: 'push', key });
  assert.equal(claim.state, 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
  return claim.lease;
}

/** Claims an event whose key is leased, and fails when the claim is not answered `waiting`. */
async function waits(inbox: Inbox<unknown>, event: UnknownEvent): Promise<void> {
  const claim = await inbox.claim(event, { ...LONG, key: KEY });
  assert.ok(claim.state === 'waiting', `The claim of ${event.id} was answered ${claim.state}.`);
  assert.ok(claim.retryAfterMs > HOUR_MS / 2 && claim.retryAfterMs <= HOUR_MS);
}

/** Lets everything else run: an inbox in memory answers without that. */
function otherTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Counts how many run at the same time, and fails above one. */
function oneAtATime() {
  const running = new Map<string, number>();
  return {
    start(key: string) {
      const count = (running.get(key) ?? 0) + 1;
      running.set(key, count);
      assert.equal(count, 1, `${count} events of one key were leased at the same time.`);
    },
    end(key: string) {
      running.set(key, (running.get(key) ?? 0) - 1);
    },
  };
}

const keyCases: readonly InboxCase[] = [
  {
    name: 'while an event of a key is leased, the others of that key wait, and events of other keys or none are claimed',
    async run({ inbox, second }) {
      const [holder, other, otherKey, none] = someEvents(4);
      assert.ok(holder && other && otherKey && none);
      const lease = await claimedWithKey(inbox, holder);
      assert.equal(lease.key, KEY);
      await waits(second, other);
      await claimedWithKey(second, otherKey, { key: 'redeem_2' });
      await claimed(second, none);
      assert.equal((await second.claim(holder, { ...LONG, key: KEY })).state, 'leased');
    },
  },
  {
    name: 'an event that waits is stored as received with its key, is due when the lease lapses, and has no attempt used up',
    async run({ inbox, second }) {
      const [holder, other] = someEvents(2);
      assert.ok(holder && other);
      await claimedWithKey(inbox, holder);
      for (let replay = 0; replay < 30; replay++) await waits(second, other);
      const record = await inbox.find(other.id);
      assert.deepEqual([record?.state, record?.attempts, record?.key], ['received', 0, KEY]);
      assert.deepEqual(record?.history, []);
      assert.deepEqual(record?.event, other);
      const dueAt = (await inbox.find(holder.id))?.dueAt ?? 0;
      assert.ok(Math.abs((record?.dueAt ?? 0) - dueAt) < 1_000);
      assert.deepEqual(await takeDue(inbox, TAKE), []);
    },
  },
  {
    name: 'when a lease with a key ends, the event of the key that was created first is due, and only that one',
    async run({ inbox, second }) {
      const ends = [
        (lease: Lease) => second.complete(lease),
        (lease: Lease) => second.fail(lease, { retryAfterMs: HOUR_MS, error: 'no' }),
        (lease: Lease) => second.fail(lease, { retryAfterMs: null, error: 'no' }),
      ];
      for (const end of ends) {
        const [first, ...events] = eventsByDay(5);
        assert.ok(first);
        const lease = await claimedWithKey(inbox, first);
        for (const event of events) await waits(inbox, event);
        assert.equal(await end(lease), true);
        for (const { id } of events.slice(0, -1)) {
          assert.ok(((await second.find(id))?.dueAt ?? 0) > Date.now() + HOUR_MS / 2, `${id} is due, too.`);
        }
        const order: string[] = [];
        for (let left = events.length; left > 0; left--) {
          const taken = idsOf(await takeDue(second, TAKE));
          assert.equal(taken.length, 1);
          order.push(...taken);
          const event = events.find(({ id }) => id === taken[0]);
          assert.ok(event);
          await inbox.complete(await claimedWithKey(inbox, event));
        }
        assert.deepEqual(order, idsOf([...events].reverse()));
      }
      assert.deepEqual(await takeDue(inbox, TAKE), []);
    },
  },
  {
    name: 'events of a key that were created at the same time are due in the order in which they were received',
    async run({ inbox }) {
      const [holder, ...events] = someEvents(4);
      assert.ok(holder);
      const lease = await claimedWithKey(inbox, holder);
      for (const event of events) await waits(inbox, event);
      await inbox.complete(lease);
      for (const event of events) {
        assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [event.id]);
        await inbox.complete(await claimedWithKey(inbox, event));
      }
    },
  },
  {
    name: 'an event that gets its key after later events of that key have theirs is still the one that was received first',
    async run({ inbox, second }) {
      const [holder, early] = someEvents(2);
      assert.ok(holder && early);
      const lease = await claimedWithKey(inbox, holder);
      await inbox.record([early], { dueInMs: HOUR_MS, origin: 'pull' });
      const receivedAt = async ({ id }: UnknownEvent) => (await inbox.find(id))?.receivedAt;
      // Within a millisecond, an inbox need not know which event was received first.
      for (let late = early; (await receivedAt(late)) === (await receivedAt(early)); await otherTurn()) {
        late = someEvent();
        await waits(inbox, late);
      }
      await waits(second, early);
      await inbox.complete(lease);
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [early.id]);
    },
  },
  {
    name: 'a lost lease with a key can neither complete nor fail its event, and makes no event of the key due',
    async run({ inbox, second }) {
      const [event, other] = someEvents(2);
      assert.ok(event && other);
      const old = await claimedWithKey(inbox, event, { leaseMs: 0 });
      const current = await claimedWithKey(second, event);
      await waits(second, other);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: 0, error: 'late' }), false);
      assert.deepEqual(await takeDue(inbox, TAKE), []);
      assert.equal(await second.complete(current), true);
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [other.id]);
    },
  },
  {
    name: 'the claim of another event of the key takes a lapsed lease away, and the event that had it waits',
    async run({ inbox, second }) {
      const [lapsed, next] = someEvents(2);
      assert.ok(lapsed && next);
      const old = await claimedWithKey(inbox, lapsed, { leaseMs: 0 });
      const current = await claimedWithKey(second, next);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.fail(old, { retryAfterMs: null, error: 'late' }), false);
      const record = await inbox.find(lapsed.id);
      assert.deepEqual([record?.state, record?.attempts], ['received', 1]);
      assert.deepEqual(await historyOf(inbox, lapsed), [{ attempt: 1, result: 'lapsed', error: null }]);
      assert.deepEqual(await takeDue(inbox, TAKE), []);
      await second.complete(current);
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [lapsed.id]);
      assert.equal((await claimedWithKey(inbox, lapsed)).attempt, 2);
    },
  },
  {
    name: 'an event that waits is due when the lease lapses, without the end of any attempt',
    async run({ inbox, second }) {
      let waiting: UnknownEvent | undefined;
      // A machine that stalls for longer than the lease lets the second claim win: then once more.
      const mustWait = within('A claim of a key that is leased was never answered waiting.');
      for (let round = 0; waiting === undefined; round++) {
        mustWait();
        const [holder, other] = eventsByDay(2);
        assert.ok(holder && other);
        const key = `${KEY}_${round}`;
        await claimedWithKey(inbox, holder, { key, leaseMs: 200 });
        const claim = await second.claim(other, { ...LONG, key });
        if (claim.state === 'waiting') waiting = other;
      }
      let taken: readonly UnknownEvent[] = [];
      const mustBeDue = within('The event that waits was not due after the lease had lapsed.');
      while (taken.length === 0) {
        mustBeDue();
        await otherTurn();
        taken = await takeDue(second, TAKE);
      }
      // It was created before the event whose lease has lapsed.
      assert.deepEqual(taken, [waiting]);
    },
  },
  {
    name: 'a failed event that is due waits while another event of its key is leased, and keeps its attempts and its error',
    async run({ inbox, second }) {
      const [failed, holder] = someEvents(2);
      assert.ok(failed && holder);
      await inbox.fail(await claimedWithKey(inbox, failed), { retryAfterMs: 0, error: 'no' });
      const lease = await claimedWithKey(inbox, holder);
      await waits(second, failed);
      const record = await inbox.find(failed.id);
      assert.deepEqual([record?.state, record?.attempts, record?.lastError], ['received', 1, 'no']);
      assert.ok((record?.dueAt ?? 0) > Date.now() + HOUR_MS / 2);
      await inbox.complete(lease);
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [failed.id]);
      assert.equal((await claimedWithKey(inbox, failed)).attempt, 2);
    },
  },
  {
    name: 'an event that failed and waits for its retry time does not keep its key',
    async run({ inbox, second }) {
      const [failed, next] = someEvents(2);
      assert.ok(failed && next);
      await inbox.fail(await claimedWithKey(inbox, failed), { retryAfterMs: HOUR_MS, error: 'no' });
      await claimedWithKey(second, next);
      assert.equal((await second.claim(failed, { ...LONG, key: KEY })).state, 'failed');
    },
  },
  {
    name: 'a parked event whose key is leased waits as received',
    async run({ inbox, second }) {
      const [holder, parked] = someEvents(2);
      assert.ok(holder && parked);
      await inbox.record([parked], { dueInMs: null, origin: 'push' });
      const lease = await claimedWithKey(inbox, holder);
      await waits(second, parked);
      assert.equal((await inbox.find(parked.id))?.state, 'received');
      await inbox.complete(lease);
      assert.equal((await inbox.find(parked.id))?.state, 'received');
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [parked.id]);
    },
  },
  {
    name: 'recording stores the key of each event, and a claim replaces it',
    async run({ inbox, second }) {
      const [one, two, none] = someEvents(3);
      assert.ok(one && two && none);
      await inbox.record([one, two, none], { ...DUE, keys: ['a', 'b', undefined] });
      const keys = async () =>
        Promise.all([one, two, none].map(async ({ id }) => (await second.find(id))?.key));
      assert.deepEqual(await keys(), ['a', 'b', null]);
      await inbox.complete(await claimedWithKey(inbox, one, { key: 'c' }));
      await claimed(inbox, two);
      await claimedWithKey(inbox, none, { key: 'b' });
      assert.deepEqual(await keys(), ['c', null, 'b']);
    },
  },
  {
    name: 'a claim that replaces or removes the key of an event makes the next event of its old key due',
    async run({ inbox, second }) {
      const changes = [undefined, 'new key'];
      for (const key of changes) {
        const events = eventsByDay(4);
        await inbox.record(events, { ...DUE, keys: events.map(() => `old key of ${key}`) });
        for (const event of [...events].reverse()) {
          assert.deepEqual(idsOf(await takeDue(second, TAKE)), [event.id]);
          const claim = await inbox.claim(event, { ...LONG, key });
          assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
          // The old key is released before the attempt ends.
          if (key !== undefined) await second.complete(claim.lease);
        }
      }
    },
  },
  {
    name: 'an event that is claimed with another key after its lease has lapsed does not hold the key that it had',
    async run({ inbox, second }) {
      const [moved, later, next] = someEvents(3);
      assert.ok(moved && later && next);
      // Another event keeps the old key in use.
      await inbox.record([later], { dueInMs: HOUR_MS, origin: 'pull', keys: [KEY] });
      await claimedWithKey(inbox, moved, { leaseMs: 0 });
      await claimedWithKey(second, moved, { key: 'redeem_2' });
      assert.equal((await claimedWithKey(inbox, next)).attempt, 1);
    },
  },
  {
    name: 'an event that waits for a key and is claimed without it or with another does not free the key, and does not keep back the others that wait',
    async run({ inbox, second }) {
      const [holder, first, next] = [...eventsByDay(3)].reverse();
      assert.ok(holder && first && next);
      const lease = await claimedWithKey(inbox, holder);
      await waits(inbox, first);
      await waits(inbox, next);
      const other = await claimedWithKey(second, first, { key: 'redeem_2' });
      await waits(inbox, next);
      await inbox.complete(lease);
      await second.complete(other);
      const left: string[] = [];
      for (let taken = [next.id]; taken.length > 0 && left.length < 3; left.push(...taken)) {
        taken = [...idsOf(await takeDue(inbox, TAKE))];
      }
      assert.deepEqual(left, [next.id]);
    },
  },
  {
    name: 'takeDue takes one event of a key, the one that was created first, and the others when it has ended',
    async run({ inbox, second }) {
      const events = eventsByDay(4);
      const [free] = someEvents(1);
      assert.ok(free);
      await inbox.record([...events, free], { ...DUE, keys: [KEY, KEY, KEY, KEY, undefined] });
      const [first, ...later] = [...events].reverse();
      assert.ok(first);
      assert.deepEqual(new Set(idsOf(await takeDue(second, TAKE))), new Set([first.id, free.id]));
      assert.deepEqual(await takeDue(inbox, TAKE), []);
      await inbox.complete(await claimedWithKey(inbox, first));
      for (const event of later) {
        assert.deepEqual(idsOf(await takeDue(second, TAKE)), [event.id]);
        assert.deepEqual(await takeDue(inbox, TAKE), []);
        await inbox.complete(await claimedWithKey(inbox, event));
      }
    },
  },
  {
    name: 'the events of a key are due again when the one that was taken was not claimed within the visibility timeout',
    async run({ inbox, second }) {
      const events = eventsByDay(2);
      await inbox.record(events, { ...DUE, keys: [KEY, KEY] });
      const [newer, older] = idsOf(events);
      assert.deepEqual(idsOf(await takeDue(inbox, { ...TAKE, visibilityTimeoutMs: 0 })), [older]);
      assert.deepEqual(idsOf(await takeDue(second, TAKE)), [older]);
      assert.equal((await inbox.find(newer ?? ''))?.state, 'received');
    },
  },
  {
    name: 'takeDue takes no event of a key that is leased, and finds the events of other keys behind many of that key',
    async run({ inbox, second }) {
      const [holder, other, none] = someEvents(3);
      assert.ok(holder && other && none);
      const hot = someEvents(100);
      await inbox.record(hot, { ...DUE, dueInMs: -HOUR_MS, keys: hot.map(() => KEY) });
      await inbox.record([other, none], { ...DUE, keys: ['redeem_2', undefined] });
      const lease = await claimedWithKey(inbox, holder);
      assert.deepEqual(
        new Set(idsOf(await takeDue(second, { ...TAKE, limit: 2 }))),
        new Set([other.id, none.id]),
      );
      assert.deepEqual(await takeDue(second, TAKE), []);
      await inbox.complete(lease);
      assert.equal((await takeDue(second, TAKE)).length, 1);
    },
  },
  {
    name: 'takeDue takes an event without a key once, when it reads on behind the events of a key',
    async run({ inbox }) {
      const [free, later, ...hot] = someEvents(12);
      assert.ok(free && later);
      await inbox.record([free], { ...DUE, dueInMs: -HOUR_MS });
      await inbox.record(hot, { ...DUE, dueInMs: -HOUR_MS / 2, keys: hot.map(() => KEY) });
      await inbox.record([later], DUE);
      const taken = idsOf(await takeDue(inbox, { ...TAKE, limit: 3 }));
      assert.equal(taken.length, 3);
      assert.ok(taken.includes(free.id) && taken.includes(later.id));
      assert.equal(new Set(taken).size, 3);
    },
  },
  {
    name: 'an event that waits is due when the lease of its key ends or lapses, whatever happens to other keys',
    async run({ inbox, second }) {
      const [holder, next, otherHolder, otherNext] = eventsByDay(4);
      assert.ok(holder && next && otherHolder && otherNext);
      const waitsForLease = async (event: UnknownEvent) => {
        const dueInMs = ((await second.find(event.id))?.dueAt ?? 0) - Date.now();
        assert.ok(dueInMs > HOUR_MS / 2, `${event.id} is due in ${dueInMs} ms.`);
      };
      const lease = await claimedWithKey(inbox, holder);
      await claimedWithKey(inbox, otherHolder, { key: 'redeem_2' });
      await waits(second, next);
      assert.equal((await second.claim(otherNext, { ...LONG, key: 'redeem_2' })).state, 'waiting');
      await waitsForLease(next);
      await waitsForLease(otherNext);
      await inbox.complete(lease);
      await waitsForLease(otherNext);
      assert.deepEqual(idsOf(await takeDue(second, TAKE)), [next.id]);
    },
  },
  {
    name: 'takeDue takes a failed event of a key before one that was created later, and no parked one of another type',
    async run({ inbox, second }) {
      const [received, failed, other] = eventsByDay(3);
      assert.ok(received && failed && other);
      const parked = { ...other, type: 'mint.completed' };
      await inbox.record([parked], { dueInMs: null, origin: 'push', keys: [KEY] });
      await inbox.fail(await claimedWithKey(inbox, failed), { retryAfterMs: 0, error: 'no' });
      await inbox.record([received], { dueInMs: 0, origin: 'pull', keys: [KEY] });
      for (const event of [failed, received]) {
        assert.deepEqual(idsOf(await takeDue(second, TAKE)), [event.id]);
        await inbox.complete(await claimedWithKey(inbox, event));
      }
      assert.deepEqual(await takeDue(second, TAKE), []);
      assert.deepEqual(idsOf(await takeDue(second, { ...TAKE, types: [parked.type] })), [parked.id]);
    },
  },
  {
    name: 'an event that takeDue returned is not returned again because another event of its key ends',
    async run({ inbox, second }) {
      const [other, taken] = eventsByDay(2);
      assert.ok(other && taken);
      await inbox.record([taken], { dueInMs: 0, origin: 'pull', keys: [KEY] });
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [taken.id]);
      await inbox.complete(await claimedWithKey(second, other));
      assert.deepEqual(await takeDue(inbox, TAKE), []);
    },
  },
  {
    name: 'each lease of a key that ends makes one more of the events due that wait for it',
    async run({ inbox, second }) {
      const [next, first, pushed, holder] = eventsByDay(4);
      assert.ok(next && first && pushed && holder);
      const dueInMs = async ({ id }: UnknownEvent) => ((await second.find(id))?.dueAt ?? 0) - Date.now();
      const lease = await claimedWithKey(inbox, holder);
      for (const event of [next, first]) await waits(second, event);
      await inbox.complete(lease);
      assert.ok((await dueInMs(first)) < HOUR_MS / 2 && (await dueInMs(next)) > HOUR_MS / 2);
      // The event that is due has not been taken yet.
      await inbox.complete(await claimedWithKey(inbox, pushed));
      assert.ok((await dueInMs(next)) < HOUR_MS / 2);
    },
  },
  {
    name: 'an event that was recorded without its key has its place among the events of the key when it gets it',
    async run({ inbox, second }) {
      const [waiting, failed, first, holder] = eventsByDay(4);
      assert.ok(waiting && failed && first && holder);
      await inbox.record([waiting, failed], DUE);
      await inbox.fail(await claimedWithKey(inbox, failed), { retryAfterMs: 0, error: 'no' });
      const lease = await claimedWithKey(inbox, holder);
      for (const event of [waiting, first]) await waits(second, event);
      await inbox.complete(lease);
      for (const event of [first, failed, waiting]) {
        assert.deepEqual(idsOf(await takeDue(second, TAKE)), [event.id]);
        await inbox.complete(await claimedWithKey(inbox, event));
      }
    },
  },
  {
    name: 'a dead event of a key that is requeued while the key is leased runs after that lease',
    async run({ inbox, second }) {
      const [dead, holder] = someEvents(2);
      assert.ok(dead && holder);
      await inbox.fail(await claimedWithKey(inbox, dead), { retryAfterMs: null, error: 'no' });
      const lease = await claimedWithKey(inbox, holder);
      assert.equal(await inbox.requeue(dead.id), true);
      assert.deepEqual(await takeDue(second, TAKE), []);
      await inbox.complete(lease);
      assert.deepEqual(idsOf(await takeDue(second, TAKE)), [dead.id]);
    },
  },
  {
    name: 'an event that waits and is pruned, done or claimed without its key is not made due by its key',
    async run({ inbox, second }) {
      const [holder, first, next] = eventsByDay(3);
      assert.ok(holder && first && next);
      const lease = await claimedWithKey(inbox, holder);
      await waits(inbox, first);
      await waits(inbox, next);
      await second.complete(await claimed(second, next));
      await inbox.complete(lease);
      assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [first.id]);
      assert.equal((await inbox.find(next.id))?.state, 'done');
    },
  },
  {
    name: 'keys that differ in case, spaces or accents, and keys of 512 bytes, are different keys',
    async run({ inbox, second }) {
      // Random, because an index can compress what repeats.
      const long = Buffer.from(crypto.getRandomValues(new Uint8Array(384))).toString('base64url');
      const keys = ['key', 'KEY', 'key ', ' key', 'kéy', 'ke\u0301y', "key'; --", 'key%', '{key}', long];
      for (const key of [...keys, `${long.slice(0, -1)}.`]) {
        await claimedWithKey(inbox, someEvent(), { key });
        const claim = await second.claim(someEvent(), { ...LONG, key });
        assert.equal(claim.state, 'waiting');
      }
    },
  },
  {
    name: 'of 40 simultaneous claims of events of one key exactly one is answered claimed, and of distinct keys all are',
    async run({ inbox, second }) {
      const claim = (key: (index: number) => string) =>
        Promise.all(
          someEvents(40).map((event, index) =>
            (index % 2 ? inbox : second).claim(event, { ...LONG, key: key(index) }),
          ),
        );
      const won = (claims: readonly Claim[]) => claims.filter(({ state }) => state === 'claimed').length;
      const same = await claim(() => KEY);
      assert.equal(won(same), 1);
      assert.equal(same.filter(({ state }) => state === 'waiting').length, 39);
      assert.equal(won(await claim((index) => `redeem_${index}_of_40`)), 40);
    },
  },
  {
    name: '50 claimers of one key never hold it at the same time, and each gets its turn',
    async run({ inbox, second }) {
      const one = oneAtATime();
      await Promise.all(
        someEvents(50).map(async (event, index) => {
          const own = index % 2 ? inbox : second;
          const mustGetTurn = within('A claim of a key was never answered claimed.');
          for (;;) {
            mustGetTurn();
            const claim = await own.claim(event, { ...LONG, key: KEY });
            if (claim.state !== 'claimed') {
              await otherTurn();
              continue;
            }
            one.start(KEY);
            await otherTurn();
            one.end(KEY);
            assert.equal(await own.complete(claim.lease), true);
            return;
          }
        }),
      );
    },
  },
  {
    name: '10 takers of the events of 5 keys run each event once, no two of a key at the same time',
    async run({ inbox, second }) {
      const one = oneAtATime();
      const events = eventsByDay(60);
      const keyOf = new Map(events.map(({ id }, index) => [id, `redeem_${index % 5}`]));
      await inbox.record(events, { ...DUE, keys: [...keyOf.values()] });
      const done: string[] = [];
      const mustEnd = within('takeDue did not return every event of the keys.');
      const take = async (own: Inbox<unknown>) => {
        while (done.length < events.length) {
          mustEnd();
          for (const event of await takeDue(own, { ...TAKE, limit: 3 })) {
            const key = keyOf.get(event.id) ?? '';
            const claim = await own.claim(event, { ...LONG, key });
            if (claim.state !== 'claimed') continue;
            one.start(key);
            await otherTurn();
            one.end(key);
            assert.equal(await own.complete(claim.lease), true);
            done.push(event.id);
          }
          await otherTurn();
        }
      };
      await Promise.all(Array.from({ length: 10 }, (_, index) => take(index % 2 ? inbox : second)));
      assert.deepEqual(new Set(done), new Set(idsOf(events)));
      assert.equal(done.length, events.length);
    },
  },
];

/** A trace context of its own for each number. */
const traceOf = (number: number) =>
  `00-4bf92f3577b34da6a3ce929d0e0e4736-${String(number).padStart(16, '0')}-01`;

const traceCases: readonly InboxCase[] = [
  {
    name: 'the claim of a new event stores its trace context, and its lease and its records have it',
    async run({ inbox, second }) {
      const event = someEvent();
      const claim = await inbox.claim(event, { ...LONG, traceparent: traceOf(1) });
      assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
      assert.equal(claim.lease.traceparent, traceOf(1));
      assert.equal((await second.find(event.id))?.traceparent, traceOf(1));
      for (const order of ['oldest', 'newest'] as const) {
        const [record] = await second.list({ state: 'leased', limit: 1, order });
        assert.equal(record?.traceparent, traceOf(1));
      }
    },
  },
  {
    name: 'an event that was first recorded or claimed without a trace context never gets one',
    async run({ inbox, second }) {
      const [one, two] = someEvents(2);
      assert.ok(one && two);
      await inbox.record([one], DUE);
      assert.equal((await claimed(inbox, two, 0)).traceparent, undefined);
      await second.record([one, two], { ...DUE, traceparent: traceOf(1) });
      for (const event of [one, two]) {
        const claim = await second.claim(event, { ...LONG, traceparent: traceOf(2) });
        assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
        assert.equal(claim.lease.traceparent, undefined);
        assert.equal((await inbox.find(event.id))?.traceparent, null);
      }
    },
  },
  {
    name: 'recording stores the trace context with the events of the page that are new, and later claims get it',
    async run({ inbox, second }) {
      const [old, parked, ...fresh] = someEvents(4);
      assert.ok(old && parked);
      await inbox.record([old], { ...DUE, traceparent: traceOf(1) });
      const parking = { dueInMs: null, origin: 'push', traceparent: traceOf(2) } as const;
      assert.deepEqual(await inbox.record([parked], parking), ['new']);
      const keys = [undefined, undefined, KEY, undefined];
      const page = [old, parked, ...fresh];
      await second.record(page, { ...DUE, keys, traceparent: traceOf(3) });
      const stored = [1, 2, 3, 3].map(traceOf);
      assert.deepEqual(
        await Promise.all(page.map(async ({ id }) => (await inbox.find(id))?.traceparent)),
        stored,
      );
      for (const [index, event] of page.entries()) {
        const options = { ...LONG, key: keys[index], traceparent: traceOf(4) };
        const claim = await inbox.claim(event, options);
        assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
        assert.equal(claim.lease.traceparent, stored[index]);
      }
    },
  },
  {
    name: 'no claim, failure, requeue, takeDue, completion or pruning changes the trace context of an event',
    async run({ inbox, second }) {
      for (const key of [undefined, KEY, 'redeem_2']) {
        const event = someEvent();
        const next = async (attempt: number, leaseMs = HOUR_MS) => {
          const options = {
            leaseMs,
            origin: 'queue',
            early: true,
            key,
            traceparent: traceOf(attempt),
          } as const;
          const claim = await second.claim(event, options);
          assert.ok(claim.state === 'claimed', `The claim of ${event.id} was answered ${claim.state}.`);
          assert.equal(claim.lease.traceparent, traceOf(1));
          assert.equal((await inbox.find(event.id))?.traceparent, traceOf(1));
          return claim.lease;
        };
        await next(1, 0);
        await next(2, 0);
        assert.deepEqual(idsOf(await takeDue(inbox, TAKE)), [event.id]);
        await inbox.fail(await next(3), { retryAfterMs: HOUR_MS, error: 'no' });
        await inbox.fail(await next(4), { retryAfterMs: null, error: 'no' });
        await inbox.requeue(event.id);
        await inbox.complete(await next(5));
        assert.equal((await inbox.find(event.id))?.traceparent, traceOf(1));
        await inbox.prune({ olderThanMs: 0 });
        const { event: json, traceparent } = (await inbox.find(event.id)) ?? {};
        assert.deepEqual([json, traceparent], [null, traceOf(1)]);
      }
    },
  },
  {
    name: 'an event that waits for its key keeps the trace context of the claim that stored it, also when its key is replaced',
    async run({ inbox, second }) {
      const [holder, same, other] = someEvents(3);
      assert.ok(holder && same && other);
      const lease = await claimedWithKey(inbox, holder);
      for (const event of [same, other]) {
        for (const number of [1, 2]) {
          const claim = await inbox.claim(event, { ...LONG, key: KEY, traceparent: traceOf(number) });
          assert.equal(claim.state, 'waiting');
        }
        assert.equal((await second.find(event.id))?.traceparent, traceOf(1));
      }
      assert.equal((await claimedWithKey(second, other, { key: 'redeem_2' })).traceparent, traceOf(1));
      await inbox.complete(lease);
      assert.equal((await claimedWithKey(second, same)).traceparent, traceOf(1));
    },
  },
  {
    name: 'of simultaneous claims and records with trace contexts of their own, one is stored, and every lease has that one',
    async run({ inbox, second }) {
      for (const key of [undefined, KEY]) {
        const event = someEvent();
        const leases = await Promise.all(
          Array.from({ length: 20 }, async (_, index) => {
            const one = index % 2 ? inbox : second;
            const traceparent = traceOf(index + 1);
            if (index % 5 === 4) {
              await one.record([event], { ...DUE, keys: [key], traceparent });
              return [];
            }
            const claim = await one.claim(event, { ...LAPSED, key, traceparent });
            return claim.state === 'claimed' ? [claim.lease] : [];
          }),
        );
        const { traceparent } = (await inbox.find(event.id)) ?? {};
        assert.match(traceparent ?? '', /^00-4bf92f3577b34da6a3ce929d0e0e4736-/);
        const seen = leases.flat().map((lease) => lease.traceparent);
        assert.ok(seen.length > 0);
        assert.deepEqual(new Set(seen), new Set([traceparent]));
      }
    },
  },
  {
    name: 'a trace context of another length or format is stored as it is',
    async run({ inbox, second }) {
      for (const traceparent of ['x', `01-${traceOf(1).slice(3)}-${'later'.repeat(40)}`, `'"\\ {} $1 ?`]) {
        const [one, two] = someEvents(2);
        assert.ok(one && two);
        await inbox.record([one], { ...DUE, traceparent });
        await inbox.claim(two, { ...LAPSED, traceparent });
        for (const event of [one, two]) {
          assert.equal((await inbox.find(event.id))?.traceparent, traceparent);
          assert.equal((await claimed(second, event)).traceparent, traceparent);
        }
      }
    },
  },
];

const A = { holder: 'a', leaseMs: HOUR_MS } as const;
const B = { holder: 'b', leaseMs: HOUR_MS } as const;

/** A state of the poller. */
const someState = (overrides: Partial<PollState> = {}): PollState => ({ ...EMPTY_POLL_STATE, ...overrides });

/** Gaps with the times, types and text that are hard to store. */
const GAPS: readonly StoredGap[] = [
  {
    from: -8_640_000_000_000_000,
    until: { 'redeem.failed': 8_640_000_000_000_000, 'accept.confirmed': -1 },
    reason: 'not-reached',
    openedAt: 1_767_323_045_678,
    acknowledged: null,
  },
  {
    from: 0,
    until: Object.fromEntries(EVENT_TYPES.map((type, index) => [type, 1_767_000_000_000 + index])),
    reason: 'clock',
    openedAt: 1_767_323_045_679,
    acknowledged: {
      by: `Ada "Ops" O'Brien \\ {} [] $1 ?`,
      reason: 'the ledger agrees\r\n\tticket ✓ 😀 \ud83d \u0000 \u2028 end',
      at: 1_767_323_999_999,
    },
  },
  {
    from: 1_767_000_000_000,
    until: { 'transfer.settled': 1_767_000_000_001 },
    reason: 'window-too-short',
    openedAt: 1_767_323_045_680,
    acknowledged: null,
  },
];

const pollCases: readonly InboxCase[] = [
  {
    name: "before the first save the poller's state is empty",
    async run({ inbox, second }) {
      assert.deepEqual(await second.pollState(), EMPTY_POLL_STATE);
      assert.deepEqual(await inbox.acquirePoll(A), EMPTY_POLL_STATE);
      assert.deepEqual(await second.pollState(), EMPTY_POLL_STATE);
    },
  },
  {
    name: 'while a holder has the poll lease, others get null and the holder can acquire it again',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      assert.equal(await second.acquirePoll(B), null);
      assert.notEqual(await second.acquirePoll(A), null);
    },
  },
  {
    name: 'of 20 simultaneous calls of acquirePoll exactly one gets the lease',
    async run({ inbox, second }) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          (index % 2 ? inbox : second).acquirePoll({ holder: `holder ${index}`, leaseMs: HOUR_MS }),
        ),
      );
      assert.equal(answers.filter((answer) => answer !== null).length, 1);
    },
  },
  {
    name: 'a lapsed poll lease goes to the next holder, and a save of the old holder changes nothing',
    async run({ inbox, second }) {
      const [old, current] = [
        someState({ watermark: 1, limit: 50 }),
        someState({ watermark: 2, gaps: GAPS }),
      ];
      await inbox.acquirePoll({ ...A, leaseMs: 0 });
      assert.notEqual(await second.acquirePoll(B), null);
      assert.equal(await inbox.acquirePoll(A), null);
      assert.equal(await inbox.savePoll(old, A), false);
      assert.deepEqual(await inbox.pollState(), EMPTY_POLL_STATE);
      assert.equal(await second.savePoll(current, B), true);
      assert.equal(await inbox.savePoll(old, A), false);
      assert.deepEqual(await inbox.pollState(), current);
      assert.deepEqual(await second.acquirePoll(B), current);
    },
  },
  {
    name: 'a save that renews the poll lease keeps it, and one that releases it hands the state to the next holder',
    async run({ inbox, second }) {
      await inbox.acquirePoll({ ...A, leaseMs: 0 });
      const state = someState({ since: 1_767_000_000_123, watermark: 1_767_323_045_678, limit: 1_000 });
      assert.equal(await inbox.savePoll(state, A), true);
      assert.equal(await second.acquirePoll(B), null);
      const next = { ...state, gaps: GAPS, oldest: { at: 1_767_000_000_456, seenAt: 1_767_000_000_789 } };
      assert.equal(await inbox.savePoll(next, { ...A, leaseMs: 0 }), true);
      assert.deepEqual(await second.acquirePoll(B), next);
    },
  },
  {
    name: 'savePoll without a lease returns false and saves nothing',
    async run({ inbox }) {
      assert.equal(await inbox.savePoll(someState({ watermark: 1, gaps: GAPS }), A), false);
      assert.deepEqual(await inbox.pollState(), EMPTY_POLL_STATE);
      assert.deepEqual(await inbox.acquirePoll(A), EMPTY_POLL_STATE);
    },
  },
  {
    name: "pollState reads the poller's state while another holder has the lease, and leaves the lease to it",
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      const state = someState({
        since: 5,
        watermark: 7,
        gaps: GAPS,
        limit: 200,
        oldest: { at: null, seenAt: 6 },
      });
      await inbox.savePoll(state, A);
      assert.deepEqual(await second.pollState(), state);
      assert.equal(await second.acquirePoll(B), null);
      assert.equal(await inbox.savePoll(EMPTY_POLL_STATE, A), true);
      assert.deepEqual(await second.pollState(), EMPTY_POLL_STATE);
    },
  },
  {
    name: 'lastPoller names the holder that acquired the poll lease last, also after its release or its lapse',
    async run({ inbox, second }) {
      assert.equal(await inbox.lastPoller(), null);
      await inbox.acquirePoll(A);
      assert.equal(await second.lastPoller(), A.holder);
      await second.acquirePoll(B);
      await second.savePoll(EMPTY_POLL_STATE, B);
      assert.equal(await second.lastPoller(), A.holder);
      await inbox.savePoll(EMPTY_POLL_STATE, { ...A, leaseMs: 0 });
      assert.equal(await second.lastPoller(), A.holder);
      await second.acquirePoll({ holder: 'again', leaseMs: 0 });
      assert.equal(await inbox.lastPoller(), 'again');
      assert.deepEqual(await inbox.pollState(), EMPTY_POLL_STATE);
    },
  },
  {
    name: 'times of a saved state can be negative, as large as a date can be, or null again',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      const largest = 8_640_000_000_000_000;
      for (const state of [
        someState({ since: -2, watermark: -1, oldest: { at: -3, seenAt: -2 }, limit: 50 }),
        someState({
          since: -largest,
          watermark: largest,
          oldest: { at: -largest, seenAt: largest },
          limit: 2_147_483_647,
        }),
        someState({ since: null, watermark: 0, oldest: { at: 0, seenAt: 0 } }),
        EMPTY_POLL_STATE,
      ]) {
        await inbox.savePoll(state, A);
        assert.deepEqual(await second.pollState(), state);
        assert.deepEqual(await inbox.acquirePoll(A), state);
      }
    },
  },
  {
    name: 'the gaps of a saved state come back unchanged and in order, whatever their times, types and text',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      await inbox.savePoll(someState({ gaps: GAPS }), A);
      assert.deepEqual((await second.pollState()).gaps, GAPS);
      assert.deepEqual((await inbox.acquirePoll(A))?.gaps, GAPS);
      const fewer = GAPS.slice(1).reverse();
      await inbox.savePoll(someState({ gaps: fewer }), A);
      assert.deepEqual((await second.pollState()).gaps, fewer);
    },
  },
  {
    name: 'a state can have 500 gaps of five types',
    async run({ inbox, second }) {
      await inbox.acquirePoll(A);
      const gaps = Array.from({ length: 500 }, (_, number): StoredGap => {
        const from = 1_767_000_000_000 + number * HOUR_MS;
        return {
          from,
          until: Object.fromEntries(EVENT_TYPES.map((type, index) => [type, from + index + 1])),
          reason: 'not-reached',
          openedAt: from + HOUR_MS,
          acknowledged: number % 2 ? { by: 'ops', reason: `ticket ${number}`, at: from } : null,
        };
      });
      await inbox.savePoll(someState({ gaps }), A);
      assert.deepEqual((await second.pollState()).gaps, gaps);
      assert.deepEqual((await inbox.acquirePoll(A))?.gaps, gaps);
    },
  },
];

const operationCases: readonly InboxCase[] = [
  {
    name: 'finding an unknown id returns undefined',
    async run({ inbox }) {
      assert.equal(await inbox.find('evt_nobody'), undefined);
    },
  },
  {
    name: 'a record contains when the event was received, when it changed and when it is due',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.record([event], { dueInMs: HOUR_MS, origin: 'pull' });
      const record = await inbox.find(event.id);
      assert.ok(record);
      const { receivedAt, updatedAt, dueAt, ...rest } = record;
      assert.deepEqual(rest, {
        id: event.id,
        type: event.type,
        state: 'received',
        attempts: 0,
        origin: 'pull',
        key: null,
        traceparent: null,
        lastError: null,
        history: [],
        event,
      });
      assert.ok(Math.abs(receivedAt - Date.now()) < HOUR_MS, '`receivedAt` is not a time in epoch ms.');
      assert.ok(updatedAt >= receivedAt);
      assert.ok(dueAt !== null && Math.abs(dueAt - receivedAt - HOUR_MS) < 1_000);
    },
  },
  {
    name: 'listing page by page returns each record of the state once, in both orders',
    async run({ inbox }) {
      const events = someEvents(7);
      // Four of them at the same time, so that their ids decide.
      for (const event of events.slice(0, 3)) await inbox.record([event], DUE);
      await inbox.record(events.slice(3), DUE);
      await claimed(inbox, someEvent());
      const seen = { oldest: [] as string[], newest: [] as string[] };
      for (const order of ['oldest', 'newest'] as const) {
        for (let after: string | undefined; ; ) {
          const page = await inbox.list({ state: 'received', limit: 3, after, order });
          if (page.length === 0) break;
          assert.ok(page.length <= 3 && page.every(({ state }) => state === 'received'));
          seen[order].push(...page.map(({ id }) => id));
          const ids = new Set(seen[order]);
          assert.equal(
            seen[order].length,
            ids.size,
            'A page has a record again: it must begin after `after`.',
          );
          after = page.at(-1)?.id;
        }
      }
      assert.equal(seen.oldest.length, 7);
      assert.deepEqual(new Set(seen.oldest), new Set(events.map(({ id }) => id)));
      assert.deepEqual(seen.newest, seen.oldest.toReversed());
    },
  },
  {
    name: 'listing returns as many records as `limit` asks for, if there are as many',
    async run({ inbox }) {
      const events = someEvents(1_001);
      await inbox.record(events, DUE);
      const first = await inbox.list({ state: 'received', limit: 1_000 });
      assert.equal(first.length, 1_000, `With 1,000 asked for and 1,001 there, ${first.length} were listed.`);
      const rest = await inbox.list({ state: 'received', limit: 1_000, after: first.at(-1)?.id });
      assert.deepEqual([...first, ...rest].map(({ id }) => id).sort(), idsOf(events).toSorted());
    },
  },
  {
    name: 'listing begins with what was received first, and with `newest` with what was received last',
    async run({ inbox }) {
      const receivedAt = async ({ id }: UnknownEvent) => (await inbox.find(id))?.receivedAt ?? 0;
      const first = someEvent();
      await inbox.record([first], DUE);
      const from = await receivedAt(first);
      let until = from;
      // Until the clock of the inbox has gone on.
      while (until === from) {
        await otherTurn();
        const last = someEvent();
        await inbox.record([last], DUE);
        until = await receivedAt(last);
      }
      const begin = async (order?: 'oldest' | 'newest') =>
        (await inbox.list({ state: 'received', limit: 1, order })).map((record) => record.receivedAt);
      assert.deepEqual(await begin(), [from]);
      assert.deepEqual(await begin('oldest'), [from]);
      assert.deepEqual(await begin('newest'), [until]);
    },
  },
  {
    name: 'listing continues after the given id, also when that record has left the state',
    async run({ inbox }) {
      for (const event of someEvents(6)) {
        await inbox.fail(await claimed(inbox, event), { retryAfterMs: null, error: 'no' });
      }
      const all = await inbox.list({ state: 'dead', limit: 6 });
      const [second, fourth] = [all[1], all[3]];
      assert.ok(second && fourth);
      for (const last of [second, fourth]) await inbox.requeue(last.id);
      const after = async ({ id }: InboxRecord, order?: 'newest') =>
        (await inbox.list({ state: 'dead', limit: 9, after: id, order })).map((record) => record.id);
      const dead = all.map(({ id }) => (id === second.id || id === fourth.id ? [] : [id]));
      assert.deepEqual(await after(second), dead.slice(2).flat());
      assert.deepEqual(await after(fourth), dead.slice(4).flat());
      assert.deepEqual(await after(second, 'newest'), dead.slice(0, 1).flat());
      assert.deepEqual(await after(fourth, 'newest'), dead.slice(0, 3).toReversed().flat());
    },
  },
  {
    name: 'listing after an event that the inbox does not have rejects with ERR_CONFIG_INVALID',
    async run({ inbox }) {
      const [first, second] = someEvents(2);
      for (const event of [first, second]) {
        if (event) await inbox.record([event], { dueInMs: 0, origin: 'pull' });
      }
      const invalid = { code: 'ERR_CONFIG_INVALID' };
      for (const order of ['oldest', 'newest'] as const) {
        for (const state of ['received', 'dead'] as const) {
          const unknown = async () => inbox.list({ state, limit: 10, after: someEvent().id, order });
          await assert.rejects(unknown, invalid, `The list of ${state} events must not answer.`);
        }
      }
      // After the last event there are none, and nothing is wrong.
      const [last] = await inbox.list({ state: 'received', limit: 1, order: 'newest' });
      assert.deepEqual(await inbox.list({ state: 'received', limit: 10, after: last?.id }), []);
      assert.deepEqual(await inbox.list({ state: 'dead', limit: 10, after: last?.id }), []);
    },
  },
  {
    name: 'counting returns every state in order, with the time since which its oldest event has been in it',
    async run({ inbox }) {
      assert.deepEqual(
        await inbox.count(),
        INBOX_STATES.map((state) => ({ state, count: 0, oldest: null })),
      );
      await inbox.record(someEvents(3), DUE);
      await inbox.record(someEvents(1, { type: 'mint.completed' }), { dueInMs: null, origin: 'push' });
      for (const event of someEvents(2)) await inbox.complete(await claimed(inbox, event));
      const counts = await inbox.count();
      assert.deepEqual(
        counts.map(({ state, count }) => [state, count]),
        [
          ['received', 3],
          ['leased', 0],
          ['failed', 0],
          ['done', 2],
          ['dead', 0],
          ['parked', 1],
        ],
      );
      for (const { state, oldest } of counts) {
        const since = (await inbox.list({ state, limit: 9 })).map(({ updatedAt }) => updatedAt);
        assert.equal(oldest, since.length === 0 ? null : Math.min(...since));
      }
    },
  },
  {
    name: 'a requeued dead event is due at once, starts again at attempt 1 and voids its old token',
    async run({ inbox, second }) {
      const event = someEvent();
      const old = await claimed(inbox, event);
      await inbox.fail(old, { retryAfterMs: null, error: 'given up' });
      assert.equal(await second.requeue(event.id), true);
      assert.equal(await second.requeue(event.id), false);
      assert.deepEqual(await takeDue(inbox, TAKE), [event]);
      const lease = await claimed(inbox, event);
      assert.equal(lease.attempt, 1);
      assert.notEqual(lease.token, old.token);
      assert.equal(await inbox.complete(old), false);
      assert.equal(await inbox.complete(lease), true);
    },
  },
  {
    name: 'a requeued failed event can be claimed at once and is due now, although its retry time is later',
    async run({ inbox, second }) {
      const event = someEvent();
      await inbox.fail(await claimed(inbox, event), { retryAfterMs: HOUR_MS, error: 'no' });
      assert.equal(await second.requeue(event.id), true);
      assert.deepEqual(await takeDue(inbox, TAKE), [event]);
      assert.equal((await claimed(inbox, event)).attempt, 1);
    },
  },
  {
    name: 'requeueing an event that is neither dead nor failed returns false and changes nothing',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.complete(await claimed(inbox, event));
      assert.equal(await inbox.requeue(event.id), false);
      assert.equal(await inbox.requeue('evt_nobody'), false);
      assert.equal((await inbox.find(event.id))?.state, 'done');
    },
  },
  {
    name: 'pruning drops the JSON of old done events, and their ids remain done',
    async run({ inbox, second }) {
      const [done, dead, waiting] = someEvents(3);
      assert.ok(done && dead && waiting);
      await inbox.complete(await claimed(inbox, done));
      await inbox.fail(await claimed(inbox, dead), { retryAfterMs: null, error: 'no' });
      await inbox.record([waiting], DUE);
      assert.equal(await inbox.prune({ olderThanMs: HOUR_MS }), 0);
      assert.deepEqual((await inbox.find(done.id))?.event, done);
      assert.equal(await inbox.prune({ olderThanMs: 0 }), 1);
      assert.equal(await inbox.prune({ olderThanMs: 0 }), 0);
      assert.equal((await inbox.find(done.id))?.event, null);
      assert.deepEqual((await inbox.find(done.id))?.history, []);
      assert.equal((await second.claim(done, LONG)).state, 'done');
      assert.deepEqual(await second.record([done, dead, waiting], DUE), ['done', 'dead', 'received']);
      assert.deepEqual((await inbox.find(dead.id))?.event, dead);
      assert.deepEqual(await takeDue(inbox, TAKE), [waiting]);
    },
  },
  {
    name: 'list and prune reject with ERR_CONFIG_INVALID when an option is missing, unknown or makes no sense, and remove nothing',
    async run({ inbox }) {
      const event = someEvent();
      await inbox.complete(await claimed(inbox, event));
      const invalid = { code: 'ERR_CONFIG_INVALID' };
      const limit = 10;
      const state = 'done';
      const after = event.id;
      for (const options of [
        { state },
        { limit },
        { state: 'donne', limit },
        { state, limit: -1 },
        { state, limit: 0.5 },
        { state, limit: Number.NaN },
        { state, limit: '10' },
        { state, limit, order: 'newst' },
        { state, limit, afetr: after },
      ]) {
        const list = async () => inbox.list(options as Parameters<InboxOperations['list']>[0]);
        await assert.rejects(list, invalid, `list(${JSON.stringify(options)}) must be refused.`);
      }
      for (const options of [
        {},
        { olderThan: 0 },
        { olderThanMs: -1 },
        { olderThanMs: Number.NaN },
        { olderThanMs: '1d' },
      ]) {
        const prune = async () => inbox.prune(options as Parameters<InboxOperations['prune']>[0]);
        await assert.rejects(prune, invalid, `prune(${JSON.stringify(options)}) must be refused.`);
      }
      assert.deepEqual((await inbox.find(event.id))?.event, event);
    },
  },
  {
    name: 'pruning skips an event until it has been done for `olderThanMs`',
    async run({ inbox }) {
      await inbox.complete(await claimed(inbox, someEvent()));
      const until = Date.now() + 10_000;
      while ((await inbox.prune({ olderThanMs: 20 })) === 0) {
        assert.ok(
          Date.now() < until,
          'An event that has been done for 10 s was not pruned by `olderThanMs: 20`.',
        );
      }
    },
  },
];

/**
 * The rules of an inbox: every guarantee of `Inbox` and `InboxOperations`, apart from `transaction`.
 *
 * Covers claims, leases, recording, due events, the poll lease and state, and the operations, also under simultaneous calls.
 * Each case needs an empty inbox.
 *
 * @example
 * ```ts
 * for (const { name, run } of inboxContract) {
 *   test(name, async () => {
 *     const [first, second] = await connectTwiceToAnEmptyDatabase();
 *     await run({ inbox: myInbox(first), second: myInbox(second) });
 *   });
 * }
 * ```
 */
export const inboxContract: readonly ContractCase<InboxUnderTest>[] = [
  ...claimCases,
  ...recordCases,
  ...dueCases,
  ...keyCases,
  ...traceCases,
  ...pollCases,
  ...operationCases,
];

/**
 * The rules of `Inbox.transaction`, for inboxes that have it; run it in addition to {@link inboxContract}.
 *
 * It cannot check that what an effect wrote is rolled back with it: test that with your own database.
 *
 * @example
 * ```ts
 * for (const { name, run } of inboxTransactionContract) {
 *   test(name, async () => {
 *     const [first, second] = await connectTwiceToAnEmptyDatabase();
 *     await run({ inbox: myTransactionalInbox(first), second: myTransactionalInbox(second) });
 *   });
 * }
 * ```
 */
export const inboxTransactionContract: readonly ContractCase<InboxUnderTest>[] = [
  {
    name: 'a transaction marks the event done when its effect resolves, and not when it rejects',
    async run({ inbox, second }) {
      assert.ok(inbox.transaction, 'The inbox has no `transaction`.');
      const event = someEvent();
      const lease = await claimed(inbox, event);
      const failure = new Error('the effect failed');
      await assert.rejects(
        inbox.transaction(lease, () => Promise.reject(failure)),
        (error) => error === failure,
      );
      assert.equal((await second.find(event.id))?.state, 'leased');
      assert.equal(await inbox.transaction(lease, async () => undefined), true);
      assert.equal((await second.find(event.id))?.state, 'done');
      assert.equal(await inbox.transaction(lease, async () => undefined), false);
    },
  },
  {
    name: 'a transaction of a lease with a key makes the next event of the key due when its effect resolves, and not when it rejects',
    async run({ inbox, second }) {
      assert.ok(inbox.transaction, 'The inbox has no `transaction`.');
      const [holder, next] = someEvents(2);
      assert.ok(holder && next);
      const lease = await claimedWithKey(inbox, holder);
      await waits(second, next);
      await assert.rejects(inbox.transaction(lease, () => Promise.reject(new Error('the effect failed'))));
      assert.deepEqual(await takeDue(second, TAKE), []);
      assert.equal(await inbox.transaction(lease, async () => undefined), true);
      assert.deepEqual(idsOf(await takeDue(second, TAKE)), [next.id]);
    },
  },
  {
    name: 'a transaction whose lease is lost returns false',
    async run({ inbox, second }) {
      assert.ok(inbox.transaction, 'The inbox has no `transaction`.');
      const event = someEvent();
      const old = await claimed(inbox, event, 0);
      const current = await claimed(second, event);
      assert.equal(await inbox.transaction(old, async () => undefined), false);
      assert.equal((await inbox.find(event.id))?.state, 'leased');
      assert.equal(await second.transaction?.(current, async () => undefined), true);
    },
  },
];
