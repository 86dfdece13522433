import assert from 'node:assert/strict';
import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  type Outcome,
  PermanentError,
  type Receiver,
  type UnknownEvent,
} from 'stablehooks';
import { type ContractCase, someEvent, test } from './contract.js';

/** A database in this process with an inbox whose handlers are synchronous. */
export interface SynchronousTransactionsUnderTest<Tx> {
  readonly inbox: Inbox<Tx> & InboxOperations;
  /** Inserts a row with this id into the ledger, which accepts several rows with one id. */
  effect(tx: Tx, id: string): void;
  /** Fails, as a statement of a handler with a wrong value does. */
  fail(tx: Tx): void;
  /** How many rows with this id the ledger has. */
  countEffects(id: string): number;
  /** Sends a statement; not there where the database refuses a handler's own COMMIT and ROLLBACK. */
  raw?(tx: Tx, text: string): void;
}

type Subject = SynchronousTransactionsUnderTest<unknown>;

/** A handler, which is called with the number of its run from 1. */
type Handle = (attempt: { readonly tx: unknown; readonly id: string; readonly run: number }) => unknown;

function receiverOf({ inbox }: Subject, handle: Handle): Receiver {
  let run = 0;
  return createReceiver({
    ...{ secret: 'contract', inbox },
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': ({ id }, { tx }) => {
        run += 1;
        return handle({ tx, id, run });
      },
    },
  });
}

interface Expected {
  readonly kinds: readonly Outcome['kind'][];
  readonly effects: number;
}

/** Handles an event twice, requeued between if it failed, and returns the outcomes. */
async function handle(subject: Subject, handler: Handle, event: UnknownEvent, { kinds, effects }: Expected) {
  const receiver = receiverOf(subject, handler);
  const outcomes: Outcome[] = [];
  for (const [index] of kinds.entries()) {
    if (index > 0) await subject.inbox.requeue({ state: 'failed', ids: [event.id] });
    outcomes.push(await receiver.handle(event, 'push'));
  }
  assert.deepEqual(
    outcomes.map(({ kind }) => kind),
    kinds,
  );
  assert.equal(subject.countEffects(event.id), effects);
  return outcomes;
}

const FAILURE = new Error('The handler fails.');

/** The actions of a handler after its effect, with the outcomes of two deliveries. */
const DEEDS: Readonly<Record<string, Expected & { readonly deed: (subject: Subject) => Handle }>> = {
  "a handler's effect and the event's done commit together, and a second delivery is a duplicate": {
    ...{ kinds: ['handled', 'duplicate'], effects: 1 },
    deed: () => () => 'any result',
  },
  'the effect of a handler that throws is rolled back, and the retry leaves exactly one': {
    ...{ kinds: ['failed', 'handled'], effects: 1 },
    deed:
      () =>
      ({ run }) => {
        if (run === 1) throw FAILURE;
      },
  },
  'the effect of a handler that throws PermanentError is rolled back, and the event is dead': {
    ...{ kinds: ['dead', 'dead'], effects: 0 },
    deed: () => () => {
      throw new PermanentError('No retry can help.');
    },
  },
  'a handler that catches the error of a failed statement is handled with its other effects': {
    ...{ kinds: ['handled', 'duplicate'], effects: 1 },
    deed:
      (subject) =>
      ({ tx }) =>
        assert.throws(() => subject.fail(tx)),
  },
  'a handler that a failed statement ends is rolled back': {
    ...{ kinds: ['failed', 'failed'], effects: 0 },
    deed:
      (subject) =>
      ({ tx }) =>
        subject.fail(tx),
  },
  'a handler that returns a promise is rolled back, and its event is dead at the first attempt': {
    ...{ kinds: ['dead', 'dead'], effects: 0 },
    deed: () => async () => undefined,
  },
  'a handler that returns a promise that rejects is rolled back, and its event is dead': {
    ...{ kinds: ['dead', 'dead'], effects: 0 },
    deed: () => () => Promise.reject(FAILURE),
  },
};

/** Statements of a handler that end the transaction of its event. */
const ENDS = ['COMMIT', 'ROLLBACK', 'COMMIT; BEGIN', 'ROLLBACK; BEGIN IMMEDIATE'];

/**
 * The rules of inboxes with `transaction` over a synchronous driver: SQLite and Durable Objects. Run it against the real
 * engine, next to {@link inboxContract}.
 */
export const synchronousTransactionContract: readonly ContractCase<Subject>[] = [
  ...Object.entries(DEEDS).map(([name, { deed, ...expected }]) =>
    test(name, async (subject: Subject) => {
      const then = deed(subject);
      const effectAndDeed: Handle = (attempt) => {
        subject.effect(attempt.tx, attempt.id);
        return then(attempt);
      };
      await handle(subject, effectAndDeed, someEvent(), expected);
    }),
  ),
  test('the error of a handler that returns a promise says that it must be synchronous', async (subject: Subject) => {
    const [first] = await handle(subject, async () => undefined, someEvent(), {
      kinds: ['dead'],
      effects: 0,
    });
    assert.match(first?.error?.message ?? '', /must be synchronous\. Remove `async` and `await`/);
    const { lastError } = (await subject.inbox.find(first?.event?.id ?? '')) ?? {};
    assert.match(lastError ?? '', /must be synchronous/);
  }),
  test('of 20 simultaneous deliveries of an event one takes effect', async (subject: Subject) => {
    const event = someEvent();
    const receiver = receiverOf(subject, ({ tx, id }) => subject.effect(tx, id));
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => receiver.handle(event, 'push')));
    assert.equal(outcomes.filter(({ kind }) => kind === 'handled').length, 1);
    assert.equal(subject.countEffects(event.id), 1);
  }),
  test('each of 50 simultaneous events takes effect once', async (subject: Subject) => {
    const events = Array.from({ length: 50 }, () => someEvent());
    const receiver = receiverOf(subject, ({ tx, id }) => subject.effect(tx, id));
    await Promise.all(events.map((event) => receiver.handle(event, 'push')));
    assert.deepEqual(new Set(events.map(({ id }) => subject.countEffects(id))), new Set([1]));
  }),
  test('a transaction whose lease is lost leaves no effect', async (subject: Subject) => {
    const { inbox } = subject;
    const event = someEvent();
    const lost = await inbox.claim(event, { leaseMs: 0, origin: 'push' });
    const next = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    assert.ok(lost.state === 'claimed' && next.state === 'claimed');
    const effect = (tx: unknown) => subject.effect(tx, event.id);
    assert.equal(await inbox.transaction?.(lost.lease, effect), false);
    assert.equal(subject.countEffects(event.id), 0);
    assert.equal(await inbox.transaction?.(next.lease, effect), true);
    assert.equal(subject.countEffects(event.id), 1);
    assert.equal((await inbox.find(event.id))?.state, 'done');
  }),
  test('an event of a key that waits is due when the transaction before it has ended', async (subject: Subject) => {
    const { inbox } = subject;
    const [first, second] = [someEvent(), someEvent()];
    const options = { leaseMs: 60_000, origin: 'push', key: crypto.randomUUID() } as const;
    const claim = await inbox.claim(first, options);
    assert.ok(claim.state === 'claimed');
    assert.equal((await inbox.claim(second, options)).state, 'waiting');
    assert.equal(await inbox.transaction?.(claim.lease, () => undefined), true);
    assert.equal((await inbox.claim(second, options)).state, 'claimed');
  }),
  test('a rehearsal stores nothing, and its verdicts are those of a requeue', async (subject: Subject) => {
    const { inbox, effect, countEffects } = subject;
    const [succeeds, fails] = [someEvent(), someEvent()];
    let isFixed = false;
    const receiver = receiverOf(subject, ({ tx, id }) => {
      effect(tx, id);
      if (!isFixed) throw new PermanentError('broken');
      if (id === fails.id) throw FAILURE;
    });
    for (const event of [succeeds, fails]) assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
    isFixed = true;
    const before = await inbox.list({ limit: 1_000 });
    const rehearsed = await receiver.rehearse({ error: 'broken', limit: 10_000 });
    const verdictOf = ({ id }: UnknownEvent) => rehearsed.find((each) => each.id === id)?.verdict;
    assert.deepEqual([verdictOf(succeeds), verdictOf(fails)], ['succeeds', 'fails']);
    assert.deepEqual(await inbox.list({ limit: 1_000 }), before);
    assert.deepEqual([countEffects(succeeds.id), countEffects(fails.id)], [0, 0]);
    await inbox.requeue(succeeds.id);
    assert.equal((await receiver.handle(succeeds, 'push')).kind, 'handled');
    assert.equal(countEffects(succeeds.id), 1);
  }),
  ...ENDS.flatMap((text) => [`${text} and returns`, `${text} and throws`]).map((deed) =>
    test(`the event of a handler that sends ${deed} is dead with the reason`, async (subject: Subject) => {
      if (subject.raw === undefined) return;
      const event = someEvent();
      const [text = '', then] = deed.split(' and ');
      const receiver = receiverOf(subject, ({ tx }) => {
        subject.raw?.(tx, text);
        // Words of drivers, in an error of the business.
        if (then === 'throws')
          throw new Error('The account is locked, busy, interrupted: no such savepoint.');
      });
      const { kind, error } = await receiver.handle(event, 'push');
      assert.equal(kind, 'dead');
      assert.match(error?.message ?? '', /ended its event's transaction/);
      assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
      // The connection is free for the next event.
      assert.equal((await receiverOf(subject, () => undefined).handle(someEvent(), 'push')).kind, 'handled');
    }),
  ),
];
