/** Transactions of the Postgres inbox: a client for as long as one lasts, whatever happens to it. */
import { HandlerError } from '../core/errors.js';
import type { PgLike, PgPoolLike, PgTransactionsLike, PgTx } from './postgres-client.js';

/** What can open a transaction. */
export type PgTransactional = PgPoolLike | PgTransactionsLike;

/** A transaction as a handler sees it, until it ends. */
export interface GuardedTx {
  readonly tx: PgTx;
  /** From here on `tx` refuses: a handler that timed out must not write where nothing is rolled back. */
  end(): void;
}

/** Runs `work` in a transaction: commits when it resolves, rolls back and passes its rejection on. */
export function transact<Value>(
  pool: PgTransactional,
  work: (client: PgLike) => Promise<Value>,
): Promise<Value> {
  return 'transaction' in pool ? pool.transaction(work) : transactOnClient(pool, work);
}

async function transactOnClient<Value>(
  pool: PgPoolLike,
  work: (client: PgLike) => Promise<Value>,
): Promise<Value> {
  const client = await pool.connect();
  let running = 0;
  let broken: Error | undefined;
  // A checked-out client has no other listener, and an 'error' that nobody hears ends the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on('error', onError);
  const query: PgLike['query'] = async (text, values) => {
    running += 1;
    try {
      return await client.query(text, values);
    } finally {
      running -= 1;
    }
  };
  try {
    await query('BEGIN');
    const value = await work({ query });
    await query('COMMIT');
    return value;
  } catch (error) {
    // Behind a statement that still runs ROLLBACK would wait for it; closing the connection rolls back, too.
    if (running > 0) broken ??= new Error('A statement was still running when the transaction ended.');
    if (broken === undefined) await query('ROLLBACK').catch(onError);
    throw error;
  } finally {
    client.release(broken);
    // A closed client may still have a last word.
    if (broken === undefined) client.removeListener('error', onError);
  }
}

/** Wraps a client for a handler. */
export function guardTx(client: PgLike): GuardedTx {
  let ended = false;
  return {
    tx: {
      async query<Row>(text: string, values: readonly unknown[] = []) {
        if (ended) {
          throw new HandlerError(
            'ERR_HANDLER_FAILED',
            'The transaction has ended, and this statement was not sent. Await every statement, and stop when `signal` aborts.',
          );
        }
        const { rows } = await client.query(text, [...values]);
        return { rows: rows as readonly Row[] };
      },
    },
    end() {
      ended = true;
    },
  };
}
