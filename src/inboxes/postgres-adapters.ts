/**
 * Adapters of data layers to the Postgres inbox. The inbox sends its statements through the data layer, and handlers
 * get the data layer's own transaction. The types are structural: nothing here imports a data layer.
 */
import { ConfigError, HandlerError } from '../core/errors.js';
import { readOptions, required, withMethods } from '../core/options.js';
import {
  isClient,
  ONE_CLIENT,
  type PgLike,
  type PgTransactionQueries,
  type PgTransactionsLike,
} from './postgres-client.js';
import { endedByHandler, isCommitRefusal } from './postgres-errors.js';
import { isCommit, readEnd, type TransactionWatch } from './postgres-guard.js';

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
 * Drizzle's own transaction, with the schema of `db`; its `transaction` is a savepoint.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `db` is not a Drizzle database, or is one over a single `Client`.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(fromDrizzle(drizzle(pool, { schema })), { transactional: true });
 * ```
 */
export function fromDrizzle<Tx>(db: DrizzleLike<Tx>): PgTransactionsLike<Tx> {
  checkDataLayer('fromDrizzle', 'a Drizzle database: fromDrizzle(drizzle(pool))', { db }, [
    'execute',
    'transaction',
  ]);
  if (isClient((db as { readonly $client?: unknown }).$client))
    throw new ConfigError(`fromDrizzle: ${ONE_CLIENT}`);
  return adapt<Tx>({
    queries: db,
    async send(queries, text, values) {
      // What the `sql` tag returns, reduced to what `execute` reads of it.
      const query = { getSQL: () => ({ toQuery: () => ({ sql: text, params: values }) }) };
      const result = await (queries as DrizzleLike<Tx>).execute(query as never);
      return (Array.isArray(result) ? result : (result as Rows).rows) as readonly unknown[];
    },
    begin: (work) => db.transaction(work, { isolationLevel: 'read committed', accessMode: 'read write' }),
    guard: (tx, gate) => guardDrizzle(db, tx, gate),
    unwrap: (error) => error.cause,
  });
}

/** The methods of a Kysely database that the inbox uses. */
export interface KyselyLike<Tx> extends KyselyQueries {
  transaction(): {
    setIsolationLevel(level: 'read committed'): {
      setAccessMode(mode: 'read write'): {
        execute<Value>(work: (tx: Tx) => Promise<Value>): Promise<Value>;
      };
    };
  };
}

/** The methods that a Kysely database also has inside a transaction. */
export interface KyselyQueries {
  withoutPlugins(): { executeQuery(query: never): PromiseLike<unknown> };
}

/**
 * Adapts a Kysely database. `ctx.tx` is Kysely's own `Transaction`. Kysely has no nested transactions in it; send
 * `SAVEPOINT` and `ROLLBACK TO SAVEPOINT` with its `sql` tag.
 *
 * Kysely adds no `error` listener to the connections that it takes from a `pg` pool, and a connection that breaks
 * between two statements then ends the process. Add one:
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
  checkDataLayer('fromKysely', 'a Kysely database: fromKysely(new Kysely({ dialect }))', { db }, [
    'withoutPlugins',
    'transaction',
  ]);
  return adapt<Tx>({
    queries: db,
    async send(queries, text, values) {
      const query = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'stablehooks' },
      };
      // Plugins such as CamelCasePlugin rename columns.
      const result = await (queries as KyselyQueries).withoutPlugins().executeQuery(query as never);
      return (result as Rows).rows;
    },
    begin: (work) =>
      db.transaction().setIsolationLevel('read committed').setAccessMode('read write').execute(work),
    guard: guardKysely,
  });
}

/** The methods of a Knex instance that the inbox uses. */
export interface KnexLike<Tx> {
  raw(text: string, values: never): PromiseLike<unknown>;
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
  checkDataLayer('fromKnex', "a Knex instance: fromKnex(knex({ client: 'pg', connection }))", { knex }, [
    'raw',
    'transaction',
  ]);
  return adapt<Tx>({
    queries: knex,
    async send(queries, text, values) {
      // Knex has the placeholder `?`, once for each use of a value.
      const bindings: unknown[] = [];
      const raw = text.replaceAll('?', '\\?').replaceAll(/\$(\d+)/g, (_, index) => {
        bindings.push(values[index - 1]);
        return '?';
      });
      return ((await (queries as KnexLike<Tx>).raw(raw, bindings as never)) as Rows).rows;
    },
    sentAs: toKnexText,
    begin: (work) => knex.transaction(work, { isolationLevel: 'read committed' }),
    guard: guardKnex,
    unwrap: unwrapKnex,
  });
}

/** The methods of a TypeORM `DataSource` that the inbox uses. */
export interface TypeOrmLike<Tx> extends TypeOrmQueries {
  transaction<Value>(isolation: 'READ COMMITTED', work: (tx: Tx) => Promise<Value>): Promise<Value>;
}

/** The methods that an `EntityManager` also has. */
export interface TypeOrmQueries {
  query(text: string, values?: unknown[]): Promise<unknown>;
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
  checkDataLayer('fromTypeOrm', 'a TypeORM DataSource: fromTypeOrm(dataSource)', { dataSource }, [
    'query',
    'transaction',
  ]);
  return adapt<Tx>({
    queries: dataSource,
    async send(queries, text, values) {
      const result = (await (queries as TypeOrmQueries).query(text, values)) as readonly unknown[];
      // For UPDATE and DELETE it is [rows, count].
      return Array.isArray(result[0]) ? result[0] : result;
    },
    begin: (work) => dataSource.transaction('READ COMMITTED', work),
    guard: guardTypeOrm,
    unwrap: (error) => (error as { readonly driverError?: unknown }).driverError,
  });
}

/** The methods of a Prisma client that the inbox uses. */
export interface PrismaLike<Tx> extends PrismaQueries {
  $transaction<Value>(
    work: (tx: Tx) => Promise<Value>,
    options?: {
      readonly isolationLevel?: 'ReadCommitted';
      readonly timeout?: number;
      readonly maxWait?: number;
    },
  ): Promise<Value>;
}

/** The methods that a Prisma client also has inside a transaction. */
export interface PrismaQueries {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
}

/** The receiver limits the handler; Prisma's own limit, by default 5 s, must not end the transaction before. */
const PRISMA_TIMEOUT_MS = 2_147_483_647;

/** How long Prisma waits for a connection, in ms; its default of 2 s is short when many handlers start at once. */
const PRISMA_MAX_WAIT_MS = 10_000;

/**
 * Adapts a client of Prisma 7 with `@prisma/adapter-pg`. `ctx.tx` is Prisma's own `TransactionClient`; its
 * `$transaction` is a savepoint. The transaction waits up to 10 s for a connection, and only the receiver's
 * `handlerTimeoutMs` limits how long it takes.
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
  checkDataLayer('fromPrisma', 'a Prisma client: fromPrisma(new PrismaClient({ adapter }))', { prisma }, [
    '$queryRawUnsafe',
    '$transaction',
  ]);
  return adapt<Tx>({
    queries: prisma,
    async send(queries, text, values) {
      return (await (queries as PrismaQueries).$queryRawUnsafe(
        text,
        ...(values as never[]),
      )) as readonly unknown[];
    },
    begin: (work) =>
      prisma.$transaction(work, {
        isolationLevel: 'ReadCommitted',
        timeout: PRISMA_TIMEOUT_MS,
        maxWait: PRISMA_MAX_WAIT_MS,
      }),
    unwrap: unwrapPrisma,
  });
}

/** The methods of a postgres.js `sql` that the inbox uses. */
export interface PostgresJsLike<Tx = PostgresJsQueries> extends PostgresJsQueries {
  begin(options: string, work: (tx: Tx) => Promise<unknown>): Promise<unknown>;
}

/** The methods that a postgres.js `sql` also has inside a transaction. */
export interface PostgresJsQueries {
  unsafe(text: string, values?: never[], options?: { readonly prepare: boolean }): PromiseLike<unknown>;
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
  checkDataLayer('fromPostgresJs', 'the `sql` of postgres.js: fromPostgresJs(postgres(url))', { sql }, [
    'unsafe',
    'begin',
  ]);
  return adapt<Tx>({
    queries: sql,
    async send(queries, text, values) {
      // `never[]` fits the parameter type of every version of postgres.js; it accepts what pg accepts.
      const parameters = values as never[];
      const rows = (queries as PostgresJsQueries).unsafe(text, parameters, { prepare: values.length > 0 });
      return (await rows) as readonly unknown[];
    },
    begin: <Value>(work: (tx: Tx) => Promise<Value>) =>
      sql.begin('isolation level read committed read write', work) as Promise<Value>,
    guard: (tx, gate) => ({ tx: guardPostgresJs(tx as object, gate) as Tx }),
  });
}

/** The result of a statement in most data layers. */
interface Rows {
  readonly rows: readonly unknown[];
}

/** What is different in each data layer. */
interface DataLayer<Tx> {
  /** What sends statements outside of a transaction. */
  readonly queries: unknown;
  /** Sends one statement over `queries`, or over a transaction, and resolves to its rows. */
  send(queries: unknown, text: string, values: unknown[]): Promise<readonly unknown[]>;
  /** The text in which a statement of the inbox reaches {@link DataLayer.guard}. @default unchanged */
  sentAs?(text: string): string;
  /** Opens a transaction at READ COMMITTED. */
  begin<Value>(work: (tx: Tx) => Promise<Value>): PromiseLike<Value>;
  /** Passes each statement of a transaction through the gate. */
  guard?(tx: Tx, gate: Gate): Guarded<Tx> | Promise<Guarded<Tx>>;
  /**
   * The driver's error, without the values of the statement; anything but an error: the error is the driver's.
   *
   * @param text - the statement that failed; `undefined` for those of the data layer itself.
   */
  unwrap?(error: Error, text?: string): unknown;
}

/** The state of one transaction, through which each of its statements passes. */
class Gate implements TransactionWatch {
  /** Its handler has ended; a late statement would undo the event's `done`, or run outside of it and commit by itself. */
  closed = false;
  /** The statement with which the data layer ends it now; another `rollback` would end the transaction of another event. */
  end: 'commit' | 'rollback' | undefined;
  /** Its connection is lost. */
  lost = false;
  /** The statement of the inbox that is being sent; it passes when the gate is closed. */
  own: string | undefined;
  /** The server has answered COMMIT with COMMIT. */
  committed = false;
  /** How many statements of the handler have passed. */
  #sent = 0;
  /** The number of the one that ended the transaction; `NaN` when that is not known. */
  #endedBy: number | undefined;
  #mayHaveEnded = false;

  close(): void {
    this.closed = true;
  }

  hasEndedCleanly(): boolean {
    return this.#endedBy === this.#sent;
  }

  mayHaveEnded(): boolean {
    return this.#mayHaveEnded;
  }

  /** Throws when a statement must not be sent: over a lost connection, or of a late handler. */
  assertOpen(): void {
    if (this.lost) throw new Error('The connection of the transaction is lost.');
    if (!this.closed) return;
    throw new HandlerError(
      'ERR_HANDLER_FAILED',
      'The transaction has ended and the statement was not sent. Await every statement, and stop when `signal` aborts.',
    );
  }

  /** Throws when a text must not be sent. Returns what to call when it has been run, with its error if it has one. */
  pass(text: string): (error?: unknown) => void {
    if (!this.lost && text === this.own) return () => undefined;
    this.assertOpen();
    this.#sent += 1;
    const number = this.#sent;
    const end = readEnd(text);
    if (end !== undefined) this.#mayHaveEnded = true;
    return (error) => {
      // The server says this only of the transaction of the event.
      if (isCommitRefusal(error)) this.#endedBy = number;
      else if (end !== undefined) this.#endedBy ??= end === 'alone' ? number : Number.NaN;
    };
  }

  /** Whether a text is the one with which the data layer ends the transaction now. */
  takeEnd(text: string): Gate['end'] {
    const { end } = this;
    if (!this.closed || text.toLowerCase().replace(/;$/, '') !== end) return undefined;
    this.end = undefined;
    return end;
  }

  /** Called with the result or the error of the end: data layers send ROLLBACK after a COMMIT that failed. */
  onEnded(end: Gate['end'], error: unknown, result?: unknown): void {
    if (end !== 'commit') return;
    if (error === undefined) this.committed = isCommit(result);
    else this.end = 'rollback';
  }
}

interface Guarded<Tx> {
  readonly tx: Tx;
  /** Called when the data layer is about to end the transaction. */
  readonly beforeEnd?: () => void;
  /** Called when the transaction has ended. */
  readonly release?: () => void;
}

function checkDataLayer(
  caller: string,
  expected: string,
  value: Readonly<Record<string, unknown>>,
  methods: readonly string[],
): void {
  const each = required(withMethods(expected, methods));
  readOptions(caller, value, Object.fromEntries(Object.keys(value).map((name) => [name, each])));
}

function adapt<Tx>({
  queries,
  send,
  sentAs = String,
  begin,
  guard,
  unwrap,
}: DataLayer<Tx>): PgTransactionsLike<Tx> {
  function toDriverError(error: unknown, text?: string): unknown {
    const unwrapped = error instanceof Error ? unwrap?.(error, text) : undefined;
    return unwrapped instanceof Error ? unwrapped : error;
  }
  const toClient = (over: unknown): PgLike => ({
    async query(text, values = []) {
      try {
        return { rows: await send(over, text, values) };
      } catch (error) {
        throw toDriverError(error, text);
      }
    },
  });

  /** Sends the statements of the inbox in a transaction. */
  function toQueries(tx: Tx, gate: Gate): PgTransactionQueries {
    const client = toClient(tx);
    const own: PgLike = {
      async query(text, values) {
        gate.own = sentAs(text);
        return client.query(text, values).finally(() => {
          gate.own = undefined;
        });
      },
    };
    if (guard === undefined) return own;
    return {
      ...own,
      hasCommitted: () => gate.committed,
      close: () => gate.close(),
      hasEndedCleanly: () => gate.hasEndedCleanly(),
      mayHaveEnded: () => gate.mayHaveEnded(),
    };
  }

  function transaction<Value>(
    work: (tx: Tx, queries: PgTransactionQueries) => Promise<Value>,
  ): Promise<Value> {
    return new Promise((resolve, reject) => {
      const gate = new Gate();
      let native: Guarded<Tx> | undefined;
      let running = false;
      let rejection: { readonly error: unknown } | undefined;
      let failure: { readonly error: unknown } | undefined;
      // Not while the handler still runs.
      const settle = () => {
        // Some data layers reject with the error of a ROLLBACK that failed.
        if (!running && failure) reject(rejection ? rejection.error : toDriverError(failure.error));
      };
      const body = async (tx: Tx): Promise<Value> => {
        running = true;
        try {
          native = (await guard?.(tx, gate)) ?? { tx };
          const value = await work(native.tx, toQueries(native.tx, gate));
          gate.end = 'commit';
          return value;
        } catch (error) {
          rejection = { error };
          gate.end = 'rollback';
          throw error;
        } finally {
          gate.close();
          native?.beforeEnd?.();
          running = false;
          settle();
          if (gate.lost) await never();
        }
      };
      const onFailure = (error: unknown) => {
        failure = { error };
        gate.lost = running;
        settle();
      };
      Promise.resolve(begin(body))
        .then(resolve, onFailure)
        .finally(() => {
          gate.end = undefined;
          native?.release?.();
        });
    });
  }
  return { ...toClient(queries), transaction };
}

/**
 * After its connection is lost, postgres.js must not go on: it would write to a closed socket, and end the process. Nor
 * with a nested transaction that is late: it would send ROLLBACK TO SAVEPOINT in the transaction of another event.
 * A promise for each, because a promise holds all that waits for it.
 */
const never = () => new Promise<never>(() => undefined);

type Method = (...args: unknown[]) => unknown;

/** The method, whose statements pass through the gate; the data layer itself can still end the transaction. */
function guarded(method: Method, gate: Gate, textOf: (statement: unknown) => unknown = String): Method {
  return async (...args) => {
    const text = String(textOf(args[0]));
    const end = gate.takeEnd(text);
    const onSettled =
      end === undefined
        ? gate.pass(text)
        : (error: unknown, result?: unknown) => gate.onEnded(end, error, result);
    try {
      const result = await method(...args);
      onSettled(undefined, result);
      return result;
    } catch (error) {
      onSettled(error);
      throw error;
    }
  };
}

/** Drizzle's session sends whatever it gets over its client, also when that is back in the pool. */
function guardDrizzle<Tx>(db: DrizzleLike<Tx>, tx: Tx, gate: Gate): Guarded<Tx> {
  const sessionOf = (one: unknown) =>
    (one as { readonly _: { readonly session: { client: object } } })._.session;
  const session = sessionOf(tx);
  // Drizzle takes what it does not know as a pool for a single client.
  if (session === sessionOf(db)) throw new ConfigError(`fromDrizzle: ${ONE_CLIENT}`);
  const { client } = session;
  if (typeof client === 'function') {
    session.client = guardPostgresJs(client, gate);
    return { tx };
  }
  const query: Method = (client as { readonly query: Method }).query.bind(client);
  session.client = replaceMember(client, 'query', guarded(query, gate, textOfStatement));
  if (!('on' in client)) return { tx };
  // Drizzle adds no listener to a client of pg, and an 'error' event without a listener ends the process.
  const events = client as { on: Method; removeListener: Method };
  const onError = () => undefined;
  events.on('error', onError);
  return { tx, release: () => void events.removeListener('error', onError) };
}

/** The text of what `query` of `pg` takes. */
function textOfStatement(statement: unknown): string {
  return typeof statement === 'string' ? statement : String((statement as { readonly text?: unknown }).text);
}

function replaceMember(target: object, replaced: string, replacement: Method): object {
  return new Proxy(target, {
    get(_, name) {
      if (name === replaced) return replacement;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** Kysely refuses late statements once its transaction has ended, but not yet while it waits for the rollback. */
function guardKysely<Tx>(tx: Tx, gate: Gate): Promise<Guarded<Tx>> {
  interface Connection {
    executeQuery: Method;
    streamQuery: Method;
  }
  interface Internals {
    getExecutor(): {
      provideConnection<Value>(consumer: (connection: Connection) => Promise<Value>): Promise<Value>;
    };
  }
  return (tx as Internals).getExecutor().provideConnection(async (connection) => {
    const { executeQuery, streamQuery } = connection;
    const textOf = (query: unknown) => (query as { readonly sql: string }).sql;
    const query = guarded(executeQuery.bind(connection), gate, textOf);
    connection.executeQuery = async (...args) => {
      const isEnding = gate.closed && gate.end !== undefined;
      try {
        return await query(...args);
      } finally {
        // Before the next transaction gets the connection.
        if (isEnding && gate.end === undefined) Object.assign(connection, { executeQuery, streamQuery });
      }
    };
    connection.streamQuery = (...args) => {
      gate.pass(textOf(args[0]));
      return streamQuery.apply(connection, args);
    };
    return { tx };
  });
}

/** Knex refuses late statements once it has sent COMMIT or ROLLBACK, but not yet while the inbox ends the event. */
async function guardKnex<Tx>(tx: Tx, gate: Gate): Promise<Guarded<Tx>> {
  type Callback = (error: unknown, result?: unknown) => void;
  interface Internals {
    readonly client: { acquireConnection(): Promise<{ query: Method }> };
  }
  // The connection of the transaction, which nested ones share.
  const connection = await (tx as Internals).client.acquireConnection();
  const { query } = connection;
  const release = () => {
    // The next transaction can have the connection.
    if (connection.query === guardedQuery) connection.query = query;
  };
  const guardedQuery: Method = (statement, ...rest) => {
    const text = textOfStatement(statement);
    const callback = rest.at(-1) as Callback | undefined;
    if (callback === undefined) {
      // A stream sends itself.
      gate.pass(text);
      return query.call(connection, statement);
    }
    const end = gate.takeEnd(text);
    let onSettled = (error: unknown, result?: unknown) => gate.onEnded(end, error, result);
    try {
      if (end === undefined) onSettled = gate.pass(text);
    } catch (refusal) {
      return callback(refusal);
    }
    return query.call(connection, statement, (error: unknown, result: unknown) => {
      onSettled(error ?? undefined, result);
      // Before the next transaction gets the connection.
      if (end !== undefined && gate.end === undefined) release();
      callback(error, result);
    });
  };
  connection.query = guardedQuery;
  return { tx, release };
}

/** TypeORM refuses late statements once its query runner is released, but not yet while it waits for the rollback. */
function guardTypeOrm<Tx>(tx: Tx, gate: Gate): Guarded<Tx> {
  const { queryRunner } = tx as {
    readonly queryRunner: { query: Method; stream: Method; transactionDepth: number };
  };
  queryRunner.query = guarded(queryRunner.query.bind(queryRunner), gate);
  queryRunner.stream = guarded(queryRunner.stream.bind(queryRunner), gate);
  // Otherwise TypeORM ends a nested transaction that the handler left open, and returns the connection in this one.
  const beforeEnd = () => {
    queryRunner.transactionDepth = 1;
  };
  return { tx, beforeEnd };
}

/** Whether postgres.js closes the connection after this error: of the socket, of postgres.js itself, or FATAL. */
function endsConnection(error: unknown): boolean {
  const { code, severity, syscall } = error as {
    readonly code?: unknown;
    readonly severity?: unknown;
    readonly syscall?: unknown;
  };
  return (
    syscall !== undefined || /^CONNECTION_/.test(String(code)) || /^(FATAL|PANIC)$/.test(String(severity))
  );
}

/** A query of postgres.js, which is sent when it is awaited. */
interface PostgresJsQuery {
  handler: (query: PostgresJsQuery) => void;
  readonly reject: (error: unknown) => void;
  /** The parts of its text. */
  readonly strings: readonly string[];
}

type PostgresJsTag = (strings: TemplateStringsArray, ...values: readonly unknown[]) => unknown;

/**
 * postgres.js sends late statements over a connection that another transaction can have by then. After a connection
 * is lost it writes to a closed socket, which ends the process.
 */
function guardPostgresJs<Sql extends object>(sql: Sql, gate: Gate): Sql {
  function guardQuery(result: unknown): unknown {
    if (!(result instanceof Promise) || !('handler' in result)) return result;
    const query = result as unknown as PostgresJsQuery;
    const send = query.handler;
    let onSettled: ((error?: unknown) => void) | undefined;
    query.handler = Object.assign((sent: PostgresJsQuery) => {
      try {
        onSettled = gate.pass(query.strings.join('$'));
      } catch (error) {
        sent.reject(error);
        return;
      }
      send(sent);
    }, send);
    // Before the handler learns of it. Not `query.then`, which would send it.
    const onSuccess = () => onSettled?.();
    Promise.prototype.then.call(result, onSuccess, (error: unknown) => {
      onSettled?.(error);
      if (endsConnection(error)) gate.lost = true;
    });
    return result;
  }
  const savepoint =
    (method: Method): Method =>
    async (...args) => {
      gate.assertOpen();
      const work = args.pop() as Method;
      return await new Promise((resolve, reject) => {
        const body = async (nested: object) => {
          try {
            const value = await work(guardPostgresJs(nested, gate));
            const values = Array.isArray(value) ? await Promise.all(value) : value;
            gate.assertOpen();
            return values;
          } catch (error) {
            if (!gate.closed && !gate.lost) throw error;
            reject(error);
            return await never();
          }
        };
        Promise.resolve(method(...args, body)).then(resolve, reject);
      });
    };
  /** That of postgres.js sends over a connection of the pool, whatever the transaction comes to. */
  const notify = (channel: unknown, payload: unknown) =>
    guardQuery((sql as PostgresJsTag)`SELECT pg_catalog.pg_notify(${channel}, ${String(payload)})`);
  return new Proxy(sql, {
    apply: (target, self, args) => guardQuery(Reflect.apply(target as unknown as Method, self, args)),
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      // Functions that have the app's types as members, and send nothing.
      if (typeof member !== 'function' || name === 'types' || name === 'typed') return member;
      if (name === 'savepoint') return savepoint(member as Method);
      // It would prepare the transaction at its end instead of committing it.
      if (name === 'prepare') return () => Promise.reject(endedByHandler());
      if (name === 'file') return refuseFile;
      if (name === 'notify') return notify;
      return (...args: unknown[]) => guardQuery(Reflect.apply(member, target, args));
    },
  });
}

/** postgres.js sends the text of a file once it has read it: past the gate, and perhaps past the transaction. */
function refuseFile(): never {
  throw new HandlerError(
    'ERR_HANDLER_FAILED',
    'ctx.tx has no file(), because it would send its text after the transaction can have ended. Read the file, and pass its text to unsafe().',
  );
}

/** What an error of `pg` says without quoting values; its `detail` and `where` do. */
const PLAIN_FIELDS = ['code', 'severity', 'schema', 'table', 'column', 'constraint', 'dataType', 'syscall'];

/** The text that Knex sends: each use of a value has its own number. */
function toKnexText(text: string): string {
  let values = 0;
  return text.replaceAll(/\$\d+/g, () => `$${++values}`);
}

/** Knex writes the statement before the message of the server. */
function unwrapKnex(error: Error, text?: string): Error | undefined {
  // The handler called `tx.commit()` or `tx.rollback()`, and Knex sends nothing more.
  if (error.message.startsWith('Transaction query already complete')) return endedByHandler({ cause: error });
  const prefix =
    text === undefined
      ? /^(BEGIN|COMMIT|ROLLBACK)[A-Z ]*; - /i.exec(error.message)?.[0]
      : `${toKnexText(text)} - `;
  if (prefix === undefined || !error.message.startsWith(prefix)) return undefined;
  const fields = Object.entries(error).filter(([name]) => PLAIN_FIELDS.includes(name));
  return Object.assign(new Error(error.message.slice(prefix.length)), Object.fromEntries(fields));
}

/** Prisma has the SQLSTATE and the server's message in `meta`. */
function unwrapPrisma(error: Error): Error | undefined {
  if (error.message.includes('while a nested transaction is still active')) {
    return new HandlerError(
      'ERR_HANDLER_FAILED',
      'The handler returned while a nested transaction was open, and Prisma rolled back all that it wrote. Await every nested transaction. The event runs again.',
      { cause: error },
    );
  }
  interface Meta {
    readonly driverAdapterError?: {
      readonly cause?: { readonly originalCode?: string; readonly originalMessage?: string };
    };
  }
  const { originalCode, originalMessage = '' } =
    (error as { readonly meta?: Meta }).meta?.driverAdapterError?.cause ?? {};
  return originalCode === undefined
    ? undefined
    : Object.assign(new Error(originalMessage, { cause: error }), { code: originalCode });
}
