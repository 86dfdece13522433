/** Opening the inbox in an SQLite file, by whichever driver this machine has. */
import { statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type SqliteInbox, sqliteInbox } from '../inboxes/sqlite.js';
import type { SqliteLike } from '../inboxes/sqlite-connection.js';
import { usageError } from './failure.js';

/** Whether a file that is not there may be made. */
export interface OpenOptions {
  readonly create: boolean;
}

/**
 * Opens it.
 *
 * @throws {CommandError} exit 2 when there is no such file, or no driver: it says which to install.
 */
export async function openInbox(path: string, { create }: OpenOptions): Promise<SqliteInbox> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined && !create)
    throw usageError(`${path}: there is no such inbox file. Check the path.`);
  if (found?.isDirectory())
    throw usageError(`${path}: this is a folder, and an inbox is a file. Check the path.`);
  if (process.getBuiltinModule?.('node:sqlite') !== undefined) return sqliteInbox(path);
  const db = await openByPackage(path);
  const inbox = sqliteInbox(db);
  return { ...inbox, close: () => db.close() };
}

/** Drivers of the project at hand, in the order of preference. */
const PACKAGES = ['better-sqlite3', 'libsql'] as const;

type Connection = SqliteLike & { close(): void };

async function openByPackage(path: string): Promise<Connection> {
  const project = createRequire(join(process.cwd(), 'package.json'));
  for (const name of PACKAGES) {
    const file = resolve(project, name);
    if (file === undefined) continue;
    const driver = (await import(pathToFileURL(file).href)) as {
      readonly default: new (path: string) => Connection;
    };
    return new driver.default(path);
  }
  throw usageError(
    `Node ${process.versions.node} has no node:sqlite. Run \`npm install libsql\` (or better-sqlite3) here, or use Node 22.13 or later.`,
  );
}

function resolve(project: NodeJS.Require, name: string): string | undefined {
  try {
    return project.resolve(name);
  } catch {
    return undefined;
  }
}
