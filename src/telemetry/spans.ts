import {
  context,
  diag,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { isPromise } from '../core/awaitable.js';
import { codeOf } from './attributes.js';

export type End<Value> = { readonly value: Value } | { readonly error: unknown };

export interface SpanStart extends SpanOptions {
  readonly name: string;
}

/** Runs synchronous work synchronously, and calls `onEnd` even if the span can't be started. */
export function inSpan<Result>(
  tracer: Tracer,
  { name, ...options }: SpanStart,
  work: () => Result,
  onEnd: (span: Span | undefined, end: End<Awaited<Result>>) => void,
): Result {
  const parent = context.active();
  const span = safely(() => tracer.startSpan(name, options, parent));
  const end = (how: End<Awaited<Result>>) => {
    safely(() => onEnd(span, how));
    safely(() => span?.end());
  };
  let result: Result;
  try {
    result = context.with(span === undefined ? parent : trace.setSpan(parent, span), work);
  } catch (error) {
    end({ error });
    throw error;
  }
  if (!isPromise<unknown>(result)) {
    end({ value: result as Awaited<Result> });
    return result;
  }
  // An ORM's query would run again each time its `then` is called.
  const running = Promise.resolve(result);
  running.then(
    (value) => end({ value: value as Awaited<Result> }),
    (error: unknown) => end({ error }),
  );
  return running as Result;
}

/** The error's message is left out, because it can contain a payload. */
export function setError(span: Span | undefined, code: string): void {
  span?.setAttribute('error.type', code);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}

/** An error in a provider, sampler or processor must not affect the receiver. */
export function safely<Value>(call: () => Value): Value | undefined {
  try {
    return call();
  } catch (error) {
    diag.error('stablehooks: a provider, sampler or processor threw an error.', codeOf(error));
    return undefined;
  }
}
