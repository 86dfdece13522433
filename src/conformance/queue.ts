import assert from 'node:assert/strict';
import type { UnknownEvent } from '../core/events.js';
import type { Inbox, Queue } from '../core/ports.js';
import { memoryInbox } from '../inboxes/memory.js';
import { NO_TELEMETRY, type Outcome, type Telemetry } from '../receiver/outcome.js';
import { createReceiver, type Receiver } from '../receiver/receiver.js';
import { type ContractCase, someEvent } from './contract.js';

/**
 * An empty queue over a running server. Every case needs a new one.
 *
 * The engine must try a failed job at least twice, with a delay of seconds at most.
 */
export interface QueueUnderTest {
  readonly queue: Queue;
  /** A durable inbox that no other case uses. @default an inbox in memory */
  readonly inbox?: Inbox<never> | undefined;
  /**
   * Starts a worker of the queue, which gives the event of each job to `receiver.handle` and makes the engine
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

/**
 * The rules of a queue: each event enters once, reaches a worker, is retried by the engine, and survives an outage.
 *
 * Run it against the real engine, and give each case a time limit: when jobs never reach a worker, a case waits.
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
  {
    name: 'of 10 simultaneous enqueues of one event exactly one makes a job',
    async run({ queue, countJobs }) {
      const event = someEvent();
      await Promise.all(Array.from({ length: 10 }, () => queue.enqueue(event)));
      assert.equal(await countJobs(), 1);
    },
  },
  {
    name: 'events reach a worker once each, and the engine alone retries one that fails',
    async run({ queue, inbox = durableMemoryInbox().inbox, startWorker }) {
      const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue });
      const flaky = someEvent();
      const events = [flaky, ...Array.from({ length: 5 }, () => someEvent())];
      const ran: string[] = [];
      const handled: Outcome[] = [];
      let resolveHandled = () => {};
      const allHandled = new Promise<void>((resolve) => {
        resolveHandled = resolve;
      });
      const receiver = createReceiver({
        secret: 'x',
        inbox,
        handlers: {
          'transfer.settled': ({ id }, { attempt }) => {
            if (id === flaky.id && attempt === 1) throw new Error('The first attempt fails.');
            ran.push(id);
          },
        },
        onOutcome: (outcome) => {
          if (outcome.kind !== 'handled') return;
          handled.push(outcome);
          if (handled.length === events.length) resolveHandled();
        },
      });
      for (const event of events) {
        assert.equal((await front.accept(event, 'push')).kind, 'queued');
      }
      const stopWorker = await startWorker(receiver);
      try {
        await allHandled;
      } finally {
        await stopWorker();
      }
      const retried = handled.filter(({ attempt }) => attempt === 2);
      assert.deepEqual(
        retried.map(({ event, origin }) => ({ event, origin })),
        [{ event: flaky, origin: 'queue' }],
      );
      assert.deepEqual([...ran].sort(), events.map(({ id }) => id).sort());
      assert.equal((await front.accept(flaky, 'push')).kind, 'duplicate');
    },
  },
  {
    name: 'a worker whose inbox is not durable is refused, because it would run an event again after a restart',
    async run({ queue, startWorker }) {
      const event = someEvent();
      let ran = 0;
      let resolveEnded = (_outcome: Outcome) => {};
      const ended = new Promise<Outcome>((resolve) => {
        resolveEnded = resolve;
      });
      const receiver = createReceiver({
        secret: 'x',
        inbox: memoryInbox(),
        handlers: {
          'transfer.settled': () => {
            ran += 1;
          },
        },
        onOutcome: resolveEnded,
        logger: { warn: () => undefined, error: () => undefined },
      });
      await queue.enqueue(event);
      // The processor of the engine refuses the receiver, or the receiver refuses the job.
      const refused = await Promise.resolve()
        .then(() => startWorker(receiver))
        .then(
          async (stopWorker) => (await ended.finally(stopWorker)).error,
          (error) => error,
        );
      assert.equal(refused?.code, 'ERR_CONFIG_INVALID');
      assert.equal(ran, 0);
    },
  },
  {
    name: 'a job carries the trace context of what enqueued it, and one without a trace context carries none',
    async run({ queue, inbox = durableMemoryInbox().inbox, startWorker }) {
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      const [traced, plain] = [someEvent(), someEvent()];
      const seen = new Map<string | undefined, string | undefined>();
      let resolveSeen = () => {};
      const bothSeen = new Promise<void>((resolve) => {
        resolveSeen = resolve;
      });
      const telemetry: Telemetry = {
        ...NO_TELEMETRY,
        delivery(delivery, run, carried) {
          seen.set(delivery.event?.id, carried);
          if (seen.size === 2) resolveSeen();
          return run();
        },
      };
      await queue.enqueue(traced, { traceparent });
      await queue.enqueue(plain);
      const handlers = { 'transfer.settled': () => undefined };
      const stopWorker = await startWorker(createReceiver({ secret: 'x', inbox, telemetry, handlers }));
      try {
        await bothSeen;
      } finally {
        await stopWorker();
      }
      assert.deepEqual(
        seen,
        new Map([
          [traced.id, traceparent],
          [plain.id, undefined],
        ]),
      );
    },
  },
  {
    name: 'a handler of a worker has the trace context of the push that recorded its event, also when it is retried',
    async run({ queue, inbox = durableMemoryInbox().inbox, startWorker }) {
      const traceOf = (span: string) => `00-4bf92f3577b34da6a3ce929d0e0e4736-${span.repeat(16)}-01`;
      const pushed = { ...NO_TELEMETRY, traceparent: () => traceOf('a') };
      const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue, telemetry: pushed });
      const seen: (string | undefined)[] = [];
      let resolveHandled = () => {};
      const handled = new Promise<void>((resolve) => {
        resolveHandled = resolve;
      });
      const receiver = createReceiver({
        secret: 'x',
        inbox,
        handlers: {
          'transfer.settled': (_, { attempt }) => {
            if (attempt === 1) throw new Error('The first attempt fails.');
          },
        },
        telemetry: {
          ...NO_TELEMETRY,
          traceparent: () => traceOf('b'),
          handler(_, { traceparent }, run) {
            seen.push(traceparent);
            return run();
          },
        },
        onOutcome: ({ kind }) => {
          if (kind === 'handled') resolveHandled();
        },
      });
      assert.equal((await front.accept(someEvent(), 'push')).kind, 'queued');
      const stopWorker = await startWorker(receiver);
      try {
        await handled;
      } finally {
        await stopWorker();
      }
      assert.deepEqual(seen, [traceOf('a'), traceOf('a')]);
    },
  },
  {
    name: 'an event that arrives while the server is down is recorded and answered unavailable, and enqueued once later',
    async run({ queue, countJobs, stopServer, startServer }) {
      // The inbox is on another server, which keeps running.
      const { inbox, recorded } = durableMemoryInbox();
      const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue, onOutcome: () => undefined });
      const event = someEvent();
      await stopServer();
      try {
        const { kind, error } = await front.accept(event, 'push');
        assert.equal(kind, 'unavailable');
        assert.equal(error?.code, 'ERR_QUEUE_FAILED');
      } finally {
        await startServer();
      }
      assert.deepEqual(recorded, [event]);
      assert.equal((await front.accept(event, 'push')).kind, 'queued');
      assert.equal(await countJobs(), 1);
    },
  },
];

/** A memory inbox that a receiver with a queue accepts, and the events that it recorded as new. */
function durableMemoryInbox() {
  const memory = memoryInbox();
  const recorded: UnknownEvent[] = [];
  const record: typeof memory.record = async (page, options) => {
    const results = await memory.record(page, options);
    recorded.push(...page.filter((_, index) => results[index] === 'new'));
    return results;
  };
  return { inbox: { ...memory, durable: true, record }, recorded };
}
