import { StablehooksError } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import { integer, readOptions } from '../core/options.js';
import type { Queue } from '../core/ports.js';
import { redactCommand } from '../core/redact-command.js';
import { RUNTIME, toRuntime } from '../core/runtime.js';
import type { OutcomeKind } from '../receiver/outcome.js';
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

/** The methods of a BullMQ `Queue` that {@link bullmqQueue} uses. */
export interface BullQueueLike {
  add(name: string, data: JobData, options: { jobId: string }): Promise<unknown>;
  getJobState(jobId: string): Promise<string>;
  remove(jobId: string): Promise<unknown>;
}

/** The part of a BullMQ `Job` that {@link bullmqProcessor} uses. */
export interface BullJobLike {
  readonly data: JobData;
  moveToDelayed(timestamp: number, token?: string): Promise<void>;
}

/**
 * Creates a queue that adds each event to a BullMQ `Queue` as one job. The job's name is the event's type. If a job was
 * lost, or if a job failed and has no attempts left, `redrive()` adds a new job for the event. See docs/queues.md for a
 * complete program.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid.
 */
export function bullmqQueue(queue: BullQueueLike, options: QueueOptions = {}): Queue {
  const limit = readOptions('bullmqQueue', options, {
    timeoutMs: integer({ default: 5_000 }),
    runtime: RUNTIME,
  });

  async function addJob(event: UnknownEvent, data: JobData): Promise<void> {
    // BullMQ rejects ids with a colon and ids that are integers.
    const jobId = `event-${encodeURIComponent(event.id)}`;
    // BullMQ ignores a new job while it keeps a finished job with the same id.
    if (FINISHED.has(await queue.getJobState(jobId))) await queue.remove(jobId);
    await queue.add(event.type, data, { jobId });
  }
  return toQueue((event, data) => redactCommand(addJob(event, data)), limit);
}

/**
 * Returns the processor for a BullMQ `Worker`. The processor handles the job's event and returns the outcome's kind. If the
 * event must be retried, the processor throws, and BullMQ retries the job. If another process is running the event, or if
 * the event failed and isn't due yet, the processor delays the job by up to a minute. Such a delay doesn't use up an
 * attempt.
 *
 * @param receiver - a receiver without the option `queue`. This receiver must use the same inbox as the receivers that
 * enqueue the events. If that inbox isn't durable, every job fails with `ERR_CONFIG_INVALID`.
 */
export function bullmqProcessor(
  receiver: WorkerReceiver,
  options: Pick<QueueOptions, 'runtime'> = {},
): (job: BullJobLike, token?: string) => Promise<OutcomeKind> {
  assertReceiver('bullmqProcessor', receiver);
  const { runtime } = readOptions('bullmqProcessor', options, { runtime: RUNTIME });
  const { now } = toRuntime(runtime);
  return async (job, token) => {
    try {
      return await runJob(receiver, job.data);
    } catch (error) {
      if (!(error instanceof StablehooksError) || error.retryAfterMs === undefined) throw error;
      await job.moveToDelayed(now() + Math.min(error.retryAfterMs, MAX_DELAY_MS), token);
      // A worker does not fail a job that throws an error with this name.
      throw Object.assign(new Error(error.code), { name: 'DelayedError' });
    }
  };
}

/** In ms. An event that you requeue during the delay of its job waits no longer than this. */
const MAX_DELAY_MS = 60_000;

const FINISHED: ReadonlySet<string> = new Set(['completed', 'failed']);
