import { encodeEvent, type UnknownEvent } from '../core/events.js';
import { readOptions, required, withMethods } from '../core/options.js';
import type { Queue } from '../core/ports.js';
import { type RuntimeOptions, timeLimit, toRuntime } from '../core/runtime.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';

/** Options that all queues share. */
export interface QueueOptions {
  /**
   * How long to wait for the queue engine, in ms. If the engine doesn't respond in time, the delivery gets a 503. The
   * engine might add the job later, but the job's id and the inbox make sure that the event takes effect only once.
   *
   * @default 5_000
   */
  readonly timeoutMs?: number | undefined;
  /** Replacements for time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Creates a queue that rejects if its engine doesn't respond in time. Some clients wait indefinitely for a server
 * that is down.
 */
export function toQueue(
  addJob: (event: UnknownEvent, data: JobData) => Promise<void>,
  { timeoutMs, ...given }: { readonly timeoutMs: number; readonly runtime: RuntimeOptions },
): Queue {
  const runtime = toRuntime(given.runtime);
  const onTimeUp = () => {
    throw new Error(
      `The queue did not respond within ${timeoutMs} ms. Check that its server can be reached.`,
    );
  };
  return {
    async enqueue(event, { json = encodeEvent(event), traceparent } = {}) {
      const added = addJob(event, { event: json, traceparent });
      await timeLimit(added, timeoutMs, onTimeUp, runtime);
    },
  };
}

/** Outcomes that have an error, but that a retry would not change. */
const NOT_RETRIED: ReadonlySet<OutcomeKind> = new Set(['dead', 'rejected']);

/** The data of a job. */
export interface JobData {
  /** The event's JSON as it arrived. It is a string because queue engines change some JSON values and refuse others. */
  readonly event: string;
  /** The trace context of the span that enqueued the event, as a W3C `traceparent`. */
  readonly traceparent?: string | undefined;
}

/** The part of a receiver that a worker uses. */
export type WorkerReceiver = Pick<Receiver, 'handle'>;

export function assertReceiver(where: string, receiver: WorkerReceiver): void {
  readOptions(where, { receiver }, { receiver: required(withMethods('a receiver', ['handle'])) });
}

/** Handles a job's event. If the engine must retry the job, this rejects with the outcome's error. */
export async function runJob(
  receiver: WorkerReceiver,
  { event: json, traceparent }: JobData,
): Promise<OutcomeKind> {
  const event = JSON.parse(json) as UnknownEvent;
  const { kind, error } = await receiver.handle(event, 'queue', { json, traceparent });
  if (error === undefined || NOT_RETRIED.has(kind)) return kind;
  throw error;
}
