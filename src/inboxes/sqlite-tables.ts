import { ConfigError } from '../core/errors.js';

/**
 * The methods that the inbox uses. `node:sqlite`, `better-sqlite3`, `libsql` and `bun:sqlite` all have them. A row must be
 * an object with one property per column, and an integer must be a number. The inbox rejects a connection that uses "safe
 * integers".
 */
export interface SqliteLike {
  exec(sql: string): void;
  /** The values are strings, numbers or `null`, but the types of better-sqlite3 need `unknown` here. */
  prepare(sql: string): {
    all(...values: unknown[]): unknown[];
    run(...values: unknown[]): { readonly changes: number | bigint };
  };
}

/** These events still have to run. {@link DUE} orders them. */
export const OPEN = "(due_at IS NOT NULL OR state = 'parked')";

/** Parked events are due first. */
export const DUE = 'coalesce(due_at, 0)';

/**
 * The entry with index `n` changes the tables from version `n` to version `n + 1`. Released entries never change. Only one
 * index contains done events, because each index adds a page to the commit of a new event.
 */
const writeMigrations = (prefix: string): readonly string[] => [
  `
  CREATE TABLE ${prefix}_events (
    id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    source TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at INTEGER,
    token TEXT,
    last_error TEXT,
    event TEXT,
    history TEXT,
    key TEXT,
    created_at INTEGER,
    waiting INTEGER NOT NULL DEFAULT 0,
    pruned INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX ${prefix}_events_due ON ${prefix}_events (type, ${DUE}) WHERE ${OPEN};
  CREATE INDEX ${prefix}_events_states ON ${prefix}_events (state, pruned, received_at, updated_at);
  CREATE UNIQUE INDEX ${prefix}_events_key_leased ON ${prefix}_events (key) WHERE key IS NOT NULL AND state = 'leased';
  CREATE INDEX ${prefix}_events_key_waiting ON ${prefix}_events (key, created_at) WHERE state = 'received' AND waiting = 1;
  CREATE TABLE ${prefix}_steps (
    event_id TEXT NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    result TEXT,
    PRIMARY KEY (event_id, name)
  ) STRICT;
  CREATE INDEX ${prefix}_steps_unknown ON ${prefix}_steps (event_id) WHERE result IS NULL;
  CREATE TABLE ${prefix}_notes (
    name TEXT NOT NULL PRIMARY KEY,
    text TEXT,
    holder TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    leased_at INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE TABLE ${prefix}_flushes (count INTEGER NOT NULL) STRICT;
  INSERT INTO ${prefix}_flushes VALUES (0);
  `,
];

/** The version is in a table, because the app owns `PRAGMA user_version`. */
export function migrate(
  db: SqliteLike,
  { prefix, inbox }: { readonly prefix: string; readonly inbox: 'sqliteInbox' | 'durableObjectInbox' },
): void {
  const migrations = writeMigrations(prefix);
  db.exec(
    `CREATE TABLE IF NOT EXISTS ${prefix}_schema (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT`,
  );
  const [row] = db.prepare(`SELECT version FROM ${prefix}_schema`).all() as {
    readonly version: number;
  }[];
  const version = row?.version ?? 0;
  if (version > migrations.length) {
    throw new ConfigError(
      `${inbox}: a newer release of stablehooks wrote this file. The tables have version ${version}, but this release supports version ${migrations.length}. Upgrade stablehooks in this process.`,
    );
  }
  for (const migration of migrations.slice(version)) db.exec(migration);
  if (version < migrations.length) {
    db.exec(`INSERT OR REPLACE INTO ${prefix}_schema VALUES (1, ${migrations.length})`);
  }
}
