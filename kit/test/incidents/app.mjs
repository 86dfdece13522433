/** An app with a receiver and a poller over an SQLite file, as a process of its own. Variables say what is wrong with it. */
import { createServer } from 'node:http';
import Database from 'libsql';

const { DATABASE = '', BASE_URL, TOKEN = '', SECRET = '', BANK_URL, DIES, CLOCK_MS = '0' } = process.env;

const { now } = Date;
globalThis.Date = class extends Date {
  constructor(...values) {
    super(...(values.length === 0 ? [now() + Number(CLOCK_MS)] : values));
  }
  static now = () => now() + Number(CLOCK_MS);
};

// After the clock is set, because the packages read it when they load.
const { createReceiver } = await import('stablehooks');
const { createPoller } = await import('stablehooks/catch-up');
const { createClient } = await import('stablehooks/client');
const { sqliteInbox } = await import('stablehooks/inboxes/sqlite');
const { toNodeHandler } = await import('stablehooks/node');

const logger = { warn: () => undefined, error: () => undefined };
const receiver = createReceiver({
  secret: SECRET,
  inbox: sqliteInbox(new Database(DATABASE)),
  logger,
  handlers: {
    'transfer.settled': async () => {
      if (DIES) process.kill(process.pid, 'SIGKILL');
      if (BANK_URL) await fetch(BANK_URL, { method: 'POST' });
    },
  },
});
const client = createClient({ baseUrl: BASE_URL ?? 'http://127.0.0.1:9', token: TOKEN, retries: 0 });
const since = new Date(Date.now() - 60_000);
const poller = createPoller({ client, receiver, since, lagMs: 1, logger });
process.on('SIGUSR2', async () => {
  console.log(`polled: ${(await poller.pollOnce()).diagnosis}`);
});
const server = createServer(toNodeHandler(receiver));
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/hooks`));
