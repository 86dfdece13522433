/**
 * Adapters of data layers to the Postgres inbox. The inbox sends its statements through the data layer, and handlers
 * get the data layer's own transaction. The types are structural: nothing here imports a data layer.
 */
import { ConfigError, StablehooksError } from '../core/errors.js';
import { withMethods } from '../core/options.js';
import {
  isClient,
  type PgLike,
  type PgPoolLike,
  type PgTransactionsLike,
  sentLate,
} from './postgres-client.js';
import { endedByHandler } from './postgres-errors.js';

/** The parts that differ between data layers. */
interface DataLayer<Tx, Queries> {
  /** Sends statements outside of a transaction. */
  readonly queries: Queries;
  /** Sends one statement over `queries`, or over a transaction, and resolves to its rows. */
  send(queries: Queries, text: string, values: unknown[]): Promise<readonly unknown[]>;
  /** Opens a transaction at READ COMMITTED. */
  begin<Value>(work: (tx: Tx) => Promise<Value>): PromiseLike<Value>;
  /** Returns the driver's error, without the values of the statement; `undefined` if the error is the driver's. */
  unwrap?(error: Error): unknown;
}

function adapt<Tx, Queries>({
  queries,
  send,
  begin,
  unwrap = () => undefined,
}: DataLayer<Tx, Queries>): PgTransactionsLike<Tx> {
  const toDriverError = (error: unknown) => unwrap(error as Error) ?? error;
  const toClient = (over: Queries): PgLike => ({
    async query(text, values = []) {
      try {
        const rows = await send(over, text, values);
        // After a lost connection, postgres.js leaves a hole before the rows of the next result.
        return { rows: rows.filter((row) => row !== undefined) };
      } catch (error) {
        throw toDriverError(error);
      }
    },
  });
  return {
    ...toClient(queries),
    async transaction<Value>(work: (tx: Tx, queries: PgLike) => Promise<Value>) {
      let working: Promise<Value> | undefined;
      try {
        await begin((tx) => {
          working = work(tx, toClient(tx as unknown as Queries));
          return working;
        });
      } catch (error) {
        // Its own error is the reason; some data layers reject with that of their ROLLBACK.
        await working;
        throw toDriverError(error);
      }
      // The transaction of Knex resolves when its handler rolls it back.
      return working as unknown as Promise<Value>;
    },
  };
}

/** @param call - how the adapter is called, such as `fromKnex(knex)`. */
function checkDataLayer(layer: unknown, methods: readonly string[], call: string): void {
  if (withMethods(call, methods).accepts(layer)) return;
  throw new ConfigError(`${call.split('(')[0]}: the argument must be as in ${call}.`);
}

/** The result of a statement in most data layers. */
interface Rows {
  readonly rows: readonly unknown[];
}

/** The methods of a Drizzle database over any Postgres driver that the inbox uses. */
export interface DrizzleLike<Tx> {
  execute(query: never): PromiseLike<unknown>;
  transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    config?: { readonly isolationLevel?: 'read committed'; readonly accessMode?: 'read write' },
  ): Promise<Value>;
}

/**
 * Adapts a Drizzle database, over node-postgres, postgres.js, PGlite or another driver of Postgres. `ctx.tx` is
 * Drizzle's own transaction, with the schema of `db`; its `transaction` is a savepoint. Await every statement: Drizzle
 * sends one that is late, and it can become part of the transaction of another event.
 *
 * Add a listener to the connections of a pool of `pg`; otherwise one that breaks ends the process:
 * `pool.on('connect', (client) => client.on('error', console.error))`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `db` is not a Drizzle database, or is one over a single `Client`.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromDrizzle(drizzle(pool, { schema })), { transactional: true });
 * ```
 */
export function fromDrizzle<Tx>(db: DrizzleLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(db, ['execute', 'transaction'], 'fromDrizzle(drizzle(pool))');
  if (isClient((db as { readonly $client?: unknown }).$client))
    throw new ConfigError('fromDrizzle: transactions cannot share the connection of a Client. Pass a Pool.');
  return adapt<Tx, DrizzleLike<Tx>>({
    queries: db,
    async send(queries, text, values) {
      // What the `sql` tag returns, reduced to what `execute` reads of it.
      const query = { getSQL: () => ({ toQuery: () => ({ sql: text, params: values }) }) };
      const result = await queries.execute(query as never);
      return (Array.isArray(result) ? result : (result as Rows).rows) as readonly unknown[];
    },
    begin: (work) => beginDrizzle(db, work),
    unwrap: (error) => error.cause,
  });
}

/** What a Drizzle database over a pool of `pg` or Neon is made of. */
interface DrizzleOverPool {
  readonly $client?: { readonly connect?: unknown };
  readonly session?: { readonly client?: unknown };
}

/**
 * Over a pool, the transaction runs on a connection that is taken here: Drizzle keeps the one that it takes itself when its
 * BEGIN fails, and the pool becomes empty.
 */
async function beginDrizzle<Tx, Value>(
  db: DrizzleLike<Tx>,
  work: (tx: Tx) => Promise<Value>,
): Promise<Value> {
  const { $client: pool, session }: DrizzleOverPool = db as object;
  const config = { isolationLevel: 'read committed', accessMode: 'read write' } as const;
  if (session === undefined || session.client !== pool || typeof pool?.connect !== 'function')
    return db.transaction(work, config);
  const client = await (pool as PgPoolLike).connect();
  const onClient = Object.create(session, { client: { value: client } });
  const over: DrizzleLike<Tx> = Object.create(db, { session: { value: onClient } });
  let failure: Error | undefined = new Error('BEGIN failed.');
  try {
    return await over.transaction((tx) => {
      failure = undefined;
      return work(tx);
    }, config);
  } finally {
    client.release(failure);
  }
}

/** The methods of a Kysely database that the inbox uses. */
export interface KyselyLike<Tx> {
  withoutPlugins(): { executeQuery(query: never): PromiseLike<unknown> };
  transaction(): {
    setIsolationLevel(level: 'read committed'): {
      setAccessMode(mode: 'read write'): {
        execute<Value>(work: (tx: Tx) => Promise<Value>): Promise<Value>;
      };
    };
  };
}

/**
 * Adapts a Kysely database. `ctx.tx` is Kysely's own `Transaction`. Kysely has no nested transactions in it; send
 * `SAVEPOINT` and `ROLLBACK TO SAVEPOINT` with its `sql` tag.
 *
 * Add a listener to the connections of a pool of `pg`; otherwise one that breaks ends the process:
 * `pool.on('connect', (client) => client.on('error', console.error))`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `db` is not a Kysely database.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromKysely(new Kysely<DB>({ dialect })), { transactional: true });
 * ```
 */
export function fromKysely<Tx>(db: KyselyLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(db, ['withoutPlugins', 'transaction'], 'fromKysely(new Kysely({ dialect }))');
  return adapt<Tx, KyselyLike<Tx>>({
    queries: db,
    async send(queries, text, values) {
      const query = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'stablehooks' },
      };
      // Plugins such as CamelCasePlugin rename columns.
      const result = await queries.withoutPlugins().executeQuery(query as never);
      return (result as Rows).rows;
    },
    begin: (work) =>
      db.transaction().setIsolationLevel('read committed').setAccessMode('read write').execute(work),
  });
}

/** The methods of a Knex instance that the inbox uses. */
export interface KnexLike<Tx> {
  raw(text: string, values: never): PromiseLike<unknown>;
  /** A transaction has it. */
  isCompleted?(): boolean;
  transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    config?: { readonly isolationLevel?: 'read committed' },
  ): Promise<Value>;
}

/**
 * Adapts a Knex instance with the client `pg`. `ctx.tx` is Knex's own `Knex.Transaction`; its `transaction` is a
 * savepoint.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `knex` is not a Knex instance.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromKnex(knex({ client: 'pg', connection })), { transactional: true });
 * ```
 */
export function fromKnex<Tx>(knex: KnexLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(knex, ['raw', 'transaction'], "fromKnex(knex({ client: 'pg', connection }))");
  return adapt<Tx, KnexLike<Tx>>({
    queries: knex,
    async send(queries, text, values) {
      // The handler called `tx.commit()` or `tx.rollback()`, and Knex sends nothing more.
      if (queries.isCompleted?.()) throw endedByHandler();
      // Knex has the placeholder `?`, once for each use of a value.
      const bindings: unknown[] = [];
      const raw = text.replaceAll('?', '\\?').replaceAll(/\$(\d+)/g, (_, index) => {
        bindings.push(values[index - 1]);
        return '?';
      });
      return ((await queries.raw(raw, bindings as never)) as Rows).rows;
    },
    begin: (work) =>
      knex.transaction(
        async (tx) => {
          // Knex calls this even if BEGIN failed, and then rejects with the error of BEGIN.
          if ((tx as KnexLike<Tx>).isCompleted?.()) throw new Error('BEGIN failed.');
          return work(tx);
        },
        { isolationLevel: 'read committed' },
      ),
    unwrap: unwrapKnex,
  });
}

/** The methods of a TypeORM `DataSource` that the inbox uses. */
export interface TypeOrmLike<Tx> {
  query(text: string, values?: unknown[]): Promise<unknown>;
  createQueryRunner(): {
    readonly manager: Tx;
    readonly isTransactionActive: boolean;
    startTransaction(isolation: 'READ COMMITTED'): Promise<void>;
    commitTransaction(): Promise<void>;
    rollbackTransaction(): Promise<void>;
    release(): Promise<void>;
  };
}

/**
 * Adapts a TypeORM `DataSource` of the type `postgres`. `ctx.tx` is TypeORM's own `EntityManager`; its `transaction`
 * is a savepoint.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `dataSource` is not a `DataSource`.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromTypeOrm(await dataSource.initialize()), { transactional: true });
 * ```
 */
export function fromTypeOrm<Tx>(dataSource: TypeOrmLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(dataSource, ['query', 'createQueryRunner'], 'fromTypeOrm(dataSource)');
  return adapt<Tx, TypeOrmLike<Tx>>({
    queries: dataSource,
    async send(queries, text, values) {
      const result = (await queries.query(text, values)) as readonly unknown[];
      // For UPDATE and DELETE it is [rows, count].
      return Array.isArray(result[0]) ? result[0] : result;
    },
    async begin(work) {
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction('READ COMMITTED');
        const value = await work(runner.manager);
        // The first ones end nested transactions that the handler left open.
        while (runner.isTransactionActive) await runner.commitTransaction();
        return value;
      } catch (error) {
        while (runner.isTransactionActive) await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    },
    unwrap: (error) => (error as { readonly driverError?: unknown }).driverError,
  });
}

/** The methods of a Prisma client that the inbox uses. */
export interface PrismaLike<Tx> {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
  $transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    options?: {
      readonly isolationLevel?: 'ReadCommitted';
      readonly timeout?: number;
      readonly maxWait?: number;
    },
  ): Promise<Value>;
}

/**
 * Adapts a client of Prisma 7 with `@prisma/adapter-pg`. `ctx.tx` is Prisma's own `TransactionClient`; its
 * `$transaction` is a savepoint. The transaction waits up to 10 s for a connection.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `prisma` is not a Prisma client.
 *
 * @example
 * ```ts
 * const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
 * const inbox = postgresInbox(fromPrisma(prisma), { transactional: true });
 * ```
 */
export function fromPrisma<Tx>(prisma: PrismaLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(prisma, ['$queryRawUnsafe', '$transaction'], 'fromPrisma(new PrismaClient({ adapter }))');
  return adapt<Tx, PrismaLike<Tx>>({
    queries: prisma,
    async send(queries, text, values) {
      return (await queries.$queryRawUnsafe(text, ...(values as never[]))) as readonly unknown[];
    },
    begin: (work) =>
      prisma.$transaction(work, {
        isolationLevel: 'ReadCommitted',
        // The lease limits the transaction. Prisma's own limit is 5 s.
        timeout: 2_147_483_647,
        // Its default of 2 s is short when many handlers start at the same time.
        maxWait: 10_000,
      }),
    unwrap: unwrapPrisma,
  });
}

/** The methods of a postgres.js `sql` that the inbox uses. */
export interface PostgresJsLike<Tx> {
  unsafe(text: string, values?: never[], options?: { readonly prepare: boolean }): PromiseLike<unknown>;
  begin(options: string, work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

/**
 * Adapts a postgres.js `sql`. `ctx.tx` is postgres.js' own `TransactionSql`; its `savepoint` nests.
 *
 * Statements are prepared, because postgres.js needs two round trips for each unprepared one. A pooler in transaction
 * mode loses them: pass `prepare: false` in the options of `sql`, which has precedence.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `sql` is not a postgres.js `sql`.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromPostgresJs(postgres(url)), { transactional: true });
 * ```
 */
export function fromPostgresJs<Tx>(sql: PostgresJsLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer(sql, ['unsafe', 'begin'], 'fromPostgresJs(postgres(url))');
  return adapt<Tx, PostgresJsLike<Tx>>({
    queries: sql,
    async send(queries, text, values) {
      // `never[]` fits the parameter type of every version of postgres.js; it accepts what pg accepts.
      const parameters = values as never[];
      const rows = queries.unsafe(text, parameters, { prepare: values.length > 0 });
      return (await rows) as readonly unknown[];
    },
    async begin<Value>(work: (tx: Tx) => Promise<Value>) {
      const gate: Gate = { isClosed: false, isLost: false };
      const begun = sql.begin('isolation level read committed read write', async (tx) => {
        try {
          return await work(guardPostgresJs(tx as object, gate) as Tx);
        } finally {
          gate.isClosed = true;
          if (gate.isLost) await never();
        }
      });
      return (await begun.catch((error) => {
        // Rejected before its handler ended: the connection is lost.
        gate.isLost ||= !gate.isClosed;
        gate.isClosed = true;
        throw error;
      })) as Value;
    },
  });
}

/** The state of a transaction of postgres.js. */
interface Gate {
  /** No statement must be sent. */
  isClosed: boolean;
  isLost: boolean;
}

/** postgres.js must not go on after a lost connection: its ROLLBACK would end the process. */
const never = () => new Promise<never>(() => undefined);

type Method = (...args: unknown[]) => unknown;

/**
 * The transaction of postgres.js as a handler gets it. postgres.js itself sends late statements over a connection that
 * another transaction can have, and writes to a closed socket after a connection is lost, which ends the process.
 */
function guardPostgresJs<Sql extends object>(sql: Sql, gate: Gate): Sql {
  const guarded =
    (method: Method): Method =>
    (...args) => {
      if (gate.isClosed) return Promise.reject(sentLate());
      const result = method(...args);
      // Before the handler learns of it. Not `result.catch`, which would send the statement.
      if (result instanceof Promise) Promise.prototype.then.call(result, undefined, onError);
      return result;
    };
  const onError = ({ code, severity, syscall }: Readonly<Record<string, unknown>>) => {
    // postgres.js closes the connection after it.
    if (syscall ?? /^CONNECTION_|^FATAL|^PANIC/.exec(`${severity ?? code}`))
      gate.isClosed = gate.isLost = true;
  };
  const savepoint =
    (method: Method): Method =>
    (...args) =>
      new Promise((resolve, reject) => {
        const work = args.pop() as Method;
        const nest = async (nested: object) => {
          try {
            const value = await work(guardPostgresJs(nested, gate));
            return Array.isArray(value) ? await Promise.all(value) : value;
          } catch (error) {
            if (!gate.isClosed) throw error;
            reject(error);
            return await never();
          }
        };
        Promise.resolve(guarded(method)(...args, nest)).then(resolve, reject);
      });
  return new Proxy(sql, {
    apply(target, self, args) {
      const call: Method = (...each) => Reflect.apply(target as unknown as Method, self, each);
      // Not a template: a helper, which sends nothing.
      return Array.isArray((args[0] as { readonly raw?: unknown })?.raw)
        ? guarded(call)(...args)
        : call(...args);
    },
    get(target, name) {
      const member = Reflect.get(target, name) as Method;
      if (name === 'savepoint') return savepoint(member);
      return name === 'unsafe' || name === 'file' ? guarded(member) : member;
    },
  });
}

/** Knex writes the statement before the message of the server. */
function unwrapKnex(error: Error): Error | undefined {
  const at = error.message.lastIndexOf(' - ');
  const { code } = error as { readonly code?: unknown };
  return at < 0 ? undefined : Object.assign(new Error(error.message.slice(at + 3)), { code });
}

/** Prisma has the SQLSTATE and the server's message in `meta`. */
function unwrapPrisma(error: Error): Error | undefined {
  if (error.message.includes('while a nested transaction is still active')) {
    return new StablehooksError(
      'ERR_HANDLER_FAILED',
      'The handler returned while a nested transaction was open, and Prisma rolled back all that it wrote. Await every nested transaction. The event runs again.',
      { cause: error },
    );
  }
  interface Refusal {
    readonly cause?: { readonly originalCode?: string; readonly originalMessage?: string };
  }
  const { meta } = error as { readonly meta?: { readonly driverAdapterError?: Refusal } };
  const { cause } = meta?.driverAdapterError ?? (error as Refusal);
  if (cause?.originalCode === undefined) return undefined;
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { code: cause.originalCode });
}
