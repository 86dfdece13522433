/** W3C Trace Context, 3.2: stores the trace of a delivery with its event, and passes it on with its job. */
import { INVALID_TRACEID, isSpanContextValid, type Link, type Span, TraceFlags } from '@opentelemetry/api';

const TRACEPARENT = /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/;

/** The trace context of a span; `undefined` without an SDK. */
export function toTraceparent(span: Span | undefined): string | undefined {
  const spanContext = span?.spanContext();
  if (spanContext === undefined || spanContext.traceId === INVALID_TRACEID) return undefined;
  const { traceId, spanId, traceFlags } = spanContext;
  const flags = traceFlags === TraceFlags.SAMPLED ? '01' : traceFlags.toString(16).padStart(2, '0');
  return `00-${traceId}-${spanId}-${flags}`;
}

/** The link to another span, unless that is in the same trace. */
export function linksTo(traceparent: string | undefined, within: Span | undefined): Link[] | undefined {
  if (traceparent === undefined) return undefined;
  if (within !== undefined && traceparent.startsWith(within.spanContext().traceId, 3)) return undefined;
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const linked = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(linked) ? [{ context: linked }] : undefined;
}

export function isSampled(span: Span): boolean {
  return (span.spanContext().traceFlags & TraceFlags.SAMPLED) !== TraceFlags.NONE;
}
