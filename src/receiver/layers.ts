/** Layers: optional features around the parts of a receiver, each applied once, when the receiver is created. */
import type { UnknownEvent, WebhookEvent } from '../core/events.js';
import type { Inbox, Lease, Origin } from '../core/ports.js';
import { outsideRequests } from '../core/runtime.js';
import type { HandlerContext } from './handler.js';
import type { Outcome } from './outcome.js';

export type CallHandler = (event: WebhookEvent, lease: Lease, context: HandlerContext<unknown>) => unknown;

/** Runs the effect of a handler's step. A step whose result is stored already does not run. */
export type RunStep = (lease: Lease, name: string, run: () => unknown) => unknown;

export type Enqueue = (
  event: WebhookEvent,
  options: { readonly json: string | undefined; readonly traceparent?: string | undefined },
) => Promise<void>;

/** The known facts about a delivery or a stored event while it runs. */
export interface Facts {
  readonly origin: Origin;
  readonly event?: UnknownEvent | undefined;
  readonly secretIndex?: number | undefined;
}

/** Runs a delivery or a stored event to its outcome. Never rejects. */
export type Conclude = (
  facts: Facts,
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
  /** Events of known types that the list showed and push had not brought. */
  readonly recovered: number;
  readonly problems: readonly { readonly code: string }[];
}

/**
 * An optional feature around the core, such as `openTelemetry()`. Each member wraps one part, once, when the receiver is
 * created. A wrapper calls `next` synchronously and exactly once, returns its result, and lets errors pass.
 */
export interface Layer {
  /** Wraps each delivery or stored event, up to its outcome. */
  conclude?(next: Conclude): Conclude;
  /** Wraps each run of a handler. In a SQLite transaction, the wrapper must not be async: a promise dead-letters the event. */
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

/** Wraps a part in the layers that wrap it; the first layer is outermost. */
export function wrap<Part>(
  layers: readonly Layer[],
  around: (layer: Layer, next: Part) => Part | undefined,
  part: Part,
): Part {
  return layers.reduceRight((next, layer) => around(layer, next) ?? next, part);
}

/** Runs a function inside the layers that wrap it; a detached one outside of any request. */
export function runInside<Result>(
  layers: readonly Layer[],
  name: 'poll' | 'detached',
  run: () => Result,
): Result {
  type Around = ((run: () => Result) => Result) | undefined;
  const wrapped = wrap(layers, (layer, next) => (layer[name] as Around)?.bind(layer, next), run);
  return name === 'detached' ? outsideRequests(wrapped) : wrapped();
}
