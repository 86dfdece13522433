/** BullMQ as the queue, against a real Redis: once in, retried by the engine, refused when it is down. */
import { once } from 'node:events';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { createReceiver } from 'stablehooks';
import { memoryInbox } from 'stablehooks/inboxes/memory';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { bullmqProcessor, bullmqQueue } from 'stablehooks/queues/bullmq';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type RedisService, startRedis } from '../services/redis.js';
import { describeWithRedis } from '../services/with-redis.js';
import { awaitHandled } from './handled.js';
import { someEvent } from './some-event.js';

describeWithRedis('BullMQ', () => {
  let server: RedisService;
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

  /** A queue of its own for one test. */
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

  test('an event that waits is not put in twice, however many put it in', async () => {
    const queue = openQueue();
    const event = someEvent();
    const { enqueue } = bullmqQueue(queue);
    await Promise.all(Array.from({ length: 10 }, () => enqueue(event)));
    expect(await queue.getJobCountByTypes('waiting', 'active')).toBe(1);
  });

  test.each(['evt:1:2', '0', '42', '-1', 'a b/c?d%e', 'é{}'])(
    'an id like %j is a job of its own',
    async (id) => {
      const queue = openQueue();
      const event = someEvent({ id });
      await bullmqQueue(queue).enqueue(event);
      const [job] = await queue.getWaiting();
      expect(job?.data).toEqual(event);
      expect(job?.name).toBe(event.type);
    },
  );

  test('an event whose job runs is not put in; once it finished, well or badly, it is', async () => {
    const queue = openQueue(1);
    const event = someEvent();
    const { enqueue } = bullmqQueue(queue);
    for (const ending of ['completed', 'failed'] as const) {
      await enqueue(event);
      const worker = new Worker(
        queue.name,
        async () => {
          await enqueue(event);
          expect(await queue.getJobCountByTypes('waiting', 'active', 'delayed')).toBe(1);
          if (ending === 'failed') throw new Error('no');
        },
        { connection: { port: server.port } },
      );
      await once(worker, ending);
      await worker.close();
      expect(await queue.getJobCountByTypes(ending)).toBe(1);
    }
    await enqueue(event);
    expect(await queue.getJobCountByTypes('waiting')).toBe(1);
  });

  test('events go through the queue to a worker, and what fails is retried by BullMQ alone', async () => {
    const queue = openQueue();
    const inbox = redisInbox(fromIoredis(redis));
    const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue: bullmqQueue(queue) });
    const flaky = someEvent();
    const ran: string[] = [];
    const handled = awaitHandled(6);
    const receiver = createReceiver({
      secret: 'x',
      inbox,
      handlers: {
        'transfer.settled': ({ id }, { attempt }) => {
          if (id === flaky.id && attempt === 1) throw new Error('not yet');
          ran.push(id);
        },
      },
      onOutcome: handled.onOutcome,
    });
    const events = [flaky, ...Array.from({ length: 5 }, () => someEvent())];
    for (const event of events) {
      expect((await front.accept(event, { source: 'push' })).kind).toBe('queued');
    }
    const connection = { port: server.port };
    const worker = new Worker(queue.name, bullmqProcessor(receiver), { connection, concurrency: 2 });
    onTestFinished(() => worker.close());
    const outcomes = await handled.all;
    expect(outcomes.filter(({ attempt }) => attempt === 2)).toMatchObject([
      { event: flaky, source: 'queue' },
    ]);
    expect(new Set(ran)).toEqual(new Set(events.map((event) => event.id)));
    expect(ran).toHaveLength(events.length);
    expect((await front.accept(flaky, { source: 'push' })).kind).toBe('duplicate');
  });

  test('while the server is down the answer is unavailable, and afterwards the event goes in', async () => {
    const queue = openQueue();
    const front = createReceiver({
      secret: 'x',
      handlers: {},
      inbox: { ...memoryInbox(), durable: true },
      queue: bullmqQueue(queue, { timeoutMs: 200 }),
      onOutcome: () => undefined,
    });
    const event = someEvent();
    await queue.waitUntilReady();
    await server.halt();
    try {
      const outcome = await front.accept(event, { source: 'push' });
      expect(outcome).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_QUEUE_FAILED' } });
    } finally {
      await server.start();
    }
    await queue.waitUntilReady();
    const { enqueue } = bullmqQueue(queue);
    await enqueue(event);
    expect(await queue.getJobCountByTypes('waiting', 'active')).toBe(1);
  });
});
