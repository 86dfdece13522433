import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import Database from 'libsql';
import { createReceiver, PermanentError, type Receiver, type UnknownEvent } from 'stablehooks';
import { type SqliteInbox, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { type ActionName, createInspector, fromInbox, type LastReport } from 'stablehooks-kit/inspector';
import { SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { SILENT } from '../service.js';

const ACTIONS = ['requeue', 'run', 'discard', 'acknowledge-gap'] as const satisfies readonly ActionName[];

/** An SQLite inbox in a file of its own, a receiver over it, and an inspector in an app. */
export interface InspectedApp extends AsyncDisposable {
  readonly url: string;
  readonly inbox: SqliteInbox;
  readonly db: Database.Database;
  readonly receiver: Receiver;
  /** The handler of each type; it finishes by default. */
  work: (event: UnknownEvent) => void;
  /** The last report of the app's poller. */
  polled: LastReport | undefined;
  /** Makes every statement of the inbox fail, as SQLite does when the file is not what it was. */
  loseTable(): void;
  restoreTable(): void;
}

/** Starts it. The inspector looks at the inbox as often as it can. */
export async function startInspectedApp(actions: readonly ActionName[] = ACTIONS): Promise<InspectedApp> {
  const folder = await mkdtemp(join(tmpdir(), 'inspected-'));
  const db = new Database(join(folder, 'app.db'));
  const inbox = sqliteInbox(db);
  const handler = (event: UnknownEvent) => app.work(event);
  const receiver = createReceiver({
    secret: SECRET,
    logger: SILENT,
    inbox,
    handlers: { 'transfer.settled': handler, 'transfer.failed': handler },
  });
  const inspector = createInspector({
    source: fromInbox(inbox, {
      name: 'app.db',
      pollIntervalMs: 100,
      lastReport: () => app.polled,
      run: async (event) => (await receiver.accept(event, 'redrive')).kind,
    }),
    actions,
    authorize: () => true,
  });
  const server = await serve(getRequestListener(inspector.fetch));
  const app: InspectedApp = {
    url: server.url,
    inbox,
    db,
    receiver,
    work: () => undefined,
    polled: undefined,
    loseTable: () => void db.exec('ALTER TABLE stablehooks_events RENAME TO elsewhere'),
    restoreTable: () => void db.exec('ALTER TABLE elsewhere RENAME TO stablehooks_events'),
    async [Symbol.asyncDispose]() {
      inspector.close();
      await server[Symbol.asyncDispose]();
      await receiver.close();
      db.close();
      await rm(folder, { recursive: true });
    },
  };
  return app;
}

/** The handler of an event that cannot succeed. */
export function giveUp(): never {
  throw new PermanentError('the account was closed');
}
