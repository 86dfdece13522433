import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Claim,
  createReceiver,
  type Inbox,
  type InboxOperations,
  type Lease,
  type Outcome,
  PermanentError,
  type Receiver,
  type ReceiverOptions,
  RetryLater,
  type StepContext,
  type UnknownEvent,
} from 'stablehooks';
import { type ContractCase, signal, someEvent, test } from './contract.js';

type Isolation = 'repeatable read' | 'serializable';

/** A data layer over a running database that has an inbox. The cases use one ledger, with ids of their own. */
export interface TransactionsUnderTest<Tx> {
  /** Opens a pool of at most `connections`, whose transactions the inbox passes to handlers. */
  open(options: {
    readonly connections: number;
    /** The default isolation of its sessions. @default the database's own */
    readonly isolation?: Isolation | undefined;
    /**
     * How long a transaction waits for a connection of the pool, in ms; ignored by data layers that wait without a limit.
     * @default the data layer's own
     */
    readonly connectTimeoutMs?: number | undefined;
  }): Promise<OpenTransactions<Tx>>;
  /** Inserts a row with this id into the ledger, which accepts several rows with one id. */
  effect(tx: Tx, id: string): PromiseLike<unknown>;
  /** Runs `work` in a transaction nested in `tx`, which is rolled back when `work` rejects, and rejects then. */
  nested(tx: Tx, work: (tx: Tx) => Promise<void>): PromiseLike<unknown>;
  /** Sends a text to the server through the data layer's own method for raw statements. */
  raw(tx: Tx, text: string): PromiseLike<unknown>;
  /** How many rows with this id other connections see in the ledger. */
  countEffects(id: string): Promise<number>;
  /** Ends every connection of the pools that are open. Resolves when the server has ended their transactions. */
  disconnect(): Promise<void>;
  /** Restarts the server, without loss of its data. */
  restart(): Promise<void>;
}

/** A pool of a {@link TransactionsUnderTest}. */
export interface OpenTransactions<Tx> {
  readonly inbox: Inbox<Tx> & InboxOperations;
  /** Ends the pool's connections. */
  close(): Promise<unknown>;
}

type Subject = TransactionsUnderTest<unknown>;
type Cases = readonly ContractCase<Subject>[];

/** One run of the handler: `run` counts its runs from 1, over all events. */
interface Attempt {
  readonly tx: unknown;
  readonly id: string;
  readonly run: number;
  readonly step: StepContext['step'];
}

type Handle = (subject: Subject, attempt: Attempt) => Promise<unknown>;

type OpenOptions = Parameters<Subject['open']>[0];
type RunOptions = Partial<OpenOptions> & Pick<ReceiverOptions, 'handlerTimeoutMs' | 'leaseMs'>;
type Use = (receiver: Receiver, inbox: OpenTransactions<unknown>['inbox']) => Promise<void>;

/** The longest wait of a case for an expected change. */
const PATIENCE_MS = 30_000;
const ONE_CONNECTION = { connections: 1 };
const FAILURE = new Error('The handler fails.');

/** The error of a statement, or `undefined`. */
const errorOf = (statement: PromiseLike<unknown>): PromiseLike<unknown> =>
  statement.then(
    () => undefined,
    (error: unknown) => error,
  );

/** A receiver with one handler over a new pool. */
async function withReceiver(
  subject: Subject,
  handler: Handle,
  use: Use,
  { connections = 4, isolation, connectTimeoutMs, ...limits }: RunOptions = {},
): Promise<void> {
  const { inbox, close } = await subject.open({ connections, isolation, connectTimeoutMs });
  let run = 0;
  const receiver = createReceiver({
    ...{ secret: 'contract', inbox, handlerTimeoutMs: PATIENCE_MS, leaseMs: 2 * PATIENCE_MS, ...limits },
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': async ({ id }, { tx, step }) => {
        run += 1;
        await handler(subject, { tx, id, run, step });
      },
    },
  });
  try {
    await use(receiver, inbox);
  } finally {
    await receiver.close();
    await close();
  }
}

/** Handles the event, as a retry if it has failed, until it is neither busy nor unavailable. */
async function retry(receiver: Receiver, inbox: InboxOperations, event: UnknownEvent): Promise<Outcome> {
  for (const until = Date.now() + PATIENCE_MS; ; await pause(50)) {
    const state = (await inbox.find(event.id).catch(() => undefined))?.state;
    if (state === 'failed') await inbox.requeue(event.id);
    const outcome = await receiver.handle(event, 'push');
    if ((outcome.kind !== 'busy' && outcome.kind !== 'unavailable') || Date.now() > until) return outcome;
  }
}

function expectKind({ kind, error }: Outcome, ...kinds: readonly Outcome['kind'][]): void {
  const reason = error === undefined ? '' : ` (${error.code}: ${error.message})`;
  assert.ok(kinds.includes(kind), `The outcome is ${kind}${reason}, not ${kinds.join(' or ')}.`);
}

/** Counts again until the server answers: it may still be starting after its restart. */
async function countEffects(subject: Subject, id: string): Promise<number> {
  for (const until = Date.now() + PATIENCE_MS; ; await pause(50)) {
    try {
      return await subject.countEffects(id);
    } catch (error) {
      if (Date.now() > until) throw error;
    }
  }
}

/** Fails unless a done event has these effects, and any other event has none. */
async function expectEffects(
  subject: Subject,
  inbox: InboxOperations,
  { id }: { readonly id: string },
  isDone: boolean,
  [least, most]: readonly [number, number] = [1, 1],
): Promise<void> {
  const effects = await countEffects(subject, id);
  const state = (await inbox.find(id).catch(() => undefined))?.state;
  const wrong = `The event is ${state} with ${effects} effects.`;
  assert.ok(isDone ? effects >= least && effects <= most : effects === 0, wrong);
  assert.equal(state === 'done', isDone, wrong);
}

/** The statements of the cases in the SQL of a server. */
interface Dialect {
  readonly failing: string;
  readonly terminate: string;
  sleep(seconds: number): string;
  /** Fails at another isolation level than READ COMMITTED. */
  readonly assertLevel: string;
  /** The outcomes of a handler that catches the error of a failed statement. */
  readonly afterCaught: readonly Outcome['kind'][];
  /** Discards the prepared COMMIT of a data layer, as a pooler in transaction mode does. */
  readonly forgetCommit: string;
  /** Texts with which a handler can try to end its transaction. */
  readonly control: readonly string[];
}

const POSTGRES: Dialect = {
  failing: 'SELECT 1 / 0',
  terminate: 'SELECT pg_terminate_backend(pg_backend_pid())',
  sleep: (seconds) => `SELECT pg_sleep(${seconds})`,
  assertLevel: `DO $$ BEGIN ASSERT current_setting('transaction_isolation') = 'read committed'; END $$`,
  afterCaught: ['failed'],
  forgetCommit: `DO $$ DECLARE forgotten text; BEGIN
  FOR forgotten IN SELECT name FROM pg_prepared_statements WHERE statement ~* '^\\s*commit' LOOP
    EXECUTE format('DEALLOCATE %I', forgotten);
  END LOOP;
END $$`,
  control: [
    ...['COMMIT', 'END', '/* x */ COMMIT', 'COMMIT AND CHAIN', 'SELECT 1; COMMIT', 'COMMIT; BEGIN'],
    ...['ROLLBACK', 'ABORT', 'ROLLBACK AND CHAIN', 'ROLLBACK; BEGIN', 'BEGIN'],
    "PREPARE TRANSACTION 'stablehooks'",
  ],
};

const MYSQL: Dialect = {
  failing: 'SELECT (SELECT 1 UNION SELECT 2)',
  terminate: 'KILL CONNECTION_ID()',
  sleep: (seconds) => `SELECT SLEEP(${seconds})`,
  assertLevel: `SELECT IF(trx_isolation_level = 'READ COMMITTED', 1, (SELECT 1 UNION SELECT 2))
  FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = CONNECTION_ID()`,
  afterCaught: ['handled'],
  // It has no prepared COMMIT: this one fails.
  forgetCommit: 'DEALLOCATE PREPARE missing',
  control: [
    ...['COMMIT', '/* x */ COMMIT', 'COMMIT AND CHAIN', 'SELECT 1; COMMIT', 'BEGIN', 'START TRANSACTION'],
    ...['CREATE TABLE IF NOT EXISTS ledger (id TEXT)', 'ALTER TABLE ledger COMMENT = ""'],
    ...['ROLLBACK', 'ROLLBACK AND CHAIN', 'RELEASE SAVEPOINT missing'],
  ],
};

/** The action of a handler at one event, after it wrote an effect. */
type Deed = (subject: Subject, attempt: Attempt) => unknown;

/** Actions by the possible outcomes of the event, and its number of effects once it is handled. */
interface Deeds {
  readonly kinds: readonly Outcome['kind'][];
  readonly effects?: readonly [least: number, most: number];
  readonly options?: RunOptions;
  /** The end of their names. */
  readonly ending?: string;
  readonly deeds: Readonly<Record<string, Deed>>;
}

const deedsIn = (sql: Dialect): readonly Deeds[] => [
  {
    kinds: ['handled'],
    deeds: {
      "a handler's effect and the event's done commit together": async (subject, { id }) =>
        assert.equal(await subject.countEffects(id), 0, 'The effect is visible early.'),
      async 'a nested transaction that fails is rolled back, and the outer one can go on'(
        subject,
        { tx, id },
      ) {
        const inner = subject.nested(tx, async (nested) => {
          await subject.effect(nested, id);
          throw FAILURE;
        });
        assert.equal(await errorOf(inner), FAILURE);
      },
      async 'a failed statement in a nested transaction leaves the outer one as it was'(subject, { tx }) {
        const inner = subject.nested(tx, async (nested) => void (await subject.raw(nested, sql.failing)));
        assert.ok(await errorOf(inner), 'The nested transaction must reject.');
      },
    },
  },
  {
    ...{ kinds: ['handled'], effects: [2, 2] },
    deeds: {
      'a nested transaction commits with the outer one': (subject, { tx, id }) =>
        subject.nested(tx, async (inner) => void (await subject.effect(inner, id))),
    },
  },
  {
    kinds: ['failed'],
    deeds: {
      'the effect of a handler that throws is rolled back': () => Promise.reject(FAILURE),
      async 'a nested transaction is rolled back with the outer one'(subject, { tx, id }) {
        await subject.nested(tx, async (inner) => void (await subject.effect(inner, id)));
        throw FAILURE;
      },
    },
  },
  {
    kinds: sql.afterCaught,
    deeds: {
      [`a handler that catches the error of a failed statement is ${sql.afterCaught}`]: (subject, { tx }) =>
        errorOf(subject.raw(tx, sql.failing)),
    },
  },
  {
    ...{ kinds: ['handled', 'failed'], effects: [1, 2], options: ONE_CONNECTION },
    ending: ' is not handled without its effect',
    deeds: {
      'a handler that returns before two statements, the second of which fails,': (subject, { tx, id }) =>
        void errorOf(subject.effect(tx, id).then(() => subject.raw(tx, sql.failing))),
      'a handler that returns before a nested transaction that fails,'(subject, { tx, id }) {
        const nested = subject.nested(tx, async (inner) => {
          await subject.effect(inner, id);
          await subject.raw(inner, sql.failing);
        });
        void errorOf(nested);
      },
      // Some data layers send such a COMMIT again: in a transaction that has already failed, and without an error.
      'a handler whose connection lost its prepared COMMIT': (subject, { tx }) =>
        subject.raw(tx, sql.forgetCommit),
    },
  },
  {
    ...{ kinds: ['failed', 'unavailable', 'busy'], options: { leaseMs: 1_000, handlerTimeoutMs: 999 } },
    ending: ' leaves no effect, and the retry leaves exactly one',
    deeds: {
      'a connection that ends during a statement': (subject, { tx }) => subject.raw(tx, sql.terminate),
      async 'a connection that ends during a statement whose error is caught'(subject, { tx, id }) {
        await errorOf(subject.raw(tx, sql.terminate));
        await errorOf(subject.effect(tx, id));
        await errorOf(subject.nested(tx, async () => undefined));
      },
      'a connection that ends between two statements': (subject) => subject.disconnect(),
      'a restart of the server': (subject) => subject.restart(),
    },
  },
];

const deedCases = (sql: Dialect): Cases =>
  deedsIn(sql).flatMap(({ kinds, effects, options, deeds, ending = '' }) =>
    Object.entries(deeds).map(([name, deed]) =>
      test<Subject>(name + ending, async (subject) => {
        const handler: Handle = async (_, attempt) => {
          await subject.effect(attempt.tx, attempt.id);
          if (attempt.run === 2) await deed(subject, attempt);
        };
        const use =
          (isStored: boolean): Use =>
          async (receiver, inbox) => {
            const [before, event, after] = [someEvent(), someEvent(), someEvent()];
            if (isStored) await inbox.record([event], { origin: 'pull', dueInMs: 0 });
            // This event prepares statements on its connection.
            expectKind(await receiver.handle(before, 'push'), 'handled');
            const outcome = await receiver.handle(event, 'push');
            expectKind(outcome, ...kinds);
            // These handlers await all that they send.
            if (kinds.includes('unavailable'))
              assert.doesNotMatch(`${outcome.error} ${outcome.error?.cause}`, /Await every statement/);
            await expectEffects(subject, inbox, event, outcome.kind === 'handled', effects);
            expectKind(
              await retry(receiver, inbox, event),
              outcome.kind === 'handled' ? 'duplicate' : 'handled',
            );
            await expectEffects(subject, inbox, event, true, effects);
            expectKind(await receiver.handle(after, 'push'), 'handled');
            await expectEffects(subject, inbox, after, true);
          };
        for (const isStored of [false, true]) await withReceiver(subject, handler, use(isStored), options);
      }),
    ),
  );

/** Overdue handlers: the consequences of the answer, and the final state of the event. */
const OVERDUE: Readonly<
  Record<
    string,
    (
      subject: Subject,
      sql: Dialect,
    ) => {
      readonly handler: Handle;
      after(): Promise<void>;
      readonly state: 'done' | 'failed';
      readonly effects: number;
    }
  >
> = {
  'a handler that ends after its limit has its effects, and its event is done'(subject) {
    const answered = signal();
    const handler: Handle = async (_, { tx, id }) => {
      await subject.effect(tx, id);
      await answered.promise;
      await subject.nested(tx, async (inner) => void (await subject.effect(inner, id)));
    };
    return { handler, after: async () => answered.resolve(), state: 'done', effects: 2 };
  },
  'a handler that outlives its limit during a long statement is answered at its limit'(subject, sql) {
    const handler: Handle = async (_, { tx, id }) => {
      await subject.effect(tx, id);
      await subject.raw(tx, sql.sleep(PATIENCE_MS / 1_000));
    };
    return { handler, after: () => subject.disconnect(), state: 'failed', effects: 0 };
  },
};

/** Statements that a handler can leave behind. */
const LEFT_BEHIND: Readonly<Record<string, Deed>> = {
  'a write': (subject, { tx, id }) => subject.effect(tx, id),
  'a ROLLBACK': (subject, { tx }) => subject.raw(tx, 'rollback'),
};

const timeCases = (sql: Dialect): Cases => [
  ...Object.entries(OVERDUE).map(([name, prepare]) =>
    test<Subject>(name, async (subject) => {
      const { handler, after, state, effects } = prepare(subject, sql);
      const use: Use = async (receiver, inbox) => {
        const [event, startedAt] = [someEvent(), Date.now()];
        const { error } = await receiver.handle(event, 'push');
        const tookMs = Date.now() - startedAt;
        await after();
        assert.equal(error?.code, 'ERR_HANDLER_TIMEOUT');
        assert.ok(tookMs < PATIENCE_MS / 2, `The answer took ${tookMs} ms.`);
        // It waits for the handler, until its lease lapses.
        await receiver.close();
        await expectEffects(subject, inbox, event, state === 'done', [effects, effects]);
        assert.equal((await inbox.find(event.id))?.state, state);
      };
      await withReceiver(subject, handler, use, { handlerTimeoutMs: 100, leaseMs: PATIENCE_MS / 2 });
    }),
  ),
  ...Object.entries(LEFT_BEHIND).map(([name, send]) =>
    test<Subject>(`${name} that a handler leaves behind is refused, and reaches no transaction of another event`, async (subject) => {
      const later = signal();
      let left: Promise<unknown> | undefined;
      const leaving: Handle = async (_, attempt) => {
        const { tx, id } = attempt;
        await subject.effect(tx, id);
        if (left !== undefined) {
          later.resolve();
          assert.ok(await left, 'The statement was sent.');
          await subject.effect(tx, id);
        }
        left ??= later.promise.then(() => errorOf(send(subject, attempt) as PromiseLike<unknown>));
      };
      const use: Use = async (receiver, inbox) => {
        const [event, other] = [someEvent(), someEvent()];
        for (const one of [event, other]) expectKind(await receiver.handle(one, 'push'), 'handled');
        await expectEffects(subject, inbox, event, true);
        assert.equal(await subject.countEffects(other.id), 2);
      };
      // The other event has the same connection.
      await withReceiver(subject, leaving, use, ONE_CONNECTION);
    }),
  ),
];

/** Begins a transaction that writes an effect of the event, and then does `rest`. */
async function transact(
  subject: Subject,
  inbox: Inbox<unknown>,
  claim: Claim,
  rest?: (lease: Lease) => Promise<unknown>,
) {
  assert.ok(claim.state === 'claimed' && inbox.transaction, 'The claim or the inbox has no `transaction`.');
  const { lease } = claim;
  return inbox.transaction(lease, async (tx) => {
    await subject.effect(tx, lease.id);
    await rest?.(lease);
  });
}

const idle: Handle = async () => undefined;

const connectionCases = (sql: Dialect): Cases => [
  test('an effect whose lease is lost is rolled back', async (subject) => {
    await withReceiver(subject, idle, async (_, inbox) => {
      const event = someEvent();
      const claim = () => inbox.claim(event, { leaseMs: PATIENCE_MS, origin: 'push' });
      const lost = await claim();
      assert.ok(lost.state === 'claimed');
      await inbox.fail(lost.lease, { retryAfterMs: 0, error: 'The attempt has failed elsewhere.' });
      assert.equal((await claim()).state, 'claimed');
      assert.equal(await transact(subject, inbox, lost), false);
      await expectEffects(subject, inbox, event, false);
    });
  }),
  test("a handler has the async context of its own delivery, even if it waited for another one's connection", async (subject) => {
    const requests = new AsyncLocalStorage<string>();
    const handler: Handle = async (_, { tx, id }) => {
      assert.equal(requests.getStore(), id);
      await subject.effect(tx, id);
      assert.equal(requests.getStore(), id);
    };
    const use: Use = async (receiver) => {
      const deliver = async () => {
        const event = someEvent();
        expectKind(await requests.run(event.id, () => receiver.handle(event, 'push')), 'handled');
      };
      await Promise.all([deliver(), deliver(), deliver()]);
    };
    await withReceiver(subject, handler, use, ONE_CONNECTION);
  }),
  test('a transaction that receives no connection in time rejects, and does not blame the handler', async (subject) => {
    const use: Use = async (_, inbox) => {
      const [first, event] = [someEvent(), someEvent()];
      const [holding, waiting] = await Promise.all(
        [first, event].map(async (one) => inbox.claim(one, { leaseMs: 2 * PATIENCE_MS, origin: 'push' })),
      );
      assert.ok(holding && waiting);
      let second: Promise<unknown> = Promise.resolve();
      await transact(subject, inbox, holding, async () => {
        second = transact(subject, inbox, waiting).catch((error: unknown) => error);
        // A data layer that waits without a limit receives its connection afterwards.
        await Promise.race([second, pause(1_500)]);
      });
      const result = await Promise.race([second, pause(PATIENCE_MS, 'did not settle', { ref: false })]);
      assert.ok(result === true || result instanceof Error, `The transaction that waited ${String(result)}.`);
      const { code = '' }: { readonly code?: string } = Object(result);
      const blamesHandler = ['ERR_HANDLER_FAILED', 'ERR_HANDLER_PERMANENT'].includes(code);
      assert.ok(!blamesHandler, `${result} blames the handler.`);
      await expectEffects(subject, inbox, first, true);
      await expectEffects(subject, inbox, event, result === true);
    };
    await withReceiver(subject, idle, use, { connections: 1, connectTimeoutMs: 300 });
  }),
  ...Object.entries<RunOptions>({
    'a pool of one connection is enough': ONE_CONNECTION,
    "with the default isolation 'repeatable read', deliveries of one event have one effect": {
      isolation: 'repeatable read',
    },
    "with the default isolation 'serializable', deliveries of one event have one effect": {
      isolation: 'serializable',
    },
  }).map(([name, options]) =>
    test<Subject>(name, async (subject) => {
      const handler: Handle = async (_, { tx, id }) => {
        await subject.effect(tx, id);
        await subject.raw(tx, sql.assertLevel);
      };
      const use: Use = async (receiver, inbox) => {
        const events = [someEvent(), someEvent(), someEvent()];
        const deliveries = [...events, ...events, ...events, ...events, ...events, ...events];
        const outcomes = await Promise.all(deliveries.map((event) => receiver.handle(event, 'push')));
        for (const outcome of outcomes) expectKind(outcome, 'handled', 'busy', 'duplicate');
        assert.equal(outcomes.filter(({ kind }) => kind === 'handled').length, events.length);
        for (const event of events) await expectEffects(subject, inbox, event, true);
      };
      await withReceiver(subject, handler, use, options);
    }),
  ),
];

/** The rest of a handler after the text: whether it writes, and its final error. */
const MANNERS = [
  { writes: false, throws: () => FAILURE },
  { writes: true, throws: () => FAILURE },
  { writes: true, throws: (failure: unknown) => failure },
  { writes: true, throws: () => undefined },
  { writes: false, throws: () => undefined },
];

/** Handles an event and retries it: it must have one effect, or none and be dead. */
async function expectOnce(subject: Subject, first: Handle, isStored: boolean): Promise<void> {
  const handler: Handle = async (_, attempt) =>
    attempt.run === 1 ? first(subject, attempt) : subject.effect(attempt.tx, attempt.id);
  await withReceiver(subject, handler, async (receiver, inbox) => {
    const event = someEvent();
    if (isStored) await inbox.record([event], { origin: 'pull', dueInMs: 0 });
    const answer = await receiver.handle(event, 'push');
    const last = answer.kind === 'failed' ? await retry(receiver, inbox, event) : answer;
    expectKind(last, 'handled', 'dead');
    const effects = await subject.countEffects(event.id);
    const wrong = `The event was ${answer.kind}, then ${last.kind}, with ${effects} effects.`;
    assert.ok(effects === 1 || (effects === 0 && last.kind === 'dead'), wrong);
  });
}

const controlCases = (sql: Dialect): Cases =>
  sql.control.map((text) =>
    test<Subject>(`a handler that sends ${text} leaves at most one effect, and is not handled without one`, async (subject) => {
      for (const { writes, throws } of MANNERS) {
        const handler: Handle = async (_, { tx, id }) => {
          if (!writes) await subject.effect(tx, id);
          const failure = await errorOf(subject.raw(tx, text));
          if (writes) await errorOf(subject.effect(tx, id));
          const error = throws(failure);
          if (error !== undefined) throw error;
        };
        for (const isStored of [false, true]) await expectOnce(subject, handler, isStored);
      }
    }),
  );

/** Inboxes that store the event of a first attempt with its effect. */
const firstCases: Cases = [
  test('while a first attempt runs, no step waits for it, and none answers that its event is stored', async (subject) => {
    const begun = signal();
    const ends = signal();
    const handler: Handle = async ({ effect }, { tx, id }) => {
      await effect(tx, id);
      begun.resolve();
      await ends.promise;
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      const event = someEvent();
      const running = receiver.handle(event, 'push');
      await begun.promise;
      const { kind, error } = await receiver.handle(event, 'push');
      assert.deepEqual([kind, error?.code], ['busy', 'ERR_EVENT_BUSY']);
      const claim = await inbox.claim(event, { leaseMs: PATIENCE_MS, origin: 'pull' });
      assert.equal(claim.state, 'leased');
      const other = someEvent();
      const page = [other, event];
      assert.deepEqual(await inbox.record(page, { origin: 'pull', dueInMs: 0 }), ['new', 'running']);
      assert.deepEqual(await inbox.record([event], { origin: 'pull', dueInMs: null }), ['running']);
      assert.deepEqual(await inbox.ignore([event], { origin: 'push' }), ['running']);
      const sameName = { leaseMs: PATIENCE_MS, origin: 'pull', key: event.id } as const;
      assert.equal((await inbox.claim(someEvent(), sameName)).state, 'claimed');
      assert.equal(await inbox.find(event.id), undefined);
      ends.resolve();
      expectKind(await running, 'handled');
      assert.deepEqual(await inbox.record([event], { origin: 'pull', dueInMs: 0 }), ['done']);
      const record = await inbox.find(event.id);
      assert.deepEqual(
        [record?.state, record?.attempts, record?.history.map(({ attempt, result }) => [attempt, result])],
        ['done', 1, [[1, 'done']]],
      );
      await expectEffects(subject, inbox, event, true);
    });
  }),
  test('a first attempt stores the id and the text of its event as they are, whatever characters they have', async (subject) => {
    await withReceiver(
      subject,
      async ({ effect }, { tx, id }) => void (await effect(tx, id)),
      async (receiver, inbox) => {
        for (const odd of [
          "'); DELETE FROM ledger; --",
          "\\'\\",
          '$1 $$0 :id ?',
          '"€😀\\u0027',
          "E'\\'",
          '%s\u2028',
        ]) {
          const event = someEvent({ id: `evt_${odd}`, payload: { odd, deep: [odd] } });
          expectKind(await receiver.handle(event, 'push'), 'handled');
          assert.deepEqual((await inbox.find(event.id))?.event, event);
          await expectEffects(subject, inbox, event, true);
        }
      },
    );
  }),
  test('of deliveries of one event at the same time one runs, and the others are answered before it ends', async (subject) => {
    let runs = 0;
    const ends = signal();
    const handler: Handle = async ({ effect }, { tx, id }) => {
      runs += 1;
      await effect(tx, id);
      await ends.promise;
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      const event = someEvent();
      let answered = 0;
      const deliver = async () => {
        const { kind } = await receiver.handle(event, 'push');
        if (kind === 'busy') answered += 1;
        if (answered === 2) ends.resolve();
      };
      await Promise.all([deliver(), deliver(), deliver()]);
      assert.deepEqual([runs, answered], [1, 2]);
      await expectEffects(subject, inbox, event, true);
    });
  }),
  test('a failed first attempt is stored with its attempt, its error and its retry time, and only if it is answered', async (subject) => {
    const errors = {
      failed: () => new Error('The bank is closed.'),
      dead: () => new PermanentError('The account does not exist.'),
      received: () => new RetryLater({ afterMs: PATIENCE_MS, reason: 'Not yet.' }),
    };
    for (const [state, error] of Object.entries(errors)) {
      const handler: Handle = async ({ effect }, { tx, id }) => {
        await effect(tx, id);
        throw error();
      };
      await withReceiver(subject, handler, async (receiver, inbox) => {
        const event = someEvent();
        const outcome = await receiver.handle(event, 'push', { json: `{ "id":"${event.id}"}` });
        expectKind(outcome, state === 'received' ? 'queued' : (state as 'failed' | 'dead'));
        const record = await inbox.find(event.id);
        assert.equal(record?.state, state);
        assert.equal(record?.attempts, state === 'received' ? 0 : 1);
        assert.match(record?.lastError ?? '', /bank|account|Not yet/);
        assert.equal(record?.history.length, 1);
        assert.equal(record?.dueAt === null, state === 'dead');
        await expectEffects(subject, inbox, event, false);
      });
    }
  }),
  test('a failure does not replace what another delivery has stored meanwhile', async (subject) => {
    const { inbox, close } = await subject.open({ connections: 4 });
    try {
      for (const error of ['no', null]) {
        const event = someEvent();
        const options = { origin: 'push', json: JSON.stringify(event), leaseMs: PATIENCE_MS } as const;
        const [first, second] = [inbox.firstLease?.(event, options), inbox.firstLease?.(event, options)];
        assert.ok(first && second, 'The inbox has no first attempts.');
        const effect = (tx: unknown) => Promise.resolve(subject.effect(tx, event.id)).then(() => undefined);
        assert.equal(await inbox.transaction?.(second, effect), true);
        const failure = { retryAfterMs: error === null ? null : 1_000, error: 'It failed first.' };
        assert.equal(await inbox.fail(first, failure), false);
        assert.equal((await inbox.find(event.id))?.state, 'done');
        assert.equal(await inbox.transaction?.(first, effect), false);
        await expectEffects(subject, inbox, event, true);
      }
    } finally {
      await close();
    }
  }),
  test('a stored event is claimed and counted before its handler runs, and a delivered one is not', async (subject) => {
    const seen = new Map<string, unknown>();
    let inboxOf: OpenTransactions<unknown>['inbox'] | undefined;
    const handler: Handle = async ({ effect }, { tx, id }) => {
      await effect(tx, id);
      const record = await inboxOf?.find(id);
      seen.set(id, [record?.state, record?.attempts]);
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      inboxOf = inbox;
      const [stored, first] = [someEvent(), someEvent()];
      await inbox.record([stored], { origin: 'pull', dueInMs: 0 });
      for (const event of [stored, first]) expectKind(await receiver.handle(event, 'push'), 'handled');
      assert.deepEqual(seen.get(stored.id), ['leased', 1]);
      assert.deepEqual(seen.get(first.id), [undefined, undefined]);
      await expectEffects(subject, inbox, stored, true);
    });
  }),
  test('the steps of a first attempt are kept when its connection ends, and belong to the next one', async (subject) => {
    let paid = 0;
    let inboxOf: InboxOperations | undefined;
    const handler: Handle = async ({ effect, disconnect }, { tx, id, run, step }) => {
      await effect(tx, id);
      assert.equal(await step('payout', () => ++paid), 1);
      if (run > 1) return;
      await inboxOf?.prune({ olderThanMs: 0 });
      await disconnect();
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      inboxOf = inbox;
      const event = someEvent();
      expectKind(await receiver.handle(event, 'push'), 'unavailable');
      expectKind(await retry(receiver, inbox, event), 'handled');
      assert.equal(paid, 1);
      assert.deepEqual(
        (await inbox.steps(event.id)).map(({ name }) => name),
        ['payout'],
      );
      await expectEffects(subject, inbox, event, true);
    });
  }),
];

const stepCases: Cases = [
  test('a step is stored apart from the transaction: a rollback keeps it, and the next attempt does not run it', async (subject) => {
    let paid = 0;
    const handler: Handle = async ({ effect }, { tx, id, run, step }) => {
      await effect(tx, id);
      const payment = await step('payout', () => ({ id: ++paid }));
      assert.deepEqual(payment, { id: 1 });
      if (run === 1) throw FAILURE;
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      const event = someEvent();
      expectKind(await receiver.handle(event, 'push'), 'failed');
      await expectEffects(subject, inbox, event, false);
      expectKind(await retry(receiver, inbox, event), 'handled');
      await expectEffects(subject, inbox, event, true);
      assert.equal(paid, 1);
    });
  }),
  test('as many handlers as connections get their steps: none waits for the connection of another', async (subject) => {
    const handler: Handle = async ({ effect }, { tx, id, step }) => {
      await effect(tx, id);
      await step('payout', () => pause(1));
      await step('mail', () => pause(1));
    };
    const use: Use = async (receiver) => {
      const events = Array.from({ length: 12 }, () => someEvent());
      const outcomes = await Promise.all(events.map((event) => receiver.handle(event, 'push')));
      for (const outcome of outcomes) expectKind(outcome, 'handled');
    };
    for (const connections of [2, 3]) await withReceiver(subject, handler, use, { connections });
  }),
  test('a step neither locks the row of its event nor waits for it', async (subject) => {
    const event = someEvent();
    let deliver: () => Promise<Outcome | undefined> = async () => undefined;
    let again: Outcome | undefined;
    const handler: Handle = async ({ effect }, { tx, id, step }) => {
      await effect(tx, id);
      await step('payout', () => undefined);
      again = await deliver();
      await step('mail', () => undefined);
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      deliver = () => receiver.handle(event, 'push');
      expectKind(await receiver.handle(event, 'push'), 'handled');
      assert.ok(again, 'The second delivery was not answered.');
      expectKind(again, 'busy');
      const names = (await inbox.steps(event.id)).map(({ name }) => name);
      assert.deepEqual(names, ['payout', 'mail']);
    });
  }),
  test('over a pool of one connection a step is refused with the fix, and nothing takes effect', async (subject) => {
    const handler: Handle = async ({ effect }, { tx, id, step }) => {
      await effect(tx, id);
      await step('payout', () => undefined);
    };
    await withReceiver(
      subject,
      handler,
      async (receiver, inbox) => {
        const event = someEvent();
        const { kind, error } = await receiver.handle(event, 'push');
        assert.equal(kind, 'failed');
        assert.match(String(error?.cause), /a step needs a second connection/);
        await expectEffects(subject, inbox, event, false);
      },
      ONE_CONNECTION,
    );
  }),
];

/** What the handler of a rehearsed event does, and the verdict. */
const REHEARSED: Readonly<Record<string, (attempt: Attempt) => unknown>> = {
  succeeds: () => undefined,
  fails: () => Promise.reject(FAILURE),
  steps: ({ step }) => step('payout', () => assert.fail('A rehearsal runs no step.')),
  later: () => Promise.reject(new RetryLater({ afterMs: 1_000, reason: 'not yet' })),
};

const rehearsalCases: Cases = [
  test('a rehearsal stores nothing and runs no step, and its verdicts are those of a requeue', async (subject) => {
    const verdicts = Object.keys(REHEARSED);
    const events = verdicts.map(() => someEvent());
    const deeds = new Map(events.map(({ id }, index) => [id, REHEARSED[verdicts[index] ?? '']]));
    let isFixed = false;
    const handler: Handle = async ({ effect }, attempt) => {
      await effect(attempt.tx, attempt.id);
      if (!isFixed) throw new PermanentError('broken');
      await deeds.get(attempt.id)?.(attempt);
    };
    await withReceiver(subject, handler, async (receiver, inbox) => {
      for (const event of events) assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
      isFixed = true;
      const read = () => Promise.all(events.map(({ id }) => inbox.find(id)));
      const before = await read();
      const all = await inbox.count();
      const rehearsed = await receiver.rehearse({ states: ['dead'], error: 'broken', limit: 10_000 });
      const found = new Map(rehearsed.map(({ id, verdict }) => [id, verdict]));
      assert.deepEqual(
        events.map(({ id }) => found.get(id)),
        verdicts,
      );
      assert.deepEqual(await read(), before);
      assert.deepEqual(await inbox.count(), all);
      for (const { id } of events) assert.equal(await subject.countEffects(id), 0);

      const [succeeds, fails] = events;
      assert.ok(succeeds && fails);
      for (const { id } of [succeeds, fails]) await inbox.requeue(id);
      assert.equal((await receiver.handle(succeeds, 'push')).kind, 'handled');
      assert.equal((await receiver.handle(fails, 'push')).kind, 'failed');
      assert.deepEqual(
        await Promise.all([succeeds, fails].map(({ id }) => subject.countEffects(id))),
        [1, 0],
      );
    });
  }),
  test('the rehearsal of a handler that sends COMMIT fails', async (subject) => {
    const event = someEvent();
    let isFixed = false;
    const handler: Handle = async ({ raw }, { tx }) => {
      if (!isFixed) throw new PermanentError('broken');
      await raw(tx, 'COMMIT');
    };
    await withReceiver(subject, handler, async (receiver) => {
      assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
      isFixed = true;
      const rehearsed = await receiver.rehearse({ limit: 10_000 });
      const found = rehearsed.find(({ id }) => id === event.id);
      assert.equal(found?.verdict, 'fails');
      assert.match(found.error ?? '', /ended its event's transaction/);
    });
  }),
  test('the rehearsal of a handler that does not await its step names the step', async (subject) => {
    const event = someEvent();
    let isFixed = false;
    const handler: Handle = async (_subject, { step }) => {
      if (!isFixed) throw new PermanentError('broken');
      void step('mail', () => assert.fail('A rehearsal runs no step.'));
    };
    await withReceiver(subject, handler, async (receiver) => {
      assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
      isFixed = true;
      const rehearsed = await receiver.rehearse({ limit: 10_000 });
      const found = rehearsed.find(({ id }) => id === event.id);
      assert.deepEqual([found?.verdict, found?.step], ['steps', 'mail']);
    });
  }),
  test('a stored step returns its result in a rehearsal', async (subject) => {
    const event = someEvent();
    let isFixed = false;
    const results: unknown[] = [];
    const handler: Handle = async (_subject, { step }) => {
      results.push(await step('payout', () => 'paid'));
      if (!isFixed) throw new PermanentError('broken');
    };
    await withReceiver(subject, handler, async (receiver) => {
      assert.equal((await receiver.handle(event, 'push')).kind, 'dead');
      isFixed = true;
      const rehearsed = await receiver.rehearse({ types: ['transfer.settled'], limit: 10_000 });
      assert.equal(rehearsed.find(({ id }) => id === event.id)?.verdict, 'succeeds');
      assert.ok(results.length >= 2 && results.every((result) => result === 'paid'));
    });
  }),
];

/**
 * The rules of a data layer whose transactions handlers receive: effects and `done` commit together or not at all, whatever
 * the handler sends, and nested transactions are savepoints.
 *
 * Run it against the real engine, next to {@link inboxContract} and {@link inboxTransactionContract}, with a time limit of a
 * minute per case.
 *
 * @example
 * ```ts
 * for (const { name, run } of transactionContract) {
 *   test(name, () =>
 *     run({
 *       open: async ({ connections, isolation }) => {
 *         const pool = await openPool({ connections, isolation });
 *         return { inbox: postgresInbox(fromMyLayer(pool), { transactional: true }), close: () => pool.end() };
 *       },
 *       effect: (tx, id) => tx.insertInto('ledger', { id }),
 *       nested: (tx, work) => tx.transaction(work),
 *       raw: (tx, text) => tx.unsafe(text),
 *       countEffects: async (id) => (await admin.query('SELECT FROM ledger WHERE id = $1', [id])).rowCount,
 *       disconnect: () => endConnectionsExcept(admin),
 *       restart: () => server.restart(),
 *     }),
 *   );
 * }
 * ```
 */
export const transactionContract: Cases = [...casesIn(POSTGRES), ...firstCases];

/** The same rules for MySQL and MariaDB, where a failed statement does not end its transaction. */
export const mysqlTransactionContract: Cases = casesIn(MYSQL);

function casesIn(sql: Dialect): Cases {
  return [
    ...deedCases(sql),
    ...timeCases(sql),
    ...connectionCases(sql),
    ...stepCases,
    ...controlCases(sql),
    ...rehearsalCases,
  ];
}
