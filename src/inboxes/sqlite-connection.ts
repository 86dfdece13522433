import { statSync } from 'node:fs';
import { setImmediate } from 'node:timers';
import { ConfigError, StablehooksError } from '../core/errors.js';
import type { Runtime } from '../core/runtime.js';
import { endedByHandler } from './lend.js';
import type { Transactions } from './sqlite-inbox.js';
import type { SqliteLike } from './sqlite-tables.js';

/** A connection that the inbox opened and must close. */
export interface OwnConnection extends SqliteLike {
  close(): void;
}

/** @throws {ConfigError} if this runtime has no `node:sqlite`. */
export function openPath(path: string): OwnConnection {
  // An import would fail in Node 20 and in bundlers.
  const sqlite = process.getBuiltinModule('node:sqlite') as
    | { readonly DatabaseSync: new (path: string) => OwnConnection }
    | undefined;
  if (sqlite === undefined) {
    throw new ConfigError(
      'sqliteInbox: this runtime has no node:sqlite, which requires Node 22.13 or later. Instead of a path, pass a connection: new Database(path) from better-sqlite3, libsql or bun:sqlite.',
    );
  }
  return new sqlite.DatabaseSync(path);
}

/** Records would be misread if the connection reads integers as BigInt or rows as arrays. */
export function assertRows(db: SqliteLike): void {
  const [row] = db.prepare('SELECT 1 AS one').all() as { readonly one?: unknown }[];
  if (row?.one === 1) return;
  throw new ConfigError(
    'sqliteInbox: the connection must return integers as numbers and rows as objects. Open the connection without defaultSafeIntegers, safeIntegers, readBigInts or returnArrays.',
  );
}

/** Returns whether the data survives the end of this process, unlike data in `:memory:` or in a temporary file. */
export function configure(db: SqliteLike, { busyTimeoutMs }: { readonly busyTimeoutMs: number }): boolean {
  db.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  // A long-lived reader can make the log grow, and the log would stay large after the reader has left.
  db.exec(`PRAGMA journal_size_limit = ${LOG_BYTES}`);
  const journal = enableWriteAheadLog(db, { until: Date.now() + busyTimeoutMs });
  return journal !== 'memory' && pathOf(db) !== '';
}

/** `PRAGMA query_only` prevents transactions that write. */
export function isQueryOnly(db: SqliteLike): boolean {
  const [row] = db.prepare('PRAGMA query_only').all() as { readonly query_only?: number }[];
  return row?.query_only === 1;
}

function pathOf(db: SqliteLike): string {
  const files = db.prepare('PRAGMA database_list').all() as readonly {
    readonly name: string;
    readonly file: string | null;
  }[];
  return files.find(({ name }) => name === 'main')?.file ?? '';
}

/** How often to check that the file at the path is still the file that was opened, in ms. */
const LOOK_MS = 2_000;

/** Writes to a file that was removed or replaced would be lost. */
function watchFile(db: SqliteLike, { elapsed }: Pick<Runtime, 'elapsed'>): () => void {
  const path = pathOf(db);
  const find = () => (path === '' ? undefined : statSync(path, { throwIfNoEntry: false })?.ino);
  const opened = find();
  let lookAt = elapsed() + LOOK_MS;
  return () => {
    if (elapsed() < lookAt) return;
    if (find() !== opened)
      throw new Error(
        'The SQLite file was removed or replaced while this process had it open. Restart the process.',
      );
    lookAt = elapsed() + LOOK_MS;
  };
}

/** Without long-lived readers, the write-ahead log stays at about 4 MB. */
const LOG_BYTES = 16 * 1_048_576;

const LOCKED = { SQLITE_BUSY: 5, SQLITE_LOCKED: 6 };

/** Retries while the file is locked, because the busy timeout doesn't apply to this change. */
function enableWriteAheadLog(db: SqliteLike, { until }: { readonly until: number }): string {
  for (;;) {
    try {
      const [answer] = db.prepare('PRAGMA journal_mode = WAL').all() as [{ readonly journal_mode: string }];
      return answer.journal_mode;
    } catch (error) {
      if (!hasCode(error, LOCKED) || Date.now() >= until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/** Fails if the app has a transaction open, because a rollback would undo events that were answered with a 200. */
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
      // SQLite has already rolled the transaction back, and the first error says why.
    }
    throw error;
  }
}

/** In a transaction, the statement would fail with plain SQLITE_ERROR. */
function execOutside(db: SqliteLike, sql: string): void {
  try {
    db.exec(sql);
  } catch (cause) {
    if (!hasCode(cause, { SQLITE_ERROR: 1 })) throw cause;
    const what = "The app has a transaction open on the inbox's connection.";
    throw new Error(`${what} Give the inbox its own connection.`, { cause });
  }
}

/** This savepoint exists only in the transaction in which an effect began. */
const SAVEPOINT = 'stablehooks';

function runOwn(db: SqliteLike, begin: () => void, effect: () => void): void {
  let hasReturned = false;
  try {
    atomically(db, () => {
      begin();
      db.exec(`SAVEPOINT ${SAVEPOINT}`);
      try {
        effect();
      } catch (error) {
        if (!hasCode(error, ROLLS_BACK)) assertSameTransaction(db, error);
        throw error;
      }
      assertSameTransaction(db);
      hasReturned = true;
    });
  } catch (error) {
    // SQLite checks a deferred constraint at COMMIT.
    if (hasReturned && hasCode(error, { SQLITE_CONSTRAINT: 19 })) {
      const message =
        "A constraint prevented the COMMIT of the handler's transaction; see the cause. The event will run again.";
      throw new StablehooksError('ERR_HANDLER_FAILED', message, { cause: error });
    }
    throw error;
  }
}

/** After one of these errors, SQLite itself may have rolled the transaction back. */
const ROLLS_BACK = {
  SQLITE_BUSY: 5,
  SQLITE_NOMEM: 7,
  SQLITE_INTERRUPT: 9,
  SQLITE_IOERR: 10,
  SQLITE_FULL: 13,
};

/** Drivers put the name of a code in `code`, or the number of a code in `errcode` or `errno`. */
function hasCode(error: unknown, codes: Readonly<Record<string, number>>): boolean {
  const { code, errcode, errno, cause } = Object(error) as Readonly<Record<string, unknown>>;
  const number = Number(errcode ?? errno) % 256;
  const isOne = Object.entries(codes).some(
    ([name, primary]) => primary === number || `${code}_`.startsWith(`${name}_`),
  );
  return isOne || (cause !== undefined && hasCode(cause, codes));
}

/** @param thrown - the handler's error, if any. */
function assertSameTransaction(db: SqliteLike, thrown?: unknown): void {
  try {
    db.exec(`RELEASE ${SAVEPOINT}`);
  } catch (cause) {
    throw endedByHandler(thrown ?? cause);
  }
}

/** In WAL mode, a commit at this level reaches the disk with the next commit at FULL. */
const NORMAL = 1;
/** At a lower level, a power failure could undo the commits of events that were answered with a 200. */
const FULL = 2;

interface WaitingStep {
  readonly flush: boolean;
  /** Returns a function that resolves the promise and must be called after the commit. */
  run(): () => void;
  reject(error: unknown): void;
}

/** Runs all operations from one turn of the event loop in one transaction, because every commit waits for the disk. */
export function createTransactions(db: SqliteLike, runtime: Pick<Runtime, 'elapsed'>): Transactions {
  const [{ synchronous: ownLevel }] = db.prepare('PRAGMA synchronous').all() as [
    { readonly synchronous: number },
  ];
  const assertFile = watchFile(db, runtime);
  let waiting: WaitingStep[] = [];

  /** Restores the connection's own level afterwards, for the app's statements. */
  function atLevel<Value>(level: number, work: () => Value): Value {
    if (level === ownLevel) return work();
    // A prepared PRAGMA would have no effect when it runs again.
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
      assertFile();
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
    own(begin, effect) {
      assertFile();
      atLevel(flushing, () => runOwn(db, begin, effect));
    },
  };
}
