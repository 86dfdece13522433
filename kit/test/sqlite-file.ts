import { createReceiver, PermanentError, type RuntimeOptions, type UnknownEvent } from 'stablehooks';
import { type SqliteInbox, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { SECRET } from './command.js';
import { SILENT } from './service.js';

/** Opens an SQLite inbox in this process; it is closed at the end of the block. */
export async function openSqlite(
  path: string,
  runtime: RuntimeOptions = {},
): Promise<SqliteInbox & Disposable> {
  const { default: Database } = await import('libsql');
  const db = new Database(path);
  return { ...sqliteInbox(db, { runtime }), [Symbol.dispose]: () => db.close() };
}

/** Delivers events to a receiver over an SQLite file. Its handler of `transfer.failed` gives up, so these are dead. */
export async function deliverToFile(path: string, events: readonly UnknownEvent[]): Promise<void> {
  using inbox = await openSqlite(path);
  const receiver = createReceiver({
    secret: SECRET,
    inbox,
    logger: SILENT,
    handlers: {
      'transfer.failed': () => {
        throw new PermanentError('the account was closed');
      },
    },
  });
  for (const event of events) await receiver.accept(event, 'push');
}
