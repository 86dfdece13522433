import type { UnknownEvent } from '../core/events.js';
import { assertReceiver, integer, readOptions, required, withMethods } from '../core/options.js';
import type { Queue } from '../core/ports.js';
import { redactCommand } from '../core/redact-command.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { type QueueOptions, runJob, withTimeout } from './job.js';

export type { QueueOptions } from './job.js';

/** The methods of a BullMQ `Queue` that {@link bullmqQueue} uses. */
export interface BullQueueLike {
  add(name: string, data: UnknownEvent, options: { jobId: string }): Promise<unknown>;
  getJobState(jobId: string): Promise<string>;
  remove(jobId: string): Promise<unknown>;
}

/**
 * Adds each event to a BullMQ queue as one job, named by the type of the event.
 *
 * The queue's `defaultJobOptions` set the number of attempts, the backoff and what is kept of finished jobs
 * (the default of BullMQ is one attempt). An event whose job failed for the last time is `failed` in the
 * inbox; `redrive()` adds it again and replaces the finished job.
 *
 * The Redis must keep its data (`appendonly yes`, `noeviction`). `redrive()` also adds events whose jobs were
 * lost, because they are still in the inbox.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `queue` is wrong.
 *
 * @example
 * ```ts
 * const queue = new Queue('webhooks', {
 *   connection,
 *   defaultJobOptions: { attempts: 10, backoff: { type: 'exponential', delay: 1_000 }, removeOnComplete: true },
 * });
 * const receiver = createReceiver({ secret, inbox, queue: bullmqQueue(queue), handlers: {} });
 * ```
 */
export function bullmqQueue(queue: BullQueueLike, options: QueueOptions = {}): Queue {
  const { timeoutMs } = readOptions('bullmqQueue', options, { timeoutMs: integer({ default: 5_000 }) });
  const methods = ['add', 'getJobState', 'remove'];
  const queueRule = withMethods('a Queue of bullmq: new Queue(name, { connection })', methods);
  readOptions('bullmqQueue', { queue }, { queue: required(queueRule) });

  async function addJob(event: UnknownEvent): Promise<void> {
    const jobId = toJobId(event.id);
    // BullMQ ignores a new job while it keeps a finished one of the same id.
    if (FINISHED.has(await queue.getJobState(jobId))) await queue.remove(jobId);
    await queue.add(event.type, event, { jobId });
  }
  return { enqueue: (event) => withTimeout(redactCommand(addJob(event)), timeoutMs) };
}

/**
 * Returns the processor of a BullMQ `Worker`. It handles the event of the job and returns the kind of the
 * outcome, or throws if the event must be retried; BullMQ then retries the job.
 *
 * @param receiver - a receiver without a queue that uses the same inbox as the receivers that enqueue.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is wrong.
 *
 * @example
 * ```ts
 * const worker = new Worker('webhooks', bullmqProcessor(receiver), { connection, concurrency: 8 });
 * ```
 */
export function bullmqProcessor(
  receiver: Pick<Receiver, 'handle'>,
): (job: { readonly data: UnknownEvent }) => Promise<OutcomeKind> {
  assertReceiver('bullmqProcessor', receiver, 'handle');
  return (job) => runJob(receiver, job.data);
}

const FINISHED: ReadonlySet<string> = new Set(['completed', 'failed']);

/** BullMQ refuses ids with a colon, and ids that are integers. */
function toJobId(id: string): string {
  return `event-${encodeURIComponent(id)}`;
}
