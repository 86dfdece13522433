/** The process that `kills.test.ts` kills: node:http, an SQLite inbox, a ledger and a poller. */
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'libsql';
import { createReceiver, type WebhookEvent } from 'stablehooks';
import { acknowledgeGap, createPoller, type Gap } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';

const {
  FOLDER = '',
  STABLEHOOKS_BASE_URL = '',
  STABLEHOOKS_TOKEN = '',
  STABLEHOOKS_SECRET = '',
  SINCE = '',
  MAX_LIMIT = '',
} = process.env;

/** Writes one line to the ledger in the middle of a slow handler. */
async function handle({ id }: WebhookEvent) {
  await pause(Math.random() * 10);
  appendFileSync(`${FOLDER}/ledger`, `${id}\n`);
  await pause(Math.random() * 10);
}

const quiet = { warn: () => undefined, error: () => undefined };

const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  inbox: sqliteInbox(new Database(`${FOLDER}/inbox.db`)),
  handlers: { 'accept.confirmed': handle, 'transfer.settled': handle, 'redeem.completed': handle },
  // Short, so that what a kill left leased is soon run again; far longer than any handler here.
  leaseMs: 1_500,
  handlerTimeoutMs: 1_000,
  logger: quiet,
});

const poller = createPoller({
  client: createClient({ baseUrl: STABLEHOOKS_BASE_URL, token: STABLEHOOKS_TOKEN }),
  receiver,
  since: new Date(SINCE),
  maxLimit: Number(MAX_LIMIT),
  lagMs: 500,
  intervalMs: 50,
  leaseMs: 60,
  onReport: ({ proven, watermark }) => void process.send?.({ proven, watermark }),
  onGap: (gap) => {
    if (gap.state === 'open') acknowledge(gap);
  },
  logger: quiet,
});

/** At a random moment, so that kills hit it, too. */
async function acknowledge(gap: Gap) {
  await pause(Math.random() * 100);
  const acknowledged = await acknowledgeGap(receiver.inbox, gap, {
    by: 'kills',
    reason: `seen by ${process.pid}`,
  });
  if (acknowledged !== null) process.send?.({ acknowledged });
}

const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
  process.send?.({ address: server.address() });
  poller.start();
});
process.on('disconnect', () => process.exit());
