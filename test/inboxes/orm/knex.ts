import createKnex from 'knex';
import { fromKnex } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions } from './data-layer.js';

export function openKnex({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const db = createKnex({
    client: 'pg',
    connection: url,
    pool: { min: 0, max: connections },
    acquireConnectionTimeout: connectTimeoutMs,
  });
  return layer({
    pool: fromKnex(db),
    effect: (tx, id) => tx('ledger').insert({ id }).then(),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, text) => tx.raw(text),
    close: () => db.destroy(),
  });
}
