import type { HandlerError } from '../core/errors.js';
import { required, rule, withMethods } from '../core/options.js';
import type { Runtime } from '../core/runtime.js';
import type { DataLayer, Queries } from './adapt.js';
import { endedByHandler, lend } from './lend.js';
import { EMPTY } from './mysql-sql.js';
import { orClose } from './server-inbox.js';
import type { Statement } from './statements.js';

/** A statement with options that override how the pool returns rows. */
export interface MysqlQuery {
  sql: string;
  values: unknown[];
  rowsAsArray: false;
  nestTables: false;
  typeCast: true;
}

/** One connection of a pool. */
export interface MysqlConnectionLike {
  query(options: MysqlQuery): Promise<readonly [unknown, unknown]>;
  execute(options: MysqlQuery): Promise<readonly [unknown, unknown]>;
  release(): void;
  destroy(): void;
}

/** A pool from `mysql2/promise`. */
export interface MysqlPoolLike<Connection = MysqlConnectionLike> {
  getConnection(): Promise<Connection & MysqlConnectionLike>;
}

/** A data layer that opens transactions: the result of `fromDrizzle`, `fromKysely`, `fromKnex` or `fromTypeOrm`. */
export interface MysqlTransactionsLike<Tx> extends DataLayer<Tx> {}

/** A pool or data layer that can open transactions. Handlers receive a transaction of the type `Tx`. */
export type MysqlTransactional<Tx> = MysqlPoolLike<Tx> | MysqlTransactionsLike<Tx>;

const POOLS =
  "a pool from mysql2/promise (createPool), or fromDrizzle(db), fromKysely(db), fromKnex(knex) or fromTypeOrm(dataSource) from 'stablehooks/inboxes/mysql', and not a single connection";

/** A single connection from `mysql2` has neither `getConnection` nor `transaction`. */
export const POOL_RULE = required(
  rule(
    POOLS,
    (value) =>
      withMethods(POOLS, ['getConnection']).accepts(value) ||
      withMethods(POOLS, ['query', 'transaction']).accepts(value),
  ),
);

export interface Mysql<Tx> extends Queries {
  /** With a pool, the inbox begins each transaction itself, and can close a connection. */
  readonly isPool: boolean;
  /** `work` must leave no transaction open on its connection. */
  transaction<Value>(work: (tx: Tx, session: Session) => Promise<Value>): Promise<Value>;
}

interface Session extends Queries {
  /** Rejects further statements from the handler. Returns the error of a call that was rejected while the handler ran. */
  close(): HandlerError | undefined;
  destroy(): unknown;
}

const CONTROL = ['beginTransaction', 'commit', 'rollback'];

/** @param runtime - limits how long a statement can take. @default no limit, for migrations */
export function toMysql<Tx>(pool: MysqlTransactional<Tx>, runtime?: Runtime): Mysql<Tx> {
  if ('getConnection' in pool) return overPool(pool, runtime);
  return {
    isPool: false,
    ...toQueries(pool),
    transaction: (work) =>
      pool.transaction((given, layer) => {
        const { query } = toQueries(layer);
        // Knex's own methods would return the connection to the pool before its `autocommit` is restored.
        const isKnex = 'commit' in Object(given);
        const lent = isKnex ? lend(given as Tx & object, [], CONTROL) : { tx: given, close: () => undefined };
        const destroy = () => query('KILL CONNECTION_ID()').catch(() => undefined);
        return work(lent.tx, { query, close: lent.close, destroy });
      }),
  };
}

const toQueries = (layer: Queries): Queries => ({
  async query(text, values) {
    const { rows } = await layer.query(...withoutEscapes(text, values));
    return { rows: firstRows(rows) };
  },
});

function overPool<Tx>(pool: MysqlPoolLike<Tx>, runtime: Runtime | undefined): Mysql<Tx> {
  function sendOver(connection: MysqlConnectionLike, text: string, values?: unknown[]) {
    const answer = send(connection, text, values);
    return runtime ? orClose(answer, () => connection.destroy(), runtime) : answer;
  }
  return {
    isPool: true,
    async query(text, values) {
      const connection = await pool.getConnection();
      try {
        const answer = await sendOver(connection, text, values);
        connection.release();
        return answer;
      } catch (error) {
        // A new connection has no open transaction, and reaches the new primary if this server has become read-only.
        if (isConflict(error)) connection.release();
        else connection.destroy();
        throw error;
      }
    },
    async transaction(work) {
      const connection = await pool.getConnection();
      const lent = lend(connection, ['query', 'execute'], CONTROL);
      const query: Queries['query'] = (text, values) => sendOver(connection, text, values);
      try {
        return await work(lent.tx, { query, close: lent.close, destroy: () => connection.destroy() });
      } finally {
        // This call does nothing if the connection has been destroyed.
        connection.release();
      }
    },
  };
}

async function send(connection: MysqlConnectionLike, text: string, given?: unknown[]) {
  const [sql, values] = withoutEscapes(text, given);
  const [result] = await connection.query({
    sql,
    values,
    rowsAsArray: false,
    nestTables: false,
    typeCast: true,
  });
  return { rows: firstRows(result) };
}

/** Encodes texts in base64 if they need escapes, because a session with NO_BACKSLASH_ESCAPES misreads those escapes. */
function withoutEscapes(text: string, values: readonly unknown[] = []): [text: string, values: unknown[]] {
  const isPlain = (value: unknown) => typeof value !== 'string' || /^[\w .:-]+$/.test(value);
  let at = 0;
  const sql = text.replaceAll('?', () => {
    const value = values[at++];
    if (value === '') return EMPTY;
    return isPlain(value) ? '?' : 'CONVERT(FROM_BASE64(?) USING utf8mb4)';
  });
  const sent = values.filter((value) => value !== '');
  return [sql, sent.map((value) => (isPlain(value) ? value : Buffer.from(`${value}`).toString('base64')))];
}

/** CALL returns an array of results and a header. */
function firstRows(result: unknown): readonly object[] {
  const [first] = Array.isArray(result) ? result : [result];
  if (Array.isArray(first)) return firstRows(first);
  const isHeader = !Array.isArray(result) || 'fieldCount' in Object(first);
  return isHeader ? [] : result.map(decode);
}

/** Names and keys are binary columns, so that they compare by bytes. */
function decode(row: object): object {
  const columns = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new TextDecoder().decode(value) : value,
  ]);
  return Object.fromEntries(columns);
}

export interface TransactionParts<Tx> {
  /** Like `complete`, this statement returns whether the event's lease is still held. */
  readonly begin: Statement;
  /** A rehearsal has no lease, and its effect always rejects. */
  readonly needsLease: boolean;
  /** Completes the event, commits, and restores the connection's `autocommit`. */
  readonly complete: Statement;
  /** Rolls back, restores the connection's `autocommit`, and returns whether the transaction had already ended. */
  readonly undo: Statement;
  effect(tx: Tx): Promise<void>;
}

export const LEASE_LOST = new Error('The lease is lost.');

/** Rejects with {@link LEASE_LOST}, or with a `PermanentError` if the handler ended the transaction itself. */
export async function runInTransaction<Tx>(
  mysql: Mysql<Tx>,
  { begin, needsLease, complete, undo, effect }: TransactionParts<Tx>,
) {
  let isComplete = false;
  const running = mysql.transaction(async (tx, session) => {
    let isRunning = false;
    try {
      if (needsLease) await assertLeased(session, begin);
      else await session.query(begin.text, begin.values);
      isRunning = true;
      await effect(tx).finally(session.close);
      const refused = session.close();
      if (refused) throw refused;
      isRunning = false;
      await assertLeased(session, complete);
      isComplete = true;
    } catch (cause) {
      const { rows } = await session.query(undo.text, undo.values).catch(() => ({ rows: [] }));
      const [row] = rows as readonly { readonly ended: number }[];
      if (row === undefined || isLeftOpen(cause) || isReadOnly(cause)) await session.destroy();
      // After a deadlock, the server has rolled the transaction back, so the handler didn't end it.
      const hasEnded = isRunning ? Number(row?.ended) === 1 && !hasErrno(cause, 1213) : isNoSavepoint(cause);
      throw hasEnded ? endedByHandler(cause) : cause;
    }
  });
  // `complete` has already committed, so an error from the data layer's own COMMIT doesn't matter.
  await running.catch((error) => {
    if (!isComplete) throw error;
  });
}

async function assertLeased(queries: Queries, { text, values }: Statement): Promise<void> {
  const { rows } = await queries.query(text, values);
  const [row] = rows as readonly { readonly leased: number }[];
  if (Number(row?.leased) !== 1) throw LEASE_LOST;
}

/** Also checks the causes of the error. */
function hasErrno(error: unknown, ...numbers: readonly number[]): boolean {
  const { errno, cause } = Object(error) as { readonly errno?: number; readonly cause?: unknown };
  return (
    (errno !== undefined && numbers.includes(errno)) || (cause !== undefined && hasErrno(cause, ...numbers))
  );
}

/** The operation ended in a deadlock (1213), or another call claimed the same free key (1062). */
export const isConflict = (error: unknown) => hasErrno(error, 1213, 1062);

/** The connection already had an open transaction before the inbox used it. */
export const isLeftOpen = (error: unknown) => hasErrno(error, 1568);

/** The server has become a replica, or was set to read-only. */
export const isReadOnly = (error: unknown) => hasErrno(error, 1290, 1792, 1836);

export const isNotMigrated = (error: unknown) =>
  hasErrno(error, 1146, 1046) || (hasErrno(error, 1305) && !isNoSavepoint(error));

/** A missing procedure has the same error number as a missing savepoint. */
const isNoSavepoint = (error: unknown) => hasErrno(error, 1305) && /SAVEPOINT/i.test(String(error));
