/** `pg`, without a library over it. */
import { layer, type PoolOptions, pgPool, savepoint } from './data-layer.js';

const INSERT = 'INSERT INTO ledger (id) VALUES ($1)';

export function openPg(options: PoolOptions) {
  const pool = pgPool(options);
  return layer({
    pool,
    effect: (tx, id) => tx.query(INSERT, [id]),
    nested: (tx, work) =>
      savepoint(
        (text) => tx.query(text),
        () => work(tx),
      ),
    raw: (tx, text) => tx.query(text),
    close: () => pool.end(),
  });
}
