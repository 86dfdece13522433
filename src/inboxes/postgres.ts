import { ConfigError, StablehooksError } from '../core/errors.js';
import { boolean, integer, readOptions } from '../core/options.js';
import { INBOX_STATES, type Inbox, type InboxOperations } from '../core/ports.js';
import { RUNTIME, toRuntime } from '../core/runtime.js';
import { TransactionEnded } from './adapt.js';
import { createInbox, type Stored, type StoreOps } from './create-inbox.js';
import { endedByHandler } from './lend.js';
import {
  overPool,
  type PgClientLike,
  type PgLike,
  type PgPoolLike,
  type PgTransactional,
  type PgTransactionsLike,
  poolRule,
  REFUSED,
  runInTransaction,
  send as sendStatement,
} from './postgres-client.js';
import {
  isConflict,
  isForbidden,
  isLeftOpen,
  isNotMigrated,
  isPoolerError,
  isReadOnly,
  preparedLost,
  rethrowCommitError,
  rolledBackAtCommit,
} from './postgres-errors.js';
import { type PgTemplate, type PostgresSchemaOptions, SCHEMA_RULE, writeStatements } from './postgres-sql.js';
import { type EventRow, toRecord } from './rows.js';
import {
  assertFreeConnection,
  assertVersion,
  callOps,
  checkedOften,
  type EndedRow,
  keepOneFree,
  leftOpen,
  readCount,
  type ServerInboxOptions,
  sendAgain,
  storeInParts,
  toEnded,
} from './server-inbox.js';
import { bind, type Statement, type Values } from './statements.js';

export type { Inbox, InboxOperations } from '../core/ports.js';
export type { DataLayer } from './adapt.js';
export * from './data-layers.js';
export { fromPostgresJs, fromPrisma, type PostgresJsLike, type PrismaLike } from './postgres-adapters.js';
export type {
  PgClientLike,
  PgLike,
  PgPoolLike,
  PgTransactionsLike,
  PgTx,
} from './postgres-client.js';
export { migratePostgres, type PostgresSchemaOptions, postgresMigrations } from './postgres-sql.js';

/** Options of {@link postgresInbox}. */
export interface PostgresInboxOptions extends PostgresSchemaOptions, ServerInboxOptions {}

/**
 * Stores events in Postgres tables, for any number of receivers and workers. Create the tables with {@link migratePostgres}.
 * Claiming, completing, failing and recording an event take one round trip each. You own the pool: set its size and
 * timeouts, add an `error` listener, and close the pool yourself. The inbox doesn't accept a single `Client`, because other
 * code could have a transaction open on that connection, and a rollback would undo what the inbox has confirmed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `pool` is invalid.
 */
export function postgresInbox<Tx = PgClientLike>(
  pool: PgPoolLike<Tx> | PgTransactionsLike<Tx>,
  options: PostgresInboxOptions & { readonly transactional: true },
): Inbox<Tx> & InboxOperations;
export function postgresInbox(
  // Only a single `Client` has this method, so the type of `pool` excludes a `Client`.
  pool: PgLike & { readonly escapeLiteral?: never },
  options?: PostgresInboxOptions & { readonly transactional?: false | undefined },
): Inbox & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  options: PostgresInboxOptions = {},
): Inbox<unknown> & InboxOperations {
  const { schema, transactional, connections, ...given } = readOptions('postgresInbox', options, {
    schema: SCHEMA_RULE,
    transactional: boolean(false),
    connections: integer({ default: sizeOf(pool) }),
    runtime: RUNTIME,
  });
  readOptions('postgresInbox', { pool }, { pool: poolRule(transactional) });
  const statements = writeStatements(schema);
  const runtime = toRuntime(given.runtime);
  const inTurn = keepOneFree(pool, connections);
  const queries = 'connect' in pool ? overPool(pool as PgPoolLike, runtime) : pool;

  /** Only `pg` accepts named statements, and poolers in transaction mode can lose them. */
  let areNamed = 'connect' in pool;

  function toStatement(template: PgTemplate, given: Values): Statement {
    const { name, ...statement } = bind(template, given);
    return areNamed ? { ...statement, name } : statement;
  }

  /** If a pooler has lost a named statement, calls `sending` again without names, unless a handler has begun. */
  async function withoutNames<Value>(sending: () => Promise<Value>, hasBegun = () => false): Promise<Value> {
    const wereNamed = areNamed;
    try {
      return await sending();
    } catch (error) {
      if (!isPoolerError(error) || hasBegun()) throw error;
      if (!wereNamed) throw preparedLost(error);
      areNamed = false;
      return sending();
    }
  }

  async function query<Row>(template: PgTemplate, given: Values): Promise<readonly Row[]> {
    const values = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, Array.isArray(value) ? toArrayText(value) : value]),
    );
    try {
      const conflicts = { isConflict, tries: 50 };
      const sending = () => sendStatement(queries, toStatement(template, values));
      return (await sendAgain(() => withoutNames(sending), conflicts, runtime)) as readonly Row[];
    } catch (error) {
      if (isNotMigrated(error)) {
        throw new ConfigError(
          `postgresInbox: the tables or functions in the schema ${schema} are missing; see the cause. Call migratePostgres(pool) at startup, or run the statements of postgresMigrations(), with the same \`schema\`.`,
          { cause: error },
        );
      }
      if (isReadOnly(error)) await closeReadOnly();
      if (isForbidden(error)) throw await forbidden(error);
      if (!isLeftOpen(error)) throw error;
      await pool.query('ROLLBACK').catch(() => undefined);
      throw leftOpen(error);
    }
  }

  const assertTables = checkedOften(async () => {
    const [row] = await query<{ readonly version: string }>(statements.version, {});
    if (row) assertVersion('postgresInbox', row.version, 'Call migratePostgres(pool) at startup');
  }, runtime);

  async function send<Row>(template: PgTemplate, given: Values): Promise<readonly Row[]> {
    await assertTables();
    if (!template.isRun) return query(template, given);
    const { text: statement, values: parameters } = bind(template, given);
    const [row] = await query<{ readonly answer: string }>(statements.run, { statement, parameters });
    return JSON.parse(row?.answer ?? '[]') as readonly Row[];
  }

  /** The server closes the connection, because data layers can't. The next connection reaches the new primary. */
  const closeReadOnly = () => pool.query(CLOSE_READ_ONLY).catch(() => undefined);

  /** Returns `cause` if the server can't tell which privileges the role lacks. */
  async function forbidden(cause: unknown): Promise<unknown> {
    const rows = await sendStatement(queries, toStatement(statements.lacking, {})).catch(() => []);
    const [{ answer } = { answer: null }] = rows as readonly { readonly answer: string | null }[];
    if (answer === null) return cause;
    const message = `The inbox failed because the pool's role lacks ${answer}. Run GRANT as the owner of the tables.`;
    return new StablehooksError('ERR_INBOX_FAILED', message, { cause });
  }

  const ops: StoreOps<unknown> = {
    ...callOps((name, values) => send(statements[name], values), { transactional, connections }),

    async finish({ id, token, key = null, first }, end) {
      const values = { id, token, key, ...first, ...end };
      const [row] = await send<EndedRow>(first ? statements.failFirst : statements.finish, values);
      return toEnded(row, end);
    },

    list: async ({ after, ...query }) => {
      const rows = await send<EventRow>(statements.list({ after, ...query }), { ...query.selection, after });
      return rows.map(toRecord);
    },
    count: (selection = { states: INBOX_STATES }) => send(statements.count(selection), { ...selection }),
    endLeases: (which) => send(statements.endLeases(which), { ...which.selection }),
    requeue: async (which, who) =>
      readCount(await send(statements.requeue(which, who), { ...which.selection, ...who })),
    discard: async (which, who) =>
      readCount(await send(statements.discard(which), { ...which.selection, ...who })),

    store: ({ events, ...page }) =>
      storeInParts(events, (part) =>
        send<Stored>(statements.record, {
          ...page,
          ids: part.map(({ id }) => id),
          types: part.map(({ type }) => type),
          texts: part.map(({ json }) => json),
          keys: part.map(({ key }) => key),
          created: part.map(({ createdMs }) => createdMs),
        }),
      ),

    ...(transactional && {
      takesFirst: true,

      async ownSteps({ id, token }) {
        assertFreeConnection(connections);
        await send(statements.ownSteps, { id, token });
      },

      async transaction(lease, effect) {
        await assertTables();
        const { id, token, key, first } = lease;
        let hasBegun = false;
        let hasReturned = false;
        try {
          const run = () => {
            // A long schema name leaves no room for a statement's name. A statement without a name sets the limit itself.
            const isPrepared = areNamed && statements.takePrepared.name !== undefined;
            const how = !first ? (key === undefined ? 'mark' : 'hold') : isPrepared ? 'takePrepared' : 'take';
            return runInTransaction(
              pool as PgTransactional<unknown>,
              {
                begin: toStatement(statements[how], { id, token, ...first }),
                limitMs: first?.leaseMs,
                complete: how === 'hold' ? bind(statements.complete, { id, token, key }) : undefined,
                async effect(tx) {
                  hasBegun = true;
                  await effect(tx);
                  hasReturned = true;
                },
              },
              runtime,
            );
          };
          const hasCommitted = await inTurn(() => withoutNames(run, () => hasBegun));
          if (!hasCommitted && (await send(statements.isDone, { id })).length === 0)
            throw rolledBackAtCommit();
          return true;
        } catch (error) {
          if (error === REFUSED) return false;
          // If the event is done, the handler called a method of the data layer that committed the transaction.
          if (error instanceof TransactionEnded && (await send(statements.isDone, { id })).length > 0)
            throw endedByHandler(error);
          if (isReadOnly(error)) await closeReadOnly();
          if (isForbidden(error) && !hasBegun) throw await forbidden(error);
          if (isLeftOpen(error) && !hasBegun) throw leftOpen(error);
          if (hasReturned) rethrowCommitError(error);
          throw error;
        }
      },
    }),
  };
  return createInbox(ops, runtime);
}

/** Returns the size of a `Pool` from `pg` or of a PGlite, which has one connection. */
function sizeOf(pool: unknown): number | undefined {
  const { options, transaction, waitReady } = Object(pool);
  return transaction !== undefined && waitReady !== undefined ? 1 : options?.max;
}

const CLOSE_READ_ONLY = `SELECT pg_terminate_backend(pg_backend_pid())
WHERE pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`;

/** postgres.js with `fetch_types: false` can't send arrays. */
function toArrayText(items: readonly unknown[]): string {
  const quote = (item: unknown): string => {
    if (item === null) return 'NULL';
    return `"${String(Array.isArray(item) ? toArrayText(item) : item).replaceAll(/["\\]/g, '\\$&')}"`;
  };
  return `{${items.map(quote).join()}}`;
}
