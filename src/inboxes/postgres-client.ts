/** The pools that the Postgres inbox accepts, and the transactions of its handlers. */
import { type HandlerError, StablehooksError } from '../core/errors.js';
import { required, rule, withMethods } from '../core/options.js';
import { endedBeforeDone, endedByHandler, isAborted, isEnded, isNoSavepoint } from './postgres-errors.js';

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
   * when it rejects. Settles after `work`.
   *
   * @param work - receives `tx`, which handlers get, and `queries`, which sends statements in the same transaction
   * (default: `tx` itself, which then has `query`).
   */
  transaction<Value>(work: (tx: Tx, queries?: PgLike) => Promise<Value>): Promise<Value>;
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

/** Whether a value is one connection: a `Client` of `pg` or `@neondatabase/serverless`. */
export const isClient = withMethods(POOLS, ['query', 'escapeLiteral']).accepts;

const has = (value: unknown, ...methods: readonly string[]) => withMethods(POOLS, methods).accepts(value);

/** The rule of what sends statements, whichever connection they go over. TypeORM has other results. */
export const QUERIES_RULE = required(
  rule(
    `an object with the method query(text, values): ${POOLS}`,
    (value) => has(value, 'query') && !has(value, 'getRepository'),
  ),
);

/** The rule of a pool, each of whose statements is a transaction of its own. */
export const POOL_RULE = required(
  rule(
    `${QUERIES_RULE.expected}; not a Client, whose connection can have a transaction open that undoes what was answered`,
    (value) => QUERIES_RULE.accepts(value) && !isClient(value),
  ),
);

/** The rule of a pool that must be able to open transactions. */
export const TRANSACTIONAL_POOL_RULE = required(
  rule(
    `able to open transactions, because \`transactional\` is true: ${POOLS}; not a Client`,
    (value) => POOL_RULE.accepts(value) && (has(value, 'connect') || has(value, 'transaction')),
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

/** Where this savepoint does not exist, the transaction that {@link runInTransaction} began has ended. */
const FENCE_SAVEPOINT = 'stablehooks_fence';

interface Statement {
  readonly text: string;
  readonly values: readonly (string | null)[];
}

/** The parts of the transaction of an event. */
export interface TransactionSteps<Tx> {
  /** The first statement. Fails if the transaction must not go on. */
  readonly begin: Statement;
  /** The last statement before COMMIT. */
  readonly complete: Statement;
  /** Runs the handler. */
  effect(tx: Tx): Promise<void>;
}

/**
 * Runs the steps in a transaction at READ COMMITTED. Rolls back and rejects with the error of a step that fails, or with a
 * `PermanentError` if the handler had ended the transaction.
 *
 * @returns whether the server is known to have committed: it answers COMMIT with ROLLBACK, and no error, when a
 * statement before it failed.
 */
export async function runInTransaction<Tx>(
  pool: PgTransactional<Tx>,
  steps: TransactionSteps<Tx>,
): Promise<boolean> {
  if (!('transaction' in pool)) return runOnClient(pool, steps);
  await pool.transaction(async (tx, adapted) => {
    const native = tx as Tx & PgLike & { readonly closed?: boolean };
    if (!adapted) await native.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE');
    const queries = adapted ?? {
      async query(text, values) {
        // The handler called `rollback()` of PGlite, which sends nothing more.
        if (native.closed) throw endedByHandler();
        return native.query(text, values);
      },
    };
    const { begin, complete } = steps;
    await queries.query(`SAVEPOINT ${FENCE_SAVEPOINT}`);
    await queries.query(begin.text, [...begin.values]);
    await finish(
      queries,
      () => steps.effect(tx),
      () => queries.query(complete.text, [...complete.values]),
    );
  });
  return false;
}

/** Over a client of `pg` the statements before and after the handler take one round trip each. */
async function runOnClient<Tx>(
  pool: PgPoolLike<Tx>,
  { begin, complete, effect }: TransactionSteps<Tx>,
): Promise<boolean> {
  const client = await pool.connect();
  const { tx, close } = lend(client);
  let broken: Error | undefined;
  // A checked-out client has no other listener, and an 'error' event without a listener ends the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  try {
    // The pool closes a connection on which no transaction can begin.
    await client
      .query(
        `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SAVEPOINT ${FENCE_SAVEPOINT}; ${inline(begin)}`,
      )
      .catch((error: Error) => {
        onError(error);
        throw error;
      });
    await finish(
      client,
      () => effect(tx).finally(close),
      () => client.query(`${inline(complete)}; COMMIT`),
    );
    return true;
  } catch (error) {
    if (broken === undefined) await client.query('ROLLBACK').catch(onError);
    throw error;
  } finally {
    client.release(broken);
    // A client that is being closed can still emit an error.
    if (broken === undefined) client.removeListener('error', onError);
  }
}

/** Runs the handler and completes its event. */
async function finish(
  queries: PgLike,
  effect: () => Promise<void>,
  complete: () => Promise<unknown>,
): Promise<void> {
  try {
    await effect();
  } catch (cause) {
    throw (await hasEnded(queries)) ? endedBeforeDone({ cause }) : cause;
  }
  try {
    await complete();
  } catch (cause) {
    if (isEnded(cause) || (isAborted(cause) && (await hasEnded(queries)))) throw endedBeforeDone({ cause });
    throw cause;
  }
}

/** Whether the transaction of the event has ended. A lost connection has rolled it back. */
async function hasEnded(queries: PgLike): Promise<boolean> {
  try {
    await queries.query(`ROLLBACK TO SAVEPOINT ${FENCE_SAVEPOINT}`);
    return false;
  } catch (error) {
    return isNoSavepoint(error);
  }
}

/** The statement with its values as literals: several statements in one text can have no parameters. */
function inline({ text, values }: Statement): string {
  return text.replaceAll(/\$(\d+)/g, (_, index) => toLiteral(values[index - 1] ?? null));
}

/** A text as a literal that no value can end, whatever `standard_conforming_strings` is. */
export function toLiteral(value: string | null): string {
  return value === null ? 'NULL' : `E'${value.replaceAll(/['\\]/g, '$&$&')}'`;
}

/**
 * The client as a handler gets it. After its end a statement would reach whatever transaction the connection has then,
 * so it is refused.
 */
function lend<Client extends PgClientLike>(client: Client): { readonly tx: Client; close(): void } {
  let isClosed = false;
  const native = client as { query(...args: readonly unknown[]): unknown };
  const query = (...args: readonly unknown[]) => {
    if (!isClosed) return native.query(...args);
    const callback = args.at(-1);
    return typeof callback === 'function' ? callback(sentLate()) : Promise.reject(sentLate());
  };
  const release = () => {
    throw new StablehooksError('ERR_HANDLER_FAILED', 'The inbox releases the connection of ctx.tx.');
  };
  const close = () => {
    isClosed = true;
  };
  return { tx: Object.create(client, { query: { value: query }, release: { value: release } }), close };
}

/** The error of a statement that a handler sends after its transaction has ended. */
export function sentLate(): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'The transaction has ended and the statement was not sent. Await every statement in the handler.',
  );
}
