/** One process of the fleet: a receiver with a poller, or a worker. It can be killed at any time. */
import { createServer } from 'node:http';
import { Queue, Worker } from 'bullmq';
import PgBoss from 'pg-boss';
import {
  createReceiver,
  EVENT_TYPES,
  type Inbox,
  type Receiver,
  type Queue as ReceiverQueue,
} from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toNodeHandler } from 'stablehooks/node';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';
import { STORES, type StoreName } from './stores.js';

/** The settings of one process, which it gets as JSON in its first argument. */
export interface ProcessSettings {
  readonly role: 'receiver' | 'worker';
  readonly engine: 'bullmq' | 'pg-boss';
  readonly store: StoreName;
  readonly databaseUrl: string;
  readonly redisPort: number;
  readonly secret: string;
  readonly service: { readonly url: string; readonly token: string; readonly since: string };
}

const { role, engine, store, databaseUrl, redisPort, secret, service } = JSON.parse(
  process.argv[2] ?? '',
) as ProcessSettings;
// Servers are restarted while this runs. What fails is retried, or this process ends and is started again.
const ignore = () => undefined;
const connection = { port: redisPort };

interface Booking<Tx> {
  readonly inbox: Inbox<Tx>;
  enter(tx: Tx, id: string): Promise<unknown>;
}

function bookInto<Tx>({ inbox, enter }: Booking<Tx>, queue?: ReceiverQueue): Receiver {
  const book = async (
    { id }: { readonly id: string },
    { tx, attempt }: { readonly tx: Tx; readonly attempt: number },
  ) => {
    // One in four fails at first.
    if (attempt === 1 && parseInt(id.slice(-4), 16) % 4 === 0) throw new Error('planted');
    await enter(tx, id);
  };
  return createReceiver({
    secret,
    inbox,
    queue,
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, book])),
    leaseMs: 1_200,
    handlerTimeoutMs: 1_000,
    maxAttempts: 1_000,
    logger: { warn: ignore, error: ignore },
  });
}

const makeReceiver = (queue?: ReceiverQueue) =>
  store === 'MariaDB'
    ? bookInto(STORES.MariaDB.open(databaseUrl), queue)
    : bookInto(STORES.Postgres.open(databaseUrl), queue);

async function startBoss(): Promise<PgBoss> {
  const boss = new PgBoss({
    connectionString: databaseUrl,
    max: 4,
    schedule: false,
    maintenanceIntervalSeconds: 1,
  });
  boss.on('error', ignore);
  await boss.start();
  await boss.createQueue('stablehooks', {
    name: 'stablehooks',
    retryLimit: 5,
    retryDelay: 1,
    expireInSeconds: 2,
  });
  return boss;
}

async function work() {
  const receiver = makeReceiver();
  if (engine === 'pg-boss') {
    const boss = await startBoss();
    const pace = { batchSize: 50, pollingIntervalSeconds: 0.5 };
    await boss.work('stablehooks', pace, pgBossProcessor(boss, receiver));
  } else {
    const pace = { concurrency: 8, lockDuration: 1_200, stalledInterval: 1_000, maxStalledCount: 5 };
    new Worker('chaos', bullmqProcessor(receiver), { connection, ...pace }).on('error', ignore);
  }
}

async function receive() {
  const receiver = makeReceiver(await openQueue());
  const poller = createPoller({
    client: createClient({ baseUrl: service.url, token: service.token }),
    receiver,
    since: new Date(service.since),
    maxLimit: 20_000,
    lagMs: 1_000,
    intervalMs: 500,
    leaseMs: 1_500,
    onGap: ignore,
  });
  const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
    process.send?.(server.address());
    poller.start();
  });
}

async function openQueue() {
  if (engine === 'pg-boss') return pgBossQueue(await startBoss());
  const tries = { attempts: 5, backoff: { type: 'fixed', delay: 500 }, removeOnComplete: true };
  const queue = new Queue('chaos', { connection, defaultJobOptions: tries });
  queue.on('error', ignore);
  return bullmqQueue(queue, { timeoutMs: 1_000 });
}

await (role === 'worker' ? work() : receive());
