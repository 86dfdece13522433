/** What every data layer of the tests has. */
import pg from 'pg';
import type { PgPoolLike, PgTransactionsLike } from 'stablehooks/inboxes/postgres';

/** A pool of a data layer, and what a handler does with its transactions. */
export interface DataLayer<Tx> {
  /** The pool as `postgresInbox` takes it. */
  readonly pool: PgPoolLike<Tx> | PgTransactionsLike<Tx>;
  /** Inserts a row into the ledger, with the query builder where there is one. */
  effect(tx: Tx, id: string): Promise<unknown>;
  /** Runs a nested transaction: as the data layer does it, or else with savepoints. */
  nested(tx: Tx, work: (tx: Tx) => Promise<void>): Promise<unknown>;
  /** Sends a text as it is. */
  raw(tx: Tx, text: string): PromiseLike<unknown>;
  close(): Promise<unknown>;
}

export interface PoolOptions {
  readonly url: string;
  readonly connections: number;
  /** How long to wait for a connection. */
  readonly connectTimeoutMs?: number | undefined;
}

export const CREATE_LEDGER = 'CREATE TABLE ledger (entry serial PRIMARY KEY, id text NOT NULL)';

/** A data layer whose transaction's type is not known: it comes from the same data layer that takes it. */
export type AnyDataLayer = DataLayer<unknown>;

export function layer<Tx>(opened: DataLayer<Tx>): AnyDataLayer {
  return opened as DataLayer<never> as unknown as AnyDataLayer;
}

/** The pool of `pg` that an app makes: with listeners, so that a broken connection does not end the process. */
export function pgPool({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
  });
  return pool.on('error', () => undefined);
}

/** The members of a data layer without nested transactions, from the function that sends a text unchanged. */
export const sendBy = <Tx>(raw: DataLayer<Tx>['raw']): Pick<DataLayer<Tx>, 'raw' | 'nested'> => ({
  raw,
  nested: (tx, work) =>
    savepoint(
      (text) => raw(tx, text),
      () => work(tx),
    ),
});

async function savepoint(send: (text: string) => PromiseLike<unknown>, work: () => Promise<void>) {
  await send('SAVEPOINT nested');
  try {
    await work();
    await send('RELEASE SAVEPOINT nested');
  } catch (error) {
    await send('ROLLBACK TO SAVEPOINT nested');
    throw error;
  }
}
