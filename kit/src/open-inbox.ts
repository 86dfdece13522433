/** Opening an inbox by its place: an SQLite file, or the URL of a Postgres or a Redis. */
import { statSync } from 'node:fs';
import type { SqliteLike } from 'stablehooks/inboxes/sqlite';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { usageError } from './failure.js';
import { type OpenInbox, openPostgres, openRedis } from './inbox-server.js';
import { importFromProject } from './project-package.js';

interface OpenOptions {
  /** Whether a file that is not there may be made. */
  readonly create: boolean;
}

/**
 * Opens it; `env:NAME` is the place that this environment variable holds.
 *
 * @throws {CommandError} exit 2 when there is no such file, or no driver: it says which to install.
 */
export async function openInbox(place: string, options: OpenOptions): Promise<OpenInbox> {
  const [, variable] = /^env:(\w+)$/.exec(place) ?? [];
  if (variable !== undefined) {
    const held = process.env[variable];
    if (!held) throw usageError(`${place}: there is no such environment variable, or it is empty.`);
    return openPlace(held, { ...options, name: place });
  }
  if (URL.canParse(place) && new URL(place).password !== '') {
    throw usageError(
      'A password in the URL shows in the process list: put the URL into an environment variable, and pass env:NAME.',
    );
  }
  return openPlace(place, { ...options, name: place });
}

/** `name` is what messages call it: the place that a variable holds may hold a password, too. */
interface NamedOptions extends OpenOptions {
  readonly name: string;
}

async function openPlace(place: string, options: NamedOptions): Promise<OpenInbox> {
  if (/^postgres(ql)?:/.test(place)) return openPostgres(place);
  if (/^rediss?:/.test(place)) return openRedis(place);
  if (/^[a-z][\w+.-]*:\/\//i.test(place)) {
    const which = options.name === place ? 'This URL' : options.name;
    throw usageError(`${which}: an inbox is an SQLite file, or at a postgres: or redis: URL.`);
  }
  return openFile(place, options);
}

async function openFile(path: string, { create, name }: NamedOptions): Promise<OpenInbox> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined && !create)
    throw usageError(`${name}: there is no such inbox file. Check the path.`);
  if (found?.isDirectory())
    throw usageError(`${name}: this is a folder, and an inbox is a file. Check the path.`);
  if (process.getBuiltinModule?.('node:sqlite') !== undefined) return sqliteInbox(path);
  const db = await openByPackage(path);
  return { ...sqliteInbox(db), close: () => db.close() };
}

type Driver = new (path: string) => SqliteLike & { close(): void };

async function openByPackage(path: string): Promise<SqliteLike & { close(): void }> {
  const drivers = await importFromProject<{ libsql: Driver; 'better-sqlite3': Driver }>(
    ['libsql', 'better-sqlite3'],
    {
      why: `Node ${process.versions.node} has no node:sqlite, which Node 22.13 and later have.`,
    },
  );
  const Driver = drivers.libsql ?? drivers['better-sqlite3'];
  if (Driver === undefined) throw usageError('The SQLite driver has no default export. Install libsql anew.');
  return new Driver(path);
}
