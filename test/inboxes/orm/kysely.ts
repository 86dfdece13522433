import { type Generated, Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import { fromKysely } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions, pgPool, sendBy } from './data-layer.js';

interface Tables {
  readonly ledger: { readonly entry: Generated<number>; readonly id: string };
}

export function openKysely(options: PoolOptions) {
  // Kysely adds no listener to the connections that it takes.
  const pool = pgPool(options).on('connect', (client) => client.on('error', () => undefined));
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  return layer({
    pool: fromKysely(db),
    effect: (tx, id) => tx.insertInto('ledger').values({ id }).execute(),
    ...sendBy<Transaction<Tables>>((tx, text) => sql.raw(text).execute(tx)),
    close: () => db.destroy(),
  });
}
