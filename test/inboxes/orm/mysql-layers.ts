/** Every data layer over `mysql2`. */

import { int, mysqlTable, text } from 'drizzle-orm/mysql-core';
import { drizzle } from 'drizzle-orm/mysql2';
import { sql as drizzleSql } from 'drizzle-orm/sql';
import createKnex from 'knex';
import { type Generated, Kysely, MysqlDialect, sql, type Transaction } from 'kysely';
import { createPool } from 'mysql2';
import { createPool as createPromisePool, type PoolConnection } from 'mysql2/promise';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromTypeOrm,
  type MysqlPoolLike,
  type MysqlTransactionsLike,
} from 'stablehooks/inboxes/mysql';
import { DataSource, EntitySchema } from 'typeorm';
import { atNight } from '../../nightly.js';
import { type DataLayer, type PoolOptions, sendBy } from './data-layer.js';

type Pool<Tx> = MysqlPoolLike<Tx> | MysqlTransactionsLike<Tx>;

/** A data layer whose transaction's type is not known: it comes from the same data layer that takes it. */
export type AnyMysqlLayer = Omit<DataLayer<unknown>, 'pool'> & { readonly pool: Pool<unknown> };

function layer<Tx>(opened: Omit<DataLayer<Tx>, 'pool'> & { readonly pool: Pool<Tx> }): AnyMysqlLayer {
  return opened as Omit<DataLayer<never>, 'pool'> & {
    readonly pool: Pool<never>;
  } as unknown as AnyMysqlLayer;
}

export const CREATE_LEDGER = 'CREATE TABLE ledger (entry INT AUTO_INCREMENT PRIMARY KEY, id TEXT NOT NULL)';
const INSERT = 'INSERT INTO ledger (id) VALUES (?)';

const optionsOf = ({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) => ({
  uri: url,
  connectionLimit: connections,
  connectTimeout: connectTimeoutMs,
});

function openMysql2(options: PoolOptions) {
  const pool = createPromisePool(optionsOf(options));
  return layer({
    pool,
    effect: (tx, id) => tx.execute(INSERT, [id]),
    ...sendBy<PoolConnection>((tx, statement) => tx.query(statement)),
    close: () => pool.end(),
  });
}

/** Every option that changes how rows are returned. */
function openOtherRows(options: PoolOptions) {
  const pool = createPromisePool({
    ...optionsOf(options),
    ...{ decimalNumbers: true, supportBigNumbers: true, bigNumberStrings: true, dateStrings: true },
    ...{ rowsAsArray: true, nestTables: '_', typeCast: false, namedPlaceholders: true },
  });
  return layer({
    pool,
    effect: (tx, id) => tx.query(INSERT, [id]),
    ...sendBy<PoolConnection>((tx, statement) => tx.query(statement)),
    close: () => pool.end(),
  });
}

const entries = mysqlTable('ledger', { entry: int().primaryKey().autoincrement(), id: text().notNull() });

function openDrizzle(options: PoolOptions) {
  const pool = createPromisePool(optionsOf(options));
  return layer({
    pool: fromDrizzle(drizzle(pool)),
    effect: (tx, id) => tx.insert(entries).values({ id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.execute(drizzleSql.raw(statement)),
    close: () => pool.end(),
  });
}

interface Tables {
  readonly ledger: { readonly entry: Generated<number>; readonly id: string };
}

function openKysely(options: PoolOptions) {
  const db = new Kysely<Tables>({ dialect: new MysqlDialect({ pool: createPool(optionsOf(options)) }) });
  return layer({
    pool: fromKysely(db),
    effect: (tx, id) => tx.insertInto('ledger').values({ id }).execute(),
    ...sendBy<Transaction<Tables>>((tx, statement) => sql.raw(statement).execute(tx)),
    close: () => db.destroy(),
  });
}

function openKnex({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const db = createKnex({
    client: 'mysql2',
    connection: url,
    pool: { min: 0, max: connections },
    acquireConnectionTimeout: connectTimeoutMs,
  });
  return layer({
    pool: fromKnex(db),
    effect: (tx, id) => tx('ledger').insert({ id }).then(),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.raw(statement),
    close: () => db.destroy(),
  });
}

const Entry = new EntitySchema<{ entry: number; id: string }>({
  name: 'ledger',
  columns: { entry: { type: Number, primary: true, generated: 'increment' }, id: { type: String } },
});

async function openTypeOrm({ url, connections, connectTimeoutMs = 10_000 }: PoolOptions) {
  const source = new DataSource({
    ...{ type: 'mariadb', url, poolSize: connections, connectTimeout: connectTimeoutMs, entities: [Entry] },
  });
  await source.initialize();
  return layer({
    pool: fromTypeOrm(source),
    effect: (tx, id) => tx.insert(Entry, { id }),
    nested: (tx, work) => tx.transaction((inner) => work(inner)),
    raw: (tx, statement) => tx.query(statement),
    close: () => source.destroy(),
  });
}

export const MYSQL_LAYERS: Readonly<
  Record<string, (options: PoolOptions) => AnyMysqlLayer | Promise<AnyMysqlLayer>>
> = {
  mysql2: openMysql2,
  'mysql2 with other rows': openOtherRows,
  'Drizzle over mysql2': openDrizzle,
  'Kysely over mysql2': openKysely,
  'Knex over mysql2': openKnex,
  'TypeORM over mysql2': openTypeOrm,
};

/** The layers whose whole contracts run each time. At night they are all. */
export const WHOLE_MYSQL_LAYERS: readonly string[] = atNight(Object.keys(MYSQL_LAYERS), ['mysql2']);
