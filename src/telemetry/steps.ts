/** The steps of a receiver as spans with durations. Failures of a provider, sampler or processor do not affect a step. */
import {
  type Context,
  context,
  diag,
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

export interface Step {
  readonly operation: Operation;
  readonly event: UnknownEvent | undefined;
  /** `undefined` if the step is not traced. */
  readonly span: Span | undefined;
  /** The context to run it in; `undefined` for the active one. */
  readonly scope: Context | undefined;
  readonly startedAt: number;
}

export interface Parts {
  readonly tracer: Tracer;
  readonly attributes: AttributeCache;
  readonly instruments: () => Instruments;
  readonly runtime: Runtime;
}

export type Steps = ReturnType<typeof createSpanSteps>;

export function createSpanSteps({ tracer, attributes, instruments, runtime }: Parts) {
  /**
   * Begins a step. A step that a histogram measures is part of a pass, and has a span only if the pass is sampled, because
   * a span can take longer than the step.
   *
   * @param options.traceparent - the span to link to.
   */
  function begin(
    operation: Operation,
    {
      event,
      id = event?.id,
      traceparent,
      parent = context.active(),
    }: {
      readonly event?: UnknownEvent | undefined;
      readonly id?: string | undefined;
      readonly traceparent?: string | undefined;
      readonly parent?: Context | undefined;
    } = {},
  ): Step {
    const { kind, duration } = OPERATIONS[operation];
    const startedAt = duration === undefined ? 0 : runtime.elapsed();
    const pass = trace.getSpan(parent);
    let span: Span | undefined;
    if (duration === undefined || (pass !== undefined && (isSampled(pass) || pass.isRecording()))) {
      try {
        const { name, span: given } = attributes.step(operation, event);
        const links = linksTo(traceparent, pass);
        const started = tracer.startSpan(name, { kind, attributes: given, ...(links && { links }) }, parent);
        // Without an SDK a span has no trace id.
        if (started.spanContext().traceId !== INVALID_TRACEID) {
          if (id !== undefined) started.setAttribute('messaging.message.id', id);
          span = started;
        }
      } catch (error) {
        noteFailure(error);
      }
    }
    return { operation, event, span, scope: span && trace.setSpan(parent, span), startedAt };
  }

  /** Runs a step to its end. `onEnd` is called before the span ends, with the value unless the step failed. */
  function run<Result>(
    step: Step,
    work: () => Result,
    onEnd?: (value: Awaited<Result> | undefined) => void,
  ): Result {
    const finish = (error: unknown, value?: Awaited<Result>) => {
      try {
        onEnd?.(value);
      } catch (failure) {
        noteFailure(failure);
      }
      end(step, error, value);
    };
    let result: Result;
    try {
      result = step.scope === undefined ? work() : context.with(step.scope, work);
    } catch (error) {
      finish(error ?? OTHER);
      throw error;
    }
    if (!isPromise<unknown>(result)) {
      finish(undefined, result as Awaited<Result>);
      return result;
    }
    // A query of an ORM runs at each call of its `then`.
    const running = result instanceof Promise ? result : Promise.resolve(result);
    running.then(
      (value) => finish(undefined, value as Awaited<Result>),
      (error: unknown) => finish(error ?? OTHER),
    );
    return running as Result;
  }

  function end(step: Step, error: unknown, value?: unknown): void {
    const { operation, event, span, startedAt } = step;
    const { duration } = OPERATIONS[operation];
    try {
      const code = codeOf(step, error, value);
      if (code !== undefined) setError(span, code);
      span?.end();
      if (duration === undefined) return;
      const { metric } = attributes.step(operation, event);
      const seconds = (runtime.elapsed() - startedAt) / 1_000;
      instruments()[duration].record(
        seconds,
        code === undefined ? metric : { ...metric, 'error.type': code },
      );
    } catch (failure) {
      noteFailure(failure);
    }
  }

  return { begin, run, end };
}

function codeOf({ operation, event }: Step, error: unknown, value: unknown): string | undefined {
  // The inbox returns `false` when another process has claimed the event.
  if (OPERATIONS[operation].type === 'settle' && value === false) return 'ERR_LEASE_LOST';
  if (error === undefined) return undefined;
  if (operation !== 'handler') return errorType(error);
  const { code } = toHandlerFault(event as WebhookEvent, error);
  // The handler has not failed.
  return code === 'ERR_HANDLER_LATER' ? undefined : code;
}

/** Marks a span as failed. Without the message of the error, which can contain a payload. */
export function setError(span: Span | undefined, type: string): void {
  span?.setAttribute('error.type', type);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}

export function noteFailure(error: unknown): void {
  diag.error('stablehooks: a provider, sampler or processor threw an error.', errorType(error));
}
