/** The process that `never-miss.ts` kills and restarts: Express, an SQLite inbox, a ledger and a poller. */
import express from 'express';
import Database from 'libsql';
import { createReceiver, type HandlerContext, type WebhookEvent } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';

const {
  FOLDER = '.',
  PORT = '0',
  STABLEHOOKS_BASE_URL = '',
  STABLEHOOKS_TOKEN = '',
  STABLEHOOKS_SECRET = '',
  SINCE = '',
} = process.env;

// The ledger is a separate file, so a kill can happen between the effect and its record in the inbox.
const ledger = new Database(`${FOLDER}/ledger.db`);
ledger.exec('PRAGMA journal_mode = WAL');
ledger.exec('CREATE TABLE IF NOT EXISTS ledger (id TEXT PRIMARY KEY, origin TEXT, runs INTEGER)');
const book = ledger.prepare(
  'INSERT INTO ledger VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET runs = runs + 1',
);

async function handle(event: WebhookEvent, { origin }: HandlerContext) {
  book.run(event.id, origin);
}

// The demo shows the final result, not each dropped push.
const logger = { warn: () => undefined, error: () => undefined };

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: sqliteInbox(new Database(`${FOLDER}/inbox.db`)),
  handlers: {
    'accept.confirmed': handle,
    'transfer.settled': handle,
    'transfer.failed': handle,
    'redeem.completed': handle,
    'redeem.failed': handle,
  },
  leaseMs: 2_000,
  handlerTimeoutMs: 1_000,
  logger,
  onOutcome: ({ kind, origin }) => void process.send?.({ kind, origin }),
});

const poller = createPoller({
  client: createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN }),
  receiver,
  since: new Date(SINCE),
  lagMs: 1_000,
  intervalMs: 500,
  leaseMs: 1_000,
  onReport: (report) => void process.send?.({ report }),
  logger,
});

// Poll first, so that attempts at an event that crashes the process are recorded and counted.
await poller.pollOnce({ signal: AbortSignal.timeout(5_000) });

const app = express();
app.post('/hooks', toExpressHandler(receiver));
const server = app.listen(Number(PORT), '127.0.0.1', () => {
  process.send?.({ address: server.address() });
  poller.start();
});

process.on('disconnect', async () => {
  await poller.stop();
  server.closeAllConnections();
  server.close();
  await receiver.close();
});
