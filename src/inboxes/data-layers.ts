import { ConfigError } from '../core/errors.js';
import { adapt, type DataLayer, isClient, isNeonHttp, TransactionEnded, toRows } from './adapt.js';

/** The methods of a Drizzle database that the inbox uses. */
export interface DrizzleLike<Tx> {
  execute(query: never): PromiseLike<unknown>;
  transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    config?: { readonly isolationLevel: 'read committed' },
  ): Promise<Value>;
}

/**
 * Adapts a Drizzle database that uses node-postgres, postgres.js, PGlite, another Postgres driver or `mysql2`:
 * `postgresInbox(fromDrizzle(drizzle(pool, { schema })), { transactional: true })`. `ctx.tx` is Drizzle's own transaction,
 * with the schema of `db`. To open a savepoint, call `ctx.tx.transaction`. Await every statement. Otherwise, Drizzle can
 * send a statement after the handler has ended, and that statement can become part of another event's transaction.
 *
 * With a `pg` pool, a broken connection ends the process unless you add an `error` listener to every connection:
 * `pool.on('connect', (client) => client.on('error', console.error))`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `db` uses a single `Client`.
 */
export function fromDrizzle<Tx>(db: DrizzleLike<Tx>): DataLayer<Tx> {
  const { session } = Object(db) as { readonly session?: { readonly client?: DrizzleClient } };
  if (isClient(session?.client))
    throw new ConfigError(
      'fromDrizzle: the database uses a single Client, but each transaction needs its own connection. Create the database with a Pool.',
    );
  const config = { isolationLevel: 'read committed' } as const;
  const layer = adapt<Tx, DrizzleLike<Tx>>({
    db,
    async send(over, text, values) {
      // This object contains only the part of a `sql` tag's result that `execute` reads.
      const query = { getSQL: () => ({ toQuery: () => ({ sql: text, params: values }) }) };
      return toRows(await over.execute(query as never));
    },
    // If BEGIN failed on a connection that Drizzle had checked out of a pool, Drizzle would never release that connection.
    async begin(work) {
      const connection = await (session?.client?.getConnection?.() ?? session?.client?.connect?.());
      if (connection === undefined) return db.transaction(work, config);
      const onConnection = Object.create(session as object, { client: { value: connection } });
      const over: DrizzleLike<Tx> = Object.create(db, { session: { value: onConnection } });
      let hasBegun = false;
      try {
        return await over.transaction((tx) => {
          hasBegun = true;
          return work(tx);
        }, config);
      } finally {
        if (hasBegun) connection.release();
        else if (connection.destroy) connection.destroy();
        else connection.release(new Error('BEGIN failed.'));
      }
    },
    unwrap: (error) => error.cause,
  });
  // An inbox that needs transactions rejects a data layer that has no `transaction`.
  return isNeonHttp(session?.client) ? ({ query: layer.query } as DataLayer<Tx>) : layer;
}

/** A `mysql2` pool has `getConnection`, a `pg` pool has `connect`, and other drivers have neither method. */
type DrizzleClient = { readonly [Name in 'getConnection' | 'connect']?: () => Promise<DrizzleConnection> };

interface DrizzleConnection {
  /** If you pass an error, a `pg` pool closes the connection instead of reusing it. */
  release(error?: Error): void;
  /** Only connections from `mysql2` have this method. */
  destroy?(): void;
}

/** The methods of a Kysely database that the inbox uses. */
export interface KyselyLike<Tx> {
  withoutPlugins(): { executeQuery(query: never): PromiseLike<unknown> };
  transaction(): {
    setIsolationLevel(level: 'read committed'): {
      execute<Value>(work: (tx: Tx) => Promise<Value>): Promise<Value>;
    };
  };
}

/**
 * Adapts a Kysely database: `postgresInbox(fromKysely(new Kysely<DB>({ dialect })), { transactional: true })`. For MySQL,
 * create the database with Kysely's `MysqlDialect` and `mysql2`, and use `mysqlInbox`. `ctx.tx` is Kysely's own
 * `Transaction`. Kysely transactions can't be nested, so send `SAVEPOINT` and `ROLLBACK TO SAVEPOINT` with Kysely's `sql`
 * tag. With a `pg` pool, add the `error` listener that {@link fromDrizzle} shows.
 */
export function fromKysely<Tx>(db: KyselyLike<Tx>): DataLayer<Tx> {
  return adapt<Tx, KyselyLike<Tx>>({
    db,
    async send(over, text, values) {
      const query = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'stablehooks' },
      };
      // Plugins such as CamelCasePlugin would rename columns.
      return toRows(await over.withoutPlugins().executeQuery(query as never));
    },
    begin: (work) => db.transaction().setIsolationLevel('read committed').execute(work),
  });
}

/** The methods of a Knex instance that the inbox uses. */
export interface KnexLike<Tx> {
  raw(text: string, values: never): PromiseLike<unknown>;
  /** Only a transaction has this method. */
  isCompleted?(): boolean;
  transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    config?: { readonly isolationLevel?: 'read committed' },
  ): Promise<Value>;
}

/**
 * Adapts a Knex instance: `postgresInbox(fromKnex(knex({ client: 'pg', connection })), { transactional: true })`. For
 * MySQL, create the instance with the client `mysql2`, and use `mysqlInbox`. `ctx.tx` is Knex's own `Knex.Transaction`. To
 * open a savepoint, call `ctx.tx.transaction`.
 */
export function fromKnex<Tx>(knex: KnexLike<Tx>): DataLayer<Tx> {
  return adapt<Tx, KnexLike<Tx>>({
    db: knex,
    async send(over, text, values) {
      if (over.isCompleted?.()) throw new TransactionEnded();
      const { raw, bindings } = toKnex(text, values);
      return toRows(await over.raw(raw, bindings as never));
    },
    begin: (work) =>
      knex.transaction(
        async (tx) => {
          // Knex calls this function even if BEGIN failed, and then rejects with the error of BEGIN instead of this one.
          if ((tx as KnexLike<Tx>).isCompleted?.()) throw new Error('BEGIN failed.');
          return work(tx);
        },
        { isolationLevel: 'read committed' },
      ),
    // Knex prepends the statement to the server's message.
    unwrap(error) {
      const at = error.message.lastIndexOf(' - ');
      const { code, errno } = error as { readonly code?: unknown; readonly errno?: unknown };
      return at < 0 ? undefined : Object.assign(new Error(error.message.slice(at + 3)), { code, errno });
    },
  });
}

/** Gives each use of `$1` a `?` with its own binding. MySQL statements already use `?`. */
function toKnex(text: string, values: readonly unknown[]) {
  if (!text.includes('$1') && values.length > 0) return { raw: text, bindings: values };
  const bindings: unknown[] = [];
  const raw = text.replaceAll('?', '\\?').replaceAll(/\$(\d+)/g, (_, index) => {
    bindings.push(values[index - 1]);
    return '?';
  });
  return { raw, bindings };
}

/** The methods of a TypeORM `DataSource` that the inbox uses. */
export interface TypeOrmLike<Tx> {
  query(text: string, values?: unknown[]): Promise<unknown>;
  createQueryRunner(): {
    readonly manager: Tx;
    readonly isTransactionActive: boolean;
    startTransaction(isolation: 'READ COMMITTED'): Promise<void>;
    commitTransaction(): Promise<void>;
    query(text: string): Promise<unknown>;
    release(): Promise<void>;
  };
}

/**
 * Adapts a TypeORM `DataSource` with the type `postgres`, `mysql` or `mariadb`: `postgresInbox(fromTypeOrm(await
 * dataSource.initialize()), { transactional: true })`. `ctx.tx` is TypeORM's own `EntityManager`. To open a savepoint, call
 * `ctx.tx.transaction`.
 */
export function fromTypeOrm<Tx>(dataSource: TypeOrmLike<Tx>): DataLayer<Tx> {
  return adapt<Tx, TypeOrmLike<Tx>>({
    db: dataSource,
    async send(over, text, values) {
      const rows = (await over.query(text, values)) as readonly unknown[];
      // In Postgres, the result of an UPDATE or DELETE is [rows, count].
      return Array.isArray(rows[0]) ? rows[0] : rows;
    },
    async begin(work) {
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction('READ COMMITTED');
        const value = await work(runner.manager);
        // Every commit except the last one ends a nested transaction that the handler left open.
        while (runner.isTransactionActive) await runner.commitTransaction();
        return value;
      } catch (error) {
        // If the handler left a nested transaction open, `rollbackTransaction` would end only that transaction.
        await runner.query('ROLLBACK').catch(() => undefined);
        throw error;
      } finally {
        await runner.release();
      }
    },
    unwrap: (error) => (error as { readonly driverError?: unknown }).driverError,
  });
}
