/** Every data layer of the Postgres inbox, over a pool of a given size. */
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { pgTable, serial, text } from 'drizzle-orm/pg-core';
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js';
import { sql } from 'drizzle-orm/sql';
import createKnex from 'knex';
import { type Generated, Kysely, sql as kyselySql, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
  type PgPoolLike,
  type PgTransactionsLike,
} from 'stablehooks/inboxes/postgres';
import { DataSource, EntitySchema } from 'typeorm';
import { PrismaClient } from './prisma/client.js';

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

/** How a pool is opened. */
export interface PoolOptions {
  readonly url: string;
  readonly connections: number;
}

/** The table that the effects of the tests go to. */
export const CREATE_LEDGER = 'CREATE TABLE ledger (entry serial PRIMARY KEY, id text NOT NULL)';

const INSERT = 'INSERT INTO ledger (id) VALUES ($1)';

/** The pool of `pg` that an app makes: with listeners, so that a broken connection does not end the process. */
function pgPool({ url, connections }: PoolOptions): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: connections, connectionTimeoutMillis: 10_000 });
  return pool.on('error', () => undefined);
}

/** A nested transaction for data layers that have none. */
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

function openPg(options: PoolOptions) {
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

function openPostgresJs({ url, connections }: PoolOptions) {
  const db = postgres(url, { max: connections, onnotice: () => undefined });
  return layer({
    pool: fromPostgresJs(db),
    effect: (tx, id) => tx`INSERT INTO ledger (id) VALUES (${id})`,
    nested: (tx, work) => tx.savepoint((inner) => work(inner)),
    raw: (tx, text) => tx.unsafe(text),
    close: () => db.end({ timeout: 0 }),
  });
}

const ledger = pgTable('ledger', { entry: serial().primaryKey(), id: text().notNull() });

function openDrizzle(options: PoolOptions) {
  const client = pgPool(options);
  return layer({
    pool: fromDrizzle(drizzlePg(client, { schema: { ledger } })),
    effect: (tx, id) => tx.insert(ledger).values({ id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.execute(sql.raw(statement)),
    close: () => client.end(),
  });
}

function openDrizzleOverPostgresJs({ url, connections }: PoolOptions) {
  const client = postgres(url, { max: connections, onnotice: () => undefined });
  return layer({
    pool: fromDrizzle(drizzlePostgresJs(client, { schema: { ledger } })),
    effect: (tx, id) => tx.insert(ledger).values({ id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.execute(sql.raw(statement)),
    close: () => client.end({ timeout: 0 }),
  });
}

interface Tables {
  readonly ledger: { readonly entry: Generated<number>; readonly id: string };
}

function openKysely(options: PoolOptions) {
  // Kysely adds no listener to the connections that it takes.
  const pool = pgPool(options).on('connect', (client) => client.on('error', () => undefined));
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  return layer({
    pool: fromKysely(db),
    effect: (tx, id) => tx.insertInto('ledger').values({ id }).execute(),
    nested: (tx, work) =>
      savepoint(
        (text) => kyselySql.raw(text).execute(tx),
        () => work(tx),
      ),
    raw: (tx, text) => kyselySql.raw(text).execute(tx),
    close: () => db.destroy(),
  });
}

function openKnex({ url, connections }: PoolOptions) {
  const db = createKnex({ client: 'pg', connection: url, pool: { min: 0, max: connections } });
  return layer({
    pool: fromKnex(db),
    effect: (tx, id) => tx('ledger').insert({ id }).then(),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, text) => tx.raw(text),
    close: () => db.destroy(),
  });
}

const Entry = new EntitySchema<{ entry: number; id: string }>({
  name: 'ledger',
  columns: {
    entry: { type: Number, primary: true, generated: 'increment' },
    id: { type: String },
  },
});

async function openTypeOrm({ url, connections }: PoolOptions) {
  const source = new DataSource({ type: 'postgres', url, poolSize: connections, entities: [Entry] });
  await source.initialize();
  return layer({
    pool: fromTypeOrm(source),
    effect: (tx, id) => tx.insert(Entry, { id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, text) => tx.query(text),
    close: () => source.destroy(),
  });
}

function openPrisma({ url, connections }: PoolOptions) {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: connections }) });
  return layer({
    pool: fromPrisma(prisma),
    effect: (tx, id) => tx.ledger.create({ data: { id } }),
    nested: (tx, work) =>
      savepoint(
        (text) => tx.$executeRawUnsafe(text),
        () => work(tx),
      ),
    raw: (tx, text) => tx.$executeRawUnsafe(text),
    close: () => prisma.$disconnect(),
  });
}

/** A data layer whose transaction's type is not known: it comes from the same data layer that takes it. */
export type AnyDataLayer = DataLayer<unknown>;

function layer<Tx>(opened: DataLayer<Tx>): AnyDataLayer {
  return opened as DataLayer<never> as unknown as AnyDataLayer;
}

/** Opens each data layer. */
export const DATA_LAYERS = {
  pg: openPg,
  'postgres.js': openPostgresJs,
  Drizzle: openDrizzle,
  'Drizzle over postgres.js': openDrizzleOverPostgresJs,
  Kysely: openKysely,
  Knex: openKnex,
  TypeORM: openTypeOrm,
  Prisma: openPrisma,
} as const satisfies Readonly<Record<string, (options: PoolOptions) => AnyDataLayer | Promise<AnyDataLayer>>>;
