/** The contracts of inboxes and transactions on the inboxes that need no package: memory, node:sqlite from Node 22.13 on, and bun:sqlite. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memoryInbox } from 'stablehooks';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import type { InboxUnderTest } from '../contracts/inbox/given.js';
import { inboxContract } from '../contracts/inbox.js';
import {
  type SynchronousTransactionsUnderTest,
  synchronousTransactionContract,
} from '../contracts/transaction-sync.js';
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
  ...databases.flatMap(([module, Database]) => [
    ...checksOf(module, (use) =>
      withFile(Database, (one, other) => use({ inbox: sqliteInbox(one), second: sqliteInbox(other) })),
    ),
    ...synchronousTransactionContract.map(({ name, run }) => ({
      name: `transactions over ${module}: ${name}`,
      run: () => withFile(Database, (db) => run(transactionsOver(db))),
    })),
  ]),
];

function checksOf(
  inbox: string,
  withInbox: (use: (subject: InboxUnderTest) => Promise<void>) => Promise<void>,
): readonly CoreCheck[] {
  return inboxContract.map(({ name, run }) => ({ name: `${inbox}: ${name}`, run: () => withInbox(run) }));
}

/** Opens two connections to one new file, and removes it afterwards. */
async function withFile(
  Database: Database,
  use: (one: SqliteLike, other: SqliteLike) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-'));
  const path = join(folder, 'events.db');
  const [one, other] = [new Database(path), new Database(path)];
  try {
    await use(one, other);
  } finally {
    one.close();
    other.close();
    rmSync(folder, { recursive: true });
  }
}

function transactionsOver(db: SqliteLike): SynchronousTransactionsUnderTest<SqliteLike> {
  db.exec('CREATE TABLE ledger (id TEXT NOT NULL, number INTEGER CHECK (number > 0))');
  return {
    inbox: sqliteInbox(db, { transactional: true }),
    effect: (tx, id) => void tx.prepare('INSERT INTO ledger VALUES (?, 1)').all(id),
    fail: (tx) => void tx.prepare('INSERT INTO ledger VALUES (?, -1)').all('wrong'),
    countEffects: (id) => db.prepare('SELECT id FROM ledger WHERE id = ?').all(id).length,
    raw: (tx, text) => void tx.exec(text),
  };
}
