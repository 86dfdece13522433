/** BullMQ as the queue: one job an event, under the event's id. */
import { redactCommand } from '../core/driver-error.js';
import type { UnknownEvent } from '../core/events.js';
import type { Queue } from '../core/queue.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { type DeadlineOptions, readDeadline, within } from './deadline.js';
import { runJob } from './job.js';

/** The least of BullMQ's `Queue`. */
export interface BullQueueLike {
  add(name: string, data: UnknownEvent, options: { jobId: string }): Promise<unknown>;
  getJobState(jobId: string): Promise<string>;
  remove(jobId: string): Promise<unknown>;
}

/**
 * Puts events into a BullMQ queue, named by their type.
 *
 * How often a job is tried, how long it waits between, and what is kept of finished ones is said in the
 * queue's `defaultJobOptions` (BullMQ's own default is one try). What BullMQ gave up waits in the inbox as
 * `failed`, and `redrive()` puts it in again, which replaces the finished job.
 *
 * The Redis behind it must keep what it is given (`appendonly yes`, `noeviction`). An event lost there is
 * still in the inbox: `redrive()` puts it in again, too.
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
export function bullmqQueue(queue: BullQueueLike, options: DeadlineOptions = {}): Queue {
  const { timeoutMs } = readDeadline(options);
  async function put(event: UnknownEvent): Promise<void> {
    const jobId = toJobId(event.id);
    // A job that BullMQ keeps after it finished would hold the place of the new one.
    if (FINISHED.has(await queue.getJobState(jobId))) await queue.remove(jobId);
    await queue.add(event.type, event, { jobId });
  }
  return { enqueue: (event) => within(timeoutMs, redactCommand(put(event))) };
}

/**
 * What a BullMQ `Worker` runs: handles the job's event, and throws when it is wanted again, so that BullMQ
 * retries it. The job's result is the outcome's kind.
 *
 * @param receiver - one without a queue, over the same inbox as the receivers in front.
 *
 * @example
 * ```ts
 * const worker = new Worker('webhooks', bullmqProcessor(receiver), { connection, concurrency: 8 });
 * ```
 */
export function bullmqProcessor(
  receiver: Pick<Receiver, 'handle'>,
): (job: { readonly data: UnknownEvent }) => Promise<OutcomeKind> {
  return (job) => runJob(job.data, { receiver });
}

const FINISHED: ReadonlySet<string> = new Set(['completed', 'failed']);

/** BullMQ takes no colon in an id, and no whole number as one. */
function toJobId(id: string): string {
  return `event-${encodeURIComponent(id)}`;
}
