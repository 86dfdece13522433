/** One process of the app: receiver, poller and worker, as a program would wire them. */
import {
  createReceiver,
  type HandlerContext,
  type Outcome,
  PermanentError,
  type Queue,
  type Receiver,
  RetryLater,
  StablehooksError,
  type WebhookEvent,
} from 'stablehooks';
import { createPoller, type Poller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toFetchHandler } from 'stablehooks/fetch';
import type { Sandbox } from 'stablehooks-kit/sandbox';
import { toInboxPort, toTransactionalPort } from './inbox-port.js';
import { toServiceFetch } from './network.js';
import type { PromiseName } from './promise-list.js';
import type { Attempt, Promises } from './promises.js';
import type { SimulatedQueue } from './queue.js';
import { type Behaviour, HANDLED_TYPES, keyOf, plannedOf, type Scenario } from './scenario.js';
import type { Transaction } from './transaction.js';
import type { Store, TransactionalStore } from './transactional-store.js';
import { type Process, START_MS, toText, type World } from './world.js';

/** The state that the processes of a world share. */
export interface Surroundings {
  readonly world: World;
  readonly promises: Promises;
  readonly scenario: Scenario;
  readonly sandbox: Sandbox;
  /** The store; each process has its own port to it. */
  readonly inbox: Store | TransactionalStore;
  readonly queue: SimulatedQueue;
  readonly secret: string;
  readonly token: string;
}

export interface App {
  readonly process: Process;
  readonly handler: (request: Request) => Promise<Response>;
  /** Ends it as a signal to terminate would. */
  close(): Promise<void>;
}

const JOBS_AT_A_TIME = 3;

const isTransactional = (inbox: Store | TransactionalStore): inbox is TransactionalStore => 'begin' in inbox;

export function startApp(process: Process, around: Surroundings): App {
  const { world, promises, scenario, sandbox, queue, secret, token } = around;
  const { redrive, hasQueue } = scenario;
  const runtime = world.runtime(process);
  const { inbox } = around;
  const port = { world, promises, process, scenario };
  const run = (event: WebhookEvent, context: HandlerContext<Transaction | undefined>) =>
    handle(event, context, { ...around, process });
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
  const types = HANDLED_TYPES.filter((type) => !process.lacks.includes(type));
  const handlers: Readonly<Record<string, typeof run>> = Object.fromEntries(types.map((type) => [type, run]));
  const create = (given: typeof handlers, receiverQueue?: Queue) => {
    const all = { ...options, handlers: given, queue: receiverQueue };
    return isTransactional(inbox)
      ? createReceiver({ ...all, inbox: toTransactionalPort({ ...port, inbox }) })
      : createReceiver({ ...all, inbox: toInboxPort({ ...port, inbox }) });
  };
  const receiver = create(scenario.isApart ? {} : handlers, hasQueue ? queue.portOf(process) : undefined);
  const worker = hasQueue ? create(handlers) : undefined;
  const watched = { world, process };
  if (worker !== undefined) work(watchRejections(worker, watched), { world, process, queue });

  if (redrive.by === 'start') receiver.start({ intervalMs: redrive.everyMs });
  else
    repeat(world, process, redrive.everyMs, () =>
      redriveOnce(watchRejections(receiver, watched), around, process),
    );

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
    // A timer of the process itself, because a paused process does nothing.
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

  return { process, handler: neverRejecting(toFetchHandler(receiver), watched), close };
}

interface Watched {
  readonly world: World;
  readonly process: Process;
}

/** A function that must not reject, except as expected. */
function watch<Arguments extends readonly unknown[], Answer>(
  method: (...given: Arguments) => Promise<Answer>,
  { world, process }: Watched,
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

function neverRejecting<Arguments extends readonly unknown[], Answer>(
  method: (...given: Arguments) => Promise<Answer>,
  watched: Watched,
): (...given: Arguments) => Promise<Answer> {
  return watch(method, watched, 'receive, accept and handle never reject', () => false);
}

/** The receiver, with a check of what its methods reject with. */
function watchRejections(receiver: Receiver, watched: Watched): Receiver {
  const isOfInbox = (error: unknown) =>
    error instanceof StablehooksError && error.code === 'ERR_INBOX_FAILED';
  return {
    ...receiver,
    accept: neverRejecting(receiver.accept, watched),
    handle: neverRejecting(receiver.handle, watched),
    redrive: watch(receiver.redrive, watched, 'redrive rejects only when the inbox fails', isOfInbox),
  };
}

/** A cron job that redrives, for a limited time in some worlds. */
async function redriveOnce(
  receiver: Receiver,
  { world, promises, scenario: { redrive, latency } }: Surroundings,
  process: Process,
): Promise<void> {
  const ending = new AbortController();
  const { signal } = ending;
  let isEnded = false;
  if (redrive.limitMs !== undefined) {
    world.after(process, redrive.limitMs, 'the time of a redrive is over', () => {
      if (isEnded) return;
      world.count('a redrive is ended by its signal');
      ending.abort();
      if (latency.slow === 0) expectEnd();
    });
  }
  /** Where each step takes its usual time, only the handlers that it has started are waited for. */
  function expectEnd(isLate = false): void {
    const { pausedUntil } = process;
    world.after(process, 20 * latency.usualMs, 'a redrive has been ended', () => {
      if (isEnded || process.isCutOff) return;
      if (promises.redrives(process) || process.pausedUntil !== pausedUntil) expectEnd();
      else if (!isLate) expectEnd(true);
      else world.violate('a redrive ends with its signal', 'No handler runs that it has started.');
    });
  }
  await receiver.redrive({ signal }).catch(() => undefined);
  isEnded = true;
}

/** The handler of every event: its steps, its failures, its effect. */
async function handle(
  event: WebhookEvent,
  { attempt: number, origin, tx, step }: HandlerContext<Transaction | undefined>,
  { world, promises, process, scenario }: Surroundings & { readonly process: Process },
): Promise<void> {
  const attempt = promises.starts(process, event, { number, origin, token: tx?.lease.token });
  if (attempt === undefined) return;
  world.note(process, `its handler starts attempt ${number}`, event.id);
  try {
    await behave(plannedOf(scenario, event), attempt);
    attempt.endedWell = true;
    world.note(process, 'its handler ends', event.id);
  } catch (error) {
    attempt.excuse ??= 'its handler threw';
    world.note(process, 'its handler throws', event.id);
    throw error;
  } finally {
    attempt.isRunning = false;
  }

  async function behave(
    { stepsMs, failures, fails, permanent, hangs, laters, pays }: Behaviour,
    own: Attempt,
  ) {
    const runs = promises.attemptsOf(event.id).filter((each) => each.startedAt !== undefined).length;
    for (const ms of stepsMs) {
      await world.sleep(process, runs === 1 ? ms : Math.min(ms, 100), 'a step of a handler ends');
    }
    if (permanent && runs === 1) throw new PermanentError('It never succeeds.');
    if (hangs && runs === 1 && !world.calm) {
      world.count('a handler hangs');
      await new Promise(() => undefined);
    }
    if (runs <= laters) {
      own.asksLater = true;
      world.count('a handler asks for later');
      throw new RetryLater({ afterMs: 1_000, reason: 'It is not ready.' });
    }
    if (pays) {
      await step('payout', async () => {
        // At its begin: an app can let a step run on after its lease, whatever `signal` says.
        promises.pays(own);
        await world.hop(process, 'its handler pays', event.id);
        await world.hop(process, 'its handler has paid', event.id);
      });
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
