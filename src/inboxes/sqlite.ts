import { ConfigError } from '../core/errors.js';
import { boolean, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Inbox, InboxOperations, Synchronous } from '../core/ports.js';
import { RUNTIME, type Runtime, toStoreRuntime } from '../core/runtime.js';
import { PREFIX_RULE } from './name-rule.js';
import {
  assertRows,
  atomically,
  configure,
  createTransactions,
  isQueryOnly,
  type OwnConnection,
  openPath,
} from './sqlite-connection.js';
import { createSqliteInbox, type SynchronousInboxOptions } from './sqlite-inbox.js';
import { migrate, type SqliteLike } from './sqlite-tables.js';

export type { SqliteLike } from './sqlite-tables.js';

/** Options of {@link sqliteInbox}. */
export interface SqliteInboxOptions extends SynchronousInboxOptions {
  /**
   * How long an operation waits while another process writes, in ms. After this time, the operation fails and the
   * delivery gets a 503. The drivers are synchronous, so this process does nothing else while it waits.
   *
   * @default 5_000
   */
  readonly busyTimeoutMs?: number | undefined;
}

/** The inbox that {@link sqliteInbox} returns. */
export interface SqliteInbox<Tx = undefined> extends Inbox<Tx>, InboxOperations {
  /** Closes the file if you passed a path. If you passed a connection, that connection stays open. */
  close(): void;
}

const CONNECTION = withMethods('a connection', ['exec', 'prepare']);
const FILE = rule(
  'a path, or a connection from node:sqlite, better-sqlite3, libsql or bun:sqlite',
  (value) => (typeof value === 'string' ? value !== '' : CONNECTION.accepts(value)),
);

/**
 * Stores events in an SQLite file. The inbox creates and migrates its tables, whose names start with `prefix`. All
 * processes on one machine can share the file.
 *
 * Pass a path, which the inbox opens with `node:sqlite`, or a connection from `node:sqlite`, `better-sqlite3`, `libsql` or
 * `bun:sqlite`. The inbox switches the connection to WAL mode. Before a response confirms an event, the inbox commits the
 * event with `synchronous = FULL`, so the event survives a power failure. Your own statements keep the connection's
 * `synchronous` level.
 *
 * Each operation runs in a transaction. The operation fails if your app has a transaction open on the same connection. If
 * your app keeps transactions open across an `await`, give the inbox its own connection. The file must be on a local disk.
 * If the connection has `PRAGMA query_only` set and the tables are up to date, the inbox takes no lock, and the file can
 * be read-only.
 *
 * @param file - a path, or a connection.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `file` is invalid, when the connection reads integers as
 * BigInt, when the file can't be used, when a newer release wrote the file, or when `file` is a path and this runtime has
 * no `node:sqlite`.
 *
 * @example
 * ```ts
 * const db = new Database('app.db');
 * const receiver = createReceiver({
 *   secret,
 *   inbox: sqliteInbox(db, { transactional: true }),
 *   handlers: {
 *     'transfer.settled': (event, { tx }) => tx.prepare('INSERT INTO ledger (event_id) VALUES (?)').run(event.id),
 *   },
 * });
 * ```
 */
export function sqliteInbox<Connection extends SqliteLike>(
  file: Connection,
  options: SqliteInboxOptions & { readonly transactional: true },
): SqliteInbox<Synchronous<Connection>>;
export function sqliteInbox(
  file: string,
  options: SqliteInboxOptions & { readonly transactional: true },
): SqliteInbox<Synchronous<SqliteLike>>;
export function sqliteInbox(file: string | SqliteLike, options?: SqliteInboxOptions): SqliteInbox;
export function sqliteInbox(
  file: string | SqliteLike,
  options: SqliteInboxOptions = {},
): SqliteInbox<unknown> {
  const { prefix, busyTimeoutMs, transactional, ...given } = readOptions('sqliteInbox', options, {
    prefix: PREFIX_RULE,
    busyTimeoutMs: integer({ default: 5_000, min: 0 }),
    transactional: boolean(false),
    runtime: RUNTIME,
  });
  readOptions('sqliteInbox', { file }, { file: required(FILE) });
  const runtime = toStoreRuntime(given.runtime);
  const { db, durable, transactions, close } = open(file, { prefix, busyTimeoutMs, runtime });
  const tx = transactional ? db : undefined;
  return { ...createSqliteInbox<unknown>({ db, prefix, tx, durable, runtime, transactions }), close };
}

/** Does everything that can fail, so that it fails before the first event arrives. */
function open(
  file: string | SqliteLike,
  {
    prefix,
    busyTimeoutMs,
    runtime,
  }: { readonly prefix: string; readonly busyTimeoutMs: number; readonly runtime: Runtime },
) {
  let own: OwnConnection | undefined;
  try {
    if (typeof file === 'string') own = openPath(file);
    const db = own ?? (file as SqliteLike);
    assertRows(db);
    const durable = configure(db, { busyTimeoutMs });
    const migrateTables = () => migrate(db, { prefix, inbox: 'sqliteInbox' });
    if (isQueryOnly(db)) migrateTables();
    else atomically(db, migrateTables);
    return {
      db,
      durable,
      transactions: createTransactions(db, runtime),
      close: () => own?.close(),
    };
  } catch (cause) {
    own?.close();
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(
      'sqliteInbox: the SQLite file cannot be used; see the cause. Check that the file is a database, that this process can write to the file and its directory, and that no other process keeps the file locked.',
      { cause },
    );
  }
}
