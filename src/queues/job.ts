import { encodeEvent, type UnknownEvent } from '../core/events.js';
import { readOptions, required, withMethods } from '../core/options.js';
import type { Queue } from '../core/ports.js';
import { type RuntimeOptions, timeLimit, toRuntime } from '../core/runtime.js';
import type { OutcomeKind } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';

/** Options that all queues share. */
export interface QueueOptions {
  /**
   * How long to wait for the queue engine, in ms. After that, the delivery gets a 503. The engine might still add the job
   * later, but the event takes effect only once.
   *
   * @default 5_000
   */
  readonly timeoutMs?: number | undefined;
  /** Replacements for time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Rejects if the engine doesn't respond in time, because some clients wait indefinitely for a server that is down. */
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

/** These outcomes have an error, but a retry would not change them. */
const NOT_RETRIED: ReadonlySet<OutcomeKind> = new Set(['dead', 'rejected']);

/** The data of a job. */
export interface JobData {
  /** The event's JSON as it arrived, kept as a string because queue engines change or reject some JSON values. */
  readonly event: string;
  /** The trace context of the span that enqueued the event, as a W3C `traceparent`. */
  readonly traceparent?: string | undefined;
}

/** The part of a receiver that a worker uses. */
export type WorkerReceiver = Pick<Receiver, 'handle'>;

export function assertReceiver(where: string, receiver: WorkerReceiver): void {
  readOptions(where, { receiver }, { receiver: required(withMethods('a receiver', ['handle'])) });
}

/** Rejects with the outcome's error if the engine must retry the job. */
export async function runJob(
  receiver: WorkerReceiver,
  { event: json, traceparent }: JobData,
): Promise<OutcomeKind> {
  const event = JSON.parse(json) as UnknownEvent;
  const { kind, error } = await receiver.handle(event, 'queue', { json, traceparent });
  if (error === undefined || NOT_RETRIED.has(kind)) return kind;
  throw error;
}
