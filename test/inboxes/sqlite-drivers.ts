import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import type { SqliteLike } from 'stablehooks/inboxes/sqlite';
import { onTestFinished } from 'vitest';

export interface Connection extends SqliteLike {
  close(): void;
}

export interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => Connection;
}

/** Node 22.13 has it; Node 20 does not. */
export const nodeSqlite = process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined;

/** `npm run test:compat` installs it; it needs Node 22. */
const betterSqlite3: typeof Database | undefined = await import('better-sqlite3' as string).then(
  (module) => module.default,
  () => undefined,
);

interface Driver {
  readonly name: string;
  open(path: string): Connection;
}

export const drivers: readonly Driver[] = [
  { name: 'libsql', open: (path) => new Database(path) },
  ...(nodeSqlite === undefined
    ? []
    : [{ name: 'node:sqlite', open: (path: string) => new nodeSqlite.DatabaseSync(path) }]),
  ...(betterSqlite3 === undefined
    ? []
    : [
        {
          name: 'better-sqlite3',
          open: (path: string) => new betterSqlite3(path),
        },
      ]),
];

/** A path without a file; its directory is removed when the test ends. */
export function freshPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'events.db');
}

/** A connection of libsql, closed when the test ends. */
export function connect(path: string): Connection {
  const db = new Database(path);
  onTestFinished(() => {
    if (db.open) db.close();
  });
  return db;
}
