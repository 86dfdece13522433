import assert from 'node:assert/strict';
import {
  type ConfigError,
  createReceiver,
  type Inbox,
  memoryInbox,
  type Outcome,
  type Queue,
  type Receiver,
  RetryLater,
  type UnknownEvent,
} from 'stablehooks';
import { type ContractCase, signal, someEvent, test } from './contract.js';

/**
 * An empty queue over a running server. Every case needs a new one.
 *
 * The engine must try a failed job at least twice, with a delay of seconds at most.
 */
export interface QueueUnderTest {
  readonly queue: Queue;
  /** A durable inbox that no other case uses. @default an inbox in memory */
  readonly inbox?: Inbox | undefined;
  /**
   * Starts a worker of the queue, which passes the event of each job to `receiver.handle` and makes the engine
   * retry the job when the event must run again. Resolves with a function that stops the worker.
   */
  startWorker(receiver: Receiver): Promise<() => Promise<unknown>>;
  /** The number of jobs that wait or run. */
  countJobs(): Promise<number>;
  /** Makes the engine's server unreachable, without loss of its data. */
  stopServer(): Promise<void>;
  /** Makes the server reachable again. Resolves when the queue's client has connected to it. */
  startServer(): Promise<void>;
}

const QUIET = { warn: () => undefined, error: () => undefined };

/** An inbox in memory that a receiver with a queue accepts. */
const durableMemoryInbox = () => ({ ...memoryInbox(), durable: true });

/**
 * The rules of a queue: each event enters once, reaches a worker unchanged, is retried by the engine, and survives an
 * outage.
 *
 * Run it against the real engine, and give each case a time limit, because a case waits for jobs that never reach a worker.
 *
 * @example
 * ```ts
 * for (const { name, run } of queueContract) {
 *   test(name, () =>
 *     run({
 *       queue: myQueue(engine),
 *       startWorker: async (receiver) => {
 *         const worker = await engine.work((job) => myProcessor(receiver)(job));
 *         return () => worker.stop();
 *       },
 *       countJobs: () => engine.count(),
 *       stopServer: () => server.stop(),
 *       startServer: () => server.start(),
 *     }),
 *   );
 * }
 * ```
 */
export const queueContract: readonly ContractCase<QueueUnderTest>[] = [
  test('of 10 simultaneous enqueues of one event exactly one makes a job', async ({ queue, countJobs }) => {
    const event = someEvent();
    await Promise.all(Array.from({ length: 10 }, () => queue.enqueue(event)));
    assert.equal(await countJobs(), 1);
  }),
  test('events reach a worker once each, unchanged at every attempt, and the engine alone retries one that fails', async (subject) => {
    const { queue, inbox = durableMemoryInbox() } = subject;
    const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue });
    const flaky = someEvent();
    const events = [flaky, ...Array.from({ length: 5 }, () => someEvent())];
    // Parsing and serializing would change this text.
    const jsonOf = (event: UnknownEvent) => ` ${JSON.stringify(event)}`.replace('}', ', "raw": 1.0}');
    const carriedBy = (event: UnknownEvent) => ({
      json: jsonOf(event),
      traceparent: event === flaky ? '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' : undefined,
    });
    const [seen, handled]: [(readonly [string, object])[], Outcome[]] = [[], []];
    const allHandled = signal();
    const receiver = createReceiver({
      ...{ secret: 'x', inbox, logger: QUIET },
      handlers: {
        'transfer.settled': ({ id }, { attempt }) => {
          if (id === flaky.id && attempt === 1) throw new Error('The first attempt fails.');
        },
      },
      onOutcome: (outcome) => {
        if (outcome.kind === 'handled' && handled.push(outcome) === events.length) allHandled.resolve();
      },
    });
    const observed: Receiver = {
      ...receiver,
      handle(event, origin, { json, traceparent } = {}) {
        seen.push([event.id, { json, traceparent }]);
        return receiver.handle(event, origin, { json, traceparent });
      },
    };
    for (const event of events) await queue.enqueue(event, carriedBy(event));
    const stopWorker = await subject.startWorker(observed);
    await allHandled.promise.finally(stopWorker);
    const idsOf = (all: readonly (UnknownEvent | undefined)[]) => all.map((event) => event?.id).toSorted();
    assert.deepEqual(idsOf(handled.map(({ event }) => event)), idsOf(events));
    for (const { event, attempt, origin } of handled) {
      assert.deepEqual([attempt, origin], [event?.id === flaky.id ? 2 : 1, 'queue']);
    }
    for (const event of events) {
      const carried = seen.filter(([id]) => id === event.id).map(([, options]) => options);
      assert.ok(carried.length >= (event === flaky ? 2 : 1));
      for (const options of carried) assert.deepEqual(options, carriedBy(event));
    }
    assert.equal((await front.accept(flaky, 'push')).kind, 'duplicate');
  }),
  test('a job whose worker cannot reach its inbox is retried by the engine, and its event takes effect once', async (subject) => {
    const inbox = durableMemoryInbox();
    const [outcomes, handled] = [[] as string[], signal()];
    const receiver = createReceiver({
      ...{ secret: 'x', logger: QUIET },
      inbox: {
        ...inbox,
        async claim(event, options) {
          if (outcomes.length === 0) throw new Error('The inbox cannot be reached.');
          return inbox.claim(event, options);
        },
      },
      handlers: { 'transfer.settled': () => undefined },
      onOutcome: ({ kind }) => {
        outcomes.push(kind);
        if (kind === 'handled') handled.resolve();
      },
    });
    await subject.queue.enqueue(someEvent());
    const stopWorker = await subject.startWorker(receiver);
    await handled.promise.finally(stopWorker);
    assert.deepEqual(outcomes, ['unavailable', 'handled']);
  }),
  test('an event whose handler asks for later is added again when it is due, and uses up no attempt', async (subject) => {
    const { queue, inbox = durableMemoryInbox() } = subject;
    const handled = signal<Outcome>();
    const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue, logger: QUIET });
    let runs = 0;
    const receiver = createReceiver({
      ...{ secret: 'x', inbox, logger: QUIET },
      handlers: {
        'transfer.settled': () => {
          runs += 1;
          if (runs === 1) throw new RetryLater({ afterMs: 1, reason: 'Our row is not there yet.' });
        },
      },
      onOutcome: (outcome) => {
        if (outcome.kind === 'handled') handled.resolve(outcome);
      },
    });
    await front.accept(someEvent(), 'push');
    const stopWorker = await subject.startWorker(receiver);
    front.start({ intervalMs: 100 });
    const { attempt } = await handled.promise.finally(() => Promise.all([stopWorker(), front.close()]));
    assert.deepEqual([attempt, runs], [1, 2]);
  }),
  test('a worker whose inbox is not durable runs no event, because it would run it again after a restart', async (subject) => {
    const ended = signal<string | undefined>();
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: memoryInbox(), logger: QUIET },
      handlers: { 'transfer.settled': () => ended.resolve('handled') },
      onOutcome: ({ error }) => ended.resolve(error?.code),
    });
    await subject.queue.enqueue(someEvent());
    // A processor can refuse the receiver when it is created, or at the first job.
    const stopWorker = await subject
      .startWorker(receiver)
      .catch(({ code }: ConfigError) => ended.resolve(code));
    assert.equal(await ended.promise.finally(() => stopWorker?.()), 'ERR_CONFIG_INVALID');
  }),
  test('an event that arrives while the server is down is recorded and answered unavailable, and enqueued once later', async (subject) => {
    // The inbox is on another server, which keeps running.
    const inbox = durableMemoryInbox();
    const { queue, countJobs, stopServer, startServer } = subject;
    const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue, onOutcome: () => undefined });
    const event = someEvent();
    await stopServer();
    const { kind, error } = await front.accept(event, 'push').finally(startServer);
    assert.deepEqual([kind, error?.code], ['unavailable', 'ERR_QUEUE_FAILED']);
    assert.equal((await inbox.find(event.id))?.state, 'received');
    assert.equal((await front.accept(event, 'push')).kind, 'queued');
    assert.equal(await countJobs(), 1);
  }),
];
