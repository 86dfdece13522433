import type { UnknownEvent, WebhookEvent } from '../core/events.js';
import type { Inbox, Lease, Origin } from '../core/ports.js';
import { outsideRequests } from '../core/runtime.js';
import type { HandlerContext } from './handler.js';
import type { Outcome } from './outcome.js';

export type CallHandler = (event: WebhookEvent, lease: Lease, context: HandlerContext<unknown>) => unknown;

/** Runs a step's effect. Not called for a step that already has a stored result. */
export type RunStep = (lease: Lease, name: string, run: () => unknown) => unknown;

export type Enqueue = (
  event: WebhookEvent,
  options: { readonly json: string | undefined; readonly traceparent?: string | undefined },
) => Promise<void>;

export interface Facts {
  readonly origin: Origin;
  readonly event?: UnknownEvent | undefined;
  readonly secretIndex?: number | undefined;
}

/** Processes a delivery or a stored event, and resolves to its outcome. Never rejects. */
export type Conclude = (
  facts: Facts,
  run: () => Promise<Outcome>,
  traceparent: string | undefined,
) => Promise<Outcome>;

/** The part of a poll's report that a layer can observe. */
export interface PollSummary {
  /** Whether this poll proved that no event up to the new watermark is missing. */
  readonly proven: boolean;
  readonly unconfirmed: boolean;
  /** The watermark in ISO 8601; `null` if it is unknown. */
  readonly watermark: string | null;
  /** The gaps that are still open after the poll. */
  readonly gaps: readonly unknown[];
  /** The number of events of known types that the poll found in the service's list but that had not arrived by push. */
  readonly recovered: number;
  readonly problems: readonly { readonly code: string }[];
}

/**
 * An optional feature, such as `openTelemetry()`, that wraps parts of the receiver. Each member that takes `next` is called
 * once, when the receiver is created, and returns a wrapper. The wrapper must call `next` synchronously and exactly once,
 * return what `next` returns, and let every error through.
 */
export interface Layer {
  /** Wraps the processing of each delivery or stored event, until it has an outcome. */
  conclude?(next: Conclude): Conclude;
  /** Wraps each run of a handler. If handlers run in SQLite transactions, an async wrapper dead-letters every event. */
  handler?(next: CallHandler): CallHandler;
  /** Wraps the effect of each `ctx.step` that runs. */
  step?(next: RunStep): RunStep;
  /** Wraps each call that enqueues an event. */
  enqueue?(next: Enqueue): Enqueue;
  /** Wraps each poll. */
  poll?<Summary extends PollSummary>(run: () => Promise<Summary>): Promise<Summary>;
  /** Runs work that doesn't belong to a request, such as work that a timer starts. */
  detached?<Result>(run: () => Result): Result;
  /** Called with the app's inbox when the receiver is created. */
  opened?(inbox: Inbox<unknown>): void;
  /** Called with the app's inbox once the receiver has closed. After that, the app can close its connections. */
  closed?(inbox: Inbox<unknown>): void;
}

export function wrap<Part>(
  layers: readonly Layer[],
  around: (layer: Layer, next: Part) => Part | undefined,
  part: Part,
): Part {
  return layers.reduceRight((next, layer) => around(layer, next) ?? next, part);
}

/** If `name` is `detached`, `run` runs outside any request. */
export function runInside<Result>(
  layers: readonly Layer[],
  name: 'poll' | 'detached',
  run: () => Result,
): Result {
  type Around = ((run: () => Result) => Result) | undefined;
  const wrapped = wrap(layers, (layer, next) => (layer[name] as Around)?.bind(layer, next), run);
  return name === 'detached' ? outsideRequests(wrapped) : wrapped();
}
