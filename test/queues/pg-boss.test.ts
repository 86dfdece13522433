import { isDeepStrictEqual } from 'node:util';
import type PgBoss from 'pg-boss';
import { createReceiver, type Receiver, type StandardSchema, withPayload } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { type JobData, pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { queueContract } from '../contracts/index.js';
import { ownPostgres } from '../services/own-postgres.js';
import { awaitHandled } from './handled.js';
import { clockedInbox, someEvent } from './some-event.js';

/** pg-boss 12 exports the class by its name, 10 and 11 by default. `npm run test:compat` runs this file on 11 and 12. */
const { PgBoss: Boss, default: Default = Boss } = (await import('pg-boss')) as {
  readonly PgBoss?: typeof PgBoss;
  readonly default?: typeof PgBoss;
};

const WORK = { batchSize: 20, pollingIntervalSeconds: 0.5 };

const postgres = ownPostgres();
const { pool } = postgres;
let boss: PgBoss;
let queues = 0;

beforeAll(async () => {
  if (Default === undefined) throw new Error('pg-boss exports no class.');
  boss = new Default({ connectionString: postgres.server.url, schedule: false });
  // One test stops the server, which breaks its connections.
  boss.on('error', () => undefined);
  await boss.start();
});

afterAll(() => boss.stop({ graceful: false }));

async function openQueue(options: Partial<PgBoss.Queue> = {}): Promise<string> {
  queues += 1;
  const name = `events-${queues}`;
  await boss.createQueue(name, { name, retryLimit: 3, ...options });
  return name;
}

async function work(queue: string, receiver: Receiver): Promise<void> {
  await boss.work(queue, WORK, pgBossProcessor(boss, receiver));
  onTestFinished(() => boss.offWork(queue));
}

/** Does what `boss.work` does with one batch. */
async function workOnce(queue: string, receiver: Receiver): Promise<void> {
  const batch = await boss.fetch<JobData>(queue);
  await pgBossProcessor(boss, receiver)(batch);
  await boss.complete(
    queue,
    batch.map(({ id }) => id),
  );
}

test('pgBossQueue adds no second job while the first runs', async () => {
  const name = await openQueue();
  const queue = pgBossQueue(boss, { queue: name });
  const event = someEvent();
  await queue.enqueue(event);
  expect(await boss.fetch(name)).toHaveLength(1);
  await queue.enqueue(event);
  expect(await boss.fetch(name)).toEqual([]);
});

test('pgBossQueue adds an event again after its job was completed, failed or cancelled', async () => {
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

test('pgBossQueue keeps an event unchanged that jsonb cannot hold', async () => {
  const name = await openQueue();
  const event = someEvent({ payload: { zero: '\u0000', lone: '\ud800', 10: 'ten', 2: 'two' } });
  await pgBossQueue(boss, { queue: name }).enqueue(event);
  const [job] = await boss.fetch<{ event: string }>(name);
  expect(job?.data.event).toBe(JSON.stringify(event));
});

test('a job whose event is not due yet is retried by pg-boss, and is handled once the event is due', async () => {
  const name = await openQueue({ retryDelay: 1, retryLimit: 100 });
  const { inbox, clock } = clockedInbox();
  let down = true;
  const handled = awaitHandled(1);
  const receiver = createReceiver({
    secret: 'x',
    inbox,
    handlers: {
      'transfer.settled': () => {
        if (down) throw new Error('The first attempt fails.');
      },
    },
    onOutcome: handled.onOutcome,
    logger: { warn: () => undefined, error: () => undefined },
  });
  const event = someEvent();
  expect((await receiver.handle(event, 'push')).kind).toBe('failed');
  down = false;
  await pgBossQueue(boss, { queue: name }).enqueue(event);
  await work(name, receiver);
  await expect
    .poll(() => jobs(name))
    .toEqual([{ state: 'retry', output: expect.objectContaining({ message: 'ERR_EVENT_NOT_DUE' }) }]);
  clock.now += 60_000;
  expect(await handled.all).toMatchObject([{ kind: 'handled', attempt: 2 }]);
});

test('pgBossQueue rejects when the queue was not created', async () => {
  // From pg-boss 11 on, it is the engine that says so.
  await expect(pgBossQueue(boss, { queue: 'not-created' }).enqueue(someEvent())).rejects.toThrow(
    /createQueue|does not exist/,
  );
});

test.each(['short', 'stately'] as const)(
  'an event that pg-boss drops by the policy %s of its queue is unavailable with that reason, and redrive adds it later',
  async (policy) => {
    const name = await openQueue({ policy });
    const { inbox, clock } = clockedInbox();
    const queue = pgBossQueue(boss, { queue: name });
    const lines: string[] = [];
    const logger = { warn: () => undefined, error: (line: string) => void lines.push(line) };
    const front = createReceiver({ secret: 'x', inbox, queue, handlers: {}, logger });
    const worker = createReceiver({ secret: 'x', inbox, handlers: { 'transfer.settled': () => undefined } });
    const [first, second] = [someEvent(), someEvent()];

    expect((await front.accept(first, 'push')).kind).toBe('queued');
    expect(await front.accept(second, 'push')).toMatchObject({
      kind: 'unavailable',
      error: { code: 'ERR_QUEUE_FAILED' },
    });

    expect(lines.join()).toContain("and the policy 'standard'");
    await workOnce(name, worker);
    clock.now += 60_000;
    expect(await front.redrive()).toMatchObject({ queued: 1 });
    await workOnce(name, worker);
    expect(await inbox.find(second.id)).toMatchObject({ state: 'done', origin: 'push' });
  },
);

for (const { name, run } of queueContract) {
  test(name, async () => {
    const queue = await openQueue({ retryDelay: 1 });
    await run({
      queue: pgBossQueue(boss, { queue }),
      inbox: postgresInbox(pool),
      async startWorker(receiver) {
        await boss.work(queue, WORK, pgBossProcessor(boss, receiver));
        return () => boss.offWork(queue);
      },
      countJobs: () => countJobs(queue),
      stopServer: () => postgres.server.halt(),
      startServer: () => postgres.server.start(),
    });
  });
}

test('pgBossProcessor completes the jobs of a batch that succeeded, and pg-boss retries only the others', async () => {
  const name = await openQueue({ retryDelay: 60 });
  const queue = pgBossQueue(boss, { queue: name });
  const [good, bad] = [someEvent(), someEvent({ payload: { refused: true } })];
  for (const event of [good, bad]) await queue.enqueue(event);
  const handled = awaitHandled(1);
  const receiver = createReceiver({
    secret: 'x',
    inbox: clockedInbox().inbox,
    handlers: { 'transfer.settled': withPayload(refusing, () => undefined) },
    onOutcome: handled.onOutcome,
  });
  await work(name, receiver);
  await handled.all;
  await expect
    .poll(() => jobs(name))
    .toEqual([
      { state: 'completed', output: null },
      // Only the code: jsonb refuses the key that is in the message.
      { state: 'retry', output: expect.objectContaining({ message: 'ERR_PAYLOAD_INVALID' }) },
    ]);
});

/** Refuses some events at a key that jsonb cannot hold. */
const refusing: StandardSchema = {
  '~standard': {
    validate(value) {
      const refused = isDeepStrictEqual(value, { refused: true });
      return refused ? { issues: [{ message: 'no', path: ['table', 'zero\0'] }] } : { value };
    },
  },
};

async function countJobs(name: string): Promise<number> {
  const waiting = (await jobs(name)).filter(({ state }) => state === 'created' || state === 'retry');
  return waiting.length;
}

async function jobs(name: string) {
  const { rows } = await pool.query(
    'SELECT state::text, output FROM pgboss.job WHERE name = $1 ORDER BY state',
    [name],
  );
  return rows;
}
