import { PermanentError } from '../core/errors.js';
import { required, rule, withMethods } from '../core/options.js';
import { endedByHandler, isCommitRefusal, rethrowCommitError } from './postgres-errors.js';
import {
  type GuardedTransaction,
  guardClient,
  guardQueries,
  isCommit,
  type TransactionWatch,
  toGuarded,
} from './postgres-guard.js';

/** Sends statements. Pools of `pg` and `@neondatabase/serverless` and a PGlite need no adapter. */
export interface PgLike {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A pool that lends clients: `Pool` of `pg` or `@neondatabase/serverless`. */
export interface PgPoolLike<Client = PgClientLike> extends PgLike {
  connect(): Promise<Client & PgClientLike>;
  // The drivers declare this one, too; without it TypeScript does not infer `Client`.
  connect(callback: (error: Error | undefined, client: never, done: () => void) => void): void;
}

/** One connection of a pool. */
export interface PgClientLike extends PgLike {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Returns the client to the pool; with an error, the pool closes it. */
  release(error?: Error): void;
}

/**
 * A data layer that opens transactions itself: PGlite, and what `fromDrizzle`, `fromKysely`, `fromKnex`,
 * `fromTypeOrm`, `fromPrisma` and `fromPostgresJs` return.
 */
export interface PgTransactionsLike<Tx = PgTx> extends PgLike {
  /**
   * Opens a transaction at READ COMMITTED. Commits when `work` resolves; rolls back and rejects with the same error
   * when it rejects.
   *
   * @param work - gets `tx`, which handlers get, and `queries`, which sends statements in the same transaction
   * (default: `tx` itself, which then has `query`).
   */
  transaction<Value>(work: (tx: Tx, queries?: PgTransactionQueries) => Promise<Value>): Promise<Value>;
}

/** Sends the statements of the inbox in the transaction of a handler, and can say what became of it. */
export interface PgTransactionQueries extends PgLike, Partial<TransactionWatch> {
  /**
   * Whether the server answered COMMIT with COMMIT: it answers ROLLBACK, and no error, when a statement before had failed.
   * Where that is not known, the inbox reads after the COMMIT whether the event is done.
   */
  hasCommitted?(): boolean;
}

/** Can open transactions, which handlers get as `Tx`. */
export type PgTransactional<Tx> = PgPoolLike<Tx> | PgTransactionsLike<Tx>;

/** The open transaction that a handler gets as `ctx.tx`. */
export interface PgTx {
  /** Sends one statement in the transaction; rejects after the transaction has ended. */
  query<Row = Readonly<Record<string, unknown>>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Row[] }>;
}

const POOLS =
  'a Pool of pg or @neondatabase/serverless, a PGlite, or fromPostgresJs(sql), fromDrizzle(db), fromKysely(db), fromKnex(knex), fromTypeOrm(dataSource) or fromPrisma(prisma) of your data layer';
const WITH_QUERY = withMethods(POOLS, ['query']);
const WITH_CLIENTS = withMethods(POOLS, ['query', 'connect']);
const WITH_TRANSACTIONS = withMethods(POOLS, ['query', 'transaction']);
/** A `DataSource` and an `EntityManager` of TypeORM have other results. The other data layers have no `query`. */
const OF_TYPEORM = withMethods(POOLS, ['query', 'getRepository']);
/** A `Client` of `pg` or `@neondatabase/serverless`, and one that a pool has lent. */
const CLIENT = withMethods(POOLS, ['query', 'escapeLiteral']);

/** Whether a value is one connection, and no pool. */
export const isClient = CLIENT.accepts;

/** Why one connection is refused, and what to pass. */
export const ONE_CLIENT =
  'a Client has one connection, which transactions cannot share with other statements. Pass a Pool.';

const NOT_A_CLIENT =
  'not a Client, whose connection can have a transaction of others open, which would undo what the inbox has answered';

/** The rule of what sends statements, whichever connection they go over. */
export const QUERIES_RULE = required(
  rule(
    `an object with the method query(text, values): ${POOLS}`,
    (value) => WITH_QUERY.accepts(value) && !OF_TYPEORM.accepts(value),
  ),
);

/** The rule of a pool, each of whose statements is a transaction of its own. */
export const POOL_RULE = required(
  rule(
    `${QUERIES_RULE.expected}; ${NOT_A_CLIENT}`,
    (value) => QUERIES_RULE.accepts(value) && !isClient(value),
  ),
);

/** The rule of a pool that must be able to open transactions. */
export const TRANSACTIONAL_POOL_RULE = required(
  rule(
    `able to open transactions, because \`transactional\` is true: ${POOLS}; ${NOT_A_CLIENT}`,
    (value) => POOL_RULE.accepts(value) && (WITH_CLIENTS.accepts(value) || WITH_TRANSACTIONS.accepts(value)),
  ),
);

/** Sends one statement and returns its rows, whose type the SQL determines. */
export async function queryRows<Row>(
  client: PgLike,
  text: string,
  values: unknown[] = [],
): Promise<readonly Row[]> {
  const { rows } = await client.query(text, values);
  return rows as readonly Row[];
}

/** A transaction that is open. */
export interface OpenTransaction<Tx> extends GuardedTransaction<Tx> {
  /** Sends the statements of the inbox in it. */
  readonly queries: PgLike;
  /** Whether it has the savepoint {@link FENCE_SAVEPOINT} already. */
  readonly hasSavepoint: boolean;
}

/** Only the transaction of the event has it: where it does not exist, that transaction has ended. */
export const FENCE_SAVEPOINT = 'stablehooks_fence';

/**
 * Runs `work` in a transaction at READ COMMITTED: commits when it resolves, rolls back and rejects with its error
 * otherwise. Rejects with a `HandlerError` when what the handler wrote is the reason that COMMIT failed.
 *
 * @returns whether the server is known to have committed.
 */
export async function runInTransaction<Tx>(
  pool: PgTransactional<Tx>,
  work: (transaction: OpenTransaction<Tx>) => Promise<void>,
): Promise<boolean> {
  let working: Promise<void> | undefined;
  let hasWorked = false;
  const tracked: typeof work = (transaction) => {
    working = work(transaction).then(() => {
      hasWorked = true;
    });
    return working;
  };
  try {
    const hasCommitted = await ('transaction' in pool
      ? runOnDataLayer(pool, tracked)
      : runOnClient(pool, tracked));
    if (hasWorked) return hasCommitted;
  } catch (error) {
    // It can have a refused COMMIT as its cause, and what followed that may have taken effect.
    if (error instanceof PermanentError) throw error;
    if (hasWorked || isCommitRefusal(error)) rethrowCommitError(error);
    throw error;
  }
  // The transaction of Knex resolves when a handler rolls it back.
  const error = await working?.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  throw error instanceof PermanentError ? error : endedByHandler({ cause: error });
}

async function runOnDataLayer<Tx>(
  layer: PgTransactionsLike<Tx>,
  work: (transaction: OpenTransaction<Tx>) => Promise<void>,
): Promise<boolean> {
  let watched: PgTransactionQueries | undefined;
  await layer.transaction(async (tx, queries) => {
    watched = queries;
    if (queries !== undefined) return work({ ...toGuarded(tx, queries), queries, hasSavepoint: false });
    const own = tx as Tx & PgLike;
    await own.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE');
    return work({ ...guardQueries(tx), queries: own, hasSavepoint: false });
  });
  return watched?.hasCommitted?.() ?? false;
}

async function runOnClient<Tx>(
  pool: PgPoolLike<Tx>,
  work: (transaction: OpenTransaction<Tx>) => Promise<void>,
): Promise<boolean> {
  const client = await pool.connect();
  const guarded = guardClient(client);
  let broken: Error | undefined;
  // A checked-out client has no other listener, and an 'error' event without a listener ends the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    // One text, so that the savepoint costs no round trip.
    await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SAVEPOINT ${FENCE_SAVEPOINT}`);
    await work({ ...guarded, queries: client, hasSavepoint: true });
    // What the handler left on the connection below `tx` can fail after the last statement of the inbox.
    return isCommit(await client.query('COMMIT'));
  } catch (error) {
    // ROLLBACK would wait for a statement that still runs; closing the connection rolls back, too.
    if (guarded.isRunning())
      broken ??= new Error('A statement was still running when the transaction ended.');
    if (broken === undefined) await client.query('ROLLBACK').catch(onError);
    throw error;
  } finally {
    client.release(broken);
    // A client that is being closed can still emit an error.
    if (broken === undefined) client.removeListener('error', onError);
  }
}
