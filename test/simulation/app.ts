/** One process of the app: receiver, poller and worker, as a program would wire them. */
import {
  createReceiver,
  type EventType,
  type Inbox,
  type InboxOperations,
  type Outcome,
  PermanentError,
  type Receiver,
  UnavailableError,
  type WebhookEvent,
} from 'stablehooks';
import { createPoller, type Poller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toFetchHandler } from 'stablehooks/fetch';
import type { Sandbox } from 'stablehooks-kit/sandbox';
import { type Transaction, toInboxPort, toTransactionalPort } from './inbox-port.js';
import { toServiceFetch } from './network.js';
import type { PromiseName } from './promise-list.js';
import type { Attempt, Promises } from './promises.js';
import type { SimulatedQueue } from './queue.js';
import type { Behaviour, PlannedEvent, Scenario } from './scenario.js';
import { type Process, START_MS, toText, type World } from './world.js';

/** What the processes of a world share. */
export interface Surroundings {
  readonly world: World;
  readonly promises: Promises;
  readonly scenario: Scenario;
  readonly sandbox: Sandbox;
  /** The store; each process has its own port to it. */
  readonly inbox: Omit<Inbox, 'transaction'> & Pick<InboxOperations, 'find'>;
  readonly queue: SimulatedQueue;
  readonly secret: string;
  readonly token: string;
}

/** A running process. */
export interface App {
  readonly process: Process;
  readonly handler: (request: Request) => Promise<Response>;
  /** Ends it as a signal to terminate would. */
  close(): Promise<void>;
}

/** The types that the app has handlers for. */
export const HANDLED_TYPES = ['accept.confirmed', 'transfer.settled', 'redeem.failed'] as const;
type HandledType = (typeof HANDLED_TYPES)[number];

/** How many jobs a worker runs at a time. */
const JOBS_AT_A_TIME = 3;

export function startApp(process: Process, around: Surroundings): App {
  const { world, promises, scenario, sandbox, queue, secret, token } = around;
  const { redrive, hasQueue, faults } = scenario;
  const runtime = world.runtime(process);
  const port = { world, promises, process, inbox: around.inbox, faults };
  const run = (
    event: WebhookEvent,
    context: { readonly attempt: number; readonly tx?: Transaction | undefined },
  ) => handle(event, context, { ...around, process });
  const options = {
    secret,
    runtime,
    ...scenario.receiver,
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: (outcome: Outcome) => {
      if (!process.ended) promises.concluded(outcome);
    },
    ...(scenario.hasKeys && {
      orderingKey: (event: WebhookEvent) => keyOf(scenario, event),
    }),
  };
  const handlers = {
    'accept.confirmed': run,
    'transfer.settled': run,
    'redeem.failed': run,
  } satisfies Readonly<Record<HandledType, unknown>>;
  const create = (own: { readonly queue?: ReturnType<SimulatedQueue['portOf']> }) => {
    const receiver =
      scenario.inbox === 'transactional'
        ? createReceiver({ ...options, ...own, handlers, inbox: toTransactionalPort(port) })
        : createReceiver({
            ...options,
            ...own,
            handlers: withoutTransaction(handlers),
            inbox: toInboxPort(port),
          });
    return watchRejections(receiver, { world, process });
  };
  const receiver = create(hasQueue ? { queue: queue.portOf(process) } : {});
  const worker = hasQueue ? create({}) : undefined;
  if (worker !== undefined) work(worker, { world, process, queue });

  if (redrive.by === 'run') void receiver.run({ intervalMs: redrive.everyMs });
  else repeat(world, process, redrive.everyMs, () => receiver.redrive().catch(() => undefined));

  let poller: Poller | undefined;
  if (scenario.poller !== null) {
    const { sinceStart, ...rest } = scenario.poller;
    const fetch = toServiceFetch({ world, process, sandbox, scenario });
    const client = createClient({ baseUrl: 'http://service.test', token, fetch, runtime });
    poller = createPoller({
      client,
      receiver,
      runtime,
      logger: options.logger,
      ...rest,
      ...(sinceStart && { since: new Date(START_MS) }),
      onReport: ({ proven }) => world.count(proven ? 'a poll proves its time' : 'a poll proves nothing new'),
    });
    poller.start();
  }

  async function close(): Promise<void> {
    const startedAt = world.now;
    if (promises.runs(process)) world.count('a process is closed while its handlers run');
    const closed = Promise.all([receiver, worker].map((each) => each && closeInTime(each))).then(() => {
      if (world.now - startedAt < scenario.receiver.leaseMs) promises.closed(process);
    });
    await Promise.all([closed, poller?.stop()]);
  }

  async function closeInTime(each: Receiver): Promise<void> {
    const { leaseMs } = scenario.receiver;
    let isClosed = false;
    // A timer of the process itself: one that is paused does nothing.
    world.after(process, leaseMs + 2, 'a close is late', () => {
      if (isClosed) return;
      world.violate(
        'close() resolves after leaseMs at the latest',
        `It takes longer; leaseMs is ${leaseMs}.`,
      );
    });
    await each.close();
    isClosed = true;
    world.count('a receiver is closed');
  }

  return { process, handler: toFetchHandler(receiver), close };
}

/** The receiver, with a check of what its methods reject with. */
function watchRejections(
  receiver: Receiver,
  { world, process }: { readonly world: World; readonly process: Process },
): Receiver {
  function watch<Arguments extends readonly unknown[], Answer>(
    method: (...given: Arguments) => Promise<Answer>,
    promise: PromiseName,
    isExpected: (error: unknown) => boolean,
  ): (...given: Arguments) => Promise<Answer> {
    return async (...given) => {
      try {
        return await method(...given);
      } catch (error) {
        if (!process.ended && !isExpected(error)) world.violate(promise, toText(error));
        throw error;
      }
    };
  }
  const neverRejects = 'receive, accept and handle never reject';
  const rejectsWithInbox = 'redrive and record reject only when the inbox fails';
  const isNone = () => false;
  const isOfInbox = (error: unknown) =>
    error instanceof UnavailableError && error.code === 'ERR_INBOX_FAILED';
  return {
    ...receiver,
    receive: watch(receiver.receive, neverRejects, isNone),
    accept: watch(receiver.accept, neverRejects, isNone),
    handle: watch(receiver.handle, neverRejects, isNone),
    redrive: watch(receiver.redrive, rejectsWithInbox, isOfInbox),
    record: watch(receiver.record, rejectsWithInbox, isOfInbox),
  };
}

/** The handlers of an app whose inbox has no transactions. */
function withoutTransaction(handlers: Readonly<Record<string, Parameters<typeof repeatable>[0]>>) {
  return Object.fromEntries(Object.entries(handlers).map(([type, run]) => [type, repeatable(run)])) as {
    readonly [Type in EventType]?: ReturnType<typeof repeatable>;
  };
}

function repeatable(
  run: (event: WebhookEvent, context: { readonly attempt: number }) => Promise<void>,
): (event: WebhookEvent, context: { readonly attempt: number }) => Promise<void> {
  return (event, { attempt }) => run(event, { attempt });
}

/** The handler of every event: its steps, its failures, its effect. */
async function handle(
  event: WebhookEvent,
  { attempt: number, tx }: { readonly attempt: number; readonly tx?: Transaction | undefined },
  { world, promises, process, scenario }: Surroundings & { readonly process: Process },
): Promise<void> {
  const attempt = promises.starts(process, event, number);
  if (attempt === undefined) return;
  world.note(process, `its handler starts attempt ${number}`, event.id);
  try {
    await behave(behaviourOf(scenario, event), attempt);
    world.note(process, 'its handler ends', event.id);
  } catch (error) {
    attempt.excuse ??= 'its handler threw';
    world.note(process, 'its handler throws', event.id);
    throw error;
  } finally {
    attempt.isRunning = false;
  }

  async function behave({ stepsMs, failures, fails, permanent, hangs }: Behaviour, own: Attempt) {
    const runs =
      promises.stored.get(event.id)?.attempts.filter((each) => each.startedAt !== undefined).length ?? 1;
    for (const ms of stepsMs) {
      await world.sleep(process, runs === 1 ? ms : Math.min(ms, 100), 'a step of a handler ends');
    }
    if (permanent && runs === 1) throw new PermanentError('It never succeeds.');
    if (hangs && runs === 1 && !world.calm) {
      world.count('a handler hangs');
      await new Promise(() => undefined);
    }
    if (runs <= failures && fails === 'before') throw new Error('It fails.');
    if (tx !== undefined) await tx.write(own);
    else {
      await world.hop(process, 'its handler has its effect', event.id);
      promises.takesEffect(own);
      await world.hop(process, 'its handler continues', event.id);
    }
    if (runs <= failures) throw new Error('It fails after its effect.');
  }
}

/** The ordering key of an event of a known type. */
export function keyOf({ hasKeys }: Scenario, { payload }: Pick<WebhookEvent, 'payload'>): string | undefined {
  const { key } = payload;
  return hasKeys && typeof key === 'string' ? key : undefined;
}

/** What was planned for an event. */
export function behaviourOf(scenario: Scenario, { payload }: Pick<WebhookEvent, 'payload'>): PlannedEvent {
  const planned = scenario.events[Number(payload['index'])];
  if (planned === undefined) throw new Error('This event was not planned.');
  return planned;
}

/** Takes jobs of the queue, a few at a time. */
function work(
  receiver: Receiver,
  {
    world,
    process,
    queue,
  }: { readonly world: World; readonly process: Process; readonly queue: SimulatedQueue },
): void {
  let running = 0;
  repeat(world, process, 500, async () => {
    while (running < JOBS_AT_A_TIME) {
      const job = queue.take();
      if (job === undefined) return;
      running += 1;
      world.note(process, 'takes a job', job.event.id);
      const { json } = job;
      const end = async ({ kind, error }: Outcome) => {
        await world.hop(process, `ends a job: ${kind}`, job.event.id);
        queue.end(job, error !== undefined && kind !== 'dead' && kind !== 'rejected');
        running -= 1;
      };
      // A rejection is a violation, which ends the world.
      receiver.handle(job.event, 'queue', { json }).then(end, () => undefined);
    }
  });
}

/** Does something again and again, until its process ends. */
function repeat(world: World, process: Process, everyMs: number, run: () => Promise<unknown>): void {
  const next = () => {
    world.after(process, everyMs, 'does it again', () => void run().then(next));
  };
  next();
}
