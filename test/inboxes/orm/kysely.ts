/** Kysely. */
import { type Generated, Kysely, PostgresDialect, sql } from 'kysely';
import { fromKysely } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions, pgPool, savepoint } from './data-layer.js';

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
    nested: (tx, work) =>
      savepoint(
        (text) => sql.raw(text).execute(tx),
        () => work(tx),
      ),
    raw: (tx, text) => sql.raw(text).execute(tx),
    close: () => db.destroy(),
  });
}
