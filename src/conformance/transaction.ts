import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { HandlerError, PermanentError } from '../core/errors.js';
import type { WebhookEvent } from '../core/events.js';
import type { Inbox, InboxOperations, Lease } from '../core/ports.js';
import type { Outcome } from '../receiver/outcome.js';
import { createReceiver, type Receiver } from '../receiver/receiver.js';
import { type ContractCase, someEvent } from './contract.js';

/** A data layer over a running database that has an inbox. The cases use one ledger, with ids of their own. */
export interface TransactionsUnderTest<Tx> {
  /** Opens a pool of at most `connections`, whose transactions the inbox gives to handlers. */
  open(options: {
    readonly connections: number;
    /** The `default_transaction_isolation` of its sessions. @default the database's own */
    readonly isolation?: 'repeatable read' | 'serializable' | undefined;
    /**
     * How long a transaction waits for a connection of the pool, in ms; a data layer that waits without limit ignores
     * it. @default the data layer's own
     */
    readonly connectTimeoutMs?: number | undefined;
  }): Promise<OpenTransactions<Tx>>;
  /** Inserts a row with this id into the ledger, which accepts several rows with one id. */
  effect(tx: Tx, id: string): PromiseLike<unknown>;
  /** Runs `work` in a transaction nested in `tx`, which is rolled back when `work` rejects, and rejects then. */
  nested(tx: Tx, work: (tx: Tx) => Promise<void>): PromiseLike<unknown>;
  /** Sends a text to the server by the data layer's own route for such texts. */
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
type TransactionCase = ContractCase<Subject>;

/** How the handler of an event gets at its transaction. */
interface Attempt {
  readonly tx: unknown;
  readonly id: string;
}

/** A receiver with one handler, and what its event came to. */
interface Run {
  readonly event: WebhookEvent;
  readonly receiver: Receiver;
  readonly inbox: OpenTransactions<unknown>['inbox'];
  /** Handles the event once. */
  handle(): Promise<Outcome>;
  /** Handles the event again, now: as the retry of a failed event, or when its lease lapses. */
  retry(): Promise<Outcome>;
}

interface RunOptions {
  readonly connections?: number;
  readonly isolation?: 'repeatable read' | 'serializable';
  readonly handlerTimeoutMs?: number;
  readonly leaseMs?: number;
}

const HANDLER_FAILURE = 'the handler fails';

/** No case waits longer for what must happen. */
const PATIENCE_MS = 30_000;

async function withReceiver(
  subject: Subject,
  handler: (attempt: Attempt) => Promise<unknown>,
  use: (run: Run) => Promise<void>,
  { handlerTimeoutMs = PATIENCE_MS, leaseMs = 2 * PATIENCE_MS, connections = 4, ...options }: RunOptions = {},
): Promise<void> {
  const { inbox, close } = await subject.open({ connections, ...options });
  const event = someEvent() as WebhookEvent;
  const receiver = createReceiver({
    secret: 'contract',
    inbox,
    handlerTimeoutMs,
    leaseMs,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': async ({ id }, { tx }) => {
        await handler({ tx, id });
      },
    },
  });
  const handle = () => receiver.handle(event, 'push');
  async function retry(): Promise<Outcome> {
    const until = Date.now() + PATIENCE_MS;
    for (;;) {
      if ((await inbox.find(event.id).catch(() => undefined))?.state === 'failed')
        await inbox.requeue(event.id);
      const outcome = await handle();
      if ((outcome.kind !== 'busy' && outcome.kind !== 'unavailable') || Date.now() > until) return outcome;
      await pause(50);
    }
  }
  try {
    await use({ event, receiver, inbox, handle, retry });
  } finally {
    await receiver.close();
    await close();
  }
}

/** Claims a new event. */
async function claimNew(inbox: Inbox<unknown>): Promise<Lease> {
  const claim = await inbox.claim(someEvent(), { leaseMs: 2 * PATIENCE_MS, origin: 'push' });
  assert.ok(claim.state === 'claimed', `The claim of a new event was answered ${claim.state}.`);
  return claim.lease;
}

/** Fails unless this many effects of the event are committed, and the event is done or not as it should be. */
async function expectEffects(subject: Subject, { event, inbox }: Run, count: number, done = count > 0) {
  const effects = await subject.countEffects(event.id);
  assert.equal(effects, count, `The ledger has ${effects} effects of the event, not ${count}.`);
  const state = (await inbox.find(event.id))?.state;
  assert.equal(state === 'done', done, `The event is ${state} with ${effects} effects.`);
}

function expectKind(outcome: Outcome, ...kinds: readonly Outcome['kind'][]): void {
  const said = outcome.error === undefined ? '' : ` (${outcome.error.code}: ${outcome.error.message})`;
  assert.ok(
    kinds.includes(outcome.kind),
    `The outcome is ${outcome.kind}${said}, not ${kinds.join(' or ')}.`,
  );
}

const commitCases: readonly TransactionCase[] = [
  {
    name: "a handler's effect and the event's done commit together",
    async run(subject) {
      const effect = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        assert.equal(
          await subject.countEffects(id),
          0,
          'The effect is visible before the handler has ended.',
        );
      };
      await withReceiver(subject, effect, async (run) => {
        expectKind(await run.handle(), 'handled');
        await expectEffects(subject, run, 1);
        expectKind(await run.handle(), 'duplicate');
        await expectEffects(subject, run, 1);
      });
    },
  },
  {
    name: 'the effect of a handler that throws is rolled back',
    async run(subject) {
      let fails = true;
      const failing = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        if (fails) throw new Error(HANDLER_FAILURE);
      };
      await withReceiver(subject, failing, async (run) => {
        expectKind(await run.handle(), 'failed');
        await expectEffects(subject, run, 0);
        assert.match((await run.inbox.find(run.event.id))?.lastError ?? '', new RegExp(HANDLER_FAILURE));
        fails = false;
        expectKind(await run.retry(), 'handled');
        await expectEffects(subject, run, 1);
      });
    },
  },
  {
    name: 'a nested transaction commits and rolls back with the outer one',
    async run(subject) {
      let fails = true;
      const nesting = async ({ tx, id }: Attempt) => {
        await subject.nested(tx, async (inner) => void (await subject.effect(inner, id)));
        if (fails) throw new Error(HANDLER_FAILURE);
      };
      await withReceiver(subject, nesting, async (run) => {
        expectKind(await run.handle(), 'failed');
        await expectEffects(subject, run, 0);
        fails = false;
        expectKind(await run.retry(), 'handled');
        await expectEffects(subject, run, 1);
      });
    },
  },
  {
    name: 'a nested transaction that fails is rolled back, and the outer one can go on',
    async run(subject) {
      const nesting = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        const failure = new Error(HANDLER_FAILURE);
        const inner = subject.nested(tx, async (nested) => {
          await subject.effect(nested, id);
          throw failure;
        });
        await assert.rejects(Promise.resolve(inner), failure);
      };
      await withReceiver(subject, nesting, async (run) => {
        expectKind(await run.handle(), 'handled');
        await expectEffects(subject, run, 1);
      });
    },
  },
  {
    name: 'a handler that catches the error of a failed statement fails',
    async run(subject) {
      const swallowing = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        await Promise.resolve(subject.raw(tx, 'SELECT 1 / 0')).catch(() => undefined);
      };
      await withReceiver(subject, swallowing, async (run) => {
        expectKind(await run.handle(), 'failed');
        await expectEffects(subject, run, 0);
      });
    },
  },
  {
    name: 'a failed statement in a nested transaction leaves the outer one as it was',
    async run(subject) {
      const swallowing = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        const inner = subject.nested(tx, async (nested) => void (await subject.raw(nested, 'SELECT 1 / 0')));
        await assert.rejects(Promise.resolve(inner));
      };
      await withReceiver(subject, swallowing, async (run) => {
        expectKind(await run.handle(), 'handled');
        await expectEffects(subject, run, 1);
      });
    },
  },
];

/** What a pooler in transaction mode does to a data layer that prepares its COMMIT. */
const FORGET_COMMIT = `DO $$ DECLARE forgotten text; BEGIN
  FOR forgotten IN SELECT name FROM pg_prepared_statements WHERE statement ~* '^\\s*commit' LOOP
    EXECUTE format('DEALLOCATE %I', forgotten);
  END LOOP;
END $$`;

/** Some data layers send such a COMMIT again: in a transaction that has failed by then, and without an error. */
const forgottenCommitCase: TransactionCase = {
  name: 'a handler whose connection does not have the COMMIT that it has prepared, is not handled without its effect',
  async run(subject) {
    let forgets = false;
    const forgetting = async ({ tx, id }: Attempt) => {
      await subject.effect(tx, id);
      if (forgets) await subject.raw(tx, FORGET_COMMIT);
    };
    await withReceiver(
      subject,
      forgetting,
      async (run) => {
        expectKind(await run.receiver.handle(someEvent(), 'push'), 'handled');
        forgets = true;
        const first = await run.handle();
        expectKind(first, 'handled', 'failed');
        await expectEffects(subject, run, first.kind === 'handled' ? 1 : 0);
        forgets = false;
        expectKind(await run.retry(), 'handled', 'duplicate');
        await expectEffects(subject, run, 1);
      },
      // The other event has prepared it on the same connection.
      { connections: 1 },
    );
  },
};

/** What a handler leaves running when it returns; the last of it fails. */
const LEFT_BEHIND: readonly {
  readonly name: string;
  leave(subject: Subject, attempt: Attempt): Promise<unknown>;
}[] = [
  {
    name: 'two statements, the second of which fails',
    async leave(subject, { tx, id }) {
      await subject.effect(tx, id);
      await subject.raw(tx, 'SELECT 1 / 0');
    },
  },
  {
    name: 'a nested transaction that fails',
    leave: async (subject, { tx, id }) =>
      subject.nested(tx, async (inner) => {
        await subject.effect(inner, id);
        await subject.raw(inner, 'SELECT 1 / 0');
      }),
  },
];

const leavingCases = LEFT_BEHIND.map(
  ({ name, leave }): TransactionCase => ({
    name: `a handler that returns before ${name}, is not handled without its effect`,
    async run(subject) {
      let isFirst = true;
      const leaving = async (attempt: Attempt) => {
        await subject.effect(attempt.tx, attempt.id);
        if (isFirst) void leave(subject, attempt).catch(() => undefined);
        isFirst = false;
      };
      await withReceiver(
        subject,
        leaving,
        async (run) => {
          const outcome = await run.handle();
          expectKind(outcome, 'handled', 'failed');
          const effects = await subject.countEffects(run.event.id);
          const state = (await run.inbox.find(run.event.id))?.state;
          const said = `The event was ${outcome.kind} and is ${state} with ${effects} effects.`;
          assert.equal(effects > 0, outcome.kind === 'handled', said);
          assert.equal(state === 'done', outcome.kind === 'handled', said);
          // It has the same connection.
          const other = someEvent() as WebhookEvent;
          expectKind(await run.receiver.handle(other, 'push'), 'handled');
          assert.equal(await subject.countEffects(other.id), 1);
        },
        { connections: 1 },
      );
    },
  }),
);

const timeCases: readonly TransactionCase[] = [
  {
    name: 'a handler that times out writes nothing, also when it goes on',
    async run(subject) {
      let refused = () => {};
      const untilRefused = new Promise<void>((resolve) => {
        refused = resolve;
      });
      const late = async ({ tx, id }: Attempt) => {
        const until = Date.now() + PATIENCE_MS;
        try {
          while (Date.now() < until) await subject.effect(tx, id);
        } finally {
          refused();
        }
      };
      await withReceiver(
        subject,
        late,
        async (run) => {
          const outcome = await run.handle();
          expectKind(outcome, 'failed');
          assert.equal(outcome.error?.code, 'ERR_HANDLER_TIMEOUT');
          await untilRefused;
          await run.receiver.close();
          await expectEffects(subject, run, 0);
        },
        { handlerTimeoutMs: 100 },
      );
    },
  },
  {
    name: 'a handler that times out in a nested transaction ends, and its event has failed without an effect',
    async run(subject) {
      let goOn = () => {};
      const untilAnswered = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const nesting = async ({ tx, id }: Attempt) =>
        subject.nested(tx, async (inner) => {
          await subject.effect(inner, id);
          await untilAnswered;
          await subject.effect(inner, id);
        });
      await withReceiver(
        subject,
        nesting,
        async (run) => {
          assert.equal((await run.handle()).error?.code, 'ERR_HANDLER_TIMEOUT');
          goOn();
          // It waits for the handler, until its lease lapses.
          await run.receiver.close();
          await expectEffects(subject, run, 0);
          assert.equal((await run.inbox.find(run.event.id))?.state, 'failed');
        },
        { handlerTimeoutMs: 100, leaseMs: PATIENCE_MS / 2 },
      );
    },
  },
  {
    name: 'a ROLLBACK that a handler leaves behind is refused, and ends no transaction of another event',
    async run(subject) {
      let leave = () => {};
      const untilLater = new Promise<void>((resolve) => {
        leave = resolve;
      });
      let left: Promise<unknown> | undefined;
      const leaving = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        if (left === undefined) {
          left = untilLater.then(() => subject.raw(tx, 'rollback'));
          return;
        }
        leave();
        await assert.rejects(left, 'The statement was sent.');
        await subject.effect(tx, id);
      };
      await withReceiver(
        subject,
        leaving,
        async (run) => {
          expectKind(await run.handle(), 'handled');
          const other = someEvent() as WebhookEvent;
          expectKind(await run.receiver.handle(other, 'push'), 'handled');
          assert.equal(await subject.countEffects(other.id), 2);
          await expectEffects(subject, run, 1);
        },
        // The other event has the same connection.
        { connections: 1 },
      );
    },
  },
  {
    name: 'a handler that times out during a long statement is answered at its limit',
    async run(subject) {
      const sleeping = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        await subject.raw(tx, `SELECT pg_sleep(${PATIENCE_MS / 1_000})`);
      };
      await withReceiver(
        subject,
        sleeping,
        async (run) => {
          const startedAt = Date.now();
          const outcome = await run.handle();
          const tookMs = Date.now() - startedAt;
          await subject.disconnect();
          assert.equal(outcome.error?.code, 'ERR_HANDLER_TIMEOUT');
          assert.ok(tookMs < PATIENCE_MS / 2, `The answer took ${tookMs} ms.`);
          await run.receiver.close();
          await expectEffects(subject, run, 0);
        },
        { handlerTimeoutMs: 100 },
      );
    },
  },
  {
    name: 'an effect whose lease is lost is rolled back',
    async run(subject) {
      const { inbox, close } = await subject.open({ connections: 2 });
      try {
        assert.ok(inbox.transaction, 'The inbox has no `transaction`.');
        const event = someEvent();
        const old = await inbox.claim(event, { leaseMs: 0, origin: 'push' });
        assert.ok(old.state === 'claimed');
        const completed = await inbox.transaction(old.lease, async (tx) => {
          await subject.effect(tx, event.id);
          const current = await inbox.claim(event, { leaseMs: PATIENCE_MS, origin: 'push' });
          assert.equal(current.state, 'claimed');
        });
        assert.equal(completed, false);
        assert.equal(await subject.countEffects(event.id), 0);
        assert.equal((await inbox.find(event.id))?.state, 'leased');
      } finally {
        await close();
      }
    },
  },
  {
    name: 'a pool of one connection is enough',
    async run(subject) {
      const effect = ({ tx, id }: Attempt) => Promise.resolve(subject.effect(tx, id));
      await withReceiver(
        subject,
        effect,
        async (run) => {
          const others = Array.from({ length: 3 }, () => someEvent());
          const outcomes = await Promise.all(
            [run.event, ...others].map((event) => run.receiver.handle(event, 'push')),
          );
          for (const outcome of outcomes) expectKind(outcome, 'handled');
          for (const { id } of others) assert.equal(await subject.countEffects(id), 1);
          await expectEffects(subject, run, 1);
        },
        { connections: 1 },
      );
    },
  },
  {
    name: 'a transaction that gets no connection in time rejects, and is no failure of the handler',
    async run(subject) {
      const { inbox, close } = await subject.open({ connections: 1, connectTimeoutMs: 300 });
      try {
        assert.ok(inbox.transaction, 'The inbox has no `transaction`.');
        const [holding, waiting] = [await claimNew(inbox), await claimNew(inbox)];
        let second: Promise<unknown> = Promise.resolve();
        const completed = await inbox.transaction(holding, async () => {
          const begun = inbox.transaction?.(
            waiting,
            async (tx) => void (await subject.effect(tx, waiting.id)),
          );
          second = Promise.resolve(begun).catch((error: unknown) => error);
          // A data layer that waits without limit gets its connection afterwards.
          await Promise.race([second, pause(1_500)]);
        });
        assert.equal(completed, true);
        const result = await Promise.race([second, pause(PATIENCE_MS, 'did not settle', { ref: false })]);
        assert.ok(
          result === true || result instanceof Error,
          `The transaction that waited ${String(result)}.`,
        );
        assert.ok(
          !(result instanceof HandlerError || result instanceof PermanentError),
          `${result} blames the handler.`,
        );
        assert.equal(await subject.countEffects(waiting.id), result === true ? 1 : 0);
      } finally {
        await close();
      }
    },
  },
];

/** What takes the connection away from a handler between two statements, and during one. */
const OUTAGES: readonly {
  readonly name: string;
  take(subject: Subject, attempt: Attempt): Promise<unknown>;
}[] = [
  {
    name: 'a connection that ends during a statement',
    take: async (subject, { tx }) => subject.raw(tx, 'SELECT pg_terminate_backend(pg_backend_pid())'),
  },
  {
    name: 'a connection that ends during a statement whose error is caught',
    take: async (subject, { tx, id }) => {
      const terminate = subject.raw(tx, 'SELECT pg_terminate_backend(pg_backend_pid())');
      await Promise.resolve(terminate).catch(() => undefined);
      await Promise.resolve(subject.effect(tx, id)).catch(() => undefined);
      await Promise.resolve(subject.nested(tx, async () => undefined)).catch(() => undefined);
    },
  },
  { name: 'a connection that ends between two statements', take: (subject) => subject.disconnect() },
  { name: 'a restart of the server', take: (subject) => subject.restart() },
];

const outageCases = OUTAGES.map(
  ({ name, take }): TransactionCase => ({
    name: `${name} leaves no effect, and the retry leaves exactly one`,
    async run(subject) {
      let first = true;
      const interrupted = async (attempt: Attempt) => {
        await subject.effect(attempt.tx, attempt.id);
        if (!first) return;
        first = false;
        await take(subject, attempt);
      };
      await withReceiver(
        subject,
        interrupted,
        async (run) => {
          expectKind(await run.handle(), 'failed', 'unavailable', 'busy');
          assert.equal(await subject.countEffects(run.event.id), 0);
          expectKind(await run.retry(), 'handled');
          await expectEffects(subject, run, 1);
        },
        { leaseMs: 1_000, handlerTimeoutMs: 999 },
      );
    },
  }),
);

const isolationCases = (['repeatable read', 'serializable'] as const).map(
  (isolation): TransactionCase => ({
    name: `with default_transaction_isolation = '${isolation}', parallel deliveries of one event have one effect`,
    async run(subject) {
      const effect = async ({ tx, id }: Attempt) => {
        await subject.effect(tx, id);
        await subject.raw(
          tx,
          `DO $$ BEGIN ASSERT current_setting('transaction_isolation') = 'read committed'; END $$`,
        );
      };
      await withReceiver(
        subject,
        effect,
        async (run) => {
          for (let round = 0; round < 3; round++) {
            const event = round === 0 ? run.event : someEvent();
            const deliveries = Array.from({ length: 6 }, () => run.receiver.handle(event, 'push'));
            const outcomes = await Promise.all(deliveries);
            for (const outcome of outcomes) expectKind(outcome, 'handled', 'busy', 'duplicate');
            assert.equal(outcomes.filter(({ kind }) => kind === 'handled').length, 1);
            assert.equal(await subject.countEffects(event.id), 1);
          }
          await expectEffects(subject, run, 1);
        },
        { isolation },
      );
    },
  }),
);

/** Texts with which a handler can try to end its transaction. */
const CONTROL = [
  'COMMIT',
  'END',
  '/* x */ COMMIT',
  'COMMIT AND CHAIN',
  'SELECT 1; COMMIT',
  "PREPARE TRANSACTION 'stablehooks'",
  'ROLLBACK',
  'ABORT',
  'ROLLBACK AND CHAIN',
  'COMMIT; BEGIN',
  'ROLLBACK; BEGIN',
  'BEGIN',
] as const;

/** What a handler does around the text on its first attempt. */
const MANNERS: readonly {
  readonly does: string;
  readonly writesAfterwards: boolean;
  /** What it throws at its end. */
  readonly throws?: 'an error of its own' | 'the error of the text';
}[] = [
  { does: 'throws', writesAfterwards: false, throws: 'an error of its own' },
  { does: 'writes afterwards and throws', writesAfterwards: true, throws: 'an error of its own' },
  { does: 'writes afterwards and throws its error', writesAfterwards: true, throws: 'the error of the text' },
  { does: 'writes afterwards and returns', writesAfterwards: true },
  { does: 'returns', writesAfterwards: false },
];

const controlCases = CONTROL.map(
  (text): TransactionCase => ({
    name: `a handler that sends ${text} leaves at most one effect, and is not handled without one`,
    async run(subject) {
      for (const { does, writesAfterwards, throws } of MANNERS) {
        let attempts = 0;
        const controlling = async ({ tx, id }: Attempt) => {
          attempts += 1;
          if (attempts > 1) return await subject.effect(tx, id);
          if (!writesAfterwards) await subject.effect(tx, id);
          const sending = Promise.resolve(subject.raw(tx, text));
          const failure = await sending.then(
            () => undefined,
            (error: unknown) => error,
          );
          if (writesAfterwards) await Promise.resolve(subject.effect(tx, id)).catch(() => undefined);
          if (throws === 'an error of its own') throw new Error(HANDLER_FAILURE);
          if (throws !== undefined && failure !== undefined) throw failure;
          return undefined;
        };
        await withReceiver(subject, controlling, async (run) => {
          await expectOnce(subject, run, `A handler that sends ${text} and ${does}`);
        });
      }
    },
  }),
);

/** Handles an event and retries it: it has one effect, or none and is dead. */
async function expectOnce(subject: Subject, run: Run, handler: string): Promise<void> {
  const first = await run.handle();
  const last = first.kind === 'failed' ? await run.retry() : first;
  expectKind(last, 'handled', 'dead');
  const effects = await subject.countEffects(run.event.id);
  const said = `${handler} was ${first.kind}, then ${last.kind}, with ${effects} effects.`;
  assert.ok(effects === 1 || (effects === 0 && last.kind === 'dead'), said);
}

/** The transaction that is aborted at the end is not the one that the inbox began. */
const restartCase: TransactionCase = {
  name: 'a handler that sends ROLLBACK, writes, sends BEGIN and fails a statement leaves at most one effect',
  async run(subject) {
    for (const throws of [true, false]) {
      let attempts = 0;
      const restarting = async ({ tx, id }: Attempt) => {
        attempts += 1;
        if (attempts > 1) return await subject.effect(tx, id);
        await Promise.resolve(subject.raw(tx, 'ROLLBACK')).catch(() => undefined);
        await subject.effect(tx, id);
        await Promise.resolve(subject.raw(tx, 'BEGIN')).catch(() => undefined);
        const failing = Promise.resolve(subject.raw(tx, 'SELECT 1 / 0'));
        return await (throws ? failing : failing.catch(() => undefined));
      };
      await withReceiver(subject, restarting, (run) =>
        expectOnce(subject, run, `The handler that ${throws ? 'throws' : 'returns'}`),
      );
    }
  },
};

/**
 * The rules of a data layer whose transactions handlers get: effects and `done` commit together or not at all,
 * whatever the handler sends, and nested transactions are savepoints.
 *
 * Run it against the real engine, next to {@link inboxContract} and {@link inboxTransactionContract}, and give each
 * case a time limit of a minute.
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
export const transactionContract: readonly ContractCase<TransactionsUnderTest<unknown>>[] = [
  ...commitCases,
  forgottenCommitCase,
  ...leavingCases,
  ...timeCases,
  ...isolationCases,
  ...controlCases,
  restartCase,
  ...outageCases,
];
