/** The inbox contract on the inboxes that need no package: memory, and node:sqlite from Node 22.13 on. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memoryInbox } from 'stablehooks';
import { type InboxUnderTest, inboxContract } from 'stablehooks/conformance';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import type { CoreCheck } from './core-checks.js';

interface NodeSqlite {
  readonly DatabaseSync: new (path: string) => SqliteLike & { close(): void };
}

const sqlite = process.getBuiltinModule('node:sqlite') as NodeSqlite | undefined;

export const inboxChecks: readonly CoreCheck[] = [
  ...checksOf('memory inbox', async (use) => {
    const inbox = memoryInbox();
    await use({ inbox, second: inbox });
  }),
  ...(sqlite === undefined ? [] : checksOf('node:sqlite inbox', (use) => withFile(sqlite, use))),
];

function checksOf(
  inbox: string,
  withInbox: (use: (subject: InboxUnderTest) => Promise<void>) => Promise<void>,
): readonly CoreCheck[] {
  return inboxContract.map(({ name, run }) => ({ name: `${inbox}: ${name}`, run: () => withInbox(run) }));
}

/** Opens two connections to one new file, and removes it afterwards. */
async function withFile(
  { DatabaseSync }: NodeSqlite,
  use: (subject: InboxUnderTest) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-'));
  const connections = [0, 1].map(() => new DatabaseSync(join(folder, 'events.db')));
  const [inbox, second] = connections.map((connection) => sqliteInbox(connection));
  try {
    if (inbox !== undefined && second !== undefined) await use({ inbox, second });
  } finally {
    for (const connection of connections) connection.close();
    rmSync(folder, { recursive: true });
  }
}
