/** Adapters of the data layers that only support Postgres. */
import { adapt } from './adapt.js';
import { leftNested, sentLate } from './lend.js';
import type { PgTransactionsLike } from './postgres-client.js';

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
 * Adapts a Prisma 7 client with `@prisma/adapter-pg`: `postgresInbox(fromPrisma(prisma), { transactional: true })`.
 * `ctx.tx` is Prisma's own `TransactionClient`. Calling `$transaction` on it opens a savepoint. The transaction waits
 * up to 10 s for a connection.
 */
export function fromPrisma<Tx>(prisma: PrismaLike<Tx>): PgTransactionsLike<Tx> {
  return adapt<Tx, PrismaLike<Tx>>({
    db: prisma,
    async send(queries, text, values) {
      return (await queries.$queryRawUnsafe(text, ...(values as never[]))) as readonly unknown[];
    },
    begin: (work) =>
      prisma.$transaction(work, {
        isolationLevel: 'ReadCommitted',
        // The lease limits the transaction. Prisma's own limit is 5 s.
        timeout: 2_147_483_647,
        // Its default of 2 s is too short when many handlers start at the same time.
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
 * Adapts a postgres.js `sql`: `postgresInbox(fromPostgresJs(postgres(url)), { transactional: true })`. `ctx.tx` is
 * postgres.js's own `TransactionSql`. To nest transactions, call `savepoint` on it.
 *
 * The inbox sends prepared statements, because postgres.js needs two round trips for each unprepared statement. A
 * pooler in transaction mode loses prepared statements. With such a pooler, pass `prepare: false` in the options of
 * `sql`, which takes precedence.
 *
 * postgres.js waits indefinitely for a server that doesn't respond. Pass a `socket` that closes itself after it has
 * been idle for longer than any handler leaves it idle. The types of postgres.js lack this option. `connect` comes
 * from `node:net`.
 *
 * ```ts
 * const socket = ({ host, port }) => {
 *   const opened = connect(port[0], host[0]);
 *   return opened.setTimeout(60_000, () => opened.destroy());
 * };
 * const sql = postgres(url, { ...{ socket } });
 * ```
 */
export function fromPostgresJs<Tx>(sql: PostgresJsLike<Tx>): PgTransactionsLike<Tx> {
  return adapt<Tx, PostgresJsLike<Tx>>({
    db: sql,
    async send(queries, text, values) {
      // `never[]` fits the parameter type of every version of postgres.js; it accepts what pg accepts.
      const parameters = values as never[];
      const rows = await queries.unsafe(text, parameters, { prepare: values.length > 0 });
      // After a lost connection, postgres.js leaves a hole before the rows of the next result.
      return (rows as readonly unknown[]).filter((row) => row !== undefined);
    },
    async begin<Value>(work: (tx: Tx) => Promise<Value>) {
      const gate: Gate = { refusal: undefined };
      const begun = sql.begin('isolation level read committed', async (tx) => {
        try {
          return await work(guard(tx as Tx & Method, gate));
        } finally {
          if (gate.refusal) await never();
          gate.refusal = sentLate;
        }
      });
      return (await begun.catch((error) => {
        // If it rejects before its handler ends, the connection is lost.
        gate.refusal ??= () => error;
        throw error;
      })) as Value;
    },
  });
}

/** Why a postgres.js transaction must not send anything more: its connection is lost, or its handler has ended. */
interface Gate {
  refusal: (() => Error) | undefined;
}

/** postgres.js must not continue after a lost connection: its ROLLBACK would end the process. */
const never = () => new Promise<never>(() => undefined);

type Method = (...args: unknown[]) => unknown;

/** postgres.js sends late statements over another transaction's connection, and a write to a lost one ends the process. */
function guard<Sql extends Method>(sql: Sql, gate: Gate): Sql {
  const onError = (error: Error & Readonly<Record<string, unknown>>) => {
    const { code, severity, syscall } = error;
    // postgres.js closes the connection after it.
    if (syscall ?? /^CONNECTION_|^FATAL|^PANIC/.exec(`${severity ?? code}`)) gate.refusal ??= () => error;
  };
  const guarded =
    (method: Method): Method =>
    (...args) => {
      if (gate.refusal) {
        const refused = Promise.reject(gate.refusal());
        // A late helper, such as `tx(rows)`, is not awaited.
        refused.catch(() => undefined);
        return refused;
      }
      const result = method(...args);
      // Before the handler learns of it. Not `result.catch`, which would send the statement.
      if (result instanceof Promise) Promise.prototype.then.call(result, undefined, onError);
      return result;
    };
  const savepoint =
    (method: Method): Method =>
    (...args) =>
      new Promise((resolve, reject) => {
        const work = args.pop() as Method;
        const nest = async (nested: Method) => {
          try {
            const value = await work(guard(nested, gate));
            return Array.isArray(value) ? await Promise.all(value) : value;
          } catch (error) {
            if (!gate.refusal) throw error;
            reject(error);
            return await never();
          }
        };
        Promise.resolve(guarded(method)(...args, nest)).then(resolve, reject);
      });
  return new Proxy(sql, {
    apply: (target, self, args) => guarded((...each) => Reflect.apply(target, self, each))(...args),
    get(target, name) {
      const member = Reflect.get(target, name) as Method;
      if (name === 'savepoint') return savepoint(member);
      return name === 'unsafe' || name === 'file' ? guarded(member) : member;
    },
  });
}

interface PrismaRefusal {
  readonly cause?: { readonly originalCode?: string; readonly originalMessage?: string };
  readonly meta?: { readonly driverAdapterError?: PrismaRefusal };
}

/** Prisma has the SQLSTATE and the server's message in `meta`. */
function unwrapPrisma(error: Error & PrismaRefusal): Error | undefined {
  if (error.message.includes('while a nested transaction is still active')) return leftNested(error);
  const { cause } = error.meta?.driverAdapterError ?? error;
  if (cause?.originalCode === undefined) return undefined;
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { code: cause.originalCode });
}
