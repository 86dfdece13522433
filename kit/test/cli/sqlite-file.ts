/** An SQLite inbox in the test's own process, by the driver that the commands find here, too. */
import { type SqliteInbox, sqliteInbox } from 'stablehooks/inboxes/sqlite';

/** Opens the file; closed when the test leaves its block. */
export async function openSqlite(path: string): Promise<SqliteInbox & Disposable> {
  const { default: Database } = await import('libsql');
  const db = new Database(path);
  return { ...sqliteInbox(db), [Symbol.dispose]: () => db.close() };
}
