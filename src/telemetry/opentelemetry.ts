/** `stablehooks/opentelemetry`: a layer that exports spans and metrics of a receiver and its poller. */
import {
  type Attributes,
  type BatchObservableResult,
  type Context,
  context,
  type MeterProvider,
  metrics,
  ROOT_CONTEXT,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import type { UnknownEvent } from '../core/events.js';
import { boolean, readOptions, rule, withMethods } from '../core/options.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { Layer } from '../receiver/work.js';
import { AttributeCache } from './attributes.js';
import { concludePoll, describeOutcome, measureOutcome } from './conclusions.js';
import { Inboxes } from './inbox-gauges.js';
import { createInstruments, type Instruments } from './instruments.js';
import { observeInbox } from './observed-inbox.js';
import { createSpanSteps, noteFailure } from './steps.js';
import { toTraceparent } from './trace-context.js';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** Receives the spans. @default the global provider, at each span */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Receives the metrics. @default the global provider, at each measurement */
  readonly meterProvider?: MeterProvider | undefined;
  /** Attributes of every span and metric, such as a name that distinguishes two receivers of a process. @default none */
  readonly attributes?: Attributes | undefined;
  /**
   * Whether each collection of metrics counts the events of the inbox and reads the state of catch-up, in two queries.
   * Every process with this option exports the same numbers.
   *
   * @default true
   */
  readonly inboxMetrics?: boolean | undefined;
  /** Time and timers, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Creates the layer: `createReceiver({ use: [openTelemetry()] })`. It observes the receiver and its poller;
 * docs/telemetry.md lists the spans, metrics and attributes.
 *
 * No span or metric contains a payload, a body, a secret, a token, a signature, an ordering key or an error message.
 * Spans contain the event's id. Without a registered SDK nothing is recorded.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or makes no sense.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Layer {
  const { tracerProvider, meterProvider, attributes, inboxMetrics, ...given } = readOptions(
    'openTelemetry',
    options,
    {
      tracerProvider: withMethods<TracerProvider | undefined>('a tracer provider', ['getTracer']),
      meterProvider: withMethods<MeterProvider | undefined>('a meter provider', ['getMeter']),
      attributes: rule('an object of attributes', (value) => typeof value === 'object' && value !== null, {}),
      inboxMetrics: boolean(true),
      runtime: RUNTIME,
    },
  );
  const runtime = toRuntime(given.runtime);
  const common = { ...attributes, 'messaging.system.name': 'stablehooks' };
  const inboxes = new Inboxes(runtime);
  const tracer = (tracerProvider ?? trace).getTracer('stablehooks');
  const parts = { tracer, attributes: new AttributeCache(common), instruments, runtime };
  const steps = createSpanSteps(parts);
  /** The contexts of the passes whose handlers run, because a shared timer reports the end of an overdue handler. */
  const passes = new WeakMap<UnknownEvent, Context>();
  let made: { readonly by: MeterProvider; readonly instruments: Instruments } | undefined;

  /** The instruments of the current provider. The SDK can start after the first measurement. */
  function instruments(): Instruments {
    const provider = meterProvider ?? metrics.getMeterProvider();
    if (made?.by === provider) return made.instruments;
    const meter = provider.getMeter('stablehooks');
    const fresh = createInstruments(meter);
    const observe = (result: BatchObservableResult) => inboxes.observe(result, fresh.gauges, common);
    meter.addBatchObservableCallback(observe, Object.values(fresh.gauges));
    made = { by: provider, instruments: fresh };
    return fresh;
  }

  return {
    inbox: (inbox) => observeInbox(inbox, steps),

    conclude: (next) => (pass, run, traceparent) => {
      // A later pass has the secret index from its start.
      const isFirst = pass.secretIndex === undefined;
      const parent = pass.event && passes.get(pass.event);
      const step = steps.begin('receive', { event: pass.event, traceparent, parent });
      return steps.run(
        step,
        () => next(pass, run, traceparent),
        (outcome) => {
          if (outcome === undefined) return;
          if (step.span?.isRecording()) describeOutcome(parts, step.span, outcome);
          measureOutcome(parts, outcome, isFirst);
        },
      );
    },

    handler: (next) => (event, lease, handlerContext) => {
      const step = steps.begin('handler', { event });
      if (step.span !== undefined) passes.set(event, context.active());
      const forget = step.span && (() => passes.delete(event));
      return steps.run(step, () => next(event, lease, handlerContext), forget);
    },

    enqueue: (next) => async (event, enqueueOptions) => {
      const pass = trace.getActiveSpan();
      const step = steps.begin('enqueue', { event });
      const traceparent = toTraceparent(step.span ?? pass);
      await steps.run(step, () => next(event, { ...enqueueOptions, traceparent }));
    },

    redrive: (next) => () => steps.run(steps.begin('redrive'), next),

    poll(run) {
      const step = steps.begin('poll');
      return steps.run(step, run, (summary) => summary && concludePoll(parts, summary, step.span));
    },

    detached: (run) => (context.active() === ROOT_CONTEXT ? run() : context.with(ROOT_CONTEXT, run)),

    opened(inbox) {
      if (!inboxMetrics) return;
      inboxes.add(inbox);
      try {
        instruments();
      } catch (error) {
        noteFailure(error);
      }
    },

    closed: (inbox) => inboxes.remove(inbox),
  };
}
