import { once } from 'node:events';
import { inspect } from 'node:util';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { queueContract } from 'stablehooks/conformance';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithRedis } from '../services/with-redis.js';
import { someEvent } from './some-event.js';

describeWithRedis('BullMQ', () => {
  let server: Service;
  let redis: Redis;
  let queues = 0;

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url).on('error', () => undefined);
  });
  afterAll(async () => {
    await redis.quit();
    await server.stop();
  });

  /** Opens a queue that no other test uses. */
  function openQueue(attempts = 3): Queue {
    queues += 1;
    const queue = new Queue(`events-${queues}`, {
      connection: { port: server.port },
      defaultJobOptions: { attempts, backoff: { type: 'fixed', delay: 50 } },
    });
    queue.on('error', () => undefined);
    onTestFinished(() => queue.close());
    return queue;
  }

  test('bullmqQueue adds one job when ten callers enqueue a waiting event at the same time', async () => {
    const queue = openQueue();
    const event = someEvent();
    const { enqueue } = bullmqQueue(queue);
    await Promise.all(Array.from({ length: 10 }, () => enqueue(event)));
    expect(await queue.getJobCountByTypes('waiting', 'active')).toBe(1);
  });

  test.each(['evt:1:2', '0', '42', '-1', 'a b/c?d%e', 'é{}'])(
    'bullmqQueue adds an event with the id %j as a job of its own',
    async (id) => {
      const queue = openQueue();
      const event = someEvent({ id });
      await bullmqQueue(queue).enqueue(event);
      const [job] = await queue.getWaiting();
      expect(job?.data).toEqual(event);
      expect(job?.name).toBe(event.type);
    },
  );

  test('bullmqQueue adds no second job while the first runs, and a new one after it completed or failed', async () => {
    const queue = openQueue(1);
    const event = someEvent();
    const { enqueue } = bullmqQueue(queue);
    for (const result of ['completed', 'failed'] as const) {
      await enqueue(event);
      const worker = new Worker(
        queue.name,
        async () => {
          await enqueue(event);
          expect(await queue.getJobCountByTypes('waiting', 'active', 'delayed')).toBe(1);
          if (result === 'failed') throw new Error('no');
        },
        { connection: { port: server.port } },
      );
      await once(worker, result);
      await worker.close();
      expect(await queue.getJobCountByTypes(result)).toBe(1);
    }
    await enqueue(event);
    expect(await queue.getJobCountByTypes('waiting')).toBe(1);
  });

  for (const { name, run } of queueContract) {
    test(name, async () => {
      const queue = openQueue();
      await queue.waitUntilReady();
      await run({
        queue: bullmqQueue(queue, { timeoutMs: 2_000 }),
        inbox: redisInbox(fromIoredis(redis)),
        async startWorker(receiver) {
          const connection = { port: server.port };
          const worker = new Worker(queue.name, bullmqProcessor(receiver), { connection, concurrency: 2 });
          return () => worker.close();
        },
        countJobs: () => queue.getJobCountByTypes('waiting', 'active'),
        stopServer: () => server.halt(),
        async startServer() {
          await server.start();
          await queue.waitUntilReady();
        },
      });
    });
  }

  test('the error of a BullMQ command that fails does not contain the payload', async () => {
    const queue = openQueue();
    await queue.waitUntilReady();
    await redis.config('SET', 'maxmemory', '1');
    onTestFinished(async () => void (await redis.config('SET', 'maxmemory', '0')));
    const refused = bullmqQueue(queue).enqueue(someEvent({ payload: { holder: 'Ada Lovelace' } }));
    const error = await refused.catch((thrown) => thrown);
    expect(String(error)).toMatch(/OOM|maxmemory/);
    expect(inspect(error, { depth: 9 })).not.toContain('Lovelace');
  });
});
