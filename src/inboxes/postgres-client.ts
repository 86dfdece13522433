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
  // The drivers also declare this overload. Without it, TypeScript doesn't infer `Client`.
  connect(callback: (error: Error | undefined, client: never, done: () => void) => void): void;
}

/** One connection of a pool. */
export interface PgClientLike extends PgLike {
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
  /** Returns the client to the pool. If you pass an error, the pool closes the client instead of reusing it. */
  release(error?: Error): void;
}

/**
 * A data layer that opens transactions itself: a PGlite, or the result of `fromDrizzle`, `fromKysely`, `fromKnex`,
 * `fromTypeOrm`, `fromPrisma` or `fromPostgresJs`.
 */
export interface PgTransactionsLike<Tx = PgTx> extends PgLike {
  /**
   * Runs `work` in a transaction at READ COMMITTED, and commits when `work` resolves. If `work` rejects, rolls the
   * transaction back and rejects with the same error. The returned promise never settles before `work` does.
   *
   * @param work - receives `tx`, which is passed to handlers, and `queries`, which sends statements in the same transaction.
   * Without `queries`, `tx` itself must have the method `query`.
   */
  transaction<Value>(work: (tx: Tx, queries?: PgLike) => Promise<Value>): Promise<Value>;
}

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

/** This rule also accepts a single connection. */
export const QUERIES_RULE = required(
  rule(POOLS, (value) => has(value, 'query') && !has(value, 'getRepository')),
);

/** Rejects a single connection. If `transactional` is true, the pool must support transactions. */
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

export interface TransactionParts<Tx> {
  /** This statement returns no row if the transaction must not continue. */
  readonly begin: Statement;
  /**
   * This limit is in ms. It is set only if the first statement is prepared, because other first statements set the limit.
   */
  readonly limitMs: number | undefined;
  /** This statement completes an event with a key. The returned row contains `null` if the lease is lost. */
  readonly complete: Statement | undefined;
  effect(tx: Tx): Promise<void>;
}

export const REFUSED = new Error('The event is already stored or running, or its lease is lost.');

/** This savepoint exists only in the transaction that the inbox began. */
const SAVEPOINT = 'SAVEPOINT stablehooks';

/** This statement succeeds only in the transaction that the inbox began, and only if no statement in it has failed. */
const CHECK = `RELEASE ${SAVEPOINT}`;

/** Resolves to whether the server is known to have committed. A data layer can hide a ROLLBACK in response to COMMIT. */
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
    // The handler called PGlite's `rollback()`, after which PGlite sends nothing more.
    if (!adapted && pglite.closed) throw new TransactionEnded();
    await check(queries);
    await complete(queries, parts.complete);
  });
  return false;
}

/** Closes a connection if its statement fails or gets no response. */
export function overPool(pool: PgPoolLike<unknown>, runtime: Runtime): PgLike {
  return {
    async query(...statement) {
      const client = await pool.connect();
      // The statement fails as well, so there is nothing to do here.
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
  // A checked-out client has no other listener, and an unhandled 'error' event would end the process.
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

/** Sends a named statement together with BEGIN. */
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

/** Returns the rows of the last statement. */
async function sendTogether(client: PgClientLike, text: string): Promise<readonly unknown[]> {
  const results: unknown = await client.query(text);
  return (results as { readonly rows: readonly unknown[] }[]).at(-1)?.rows ?? [];
}

/** In a literal of this form, only quotes and backslashes are special, regardless of the session's settings. */
const toLiteral = (value: unknown) => `E'${String(value).replaceAll(/['\\]/g, '$&$&')}'`;

/** The last statement must be COMMIT. */
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

/** Works even after a failed statement. Resolves to `false` if the connection is lost. */
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
