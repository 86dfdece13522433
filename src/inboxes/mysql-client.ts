/** The pools that the MySQL inbox accepts, and the transactions of its handlers. */
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

/** A pool of `mysql2/promise`. */
export interface MysqlPoolLike<Connection = MysqlConnectionLike> {
  getConnection(): Promise<Connection & MysqlConnectionLike>;
}

/** A data layer that opens transactions: the result of `fromDrizzle`, `fromKysely`, `fromKnex` or `fromTypeOrm`. */
export interface MysqlTransactionsLike<Tx> extends DataLayer<Tx> {}

/** Can open transactions, which handlers receive as `Tx`. */
export type MysqlTransactional<Tx> = MysqlPoolLike<Tx> | MysqlTransactionsLike<Tx>;

const POOLS =
  "a pool of mysql2/promise (createPool), or fromDrizzle(db), fromKysely(db), fromKnex(knex) or fromTypeOrm(dataSource) from 'stablehooks/inboxes/mysql', and not a single connection";

/** The rule for the option `pool`. A connection of `mysql2` has `promise` or `query`, but no `getConnection`. */
export const POOL_RULE = required(
  rule(
    POOLS,
    (value) =>
      withMethods(POOLS, ['getConnection']).accepts(value) ||
      withMethods(POOLS, ['query', 'transaction']).accepts(value),
  ),
);

export interface Mysql<Tx> extends Queries {
  /** Whether transactions still have to be begun, and connections can be closed by a method. */
  readonly isPool: boolean;
  /** Lends a connection to `work`, which leaves no transaction open on it. */
  transaction<Value>(work: (tx: Tx, session: Session) => Promise<Value>): Promise<Value>;
}

interface Session extends Queries {
  /** Refuses later statements of the handler, and returns what was refused while it ran. */
  close(): HandlerError | undefined;
  destroy(): unknown;
}

/** The methods that begin or end the transaction of a connection of `mysql2`, or of Knex. */
const CONTROL = ['beginTransaction', 'commit', 'rollback'];

/** @param runtime - limits how long a statement may take. @default no limit, for migrations */
export function toMysql<Tx>(pool: MysqlTransactional<Tx>, runtime?: Runtime): Mysql<Tx> {
  if ('getConnection' in pool) return overPool(pool, runtime);
  return {
    isPool: false,
    ...toQueries(pool),
    transaction: (work) =>
      pool.transaction((given, layer) => {
        const { query } = toQueries(layer);
        // Knex's own methods would return the connection to the pool as it is.
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
        // It may have an open transaction, or its server has become read-only. The next connection reaches the new primary.
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
        // Does nothing to a connection that was destroyed.
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

/**
 * A statement whose texts need no escapes, because all other texts are in base64. A session with NO_BACKSLASH_ESCAPES does
 * not understand the drivers' escapes, and a quote in a payload would end its text.
 */
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

/**
 * The first rows of a result, which may include a description of its columns. CALL returns an array of results and a header.
 */
function firstRows(result: unknown): readonly object[] {
  const [first] = Array.isArray(result) ? result : [result];
  if (Array.isArray(first)) return firstRows(first);
  const isHeader = !Array.isArray(result) || 'fieldCount' in Object(first);
  return isHeader ? [] : result.map(decode);
}

/** The row with texts for its binary columns, which compare by bytes. */
function decode(row: object): object {
  const columns = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? new TextDecoder().decode(value) : value,
  ]);
  return Object.fromEntries(columns);
}

export interface TransactionParts<Tx> {
  /** Like `complete`, returns whether the event's lease is still held. */
  readonly begin: Statement;
  /** Whether there is a lease. A rehearsal has none, and its effect always rejects. */
  readonly needsLease: boolean;
  /** Commits, and restores the connection. */
  readonly complete: Statement;
  /** Rolls back, restores the connection, and returns whether the transaction had ended. */
  readonly undo: Statement;
  effect(tx: Tx): Promise<void>;
}

export const LEASE_LOST = new Error('The lease is lost.');

/**
 * Runs the parts in a transaction. Rolls back and rejects with the error of a part, {@link LEASE_LOST}, or a `PermanentError` if
 * the handler ended the transaction. A connection that cannot be restored is closed.
 */
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
      // A deadlock rolls the whole transaction back.
      const hasEnded = isRunning ? Number(row?.ended) === 1 && !hasErrno(cause, 1213) : isNoSavepoint(cause);
      throw hasEnded ? endedByHandler(cause) : cause;
    }
  });
  // After the completion, the COMMIT of a data layer has no meaning.
  await running.catch((error) => {
    if (!isComplete) throw error;
  });
}

async function assertLeased(queries: Queries, { text, values }: Statement): Promise<void> {
  const { rows } = await queries.query(text, values);
  const [row] = rows as readonly { readonly leased: number }[];
  if (Number(row?.leased) !== 1) throw LEASE_LOST;
}

/** Whether an error or one of its causes has one of these numbers of the server. */
function hasErrno(error: unknown, ...numbers: readonly number[]): boolean {
  const { errno, cause } = Object(error) as { readonly errno?: number; readonly cause?: unknown };
  return (
    (errno !== undefined && numbers.includes(errno)) || (cause !== undefined && hasErrno(cause, ...numbers))
  );
}

/**
 * Whether an operation must be sent again, because it was the victim of a deadlock or met another claim of a free
 * key.
 */
export const isConflict = (error: unknown) => hasErrno(error, 1213, 1062);

/** Whether the connection had an open transaction. */
export const isLeftOpen = (error: unknown) => hasErrno(error, 1568);

/** Whether the server refuses to write: it has become a replica, or was set to read-only. */
export const isReadOnly = (error: unknown) => hasErrno(error, 1290, 1792, 1836);

/** Whether a table, a procedure or the database of the inbox does not exist. */
export const isNotMigrated = (error: unknown) =>
  hasErrno(error, 1146, 1046) || (hasErrno(error, 1305) && !isNoSavepoint(error));

/** A missing procedure has the same number. */
const isNoSavepoint = (error: unknown) => hasErrno(error, 1305) && /SAVEPOINT/i.test(String(error));
