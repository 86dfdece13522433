/** Adapts data layers such as Drizzle without importing their libraries. */
import { StablehooksError } from '../core/errors.js';
import { withMethods } from '../core/options.js';

export interface Queries {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>;
}

export interface DataLayer<Tx> extends Queries {
  /**
   * Runs `work` in a transaction, and commits when `work` resolves. If `work` rejects, rolls the transaction back and
   * rejects with the same error. The returned promise never settles before `work` does.
   */
  transaction<Value>(work: (tx: Tx, queries: Queries) => Promise<Value>): Promise<Value>;
}

interface Parts<Tx, Db> {
  readonly db: Db;
  send(over: Db, text: string, values: unknown[]): Promise<readonly unknown[]>;
  /** Runs `work` in a transaction at READ COMMITTED. */
  begin<Value>(work: (tx: Tx) => Promise<Value>): PromiseLike<Value>;
  /** Returns the driver's error without the statement's values, or `undefined` if `error` is already the driver's error. */
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
        // Some data layers would reject with the error of their ROLLBACK instead of the error of `work`.
        await working;
        throw toDriverError(error);
      }
      // Knex resolves even if the handler has rolled the transaction back, so this function returns the result of `work`.
      return working as unknown as Promise<Value>;
    },
  };
}

/** Unlike the `sql` of postgres.js, the result of `neon(url)` has no method `begin`. */
export const isNeonHttp = (value: unknown) =>
  typeof value === 'function' && 'transaction' in value && !('begin' in value);

/** `neon(url)` returns an array of rows, and `mysql2` returns an array of results, the first of which contains the rows. */
export const toRows = (result: unknown): readonly unknown[] =>
  Array.isArray(result) ? result : (result as { readonly rows: readonly unknown[] }).rows;

/** Only a single `Client` from `pg` or `@neondatabase/serverless` has the method `escapeLiteral`. */
export const isClient = withMethods('a Client', ['query', 'escapeLiteral']).accepts;

/** Thrown for a statement that is sent after the handler has ended the transaction with a method of its data layer. */
export class TransactionEnded extends StablehooksError {
  constructor() {
    super(
      'ERR_HANDLER_FAILED',
      "The handler ended its event's transaction. Return from the handler to commit, or throw to roll back. To roll back only some statements, use a nested transaction or a SAVEPOINT.",
    );
  }
}
