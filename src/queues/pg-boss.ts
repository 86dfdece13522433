import { toHex } from '../core/bytes.js';
import { StablehooksError } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import { integer, readOptions, string } from '../core/options.js';
import type { Queue } from '../core/ports.js';
import { RUNTIME } from '../core/runtime.js';
import {
  assertReceiver,
  type JobData,
  type QueueOptions,
  runJob,
  toQueue,
  type WorkerReceiver,
} from './job.js';

export type { Queue } from '../core/ports.js';
export type { JobData, QueueOptions } from './job.js';

/** The methods of a `PgBoss` that {@link pgBossQueue} uses. */
export interface PgBossLike {
  send(name: string, data: object, options: { id: string }): Promise<string | null>;
  getJobById(name: string, id: string): Promise<{ readonly state: string } | null>;
  deleteJob(name: string, id: string): Promise<unknown>;
}

/** The method of a `PgBoss` that {@link pgBossProcessor} uses. */
export interface PgBossCompleteLike {
  complete(name: string, ids: string[]): Promise<unknown>;
}

/** A pg-boss job. */
export interface PgBossJob {
  readonly id: string;
  /** The name of the queue. */
  readonly name: string;
  readonly data: JobData;
}

/** Options of {@link pgBossQueue}. */
export interface PgBossQueueOptions extends QueueOptions {
  /** The name of the queue. Create the queue with `boss.createQueue`. @default 'stablehooks' */
  readonly queue?: string | undefined;
}

/**
 * Creates a queue that adds each event as one job to a queue in pg-boss 10, 11 or 12. If a job failed and has no retries
 * left, `redrive()` replaces the job with a new one for the same event. The queue must use the `standard` policy, which is
 * the default. Under any other policy, pg-boss adds no job while another job is waiting or running, and the delivery gets a
 * 503. See docs/queues.md for a complete program.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid.
 */
export function pgBossQueue(boss: PgBossLike, options: PgBossQueueOptions = {}): Queue {
  const { queue, ...limit } = readOptions('pgBossQueue', options, {
    queue: string('stablehooks'),
    timeoutMs: integer({ default: 5_000 }),
    runtime: RUNTIME,
  });

  async function addJob(event: UnknownEvent, data: JobData): Promise<void> {
    const id = await toJobId(event.id);
    // Tries twice, because the job with the same id may have been deleted between the calls.
    for (const _ of [1, 2]) {
      if ((await boss.send(queue, data, { id })) !== null) return;
      const job = await boss.getJobById(queue, id);
      if (job !== null && !FINISHED.has(job.state)) return;
      if (job !== null) await boss.deleteJob(queue, id);
    }
    throw new Error(
      `pg-boss did not add the job. Create the queue with boss.createQueue('${queue}') and the policy 'standard'. With any other policy, pg-boss adds no job while another job is waiting or running.`,
    );
  }
  return toQueue(addJob, limit);
}

/**
 * Returns the handler for `boss.work`. The handler runs the events of a batch concurrently, and completes the jobs whose
 * events succeeded. If an event must be retried, the handler throws, and pg-boss retries the remaining jobs of the batch.
 * If another process is running an event, or if an event failed and isn't due yet, the event's job uses up one retry, so
 * set `retryBackoff`.
 *
 * Pass `batchSize` and `pollingIntervalSeconds` to `boss.work`, because by default pg-boss runs one job at a time. If
 * Postgres disconnects at the end of a batch, pg-boss 10 leaves a promise rejection unhandled, which ends the process but
 * loses no event.
 *
 * @param receiver - a receiver without the option `queue`. This receiver must use the same inbox as the receivers that
 * enqueue the events. If that inbox isn't durable, every job fails with `ERR_CONFIG_INVALID`.
 */
export function pgBossProcessor(
  boss: PgBossCompleteLike,
  receiver: WorkerReceiver,
): (jobs: readonly PgBossJob[]) => Promise<void> {
  assertReceiver('pgBossProcessor', receiver);
  return async (jobs) => {
    const ends = await Promise.allSettled(jobs.map(({ data }) => runJob(receiver, data)));
    const failure = ends.find((end) => end.status === 'rejected');
    if (failure === undefined) return;
    const finished = jobs.filter((_, index) => ends[index]?.status === 'fulfilled');
    // Rejecting makes pg-boss fail only the jobs that are not complete. If this failed individual jobs and then resolved,
    // pg-boss would complete the whole batch, including jobs that another worker has taken in the meantime.
    const [first] = finished;
    if (first !== undefined) {
      await boss.complete(
        first.name,
        finished.map(({ id }) => id),
      );
    }
    // Only the code, because errors must not contain payloads, and the jsonb that stores errors rejects some strings.
    throw new Error(failure.reason instanceof StablehooksError ? failure.reason.code : 'ERR_HANDLER_FAILED');
  };
}

const FINISHED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled']);

/** pg-boss needs a UUID. This one has version 8 (RFC 9562). */
async function toJobId(id: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id));
  const hex = toHex(new Uint8Array(digest));
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}
