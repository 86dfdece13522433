/** `pg`, without a library over it. */
import type { PgClientLike, PgPoolLike } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions, pgPool, sendBy } from './data-layer.js';

const INSERT = 'INSERT INTO ledger (id) VALUES ($1)';

export const openPg = (options: PoolOptions) => overPg(pgPool(options));

/** A pool with the methods of `pg`. */
export function overPg<Tx extends PgClientLike>(pool: PgPoolLike<Tx> & { end(): Promise<unknown> }) {
  return layer({
    pool,
    effect: (tx, id) => tx.query(INSERT, [id]),
    ...sendBy<Tx>((tx, text) => tx.query(text)),
    close: () => pool.end(),
  });
}
