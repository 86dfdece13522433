import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { usageError } from '../errors.js';
import { importFromProject, type Opened, type OpenOptions } from './opening.js';

export async function openSqlite(place: string, options: OpenOptions): Promise<Opened> {
  const { create, name } = options;
  const found = statSync(place, { throwIfNoEntry: false });
  if (found?.isDirectory())
    throw usageError(`${name}: this is a folder, but an inbox must be a file. Check the path.`);
  if (found === undefined && !create)
    throw usageError(`${name}: this inbox file does not exist. Check the path.`);
  const folder = dirname(place);
  // The drivers' errors differ, and most of them do not name the folder.
  if (found === undefined && statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const what = name === place ? `the folder ${folder} does not exist` : 'its folder does not exist';
    throw usageError(`${name}: ${what}. Create it, or check the path.`);
  }
  const Sqlite = await findSqlite();
  const db = new Sqlite(place);
  try {
    db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    const namespace = findNamespace(db, options);
    if (!create) {
      assertIsOfThisRelease(db, { Sqlite, name, namespace });
      // There is nothing to migrate, and a locked or read-only file must stay readable.
      db.exec('PRAGMA query_only = ON');
    }
    const inode = () => statSync(place, { throwIfNoEntry: false })?.ino;
    const opened = inode();
    const inbox = sqliteInbox(db, { prefix: namespace });
    db.exec('PRAGMA query_only = OFF');
    if (!inbox.durable) {
      throw usageError(
        `${name}: this is not a file, so SQLite would keep nothing after this command ends. Pass the path of a file.`,
      );
    }
    const writeNote: Opened['writeNote'] = (...note) => {
      assertRoom(folder);
      return inbox.writeNote(...note);
    };
    return { ...inbox, writeNote, namespace, close: () => db.close(), isCurrent: () => inode() === opened };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** A wrong path must not add tables to another program's database. */
function findNamespace(db: SqliteLike, { create, namespaces, name }: OpenOptions): string {
  const rows = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const tables = (rows as readonly { readonly name: string }[]).map((table) => table.name);
  const found = namespaces.find((each) => tables.includes(`${each}_events`));
  if (found !== undefined || (create && tables.length === 0)) return create ? namespaces[0] : (found ?? '');
  throw usageError(
    `${name}: this SQLite file has no inbox with the prefix ${namespaces[0]}. Check the path and --namespace.`,
  );
}

/** Opening a file that another release wrote would migrate it. */
function assertIsOfThisRelease(
  db: SqliteLike,
  {
    Sqlite,
    name,
    namespace,
  }: { readonly Sqlite: SqliteDriver; readonly name: string; readonly namespace: string },
): void {
  const versionOf = (file: SqliteLike) =>
    JSON.stringify(file.prepare(`SELECT version FROM ${namespace}_schema`).all());
  const fresh = new Sqlite(':memory:');
  try {
    sqliteInbox(fresh, { prefix: namespace });
    if (versionOf(db) === versionOf(fresh)) return;
  } finally {
    fresh.close();
  }
  throw usageError(
    `${name}: this file was written by another release of stablehooks. If this release opened the file, it would migrate the file, and the other release could no longer open it. Use the kit of your app's release, or start your app once with this release.`,
  );
}

/** The minimum free disk space, in bytes. With less, an inbox may be unable to store the next events. */
const MIN_ROOM = 1_048_576;

/** `health` does not write to check whether an inbox is writable, so SQLite would not notice a full disk. */
function assertRoom(folder: string): void {
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize >= MIN_ROOM) return;
  const message = `The disk has ${Math.floor((bavail * bsize) / 1_024)} KiB of free space left.`;
  throw Object.assign(new Error(message), { code: 'SQLITE_FULL' });
}

const BUSY_TIMEOUT_MS = 5_000;

type SqliteDriver = new (path: string) => SqliteLike & { close(): void };

export async function findSqlite(): Promise<SqliteDriver> {
  const builtin = process.getBuiltinModule?.('node:sqlite') as
    | { readonly DatabaseSync: SqliteDriver }
    | undefined;
  if (builtin !== undefined) return builtin.DatabaseSync;
  const { driver } = await importFromProject<SqliteDriver>(
    ['libsql', 'better-sqlite3'],
    `Node ${process.versions.node} does not include node:sqlite, which needs Node 22.13 or later.`,
  );
  return driver;
}
