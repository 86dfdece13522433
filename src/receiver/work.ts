/** The interfaces between the parts of the receiver, where layers can wrap a part. */
import type { Awaitable } from '../core/awaitable.js';
import type { UnknownEvent, WebhookEvent } from '../core/events.js';
import type { Inbox, Lease, Origin } from '../core/ports.js';
import type { HandlerContext } from './handler.js';
import type { Outcome, OutcomeResult } from './outcome.js';

/** One authentic event on its way to a handler. */
export interface Work {
  readonly event: UnknownEvent;
  readonly origin: Origin;
  /** The event's JSON as it arrived, if it is known. */
  readonly json?: string | undefined;
  readonly secretIndex?: number | undefined;
  /** Ends the wait for a free slot; the event stays stored. */
  readonly signal?: AbortSignal | undefined;
}

export interface Run {
  readonly result: OutcomeResult;
  /** The work that goes on after the answer: an overdue handler, or one that runs after a 202. It never rejects. */
  readonly rest?: Promise<unknown> | undefined;
}

/** Takes an authentic event to its result. A failure may be thrown synchronously. */
export type Dispatch = (work: Work) => Awaitable<Run>;

export type CallHandler = (event: WebhookEvent, lease: Lease, context: HandlerContext<unknown>) => unknown;

/** Runs the effect of a handler's step. A step whose result is stored already does not run. */
export type RunStep = (lease: Lease, name: string, run: () => unknown) => unknown;

/** Puts an event into the queue. */
export type Enqueue = (
  event: WebhookEvent,
  options: { readonly json: string | undefined; readonly traceparent?: string | undefined },
) => Promise<void>;

/** The facts about a delivery or a stored event while it passes through the receiver. */
export interface Pass {
  readonly origin: Origin;
  readonly event: UnknownEvent | undefined;
  readonly secretIndex: number | undefined;
}

/** Takes a pass to its outcome. Never rejects. */
export type Conclude = (
  pass: Pass,
  run: () => Promise<Outcome>,
  traceparent: string | undefined,
) => Promise<Outcome>;

/** The facts about a poll that a layer can observe; the report of a poll fits. */
export interface PollSummary {
  /** Whether this poll proved everything up to the new watermark. */
  readonly proven: boolean;
  readonly unconfirmed: boolean;
  /** ISO 8601; `null` when it is unknown. */
  readonly watermark: string | null;
  /** The gaps that are open after the poll. */
  readonly gaps: readonly unknown[];
  /** Events that were only in the list, and that took effect or were enqueued. */
  readonly recovered: number;
  readonly problems: readonly { readonly code: string }[];
}

/**
 * An optional feature around the core, such as `openTelemetry()`. Each member wraps one part, once, when the receiver is
 * created. A wrapper calls `next` synchronously and exactly once, returns its result, and lets errors pass.
 */
export interface Layer {
  /** Wraps each pass of a delivery or stored event, up to its outcome. */
  conclude?(next: Conclude): Conclude;
  /** Wraps each run of a handler. In a transaction of SQLite the wrapper must not be async: a promise dead-letters the event. */
  handler?(next: CallHandler): CallHandler;
  /** Wraps the effect of each `ctx.step` that runs. */
  step?(next: RunStep): RunStep;
  /** Wraps each call that puts an event into the queue. */
  enqueue?(next: Enqueue): Enqueue;
  /** Wraps each poll. */
  poll?<Summary extends PollSummary>(run: () => Promise<Summary>): Promise<Summary>;
  /** Runs work outside of any request, such as a timer's. */
  detached?<Result>(run: () => Result): Result;
  /** Called with the app's inbox when the receiver is created. */
  opened?(inbox: Inbox<unknown>): void;
  /** Called with the app's inbox when the receiver is closed. The app may close its connections after that. */
  closed?(inbox: Inbox<unknown>): void;
}
