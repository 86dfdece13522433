/**
 * Adapts data layers such as Drizzle. The inbox sends its statements through a data layer, and handlers receive the data
 * layer's own transactions. This code imports none of these libraries.
 */
import { StablehooksError } from '../core/errors.js';
import { withMethods } from '../core/options.js';

export interface Queries {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

export interface DataLayer<Tx> extends Queries {
  /**
   * Runs `work` in a transaction, and commits when `work` resolves. If `work` rejects, the transaction is rolled back and
   * the returned promise rejects with the same error. That promise never settles before `work` does.
   */
  transaction<Value>(work: (tx: Tx, queries: Queries) => Promise<Value>): Promise<Value>;
}

interface Parts<Tx, Db> {
  readonly db: Db;
  /** Sends one statement over `db` or over a transaction, and resolves to the rows that the statement returns. */
  send(over: Db, text: string, values: unknown[]): Promise<readonly unknown[]>;
  /** Runs `work` in a transaction at READ COMMITTED. */
  begin<Value>(work: (tx: Tx) => Promise<Value>): PromiseLike<Value>;
  /** Returns the driver's error without the statement's values, or `undefined` if `error` already is the driver's error. */
  unwrap?(error: Error): unknown;
}

export function adapt<Tx, Db>({ db, send, begin, unwrap }: Parts<Tx, Db>): DataLayer<Tx> {
  const toDriverError = (error: unknown) => unwrap?.(error as Error) ?? error;
  const toQueries = (over: Db): Queries => ({
    async query(text, values = []) {
      try {
        return { rows: await send(over, text, values) };
      } catch (error) {
        throw toDriverError(error);
      }
    },
  });
  return {
    ...toQueries(db),
    async transaction<Value>(work: (tx: Tx, queries: Queries) => Promise<Value>) {
      let working: Promise<Value> | undefined;
      try {
        await begin((tx) => {
          working = work(tx, toQueries(tx as unknown as Db));
          return working;
        });
      } catch (error) {
        // Rejects with the effect's own error. Some data layers reject with the error of their ROLLBACK instead.
        await working;
        throw toDriverError(error);
      }
      // Knex resolves even after the handler has rolled the transaction back, so the result of `work` counts.
      return working as unknown as Promise<Value>;
    },
  };
}

/**
 * Whether a value is the result of `neon(url)`, which sends each statement in its own HTTP request. Like the `sql` of
 * postgres.js, that result is a function, but it has no method `begin`.
 */
export const isNeonHttp = (value: unknown) =>
  typeof value === 'function' && 'transaction' in value && !('begin' in value);

/**
 * Returns the rows in a driver's result. An array is returned as it is: `neon(url)` returns an array of rows, and `mysql2`
 * returns an array of results, the first of which contains the rows.
 */
export const toRows = (result: unknown): readonly unknown[] =>
  Array.isArray(result) ? result : (result as { readonly rows: readonly unknown[] }).rows;

/** Whether a value is a single connection: a `Client` from `pg` or `@neondatabase/serverless`. */
export const isClient = withMethods('a Client', ['query', 'escapeLiteral']).accepts;

/**
 * Thrown for a statement that is sent after the handler has ended the transaction with a method of its data layer. From
 * then on, the data layer sends no statements.
 */
export class TransactionEnded extends StablehooksError {
  constructor() {
    super(
      'ERR_HANDLER_FAILED',
      "The handler ended its event's transaction. Return from the handler to commit, or throw to roll back. To roll back only some statements, use a nested transaction or a SAVEPOINT.",
    );
  }
}
