import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { pgTable, serial, text } from 'drizzle-orm/pg-core';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import { sql } from 'drizzle-orm/sql';
import postgres from 'postgres';
import { fromDrizzle } from 'stablehooks/inboxes/postgres';
import { layer, type PoolOptions, pgPool } from './data-layer.js';

const ledger = pgTable('ledger', { entry: serial().primaryKey(), id: text().notNull() });

export function openDrizzle(options: PoolOptions) {
  // Drizzle adds no listener to the connections that it takes.
  const client = pgPool(options).on('connect', (one) => one.on('error', () => undefined));
  return layer({
    pool: fromDrizzle(drizzlePg(client, { schema: { ledger } })),
    effect: (tx, id) => tx.insert(ledger).values({ id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.execute(sql.raw(statement)),
    close: () => client.end(),
  });
}

export function openDrizzleOverPostgresJs({ url, connections }: PoolOptions) {
  const client = postgres(url, { max: connections, onnotice: () => undefined });
  return layer({
    pool: fromDrizzle(drizzlePostgresJs(client, { schema: { ledger } })),
    effect: (tx, id) => tx.insert(ledger).values({ id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.execute(sql.raw(statement)),
    close: () => client.end({ timeout: 0 }),
  });
}
