/** A connection to an SQLite file: the least that a driver must offer, how one is opened, and one atomic step. */
import { ConfigError } from '../core/errors.js';

/**
 * What `node:sqlite`, `better-sqlite3`, `libsql` and `bun:sqlite` share, and all that the inbox asks of them.
 * Rows are objects keyed by column; integers are numbers, so leave "safe integers" off.
 */
export interface SqliteLike {
  exec(sql: string): unknown;
  /** The values are texts, numbers and `null`; narrower than `unknown`, better-sqlite3's types do not fit. */
  prepare(sql: string): { all(...values: unknown[]): unknown[] };
}

/** A connection that the inbox opened by itself. */
export interface OwnConnection extends SqliteLike {
  close(): void;
}

/**
 * Opens a file by `node:sqlite`.
 *
 * @throws {ConfigError} where Node has none, naming what to pass in its place.
 */
export function openFile(path: string): OwnConnection {
  // Asked for when it is needed and not imported: Node 20 and bundlers would stop at the import.
  const sqlite = process.getBuiltinModule('node:sqlite') as
    | { readonly DatabaseSync: new (path: string) => OwnConnection }
    | undefined;
  if (sqlite === undefined) {
    throw new ConfigError(
      'This runtime has no node:sqlite, which comes with Node 22.13. Pass a connection in place of the path: new Database(path) of better-sqlite3, libsql or bun:sqlite.',
    );
  }
  return new sqlite.DatabaseSync(path);
}

/**
 * Sets a connection up: waits for other processes, writes ahead, and has every commit on the disk.
 *
 * @returns whether what is committed survives this process: not so for `:memory:`.
 */
export function configure(db: SqliteLike, { busyTimeoutMs }: { readonly busyTimeoutMs: number }): boolean {
  db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  // Not NORMAL, with which a power cut undoes commits that were already answered 200.
  db.exec('PRAGMA synchronous = FULL');
  return writeAhead(db, { until: Date.now() + busyTimeoutMs }) !== 'memory';
}

/** Tries again by itself: for this switch, which wants the file alone, SQLite does not wait. */
function writeAhead(db: SqliteLike, { until }: { readonly until: number }): string | undefined {
  for (;;) {
    try {
      const [answer] = db.prepare('PRAGMA journal_mode = WAL').all() as { readonly journal_mode: string }[];
      return answer?.journal_mode;
    } catch (error) {
      if (!isLocked(error) || Date.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/** Each driver has codes of its own; the words are SQLite's. */
function isLocked(error: unknown): boolean {
  return error instanceof Error && /database (table )?is locked/.test(error.message);
}

/**
 * Does the work in one transaction that takes the write lock first, so that no other process comes between
 * what it reads and what it writes. Nothing in this process does either: the work is synchronous.
 */
export function atomically<Value>(db: SqliteLike, work: () => Value): Value {
  // Fails inside a transaction of the caller's, whose rollback would undo what was answered 200.
  db.exec('BEGIN IMMEDIATE');
  try {
    const value = work();
    db.exec('COMMIT');
    return value;
  } catch (error) {
    try {
      db.exec('ROLLBACK');
    } catch {
      // SQLite had rolled back by itself; why, the first error says.
    }
    throw error;
  }
}
