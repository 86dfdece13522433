import { ConfigError } from '../core/errors.js';
import { boolean, integer, readOptions } from '../core/options.js';
import { INBOX_STATES, type Inbox, type InboxOperations } from '../core/ports.js';
import { RUNTIME, toRuntime } from '../core/runtime.js';
import { createInbox, type StoreOps } from './create-inbox.js';
import {
  isConflict,
  isLeftOpen,
  isNotMigrated,
  isReadOnly,
  LEASE_LOST,
  type MysqlConnectionLike,
  type MysqlTransactional,
  POOL_RULE,
  runInTransaction,
  toMysql,
} from './mysql-client.js';
import { type MysqlPrefixOptions, mysqlMigrations, writeStatements } from './mysql-sql.js';
import { PREFIX_RULE } from './name-rule.js';
import type { Person } from './operations.js';
import { type EventRow, toRecord } from './rows.js';
import type { Limited } from './selection.js';
import {
  assertVersion,
  callOps,
  checkedOften,
  keepOneFree,
  leftOpen,
  readCount,
  type ServerInboxOptions,
  sendAgain,
  storeInParts,
} from './server-inbox.js';
import { bind, place, type Template, type Values } from './statements.js';

export type { Inbox, InboxOperations } from '../core/ports.js';
export type { DataLayer } from './adapt.js';
export * from './data-layers.js';
export type {
  MysqlConnectionLike,
  MysqlPoolLike,
  MysqlTransactionsLike,
} from './mysql-client.js';
export { type MysqlPrefixOptions, mysqlMigrations } from './mysql-sql.js';

/** Options of {@link mysqlInbox}. */
export interface MysqlInboxOptions extends MysqlPrefixOptions, ServerInboxOptions {}

/**
 * Creates the inbox's tables and procedures in the pool's database. Call this function whenever a process starts. Several
 * processes can call it at the same time.
 *
 * The database user needs the privileges CREATE and CREATE ROUTINE. Once the tables exist, the user needs neither
 * privilege.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `pool` or an option is invalid, or when the character set of the pool's
 * connections isn't utf8mb4. Rejects with the driver's error if a statement fails, for example because the user lacks a
 * privilege.
 */
export async function migrateMysql(
  pool: MysqlTransactional<unknown>,
  options: MysqlPrefixOptions = {},
): Promise<void> {
  readOptions('migrateMysql', { pool }, { pool: POOL_RULE });
  const { prefix } = readOptions('migrateMysql', options, { prefix: PREFIX_RULE });
  const mysql = toMysql(pool);
  const { rows } = await mysql.query('SELECT @@character_set_client AS charset');
  const [{ charset } = { charset: 'unknown' }] = rows as readonly { readonly charset: string }[];
  if (String(charset) !== 'utf8mb4') {
    throw new ConfigError(
      `migrateMysql: the connection's character set is ${charset}, which cannot store every event. Create the pool with \`charset: 'utf8mb4'\`, which is the default in mysql2.`,
    );
  }
  if ((await mysql.query(writeStatements(prefix).isMigrated)).rows.length > 0) return;
  for (const statement of mysqlMigrations({ prefix })) await mysql.query(statement);
}

/**
 * Stores events in InnoDB tables of MariaDB or MySQL, for any number of receivers and workers. Create the tables with {@link
 * migrateMysql}. Claiming, completing, failing and recording an event take one round trip each. You own the pool: set its
 * size and timeouts, and close the pool yourself. The inbox doesn't accept a single connection, because other code could
 * have a transaction open on that connection, and a rollback would undo what the inbox has confirmed.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `pool` is invalid.
 */
export function mysqlInbox<Tx = MysqlConnectionLike>(
  pool: MysqlTransactional<Tx>,
  options: MysqlInboxOptions & { readonly transactional: true },
): Inbox<Tx> & InboxOperations;
export function mysqlInbox(
  pool: MysqlTransactional<unknown>,
  options?: MysqlInboxOptions & { readonly transactional?: false | undefined },
): Inbox & InboxOperations;
export function mysqlInbox(
  pool: MysqlTransactional<unknown>,
  options: MysqlInboxOptions = {},
): Inbox<unknown> & InboxOperations {
  const { prefix, transactional, connections, ...given } = readOptions('mysqlInbox', options, {
    prefix: PREFIX_RULE,
    transactional: boolean(false),
    connections: integer({ default: sizeOf(pool) }),
    runtime: RUNTIME,
  });
  readOptions('mysqlInbox', { pool }, { pool: POOL_RULE });
  const runtime = toRuntime(given.runtime);
  const mysql = toMysql(pool, runtime);
  const { calls, version, ...selections } = writeStatements(prefix);
  const inTurn = keepOneFree(pool, connections);

  const assertTables = checkedOften(async () => {
    const [row] = (await mysql.query(version)).rows as readonly { readonly version: string }[];
    const found = /\d+$/.exec(row?.version ?? '')?.[0] ?? 0;
    if (row) assertVersion('mysqlInbox', found, 'Call migrateMysql(pool) at startup');
  }, runtime);

  async function send<Row>(template: Template, given: Values): Promise<readonly Row[]> {
    const { text, values } = bind(template, given);
    const sent = values.map((value) => (Array.isArray(value) ? JSON.stringify(value) : value));
    try {
      await assertTables();
      // When many calls run at the same time, deadlocks end many of their transactions.
      const conflicts = { isConflict, tries: 200 };
      const { rows } = await sendAgain(() => mysql.query(text, sent), conflicts, runtime);
      return rows as readonly Row[];
    } catch (error) {
      throw await toFailure(error);
    }
  }

  async function toFailure(error: unknown): Promise<unknown> {
    // Data layers have no method that closes a connection, and only a new connection reaches the new primary.
    if (isReadOnly(error) && !mysql.isPool) await mysql.query('KILL CONNECTION_ID()').catch(() => undefined);
    if (isLeftOpen(error)) return leftOpen(error);
    if (!isNotMigrated(error)) return error;
    return new ConfigError(
      `mysqlInbox: the tables or procedures ${prefix}_… are missing from the pool's database; see the cause. Call migrateMysql(pool) at startup, or run the statements of mysqlMigrations(), with the same \`prefix\`.`,
      { cause: error },
    );
  }

  type Id = Pick<EventRow, 'id'>;

  const findIds = async (which: Limited) =>
    (await send<Id>(place(selections.first('id', which)), { ...which.selection })).map(({ id }) => id);

  async function change(name: 'requeue' | 'discard', which: Limited, who?: Person): Promise<number> {
    const { by = null, reason = null } = who ?? {};
    return readCount(await send(calls[name], { by, reason, ids: await findIds(which) }));
  }

  const partsOf = (lease: { readonly id: string; readonly token: string; readonly key: string | null }) => ({
    begin: bind(calls.fence, { id: lease.id, token: lease.token, begins: mysql.isPool }),
    complete: bind(calls.complete, { ...lease }),
    undo: bind(calls.undo, {}),
  });

  const ops: StoreOps<unknown> = {
    ...callOps((name, values) => send(calls[name], values), { transactional, connections }),

    list: async ({ after, ...query }) => {
      const page = place(selections.list({ after, ...query }));
      return (await send<EventRow>(page, { ...query.selection, after })).map(toRecord);
    },
    count: (selection = { states: INBOX_STATES }) =>
      send(place(selections.count(selection)), { ...selection }),
    async endLeases(which) {
      const { ahead, expired } = which.selection;
      const ids = await findIds(which);
      const force = ahead === undefined && expired === undefined;
      return ids.length === 0
        ? []
        : (await send<Id>(calls.endLeases, { ids, force })).map(({ id }) => ({ id: String(id) }));
    },
    requeue: (which, who) => change('requeue', which, who),
    discard: (which, who) => change('discard', which, who),

    store: ({ events, ...page }) =>
      storeInParts(events, (part) => {
        const rows = part.map(({ id, type, json, key, createdMs }) =>
          key === null ? [id, type, json] : [id, type, json, createdMs, key],
        );
        return send(calls.record, { ...page, events: rows });
      }),

    ...(transactional && {
      rehearse: (effect) =>
        inTurn(() => runInTransaction(mysql, { ...partsOf(NO_LEASE), needsLease: false, effect })),

      async transaction({ id, token, key }, effect) {
        let hasBegun = false;
        try {
          await assertTables();
          await inTurn(() =>
            runInTransaction(mysql, {
              ...partsOf({ id, token, key: key ?? null }),
              needsLease: true,
              async effect(tx) {
                hasBegun = true;
                await effect(tx);
              },
            }),
          );
          return true;
        } catch (error) {
          if (error === LEASE_LOST) return false;
          const failure = await toFailure(error);
          throw hasBegun ? error : failure;
        }
      },
    }),
  };
  return createInbox(ops, runtime);
}

const NO_LEASE = { id: '', token: '', key: null };

const sizeOf = (pool: unknown): number | undefined => Object(pool).pool?.config?.connectionLimit;
