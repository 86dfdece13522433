import { type SqliteInbox, sqliteInbox } from 'stablehooks/inboxes/sqlite';

/** Opens an SQLite inbox in this process; it is closed at the end of the block. */
export async function openSqlite(path: string): Promise<SqliteInbox & Disposable> {
  const { default: Database } = await import('libsql');
  const db = new Database(path);
  return { ...sqliteInbox(db), [Symbol.dispose]: () => db.close() };
}
