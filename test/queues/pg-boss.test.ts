/** pg-boss as the queue, against a real Postgres: once in, retried by the engine, refused when it is down. */
import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import PgBoss from 'pg-boss';
import { createReceiver, type PayloadSchemas } from 'stablehooks';
import { queueContract } from 'stablehooks/conformance';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { pgBossQueue, workPgBoss } from 'stablehooks/queues/pg-boss';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';
import { awaitHandled } from './handled.js';
import { someEvent } from './some-event.js';

let server: Service;
let boss: PgBoss;
let pool: pg.Pool;
let queues = 0;

beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  await migratePostgres(pool);
  boss = new PgBoss({ connectionString: server.url, schedule: false });
  // Its connections break when the server stops, which is the point of a test here.
  boss.on('error', () => undefined);
  await boss.start();
});

afterAll(async () => {
  await boss.stop({ graceful: false });
  await pool.end();
  await server.stop();
});

/** A queue of its own for one test. */
async function openQueue(options: Partial<PgBoss.Queue> = {}): Promise<string> {
  queues += 1;
  const name = `events-${queues}`;
  await boss.createQueue(name, { name, retryLimit: 3, ...options });
  return name;
}

test('an event that waits or runs is not put in twice, however many put it in', async () => {
  const name = await openQueue();
  const queue = pgBossQueue(boss, { queue: name });
  const event = someEvent();
  await Promise.all(Array.from({ length: 10 }, () => queue.enqueue(event)));
  expect(await boss.getQueueSize(name)).toBe(1);
  expect(await boss.fetch(name)).toHaveLength(1);
  await queue.enqueue(event);
  expect(await boss.fetch(name)).toEqual([]);
});

test('an event whose job has finished, well or badly, is put in again', async () => {
  const name = await openQueue({ retryLimit: 0 });
  const queue = pgBossQueue(boss, { queue: name });
  const event = someEvent();
  for (const finish of ['complete', 'fail', 'cancel'] as const) {
    await queue.enqueue(event);
    const [job] = await boss.fetch<{ event: string }>(name);
    expect(JSON.parse(job?.data.event ?? 'null')).toEqual(event);
    await boss[finish](name, job?.id ?? '');
  }
  await queue.enqueue(event);
  expect(await boss.fetch(name)).toHaveLength(1);
});

test('an event that jsonb cannot hold goes through whole', async () => {
  const name = await openQueue();
  const event = someEvent({ payload: { zero: '\u0000', lone: '\ud800', 10: 'ten', 2: 'two' } });
  await pgBossQueue(boss, { queue: name }).enqueue(event);
  const [job] = await boss.fetch<{ event: string }>(name);
  expect(job?.data.event).toBe(JSON.stringify(event));
});

test('a queue that nobody made is an error, never "accepted"', async () => {
  await expect(pgBossQueue(boss, { queue: 'nobody-made-it' }).enqueue(someEvent())).rejects.toThrow(
    'createQueue',
  );
});

for (const { name, run } of queueContract) {
  test(name, async () => {
    const queue = await openQueue({ retryDelay: 1 });
    await run({
      queue: pgBossQueue(boss, { queue }),
      inbox: postgresInbox(pool),
      async startWorker(receiver) {
        const id = await workPgBoss(boss, { receiver, queue });
        return () => boss.offWork({ id });
      },
      countJobs: () => boss.getQueueSize(queue),
      stopServer: () => server.halt(),
      startServer: () => server.start(),
    });
  });
}

test('of a batch that failed in part what is handled is complete, and the rest alone is retried', async () => {
  const name = await openQueue({ retryDelay: 60 });
  const queue = pgBossQueue(boss, { queue: name });
  const [good, bad] = [someEvent(), someEvent({ payload: { refused: true } })];
  for (const event of [good, bad]) await queue.enqueue(event);
  const handled = awaitHandled(1);
  const receiver = createReceiver({
    secret: 'x',
    payloads: { 'transfer.settled': refusing },
    handlers: { 'transfer.settled': () => undefined },
    onOutcome: handled.onOutcome,
  });
  const id = await workPgBoss(boss, { receiver, queue: name });
  onTestFinished(() => boss.offWork({ id }));
  await handled.all;
  await expect
    .poll(() => jobs(name))
    .toEqual([
      { state: 'completed', output: null },
      // jsonb would refuse the key that the schema found wrong.
      { state: 'retry', output: expect.objectContaining({ message: 'ERR_PAYLOAD_INVALID' }) },
    ]);
});

/** A schema that refuses some events, at a key that no jsonb holds. */
const refusing: PayloadSchemas['transfer.settled'] = {
  '~standard': {
    validate(value) {
      const refused = isDeepStrictEqual(value, { refused: true });
      return refused ? { issues: [{ message: 'no', path: ['table', 'zero\0'] }] } : { value };
    },
  },
};

async function jobs(name: string) {
  const { rows } = await pool.query(
    'SELECT state::text, output FROM pgboss.job WHERE name = $1 ORDER BY state',
    [name],
  );
  return rows;
}
