import { setImmediate } from 'node:timers';
import { ConfigError, messageOf, PermanentError, StablehooksError } from '../core/errors.js';
import type { Transactions } from './sqlite-inbox.js';
import type { SqliteLike } from './sqlite-tables.js';

/** A connection that the inbox opened and closes. */
export interface OwnConnection extends SqliteLike {
  close(): void;
}

/**
 * Opens a file with `node:sqlite`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when this runtime has no `node:sqlite`.
 */
export function openPath(path: string): OwnConnection {
  // Not an import: Node 20 and bundlers fail at the import.
  const sqlite = process.getBuiltinModule('node:sqlite') as
    | { readonly DatabaseSync: new (path: string) => OwnConnection }
    | undefined;
  if (sqlite === undefined) {
    throw new ConfigError(
      'sqliteInbox: this runtime has no node:sqlite, which Node 22.13 and later have. Pass a connection instead of the path: new Database(path) of better-sqlite3, libsql or bun:sqlite.',
    );
  }
  return new sqlite.DatabaseSync(path);
}

/**
 * Checks how the connection reads rows. Its statements keep what is set when they are prepared, which is next.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when it reads integers as BigInt or rows as arrays: what an event has gone
 * through would be misread.
 */
export function assertRows(db: SqliteLike): void {
  const [row] = db.prepare('SELECT 1 AS one').all() as { readonly one?: unknown }[];
  if (row?.one === 1) return;
  const found = typeof row?.one === 'bigint' ? 'integers as BigInt' : 'rows that are not objects';
  throw new ConfigError(
    `sqliteInbox: the connection returns ${found}. Pass a connection for the inbox alone that returns integers as numbers and rows as objects: without defaultSafeIntegers, safeIntegers, readBigInts and returnArrays.`,
  );
}

/**
 * Sets the busy timeout and the write-ahead log.
 *
 * @returns whether committed data survives this process; `false` for `:memory:`, and for the temporary file of an empty path.
 */
export function configure(db: SqliteLike, { busyTimeoutMs }: { readonly busyTimeoutMs: number }): boolean {
  db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  const journal = enableWriteAheadLog(db, { until: Date.now() + busyTimeoutMs });
  const files = db.prepare('PRAGMA database_list').all() as readonly {
    readonly name: string;
    readonly file: string | null;
  }[];
  return journal !== 'memory' && Boolean(files.find(({ name }) => name === 'main')?.file);
}

/** Retries while the file is locked: SQLite does not apply the busy timeout to this change. */
function enableWriteAheadLog(db: SqliteLike, { until }: { readonly until: number }): string {
  for (;;) {
    try {
      const [answer] = db.prepare('PRAGMA journal_mode = WAL').all() as [{ readonly journal_mode: string }];
      return answer.journal_mode;
    } catch (error) {
      if (!isLocked(error) || Date.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/** Error codes differ between the drivers; the message is SQLite's own. */
function isLocked(error: unknown): boolean {
  return error instanceof Error && /database (table )?is locked/.test(error.message);
}

/**
 * Runs the work in a transaction that takes the write lock first: no other process writes between its reads and
 * writes. The work is synchronous, so nothing else in this process runs in between either.
 */
export function atomically<Value>(db: SqliteLike, work: () => Value): Value {
  execOutside(db, 'BEGIN IMMEDIATE');
  try {
    const value = work();
    db.exec('COMMIT');
    return value;
  } catch (error) {
    try {
      db.exec('ROLLBACK');
    } catch {
      // SQLite has already rolled back; the first error says why.
    }
    throw error;
  }
}

/** Names a transaction of the app as the cause: its rollback would undo events that were answered 200. */
function execOutside(db: SqliteLike, sql: string): void {
  try {
    db.exec(sql);
  } catch (cause) {
    if (!/(?:within|inside) a transaction/.test(messageOf(cause) ?? '')) throw cause;
    throw new Error(
      'The app has a transaction open on the connection of the inbox. Give the inbox a connection of its own.',
      { cause },
    );
  }
}

/** Exists as long as the transaction that an effect began in. */
const SAVEPOINT = 'stablehooks';

function runOwn(db: SqliteLike, effect: () => void, complete: () => void): void {
  let isCompleted = false;
  try {
    atomically(db, () => {
      db.exec(`SAVEPOINT ${SAVEPOINT}`);
      try {
        effect();
      } catch (error) {
        if (!isRolledBackBySqlite(error)) assertSameTransaction(db, { cause: error });
        throw error;
      }
      assertSameTransaction(db);
      complete();
      isCompleted = true;
    });
  } catch (error) {
    // A deferred constraint, which SQLite checks at COMMIT.
    if (isCompleted && /constraint failed/.test(messageOf(error) ?? '')) {
      const message = 'A constraint refused the COMMIT of the handler; see the cause. The event runs again.';
      throw new StablehooksError('ERR_HANDLER_FAILED', message, { cause: error });
    }
    throw error;
  }
}

/** Whether a handler threw the error of a statement at which SQLite itself rolls the transaction back. */
function isRolledBackBySqlite(error: unknown): boolean {
  const { cause = error } = Object(error) as { readonly cause?: unknown };
  return /disk is full|disk I\/O error|out of memory|interrupted|is locked/.test(messageOf(cause) ?? '');
}

/** @param options - the error that the handler threw, if any. */
function assertSameTransaction(db: SqliteLike, options?: ErrorOptions): void {
  try {
    db.exec(`RELEASE ${SAVEPOINT}`);
  } catch (cause) {
    throw new PermanentError(
      'The handler ended the transaction of its event with a COMMIT or ROLLBACK, or a failed statement did. Its writes may have taken effect, so it does not run again: check them, then requeue or discard the event.',
      options ?? { cause },
    );
  }
}

/** The levels of `PRAGMA synchronous`. In WAL, a commit under NORMAL is on disk with the next commit under FULL. */
const NORMAL = 1;
/** Under a lower level, a power failure can undo commits of events that were answered 200. */
const FULL = 2;

interface WaitingStep {
  /** Whether its commit waits for the disk. */
  readonly flush: boolean;
  /** Does the work and returns the function that resolves the promise, for use after the commit. */
  run(): () => void;
  reject(error: unknown): void;
}

/**
 * Shares transactions: a commit waits for the disk, which takes far longer than an operation.
 *
 * All operations of one turn of the event loop run one after the other in one transaction. If it fails, each of
 * them rejects and nothing changes.
 */
export function createTransactions(db: SqliteLike): Transactions {
  const [{ synchronous: ownLevel }] = db.prepare('PRAGMA synchronous').all() as [
    { readonly synchronous: number },
  ];
  let waiting: WaitingStep[] = [];

  /** Runs the work under another level than the connection's own, which the statements of the app keep. */
  function atLevel<Value>(level: number, work: () => Value): Value {
    if (level === ownLevel) return work();
    // Not prepared: a prepared PRAGMA has no effect the second time.
    execOutside(db, `PRAGMA synchronous = ${level}`);
    try {
      return work();
    } finally {
      db.exec(`PRAGMA synchronous = ${ownLevel}`);
    }
  }

  const flushing = Math.max(ownLevel, FULL);

  function commit() {
    const ops = waiting;
    waiting = [];
    try {
      const level = ops.some(({ flush }) => flush) ? flushing : NORMAL;
      const resolvers = atLevel(level, () => atomically(db, () => ops.map((op) => op.run())));
      for (const resolve of resolvers) resolve();
    } catch (error) {
      for (const op of ops) op.reject(error);
    }
  }

  return {
    share: (work, { flush } = { flush: true }) =>
      new Promise((resolve, reject) => {
        if (waiting.length === 0) setImmediate(commit);
        waiting.push({
          flush,
          run() {
            const value = work();
            return () => resolve(value);
          },
          reject,
        });
      }),
    own: (effect, complete) => atLevel(flushing, () => runOwn(db, effect, complete)),
  };
}
