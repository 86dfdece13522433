/**
 * Data layers: the inbox sends its statements through them, and handlers receive their native transactions. None of
 * these libraries is imported.
 */
import { StablehooksError } from '../core/errors.js';
import { withMethods } from '../core/options.js';

export interface Queries {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

export interface DataLayer<Tx> extends Queries {
  /**
   * Commits when `work` resolves. If `work` rejects, it rolls back and rejects with the same error. Settles after
   * `work`.
   */
  transaction<Value>(work: (tx: Tx, queries: Queries) => Promise<Value>): Promise<Value>;
}

interface Parts<Tx, Db> {
  readonly db: Db;
  /** Sends one statement over `db`, or over a transaction, and resolves to its rows. */
  send(over: Db, text: string, values: unknown[]): Promise<readonly unknown[]>;
  /** Opens a transaction at READ COMMITTED. */
  begin<Value>(work: (tx: Tx) => Promise<Value>): PromiseLike<Value>;
  /** Returns the driver's error, without the values of the statement; `undefined` if the error is the driver's. */
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
        // The effect's own error is the reason; some data layers reject with the error of their ROLLBACK.
        await working;
        throw toDriverError(error);
      }
      // The transaction of Knex resolves when its handler rolls it back.
      return working as unknown as Promise<Value>;
    },
  };
}

/**
 * Whether a value is `neon(url)`, which sends each statement in an HTTP request. It is a function like postgres.js,
 * but has no `begin`.
 */
export const isNeonHttp = (value: unknown) =>
  typeof value === 'function' && 'transaction' in value && !('begin' in value);

/**
 * Returns the rows of a result. With `mysql2`, the result is an array of results, and the inbox uses the first. With
 * `neon(url)`, it is the array of rows.
 */
export const toRows = (result: unknown): readonly unknown[] =>
  Array.isArray(result) ? result : (result as { readonly rows: readonly unknown[] }).rows;

/** Whether a value is a single connection: a `Client` of `pg` or `@neondatabase/serverless`. */
export const isClient = withMethods('a Client', ['query', 'escapeLiteral']).accepts;

/**
 * Thrown for a statement after the handler has ended the transaction through its library, which then sends nothing
 * more.
 */
export class TransactionEnded extends StablehooksError {
  constructor() {
    super(
      'ERR_HANDLER_FAILED',
      "The handler ended its event's transaction. Return from the handler to commit, or throw to roll back. To roll back only a part, use a nested transaction or a SAVEPOINT.",
    );
  }
}
