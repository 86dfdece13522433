/** What a receiver and a poller report while they work: one method for each step, around the step itself. */
import type { UnknownEvent } from '../core/events.js';
import type { Inbox, InboxOperations, Lease } from '../core/ports.js';
import type { Delivery, Outcome, OutcomeCounts } from './outcome.js';

/** What telemetry needs to know of a poll; the report of a poll fits. */
export interface PollSummary {
  /** Whether this poll has proven everything up to the new watermark. */
  readonly proven: boolean;
  /** ISO; `null` when it is not known. */
  readonly watermark: string | null;
  /** The gaps that are open after the poll. */
  readonly gaps: readonly unknown[];
  /** Events that only the list had, and that the poll handled or enqueued. */
  readonly recovered: number;
  readonly problems: readonly { readonly code: string }[];
}

/**
 * Observes the steps of a receiver and its poller, such as `openTelemetry()` of `stablehooks/opentelemetry` does.
 *
 * Each method with `run` runs its step: it must call `run` exactly once, return what it returns, and let pass
 * through what it throws or rejects with. It must not throw by itself. Work that `run` starts belongs to the step.
 */
export interface Telemetry {
  /**
   * One pass of a delivery or a stored event through the receiver, up to its outcome. `delivery` gets its `event` and
   * `secretIndex` while it runs. A delivery whose handler runs after the answer has two passes.
   *
   * @param traceparent - the trace context that the event came with, such as that of its job.
   */
  delivery(delivery: Readonly<Delivery>, run: () => Promise<Outcome>, traceparent?: string): Promise<Outcome>;
  /** The claim of an event in the inbox. */
  claim<Result>(event: UnknownEvent, run: () => Result): Result;
  /** The handler of an event, with the check of its payload. What it returns can be a promise or not. */
  handler<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The completion of an event; in a transaction, from the end of its handler to the commit. */
  complete<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The record of a failed attempt. */
  fail<Result>(event: UnknownEvent, lease: Lease, run: () => Result): Result;
  /** The record of events that are not claimed at once. */
  record<Result>(events: readonly UnknownEvent[], run: () => Result): Result;
  /** Putting an event into the queue. */
  enqueue<Result>(event: UnknownEvent, run: () => Result): Result;
  /** One run of `redrive`. */
  redrive(run: () => Promise<OutcomeCounts>): Promise<OutcomeCounts>;
  /** One poll of the list. */
  poll<Summary extends PollSummary>(run: () => Promise<Summary>): Promise<Summary>;
  /** Runs work that does not belong to the step that starts it, such as events that waited for another one. */
  detached<Result>(run: () => Result): Result;
  /** The trace context of the work that runs, as a W3C `traceparent`, to be stored with an event; `undefined` if there is none. */
  traceparent(): string | undefined;
  /** Called once per receiver, when it first uses its inbox: its events can be counted from now on. */
  inboxUsed(inbox: Inbox<unknown> & Partial<InboxOperations>): void;
}

/** Observes nothing, at the cost of a call. */
export const NO_TELEMETRY: Telemetry = {
  delivery: (_delivery, run) => run(),
  claim: (_event, run) => run(),
  handler: (_event, _lease, run) => run(),
  complete: (_event, _lease, run) => run(),
  fail: (_event, _lease, run) => run(),
  record: (_events, run) => run(),
  enqueue: (_event, run) => run(),
  redrive: (run) => run(),
  poll: (run) => run(),
  detached: (run) => run(),
  traceparent: () => undefined,
  inboxUsed: () => undefined,
};
