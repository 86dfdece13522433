/** Receivers and workers with BullMQ. Start one process with `receiver`, and as many as you like with `worker`. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { createReceiver, type Handlers } from 'stablehooks';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { toNodeHandler } from 'stablehooks/node';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';

const { REDIS_URL = 'redis://localhost:6379', STABLEHOOKS_SECRET = '', PORT = '3000' } = process.env;
const connection = { url: REDIS_URL };
// Without retries here, deliveries get a 503 immediately if the server is lost.
const redis = new Redis(REDIS_URL, { maxRetriesPerRequest: 1 });
redis.on('error', (error) => console.error(error.message));

const handlers: Handlers = {
  'transfer.settled': (event) => console.log(`settled ${event.id}`),
};
const shared = { secret: STABLEHOOKS_SECRET, inbox: redisInbox(fromIoredis(redis)), handlers };

if (process.argv[2] === 'worker') {
  const receiver = createReceiver(shared);
  const worker = new Worker('webhooks', bullmqProcessor(receiver), { connection, concurrency: 8 });
  worker.on('error', (error) => console.error(error.message));
} else {
  const queue = new Queue('webhooks', {
    connection,
    defaultJobOptions: {
      attempts: 10,
      backoff: { type: 'exponential', delay: 1_000 },
      removeOnComplete: true,
    },
  });
  queue.on('error', (error) => console.error(error.message));
  const receiver = createReceiver({ ...shared, queue: bullmqQueue(queue) });

  // Enqueues events that were recorded but never enqueued, and jobs that BullMQ gave up on.
  receiver.start();

  const server = createServer(toNodeHandler(receiver)).listen(Number(PORT), () => {
    const { port } = server.address() as AddressInfo;
    console.log(`Listening on http://localhost:${port}/`);
  });
}
