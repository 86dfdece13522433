import express from 'express';
import Database from 'libsql';
import { createReceiver, type Outcome } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { health } from 'stablehooks/health';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { handlers } from './handlers.js';

const { STABLEHOOKS_SECRET = '', STABLEHOOKS_SECRET_OLD = '' } = process.env;
const { STABLEHOOKS_BASE_URL = '', STABLEHOOKS_TOKEN = '' } = process.env;
const { STABLEHOOKS_INBOX = 'app.db', PORT = '3000' } = process.env;

const db = new Database(STABLEHOOKS_INBOX);
const inbox = sqliteInbox(db, { transactional: true }); // creates its own tables
db.exec('CREATE TABLE IF NOT EXISTS ledger (event_id TEXT PRIMARY KEY, type TEXT, amount TEXT NOT NULL)');
db.exec('CREATE TABLE IF NOT EXISTS secret_used (secret TEXT PRIMARY KEY, at TEXT NOT NULL)');

/** When each secret last matched a delivery. Stored, so it survives restarts and covers all processes. */
function watchSecrets({ secretIndex }: Outcome) {
  if (secretIndex === undefined) return;
  const used = secretIndex === 0 ? 'new' : 'old';
  db.prepare('INSERT OR REPLACE INTO secret_used (secret, at) VALUES (?, ?)').run(
    used,
    new Date().toISOString(),
  );
}

const receiver = createReceiver({
  // An empty secret is refused, so leave the old one out if it is not set.
  secret: STABLEHOOKS_SECRET_OLD ? [STABLEHOOKS_SECRET, STABLEHOOKS_SECRET_OLD] : STABLEHOOKS_SECRET,
  signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
  inbox,
  handlers,
  onOutcome: watchSecrets,
});
receiver.start(); // runs failed events

const client = createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN });
const poller = createPoller({ client, receiver });
// Poll before listening, so that an event that crashes the process is counted and eventually set aside.
await poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
poller.start();

const app = express();
app.post('/hooks', toExpressHandler(receiver)); // above any body parser, which would change the signed bytes
app.get('/healthz', async (_request, response) => {
  const { healthy } = await health(inbox, { requirePoll: true }).catch(() => ({ healthy: false }));
  response.status(healthy ? 200 : 503).json({ healthy });
});
app.get('/secrets', (_request, response) => {
  response.json(db.prepare('SELECT secret, at FROM secret_used').all());
});
const server = app.listen(Number(PORT), (error) => {
  if (error) throw error;
  console.log(`Listening on http://localhost:${PORT}/hooks`);
});

async function close() {
  server.close();
  await poller.stop();
  await receiver.close();
  db.close();
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, close);
