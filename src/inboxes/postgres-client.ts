/** The pools that the Postgres inbox accepts, and the transactions of its handlers. */
import { required, rule, withMethods } from '../core/options.js';
import type { Runtime } from '../core/runtime.js';
import { isClient, isNeonHttp, type Queries, TransactionEnded, toRows } from './adapt.js';
import { endedByHandler, lend } from './lend.js';
import { isAborted, isEnded, rolledBackAtCommit } from './postgres-errors.js';
import { LIMIT, SETTINGS } from './postgres-expressions.js';
import { orClose } from './server-inbox.js';
import type { Statement } from './statements.js';

/** Sends statements. A PGlite and a pool from `pg` or `@neondatabase/serverless` need no adapter. */
export interface PgLike extends Queries {}

/** A pool that lends clients: the `Pool` from `pg` or `@neondatabase/serverless`. */
export interface PgPoolLike<Client = PgClientLike> extends PgLike {
  connect(): Promise<Client & PgClientLike>;
  // The drivers declare this overload as well; without it, TypeScript does not infer `Client`.
  connect(callback: (error: Error | undefined, client: never, done: () => void) => void): void;
}

/** One connection of a pool. */
export interface PgClientLike extends PgLike {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Returns the client to the pool. If an error is given, the pool closes the client. */
  release(error?: Error): void;
}

/**
 * A data layer that opens transactions itself: a PGlite, or the result of `fromDrizzle`, `fromKysely`, `fromKnex`,
 * `fromTypeOrm`, `fromPrisma` or `fromPostgresJs`.
 */
export interface PgTransactionsLike<Tx = PgTx> extends PgLike {
  /**
   * Runs `work` in a transaction at READ COMMITTED, and commits when `work` resolves. If `work` rejects, the transaction is
   * rolled back and the returned promise rejects with the same error. That promise never settles before `work` does.
   *
   * @param work - receives `tx`, which is passed to handlers, and `queries`, which sends statements in the same
   * transaction. If there is no `queries`, `tx` itself must have the method `query`.
   */
  transaction<Value>(work: (tx: Tx, queries?: PgLike) => Promise<Value>): Promise<Value>;
}

/** A pool or data layer that can open transactions. Handlers receive a transaction as `Tx`. */
export type PgTransactional<Tx> = PgPoolLike<Tx> | PgTransactionsLike<Tx>;

/** The open transaction that a handler receives as `ctx.tx`. */
export interface PgTx {
  /** Sends one statement in the transaction. Rejects if the transaction has ended. */
  query<Row = Readonly<Record<string, unknown>>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Row[] }>;
}

const POOLS =
  'a Pool from pg or @neondatabase/serverless, a PGlite, or your data layer wrapped in fromPostgresJs(sql), fromDrizzle(db), fromKysely(db), fromKnex(knex), fromTypeOrm(dataSource) or fromPrisma(prisma)';

const has = (value: unknown, method: string) => withMethods(POOLS, [method]).accepts(value);

/** Accepts a value that sends statements, even a single connection. TypeORM returns its results in another form. */
export const QUERIES_RULE = required(
  rule(POOLS, (value) => has(value, 'query') && !has(value, 'getRepository')),
);

/** Accepts a pool, but not a single connection. If `transactional` is true, the pool must support transactions. */
export const poolRule = (transactional: boolean) =>
  required(
    rule(
      `${POOLS}, and not a Client, because other code could have a transaction open on that Client, and a rollback would undo what the inbox has confirmed${transactional ? '. The pool must support transactions, so for Neon, pass a Pool from Neon (drizzle-orm/neon-serverless) and not neon(url)' : ''}`,
      (value) =>
        QUERIES_RULE.accepts(value) &&
        !isClient(value) &&
        (!transactional || has(value, 'connect') || (has(value, 'transaction') && !isNeonHttp(value))),
    ),
  );

/** What runs in an event's transaction. */
export interface TransactionParts<Tx> {
  /** The first statement. Returns no row if the transaction must not continue. */
  readonly begin: Statement;
  /**
   * The time limit of the transaction, in ms, if its first statement is prepared. Other first statements set the limit
   * themselves.
   */
  readonly limitMs: number | undefined;
  /** The last statement, which completes an event with a key. The returned row contains `null` if the lease is lost. */
  readonly complete: Statement | undefined;
  effect(tx: Tx): Promise<void>;
}

/** Thrown inside a transaction to roll it back, because the handler must not run or the lease is lost. */
export const REFUSED = new Error('The event is already stored or running, or its lease is lost.');

/** A savepoint that exists as long as the transaction that the inbox began. */
const SAVEPOINT = 'SAVEPOINT stablehooks';

/** Succeeds only in the transaction that the inbox began, and only if no statement has failed in that transaction. */
const CHECK = `RELEASE ${SAVEPOINT}`;

/**
 * Runs the parts in a transaction at READ COMMITTED. If a part fails, the transaction is rolled back and the promise
 * rejects with the error of that part. The promise rejects with {@link REFUSED} if the transaction must not continue, and
 * with a `PermanentError` if the handler ended the transaction itself.
 *
 * @returns whether the server is known to have committed. A data layer can't tell, because the server responds to COMMIT
 * with ROLLBACK, and not with an error, if an earlier statement failed.
 */
export async function runInTransaction<Tx>(
  pool: PgTransactional<Tx>,
  parts: TransactionParts<Tx>,
  runtime: Runtime,
): Promise<boolean> {
  if (!('transaction' in pool)) return runOnClient(pool, parts, runtime);
  await pool.transaction(async (tx, adapted) => {
    const pglite = tx as Tx & PgLike & { readonly closed?: boolean };
    if (!adapted) await pglite.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED');
    const queries = adapted ?? pglite;
    await queries.query(SAVEPOINT);
    if ((await send(queries, parts.begin)).length === 0) throw REFUSED;
    await runEffect(queries, tx, parts.effect);
    // The handler called PGlite's `rollback()`. After that, PGlite sends nothing more.
    if (!adapted && pglite.closed) throw new TransactionEnded();
    await check(queries);
    await complete(queries, parts.complete);
  });
  return false;
}

/** Sends each statement over a connection from a pool. Closes the connection if it fails or doesn't respond. */
export function overPool(pool: PgPoolLike<unknown>, runtime: Runtime): PgLike {
  return {
    async query(...statement) {
      const client = await pool.connect();
      // Nothing to do here, because the statement fails as well.
      const onError = () => undefined;
      client.on('error', onError);
      try {
        const result = await orClose(client.query(...statement), onError, runtime);
        client.removeListener('error', onError);
        client.release();
        return result;
      } catch (error) {
        client.release(error as Error);
        throw error;
      }
    },
  };
}

async function runOnClient<Tx>(
  pool: PgPoolLike<Tx>,
  parts: TransactionParts<Tx>,
  runtime: Runtime,
): Promise<boolean> {
  const client = await pool.connect();
  const { tx, close } = lend(client, ['query']);
  let broken: Error | undefined;
  let onLost: (error: Error) => void = () => undefined;
  // A checked-out client has no other listener, and an unhandled 'error' event ends the process.
  const onError = (error: Error) => {
    broken = error;
    onLost(error);
  };
  client.on('error', onError);
  const queries: PgLike = { query: (...statement) => orClose(client.query(...statement), onError, runtime) };
  try {
    if ((await orClose(start(client, parts), onError, runtime)).length === 0) throw REFUSED;
    // A hanging handler must not keep a connection that the server has closed.
    await new Promise<void>((resolve, reject) => {
      onLost = reject;
      runEffect(queries, tx, parts.effect).then(resolve, reject);
    }).finally(close);
    if (parts.complete === undefined) return await commit(queries, `${CHECK}; COMMIT`);
    await check(queries);
    await complete(queries, parts.complete);
    return await commit(queries, 'COMMIT');
  } catch (error) {
    if (broken === undefined) await queries.query('ROLLBACK').catch(onError);
    throw error;
  } finally {
    client.release(broken);
    // A client that is being closed may still emit an error.
    if (broken === undefined) client.removeListener('error', onError);
  }
}

const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED; ${SAVEPOINT}`;

/** For each connection, maps its prepared statements to the SET statements that a transaction sends before them. */
const PREPARED = new WeakMap<object, Map<string, string>>();

/** Begins a transaction, and returns the rows of its first statement. A named statement is sent together with BEGIN. */
async function start(
  client: PgClientLike,
  { begin, limitMs }: Pick<TransactionParts<unknown>, 'begin' | 'limitMs'>,
): Promise<readonly unknown[]> {
  const { name, text, values } = begin;
  if (name === undefined) {
    await client.query(BEGIN);
    return send(client, begin);
  }
  const prepared = PREPARED.get(client) ?? new Map<string, string>();
  PREPARED.set(client, prepared);
  let settings = prepared.get(name);
  if (settings === undefined) {
    const [row] = await sendTogether(client, `PREPARE "${name}" AS ${text}; ${SETTINGS}`);
    settings = (row as { readonly set: string }).set;
    prepared.set(name, settings);
  }
  const set = settings.replaceAll(LIMIT, String(limitMs));
  return sendTogether(client, `${BEGIN}; ${set} EXECUTE "${name}"(${values.map(toLiteral).join()})`);
}

/** Sends several statements in one message, and returns the rows of the last one. */
async function sendTogether(client: PgClientLike, text: string): Promise<readonly unknown[]> {
  const results: unknown = await client.query(text);
  return (results as { readonly rows: readonly unknown[] }[]).at(-1)?.rows ?? [];
}

/** In a literal of this form, only quotes and backslashes have a special meaning, whatever the session's settings are. */
const toLiteral = (value: unknown) => `E'${String(value).replaceAll(/['\\]/g, '$&$&')}'`;

/** Sends one or more statements in one message. The last statement must be COMMIT. */
async function commit(client: PgLike, text: string): Promise<true> {
  const results: unknown = await check(client, text);
  const last = (Array.isArray(results) ? results.at(-1) : results) as { readonly command?: string };
  if (last.command !== 'COMMIT') throw rolledBackAtCommit();
  return true;
}

async function runEffect<Tx>(queries: PgLike, tx: Tx, effect: TransactionParts<Tx>['effect']): Promise<void> {
  try {
    await effect(tx);
  } catch (cause) {
    throw (await hasEnded(queries)) ? endedByHandler(cause) : cause;
  }
}

async function check(queries: PgLike, text = CHECK): Promise<unknown> {
  try {
    return await queries.query(text);
  } catch (error) {
    throw isAborted(error) && (await hasEnded(queries)) ? endedByHandler(error) : error;
  }
}

/** Whether the inbox's own transaction has ended. Works after a failed statement. `false` if the connection is lost. */
function hasEnded(queries: PgLike): Promise<boolean> {
  return queries.query(`ROLLBACK TO ${SAVEPOINT}`).then(() => false, isEnded);
}

async function complete(queries: PgLike, statement: Statement | undefined): Promise<void> {
  if (statement === undefined) return;
  const [row] = (await send(queries, statement)) as readonly { readonly ended: string | null }[];
  if (row?.ended == null) throw REFUSED;
}

export async function send(queries: PgLike, { text, values, name }: Statement): Promise<readonly unknown[]> {
  // Named statements are sent only over `pg`.
  const pg = queries as unknown as { query(named: Statement): ReturnType<PgLike['query']> };
  return toRows(await (name === undefined ? queries.query(text, values) : pg.query({ text, values, name })));
}
