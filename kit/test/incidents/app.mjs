/** An app with a receiver and a poller over an SQLite file, as a process of its own. Its situation is in variables. */
import { createServer } from 'node:http';
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';

const { DATABASE = '', BASE_URL, TOKEN = '', SECRET = '' } = process.env;
const { BANK_URL, DIES_IN_HANDLER, RUNS, SINCE, MAX_LIMIT } = process.env;

const logger = { warn: console.error, error: console.error };
const receiver = createReceiver({
  secret: SECRET,
  inbox: sqliteInbox(new Database(DATABASE)),
  logger,
  answer: RUNS === 'later' ? 'recorded' : 'handled',
  handlers: {
    'transfer.settled': async () => {
      if (DIES_IN_HANDLER) process.kill(process.pid, 'SIGKILL');
      if (RUNS === 'later') await new Promise(() => {});
      if (BANK_URL) await fetch(BANK_URL, { method: 'POST' });
    },
  },
});
const server = createServer(toNodeHandler(receiver));
server.listen(0, '127.0.0.1', () =>
  console.log(`listening on http://127.0.0.1:${server.address().port}/hooks.`),
);
if (BASE_URL) {
  const client = createClient({ baseUrl: BASE_URL, token: TOKEN, retries: 0 });
  const since = new Date(SINCE ?? Date.now() - 60_000);
  const poller = createPoller({
    client,
    receiver,
    since,
    lagMs: 1,
    logger,
    ...(MAX_LIMIT && { maxLimit: Number(MAX_LIMIT) }),
  });
  process.on('SIGUSR2', async () => {
    const { proven, doubtful, diagnosis, problems } = await poller.pollOnce();
    console.log(`polled ${JSON.stringify({ proven, doubtful, diagnosis, problems })}.`);
  });
}
