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
 * `ctx.tx` is Prisma's own `TransactionClient`. To open a savepoint, call `ctx.tx.$transaction`. Each transaction waits up
 * to 10 s for a connection.
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
        // The lease already limits the transaction, and Prisma's default limit of 5 s is too short.
        timeout: 2_147_483_647,
        // Prisma's default of 2 s is too short when many handlers start at the same time.
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
 * postgres.js's own `TransactionSql`. To open a savepoint, call `ctx.tx.savepoint`.
 *
 * The inbox sends prepared statements, because postgres.js needs two round trips for each unprepared statement. A pooler in
 * transaction mode loses prepared statements. With such a pooler, pass `prepare: false` in the options of `sql`. That option
 * overrides the inbox's choice.
 *
 * postgres.js waits indefinitely for a server that doesn't respond. To limit the wait, pass a `socket` that closes itself
 * when it has been idle for too long. Choose a time limit that is longer than any handler leaves its connection idle.
 * `connect` comes from `node:net`. The types of postgres.js lack the option `socket`, so the example spreads an object.
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
      // `never[]` fits the parameter type of every version of postgres.js.
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
        // If `begin` rejects before its handler ends, the connection is lost.
        gate.refusal ??= () => error;
        throw error;
      })) as Value;
    },
  });
}

/** `refusal` is set once the connection is lost or the handler has ended. */
interface Gate {
  refusal: (() => Error) | undefined;
}

/** After a lost connection, postgres.js would send a ROLLBACK, which would end the process. */
const never = () => new Promise<never>(() => undefined);

type Method = (...args: unknown[]) => unknown;

/** A late statement would use another transaction's connection, and a write to a lost connection would end the process. */
function guard<Sql extends Method>(sql: Sql, gate: Gate): Sql {
  const onError = (error: Error & Readonly<Record<string, unknown>>) => {
    const { code, severity, syscall } = error;
    // postgres.js closes the connection after such an error.
    if (syscall ?? /^CONNECTION_|^FATAL|^PANIC/.exec(`${severity ?? code}`)) gate.refusal ??= () => error;
  };
  const guarded =
    (method: Method): Method =>
    (...args) => {
      if (gate.refusal) {
        const refused = Promise.reject(gate.refusal());
        // A late helper, such as `tx(rows)`, is never awaited, so its rejection is handled here.
        refused.catch(() => undefined);
        return refused;
      }
      const result = method(...args);
      // Closes the gate before the handler sees the error. `result.catch` would send the statement.
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

/** Prisma puts the SQLSTATE and the server's message in `meta` or in the cause. */
function unwrapPrisma(error: Error & PrismaRefusal): Error | undefined {
  if (error.message.includes('while a nested transaction is still active')) return leftNested(error);
  const { cause } = error.meta?.driverAdapterError ?? error;
  if (cause?.originalCode === undefined) return undefined;
  return Object.assign(new Error(cause.originalMessage, { cause: error }), { code: cause.originalCode });
}
