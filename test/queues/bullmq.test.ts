import { once } from 'node:events';
import { inspect } from 'node:util';
import { Queue, Worker } from 'bullmq';
import { createReceiver, type Receiver } from 'stablehooks';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { queueContract } from '../contracts/index.js';
import { ownRedis } from '../services/own-redis.js';
import { describeWithRedis } from '../services/with-redis.js';
import { clockedInbox, someEvent } from './some-event.js';

describeWithRedis('BullMQ', () => {
  const own = ownRedis();
  let queues = 0;

  function openQueue(attempts = 3): Queue {
    queues += 1;
    const queue = new Queue(`events-${queues}`, {
      connection: { port: own.server.port },
      defaultJobOptions: { attempts, backoff: { type: 'fixed', delay: 50 } },
    });
    queue.on('error', () => undefined);
    onTestFinished(() => queue.close());
    return queue;
  }

  function startWorker(queue: Queue, receiver: Receiver): Worker {
    const worker = new Worker(queue.name, bullmqProcessor(receiver), {
      connection: { port: own.server.port },
    });
    onTestFinished(() => worker.close());
    return worker;
  }

  test.each(['evt:1:2', '0', '42', '-1', 'a b/c?d%e', 'é{}'])(
    'bullmqQueue adds an event with the id %j as a job of its own',
    async (id) => {
      const queue = openQueue();
      const event = someEvent({ id });
      await bullmqQueue(queue).enqueue(event);
      const [job] = await queue.getWaiting();
      expect(job?.data).toEqual({ event: JSON.stringify(event) });
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
        { connection: { port: own.server.port } },
      );
      await once(worker, result);
      await worker.close();
      expect(await queue.getJobCountByTypes(result)).toBe(1);
    }
    await enqueue(event);
    expect(await queue.getJobCountByTypes('waiting')).toBe(1);
  });

  test('a job whose event is not due yet is delayed, and uses up no attempt', async () => {
    const queue = openQueue(1);
    const { inbox, clock } = clockedInbox();
    let down = true;
    const receiver = createReceiver({
      secret: 'x',
      inbox,
      handlers: {
        'transfer.settled': () => {
          if (down) throw new Error('The first attempt fails.');
        },
      },
      logger: { warn: () => undefined, error: () => undefined },
    });
    const event = someEvent();
    expect((await receiver.handle(event, 'push')).kind).toBe('failed');
    down = false;
    await bullmqQueue(queue).enqueue(event);
    const worker = startWorker(queue, receiver);
    await expect.poll(() => queue.getJobCountByTypes('delayed')).toBe(1);
    const completed = once(worker, 'completed');
    clock.now += 60_000;
    const [job, outcome] = await completed;
    expect(outcome).toBe('handled');
    expect(job.attemptsMade).toBe(1);
  });

  for (const { name, run } of queueContract) {
    test(name, async () => {
      const queue = openQueue();
      await queue.waitUntilReady();
      await run({
        queue: bullmqQueue(queue, { timeoutMs: 2_000 }),
        inbox: redisInbox(fromIoredis(own.redis)),
        async startWorker(receiver) {
          const connection = { port: own.server.port };
          const worker = new Worker(queue.name, bullmqProcessor(receiver), { connection, concurrency: 2 });
          return () => worker.close();
        },
        countJobs: () => queue.getJobCountByTypes('waiting', 'active'),
        stopServer: () => own.server.halt(),
        async startServer() {
          await own.server.start();
          await queue.waitUntilReady();
        },
      });
    });
  }

  test('the error of a BullMQ command that fails does not contain the payload', async () => {
    const queue = openQueue();
    await queue.waitUntilReady();
    await own.redis.config('SET', 'maxmemory', '1');
    onTestFinished(async () => void (await own.redis.config('SET', 'maxmemory', '0')));
    const refused = bullmqQueue(queue).enqueue(someEvent({ payload: { holder: 'Ada Lovelace' } }));
    const error = await refused.catch((thrown) => thrown);
    expect(String(error)).toMatch(/OOM|maxmemory/);
    expect(inspect(error, { depth: 9 })).not.toContain('Lovelace');
  });
});
