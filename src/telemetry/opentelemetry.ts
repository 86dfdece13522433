/** `stablehooks/opentelemetry`: a layer that exports spans and metrics for a receiver and its poller. */
import {
  type Attributes,
  context,
  type MeterProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { createdAtMs, type UnknownEvent } from '../core/events.js';
import { boolean, readOptions, rule, withMethods } from '../core/options.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { type HealthLimits, readLimits } from '../health/options.js';
import { toHandlerFault } from '../receiver/handler-call.js';
import type { Layer } from '../receiver/layers.js';
import type { Outcome } from '../receiver/outcome.js';
import { codeOf, describeOutcome, describePoll, nameOf, typeOf } from './attributes.js';
import { Inboxes } from './inbox-gauges.js';
import { createMeasure } from './metrics.js';
import { inSpan, type SpanStart, setError } from './spans.js';
import { toLinks, toTraceparent } from './trace-context.js';

export type { Layer } from '../receiver/layers.js';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** The provider that receives the spans. @default the global provider, looked up for each span */
  readonly tracerProvider?: TracerProvider | undefined;
  /** The provider that receives the metrics. @default the global provider, looked up for each measurement */
  readonly meterProvider?: MeterProvider | undefined;
  /** Attributes to add to every span and metric, such as a name that identifies this receiver. @default none */
  readonly attributes?: Attributes | undefined;
  /** Whether to export inbox health and event counts. Processes that share an inbox export the same values. @default true */
  readonly inboxMetrics?: boolean | undefined;
  /** The limits beyond which a health check of the inbox fails. @default the defaults of `health` */
  readonly healthLimits?: HealthLimits | undefined;
  /** Replacements for time and timers, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Outcomes that need a person's attention, so their spans have the status ERROR. */
const FAILURES: readonly string[] = ['failed', 'unavailable', 'dead'] satisfies Outcome['kind'][];

/** A handler that threw `RetryLater` did not fail. */
const LATER = 'ERR_HANDLER_LATER';

/**
 * Creates a layer that observes a receiver and its poller. Pass it as in `createReceiver({ use: [openTelemetry()] })`. The
 * spans, metrics and attributes are listed in docs/telemetry.md.
 *
 * No span or metric contains a payload, a body, a secret, a token, a signature, an ordering key or an error message. Spans
 * contain the event's id and the names of the handler's steps. Without a registered SDK, nothing is recorded.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or invalid.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Layer {
  const { tracerProvider, meterProvider, attributes, inboxMetrics, healthLimits, ...given } = readOptions(
    'openTelemetry',
    options,
    {
      tracerProvider: withMethods<TracerProvider | undefined>('a tracer provider', ['getTracer']),
      meterProvider: withMethods<MeterProvider | undefined>('a meter provider', ['getMeter']),
      attributes: rule('an object of attributes', (value) => typeof value === 'object' && value !== null, {}),
      inboxMetrics: boolean(true),
      healthLimits: rule('an object of limits', (value) => typeof value === 'object' && value !== null, {}),
      runtime: RUNTIME,
    },
  );
  const runtime = toRuntime(given.runtime);
  const common: Attributes = { ...attributes, 'messaging.system.name': 'stablehooks' };
  const tracer = (tracerProvider ?? trace).getTracer('stablehooks');
  const inboxes = new Inboxes(common, runtime, readLimits('openTelemetry', healthLimits));
  const measure = createMeasure(meterProvider, inboxes);

  function toStart(operation: string, type: 'receive' | 'process', event?: UnknownEvent): SpanStart {
    return {
      name: nameOf(operation, event),
      kind: operation === 'poll' ? SpanKind.CLIENT : SpanKind.CONSUMER,
      attributes: {
        'messaging.operation.name': operation,
        'messaging.operation.type': type,
        ...(event && { 'messaging.message.id': event.id, 'stablehooks.event.type': typeOf(event) }),
        ...common,
      },
    };
  }

  return {
    conclude: (next) => (facts, run, traceparent) =>
      inSpan(
        tracer,
        { ...toStart('receive', 'receive', facts.event), links: toLinks(traceparent) },
        () => next(facts, run, traceparent),
        (span, end) => {
          if (!('value' in end)) return;
          const { kind, event, attempt, error } = end.value;
          const about = describeOutcome(end.value, common);
          measure(({ outcomes, eventAge }) => {
            outcomes.add(1, about);
            if (event === undefined || (kind !== 'handled' && kind !== 'ignored')) return;
            // Clocks can differ, so a negative age counts as 0.
            eventAge.record(Math.max(0, runtime.now() - createdAtMs(event)) / 1_000, about);
          });
          span?.updateName(nameOf('receive', event));
          span?.setAttributes(about);
          if (event !== undefined) span?.setAttribute('messaging.message.id', event.id);
          if (attempt !== undefined) span?.setAttribute('stablehooks.attempt', attempt);
          if (error !== undefined && FAILURES.includes(kind)) setError(span, error.code);
        },
      ),

    handler: (next) => (event, lease, handlerContext) => {
      const startedAt = runtime.elapsed();
      return inSpan(
        tracer,
        toStart('handler', 'process', event),
        () => next(event, lease, handlerContext),
        (span, end) => {
          const thrown = 'error' in end ? toHandlerFault(event, end.error).code : LATER;
          const code = thrown === LATER ? undefined : thrown;
          const about = {
            'messaging.operation.name': 'handler',
            'stablehooks.event.type': event.type,
            ...(code && { 'error.type': code }),
            ...common,
          };
          measure(({ processDuration }) =>
            processDuration.record((runtime.elapsed() - startedAt) / 1_000, about),
          );
          if (code !== undefined) setError(span, code);
        },
      );
    },

    step: (next) => (lease, name, run) => {
      const attributes = {
        'messaging.operation.name': 'step',
        'messaging.message.id': lease.id,
        'stablehooks.step.name': name,
        ...common,
      };
      return inSpan(
        tracer,
        { name: `step ${name}`, attributes },
        () => next(lease, name, run),
        (span, end) => {
          const code = 'error' in end ? codeOf(end.error) : LATER;
          if (code !== LATER) setError(span, code);
        },
      );
    },

    enqueue: (next) => (event, enqueueOptions) => {
      const traceparent = toTraceparent(trace.getActiveSpan()?.spanContext());
      return next(event, { ...enqueueOptions, traceparent });
    },

    poll: (run) =>
      inSpan(tracer, toStart('poll', 'receive'), run, (span, end) => {
        if (!('value' in end)) return setError(span, codeOf(end.error));
        const about = describePoll(end.value, common);
        measure(({ polls }) => polls.add(1, about));
        span?.setAttributes(about);
        if ('error.type' in about) span?.setStatus({ code: SpanStatusCode.ERROR });
      }),

    detached: (run) => (context.active() === ROOT_CONTEXT ? run() : context.with(ROOT_CONTEXT, run)),

    opened(inbox) {
      if (!inboxMetrics) return;
      inboxes.open.add(inbox);
      // This creates the gauges, so that they are collected even before the first delivery.
      measure(() => undefined);
    },

    closed: (inbox) => inboxes.open.delete(inbox),
  };
}
