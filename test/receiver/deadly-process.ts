/** The process that `deadly-kills.test.ts` starts again and again: its handler ends it. Polls once before it listens. */
import { createServer } from 'node:http';
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';

const { FILE = '', LIST = '', SECRET = '' } = process.env;

const receiver = createReceiver({
  secret: SECRET,
  inbox: sqliteInbox(new Database(FILE), { transactional: true }),
  leaseMs: 500,
  handlerTimeoutMs: 499,
  maxAttempts: 3,
  logger: { warn: () => undefined, error: () => undefined },
  handlers: {
    'transfer.settled': ({ id }) => {
      if (id === 'evt_deadly') process.kill(process.pid, 'SIGKILL');
    },
  },
});
const client = createClient({ baseUrl: LIST, token: 'token' });
const poller = createPoller({ client, receiver, since: new Date(0), intervalMs: 200, lagMs: 0 });
await poller.pollOnce({ signal: AbortSignal.timeout(5_000) });
receiver.start({ intervalMs: 50 });
poller.start();
const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
  process.send?.(server.address());
});
process.on('disconnect', () => process.exit());
