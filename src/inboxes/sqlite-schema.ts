/** The tables of the SQLite inbox, and how an older file becomes a newer one. */
import { ConfigError } from '../core/errors.js';
import { atomically, type SqliteLike } from './sqlite-connection.js';

/**
 * Each entry leads from the version of its index to the next. Released entries never change.
 *
 * Text compares bytewise (BINARY, SQLite's default). `last_error` is kept as a JSON string: drivers cut text
 * at NUL and replace lone surrogates.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE stablehooks_events (
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
    event TEXT
  ) STRICT;
  CREATE INDEX stablehooks_due ON stablehooks_events (due_at) WHERE due_at IS NOT NULL;
  CREATE INDEX stablehooks_parked ON stablehooks_events (type) WHERE state = 'parked';
  CREATE INDEX stablehooks_prunable ON stablehooks_events (updated_at) WHERE state = 'done' AND event IS NOT NULL;
  CREATE INDEX stablehooks_states ON stablehooks_events (state, received_at, id, updated_at);
  CREATE TABLE stablehooks_poll (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    holder TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    horizon INTEGER,
    largest INTEGER NOT NULL
  ) STRICT;
  `,
];

/**
 * Brings the file to this release's version, in one transaction: of two processes that open it at once, one
 * does so and the other finds it done.
 *
 * The version has a table of its own. `PRAGMA user_version` belongs to the whole file, and so to the app
 * whose tables may be in it.
 *
 * @throws {ConfigError} when a newer release wrote the file.
 */
export function migrate(db: SqliteLike): void {
  atomically(db, () => {
    db.exec(
      'CREATE TABLE IF NOT EXISTS stablehooks_schema (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT',
    );
    const [row] = db.prepare('SELECT version FROM stablehooks_schema').all() as {
      readonly version: number;
    }[];
    const version = row?.version ?? 0;
    if (version > MIGRATIONS.length) {
      throw new ConfigError(
        `A newer release of stablehooks wrote this SQLite file: its tables are of version ${version}, this release knows ${MIGRATIONS.length}. Upgrade stablehooks in this process.`,
      );
    }
    for (const migration of MIGRATIONS.slice(version)) db.exec(migration);
    if (version < MIGRATIONS.length) {
      db.exec(`INSERT OR REPLACE INTO stablehooks_schema VALUES (1, ${MIGRATIONS.length})`);
    }
  });
}
