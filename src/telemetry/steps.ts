/** Steps of a receiver as spans with durations. A provider, sampler or processor that throws changes no step. */
import {
  type Attributes,
  type Context,
  context,
  diag,
  type Histogram,
  INVALID_TRACEID,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { isPromise } from '../core/awaitable.js';
import type { UnknownEvent, WebhookEvent } from '../core/events.js';
import type { Runtime } from '../core/runtime.js';
import { toHandlerFault } from '../receiver/handler-call.js';
import { type AttributeCache, errorType, OPERATIONS, type Operation, OTHER } from './attributes.js';
import type { Instruments } from './instruments.js';
import { isSampled, linksTo } from './trace-context.js';

/** The error of a step that an inbox answers with `false`: another process has claimed the event. */
const LEASE_LOST = { code: 'ERR_LEASE_LOST' };

/** A step that has begun. */
export interface Step {
  readonly operation: Operation;
  readonly event: UnknownEvent | undefined;
  /** `undefined` if the step is not traced. */
  readonly span: Span | undefined;
  /** The context to run it in; `undefined` for the active one. */
  readonly scope: Context | undefined;
  readonly startedAt: number;
}

interface Parts {
  readonly tracer: Tracer;
  readonly attributes: AttributeCache;
  readonly instruments: () => Instruments;
  readonly runtime: Runtime;
}

/** The duration of a step that takes part of a pass; passes have none. */
const HISTOGRAMS: Partial<Record<Operation, (instruments: Instruments) => Histogram>> = {
  claim: ({ operationDuration }) => operationDuration,
  handler: ({ processDuration }) => processDuration,
  complete: ({ operationDuration }) => operationDuration,
  fail: ({ operationDuration }) => operationDuration,
  record: ({ operationDuration }) => operationDuration,
  ignore: ({ operationDuration }) => operationDuration,
  enqueue: ({ operationDuration }) => operationDuration,
};

export class Steps {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Begins a delivery or another pass, which can be the first span of a trace. */
  beginPass(
    operation: 'receive' | 'redrive' | 'poll',
    {
      event,
      traceparent,
      parent = context.active(),
    }: {
      readonly event?: UnknownEvent | undefined;
      readonly traceparent?: string | undefined;
      readonly parent?: Context | undefined;
    } = {},
  ): Step {
    const span = this.#startSpan(operation, event, event?.id, traceparent, parent);
    const scope = span && trace.setSpan(parent, span);
    return { operation, event, span, scope, startedAt: 0 };
  }

  /** Begins a step of a pass. Without a span unless the pass is sampled: it would take longer than the pass. */
  begin(
    operation: Exclude<Operation, 'receive' | 'redrive' | 'poll'>,
    event: UnknownEvent | undefined,
    id: string | undefined,
    traceparent?: string,
  ): Step {
    const parent = context.active();
    const pass = trace.getSpan(parent);
    const isTraced = pass !== undefined && (isSampled(pass) || pass.isRecording());
    const span = isTraced ? this.#startSpan(operation, event, id, traceparent, parent) : undefined;
    const scope = span && trace.setSpan(parent, span);
    return { operation, event, span, scope, startedAt: this.#parts.runtime.elapsed() };
  }

  /** Runs a step to its end. `onEnd` is called before the span ends, with the value unless the step failed. */
  run<Result>(step: Step, work: () => Result, onEnd?: (value: Awaited<Result> | undefined) => void): Result {
    const end = (error: unknown, value?: Awaited<Result>) => {
      if (onEnd !== undefined) quietly(() => onEnd(value));
      this.end(step, error, value);
    };
    let result: Result;
    try {
      result = step.scope === undefined ? work() : context.with(step.scope, work);
    } catch (error) {
      end(error ?? OTHER);
      throw error;
    }
    if (isPromise<unknown>(result)) {
      result.then(
        (value) => end(undefined, value as Awaited<Result>),
        (error: unknown) => end(error ?? OTHER),
      );
    } else {
      end(undefined, result as Awaited<Result>);
    }
    return result;
  }

  end(step: Step, thrown: unknown, value?: unknown): void {
    const { operation, span, event, startedAt } = step;
    const { attributes, instruments, runtime } = this.#parts;
    const isLost = value === false && OPERATIONS[operation].type === 'settle';
    const error = isLost ? LEASE_LOST : thrown;
    const histogram = HISTOGRAMS[operation];
    const type = () =>
      operation === 'handler' ? toHandlerFault(event as WebhookEvent, error).code : errorType(error);
    quietly(() => {
      if (span !== undefined) {
        if (error !== undefined) setError(span, type());
        span.end();
      }
      if (histogram === undefined) return;
      const { metric } = attributes.step(operation, event);
      const measured: Attributes =
        error === undefined ? metric : { ...metric, 'error.type': type() };
      histogram(instruments()).record((runtime.elapsed() - startedAt) / 1_000, measured);
    });
  }

  /** `undefined` without an SDK. */
  #startSpan(
    operation: Operation,
    event: UnknownEvent | undefined,
    id: string | undefined,
    traceparent: string | undefined,
    parent: Context,
  ): Span | undefined {
    const { tracer, attributes } = this.#parts;
    let started: Span | undefined;
    quietly(() => {
      const { name, span: given } = attributes.step(operation, event);
      const links = linksTo(traceparent, trace.getSpan(parent));
      const { kind } = OPERATIONS[operation];
      const options = { kind, attributes: given, ...(links && { links }) };
      const span = tracer.startSpan(name, options, parent);
      if (span.spanContext().traceId === INVALID_TRACEID) return;
      if (id !== undefined) span.setAttribute('messaging.message.id', id);
      started = span;
    });
    return started;
  }
}

/** Marks a span as failed. Without the message of the error: what a handler throws can hold a payload. */
export function setError(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Observes; what that throws goes to the diagnostic logger. */
export function quietly(observe: () => unknown): void {
  try {
    observe();
  } catch (error) {
    try {
      diag.error('stablehooks: a provider, sampler or processor threw an error.', errorType(error));
    } catch {
      // There is no other place for it.
    }
  }
}
