/** The inbox contract on the inboxes that need no package: memory, node:sqlite from Node 22.13 on, and bun:sqlite. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memoryInbox } from 'stablehooks';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { type InboxUnderTest, inboxContract } from 'stablehooks-kit/conformance';
import type { CoreCheck } from './core-checks.js';

type Database = new (path: string) => SqliteLike & { close(): void };

/** The SQLite of this runtime, by the name of its module. */
const databases: readonly (readonly [module: string, Database])[] =
  'Bun' in globalThis
    ? [['bun:sqlite', (await import('bun:sqlite' as string)).Database]]
    : process.getBuiltinModule('node:sqlite') === undefined
      ? []
      : [['node:sqlite', (await import('node:sqlite' as string)).DatabaseSync]];

export const inboxChecks: readonly CoreCheck[] = [
  ...checksOf('memory', async (use) => {
    const inbox = memoryInbox();
    await use({ inbox, second: inbox });
  }),
  ...databases.flatMap(([module, Database]) => checksOf(module, (use) => withFile(Database, use))),
];

function checksOf(
  inbox: string,
  withInbox: (use: (subject: InboxUnderTest) => Promise<void>) => Promise<void>,
): readonly CoreCheck[] {
  return inboxContract.map(({ name, run }) => ({ name: `${inbox}: ${name}`, run: () => withInbox(run) }));
}

/** Opens two connections to one new file, and removes it afterwards. */
async function withFile(Database: Database, use: (subject: InboxUnderTest) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-'));
  const connections = [0, 1].map(() => new Database(join(folder, 'events.db')));
  const [inbox, second] = connections.map((connection) => sqliteInbox(connection));
  try {
    if (inbox !== undefined && second !== undefined) await use({ inbox, second });
  } finally {
    for (const connection of connections) connection.close();
    rmSync(folder, { recursive: true });
  }
}
