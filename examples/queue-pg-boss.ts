/** Receivers and workers with pg-boss. Start one process with `receiver`, and as many as you like with `worker`. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import PgBoss from 'pg-boss';
import { createReceiver, type Handlers } from 'stablehooks';
import { migratePostgres, type PgTx, postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';
import { pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';

const { DATABASE_URL = '', STABLEHOOKS_SECRET = '', PORT = '3000' } = process.env;
const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  query_timeout: 15_000,
});
pool.on('error', (error) => console.error(error.message));
await migratePostgres(pool);

const boss = new PgBoss(DATABASE_URL);
boss.on('error', (error) => console.error(error.message));
await boss.start();
await boss.createQueue('stablehooks', {
  name: 'stablehooks',
  retryLimit: 10,
  retryBackoff: true,
  // How long a dead worker keeps its job. The inbox lease is a minute as well.
  expireInSeconds: 60,
});

const handlers: Handlers<PgTx> = {
  'transfer.settled': async (event, { tx }) => {
    const { rows } = await tx.query<{ now: Date }>('SELECT now()');
    console.log(`settled ${event.id} at ${rows[0]?.now.toISOString()}`);
  },
};
const inbox = postgresInbox(pool, { transactional: true });

if (process.argv[2] === 'worker') {
  const receiver = createReceiver({ secret: STABLEHOOKS_SECRET, inbox, handlers });
  const options = { batchSize: 20, pollingIntervalSeconds: 0.5 };
  await boss.work('stablehooks', options, pgBossProcessor(boss, receiver));
} else {
  const receiver = createReceiver({ secret: STABLEHOOKS_SECRET, inbox, handlers, queue: pgBossQueue(boss) });

  // Enqueues events that were recorded but never enqueued, and jobs that pg-boss gave up on.
  receiver.start();

  const server = createServer(toNodeHandler(receiver)).listen(Number(PORT), () => {
    const { port } = server.address() as AddressInfo;
    console.log(`Listening on http://localhost:${port}/`);
  });
}
