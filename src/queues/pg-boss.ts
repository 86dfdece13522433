/** pg-boss as the queue: one job an event, under an id made of the event's. */
import { toHex } from '../core/bytes.js';
import { StablehooksError } from '../core/errors.js';
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import type { Queue } from '../core/queue.js';
import type { Receiver } from '../receiver/receiver.js';
import { type DeadlineOptions, readDeadline, within } from './deadline.js';
import { runJob } from './job.js';

/** The least of a `PgBoss` that puts jobs in. */
export interface PgBossLike {
  send(name: string, data: object, options: { id: string }): Promise<string | null>;
  getJobById(name: string, id: string): Promise<{ readonly state: string } | null>;
  deleteJob(name: string, id: string): Promise<unknown>;
}

/** The least of a `PgBoss` that works on jobs. */
export interface PgBossWorkLike {
  work(
    name: string,
    options: { batchSize: number; pollingIntervalSeconds: number },
    handler: (jobs: readonly PgBossJob[]) => Promise<void>,
  ): Promise<string>;
  complete(name: string, ids: string[]): Promise<unknown>;
}

/** A job as it was put in: the event as text, as jsonb would refuse some events and reorder others. */
export interface PgBossJob {
  readonly id: string;
  readonly data: { readonly event: string };
}

/** Options of {@link pgBossQueue}. */
export interface PgBossQueueOptions extends DeadlineOptions {
  /** The queue's name; make it with `boss.createQueue`. @default 'stablehooks' */
  readonly queue?: string;
}

/** Options of {@link workPgBoss}. */
export interface PgBossWorkOptions {
  /** One without a queue, over the same inbox as the receivers in front. */
  readonly receiver: Pick<Receiver, 'handle'>;
  /** The queue's name. @default 'stablehooks' */
  readonly queue?: string;
  /** How many jobs are taken, and run, at a time; pg-boss takes no more until the slowest ends. @default 20 */
  readonly batchSize?: number;
  /** How often pg-boss looks for jobs, in seconds. @default 0.5 */
  readonly pollingIntervalSeconds?: number;
}

const NAME = 'stablehooks';

/**
 * Puts events into a pg-boss queue of version 10.
 *
 * How often a job is tried, how long it waits between, when a lost worker's job is given to another
 * (`expireInSeconds`; 15 minutes unless said) and where dead ones go is said in `boss.createQueue`. What
 * pg-boss gave up waits in the inbox as `failed`, and `redrive()` puts it in again, which replaces the
 * finished job.
 *
 * @example
 * ```ts
 * await boss.createQueue('stablehooks', { name: 'stablehooks', retryLimit: 10, retryBackoff: true, expireInSeconds: 60 });
 * const receiver = createReceiver({ secret, inbox, queue: pgBossQueue(boss), handlers: {} });
 * ```
 */
export function pgBossQueue(boss: PgBossLike, options: PgBossQueueOptions = {}): Queue {
  const { queue = NAME } = options;
  const { timeoutMs } = readDeadline({ timeoutMs: options.timeoutMs });
  async function put(event: UnknownEvent): Promise<void> {
    const id = await toJobId(event.id);
    const data: PgBossJob['data'] = { event: encodeEvent(event) };
    // Twice, as the job that was in the way may have gone meanwhile.
    for (const _ of [1, 2]) {
      if ((await boss.send(queue, data, { id })) !== null) return;
      const job = await boss.getJobById(queue, id);
      if (job !== null && !FINISHED.has(job.state)) return;
      if (job !== null) await boss.deleteJob(queue, id);
    }
    throw new Error(`pg-boss took no job. Make the queue first: await boss.createQueue('${queue}').`);
  }
  return { enqueue: (event) => within(timeoutMs, put(event)) };
}

/**
 * Works on a pg-boss queue: handles each job's event, and fails the jobs whose event is wanted again, so
 * that pg-boss retries them. Resolves with the worker's id once it has begun.
 *
 * pg-boss 10 does not wait for its own word that a batch has ended: where Postgres goes away just then, that
 * is an unhandled rejection, which ends a Node process. Let workers be restarted; no event is lost by it.
 *
 * @example
 * ```ts
 * await workPgBoss(boss, { receiver });
 * ```
 */
export function workPgBoss(
  boss: PgBossWorkLike,
  { receiver, queue = NAME, batchSize = 20, pollingIntervalSeconds = 0.5 }: PgBossWorkOptions,
): Promise<string> {
  return boss.work(queue, { batchSize, pollingIntervalSeconds }, async (jobs) => {
    const finished: string[] = [];
    const failures: unknown[] = [];
    const run = async ({ id, data }: PgBossJob) => {
      try {
        await runJob(JSON.parse(data.event) as UnknownEvent, { receiver });
        finished.push(id);
      } catch (error) {
        failures.push(error);
      }
    };
    await Promise.all(jobs.map(run));
    if (failures.length === 0) return;
    // To reject fails the whole batch but for what is complete by then. The other way round, failing some and
    // letting pg-boss complete the batch, would complete jobs that another worker has taken meanwhile.
    if (finished.length > 0) await boss.complete(queue, finished);
    throw new Error(codeOf(failures[0]));
  });
}

/** All that pg-boss is told: it keeps what a job threw as jsonb, which refuses some texts and should hold no payload. */
function codeOf(error: unknown): string {
  return error instanceof StablehooksError ? error.code : 'ERR_HANDLER_FAILED';
}

const FINISHED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/** pg-boss takes only UUIDs: one of version 8 (RFC 9562), made of the id's SHA-256. */
async function toJobId(id: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id));
  const hex = toHex(new Uint8Array(digest));
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}
