/** `stablehooks/opentelemetry`: spans and metrics of a receiver and its poller, by the OpenTelemetry API. */
import {
  type Attributes,
  type BatchObservableResult,
  context,
  diag,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  type Link,
  type Meter,
  type MeterProvider,
  metrics,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { createdAtMs, EVENT_TYPES, type UnknownEvent } from './core/events.js';
import { boolean, readOptions, rule, withMethods } from './core/options.js';
import type { Inbox, InboxOperations } from './core/ports.js';
import type { Outcome, OutcomeKind, PollSummary, Telemetry } from './receiver/outcome.js';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** Where spans go. @default the global provider, at each span */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Where metrics go. @default the global provider, as it is at the first measurement */
  readonly meterProvider?: MeterProvider | undefined;
  /** Attributes of every span and metric, such as a name that tells two receivers of one process apart. @default none */
  readonly attributes?: Attributes | undefined;
  /**
   * Whether the events of the inbox are counted, and the state of catch-up read, at each collection of metrics: two
   * queries. Every process that does so exports the same numbers.
   *
   * @default true
   */
  readonly inboxMetrics?: boolean | undefined;
}

/** The steps as the semantic conventions for messaging (1.45.0) sort them. */
const OPERATIONS = {
  receive: { kind: SpanKind.CONSUMER, type: 'receive' },
  claim: { kind: SpanKind.CLIENT, type: 'receive' },
  handler: { kind: SpanKind.CONSUMER, type: 'process' },
  complete: { kind: SpanKind.CLIENT, type: 'settle' },
  fail: { kind: SpanKind.CLIENT, type: 'settle' },
  record: { kind: SpanKind.CLIENT, type: 'create' },
  enqueue: { kind: SpanKind.PRODUCER, type: 'send' },
  redrive: { kind: SpanKind.INTERNAL, type: 'receive' },
  poll: { kind: SpanKind.CLIENT, type: 'receive' },
} as const;

type Operation = keyof typeof OPERATIONS;

/** The instruments; made at the first use, because the API has no meter that waits for a provider. */
type Instruments = ReturnType<typeof createInstruments>;

/** Buckets of durations in seconds, by the semantic conventions. */
const DURATIONS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Buckets of ages in seconds: from a delivery that is in time to one that took days. */
const AGES = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800];

const ATTEMPTS = [1, 2, 3, 5, 8, 13, 25];

/** For what is not one of a few known values (as `http.request.method` has it in the semantic conventions). */
const OTHER = '_OTHER';

/** The outcomes whose span has the status ERROR: somebody has to do something. */
const ERRORS: ReadonlySet<OutcomeKind> = new Set<OutcomeKind>(['failed', 'unavailable', 'dead']);

/** A W3C `traceparent` of version 00. */
const TRACEPARENT = /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/;

/**
 * Makes the telemetry of a receiver: `createReceiver({ telemetry: openTelemetry() })`. The poller of that receiver uses
 * it, too. docs/telemetry.md lists the spans, metrics and attributes.
 *
 * No span or metric holds a payload, a body, a secret, a token, a signature, an ordering key or a message of an error.
 * Spans hold the event's id. Without a registered SDK nothing is recorded.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or makes no sense.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const { tracerProvider, meterProvider, attributes, inboxMetrics } = readOptions('openTelemetry', options, {
    tracerProvider: withMethods<TracerProvider | undefined>('a tracer provider', ['getTracer']),
    meterProvider: withMethods<MeterProvider | undefined>('a meter provider', ['getMeter']),
    attributes: rule('an object of attributes', (value) => typeof value === 'object' && value !== null, {}),
    inboxMetrics: boolean(true),
  });
  const common = { ...attributes, 'messaging.system.name': 'stablehooks' };
  const tracer = (tracerProvider ?? trace).getTracer('stablehooks');
  const attributesOf = createStepAttributes(common);
  const attributesOfOutcome = createOutcomeAttributes(common);
  const inboxes = new Set<InboxOperations>();
  let made: Instruments | undefined;

  function instruments(): Instruments {
    made ??= createInstruments((meterProvider ?? metrics).getMeter('stablehooks'), (result, gauges) =>
      Promise.all([...inboxes].map((inbox) => observeInbox(inbox, result, { gauges, common }))),
    );
    return made;
  }

  /** Runs work in a span of its own. `end` is called before the span ends. */
  function inSpan<Result>(
    operation: Operation,
    run: (span: Span) => Result,
    {
      event,
      links,
      end = failSpan,
    }: {
      readonly event?: UnknownEvent | undefined;
      readonly links?: Link[] | undefined;
      readonly end?: ((span: Span, error: unknown) => void) | undefined;
    } = {},
  ): Result {
    const parent = context.active();
    let span = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);
    quietly(() => {
      const { kind } = OPERATIONS[operation];
      const { name, span: attributes } = attributesOf(operation, event);
      span = tracer.startSpan(name, { kind, attributes, ...(links && { links }) }, parent);
      if (event !== undefined) span.setAttribute('messaging.message.id', event.id);
    });
    return observe(
      () => context.with(trace.setSpan(parent, span), run, undefined, span),
      (error) => {
        end(span, error);
        span.end();
      },
    );
  }

  /** Runs a step, measured by the histogram. */
  function timed<Result>(
    operation: Operation,
    run: () => Result,
    {
      event,
      links,
      histogram,
    }: {
      readonly event?: UnknownEvent | undefined;
      readonly links?: (() => Link[] | undefined) | undefined;
      readonly histogram: 'operationDuration' | 'processDuration';
    },
  ): Result {
    const startedAt = performance.now();
    const measureStep = (error: unknown) => {
      const { metric } = attributesOf(operation, event);
      const attributes = error === undefined ? metric : { ...metric, 'error.type': errorType(error) };
      instruments()[histogram].record((performance.now() - startedAt) / 1_000, attributes);
    };
    // A delivery that is not sampled has no spans of its steps: their objects would take more time than the delivery.
    if (trace.getActiveSpan()?.isRecording() === false) return observe(run, measureStep);
    return inSpan(operation, run, {
      event,
      links: links?.(),
      end(span, error) {
        measureStep(error);
        failSpan(span, error);
      },
    });
  }

  /** `isFirst`: whether it is the first pass of its delivery. */
  function measure(outcome: Outcome, isFirst: boolean): void {
    const { kind, event, attempt, secretIndex } = outcome;
    const { outcomes, secretMatches, eventAge, attempts } = instruments();
    const attributes = attributesOfOutcome(outcome);
    outcomes.add(1, attributes);
    if (secretIndex !== undefined && isFirst) {
      secretMatches.add(1, { ...common, 'stablehooks.secret.index': secretIndex });
    }
    if (event !== undefined && (kind === 'handled' || kind === 'ignored')) {
      // Clocks differ: an age below zero is none.
      eventAge.record(Math.max(0, Date.now() - createdAtMs(event)) / 1_000, attributes);
    }
    if (attempt !== undefined && (kind === 'handled' || kind === 'dead')) {
      attempts.record(attempt, attributes);
    }
  }

  function measurePoll(summary: PollSummary, span: Span): void {
    const { polls, recovered } = instruments();
    const result = resultOf(summary);
    polls.add(1, { ...common, 'stablehooks.poll.result': result });
    recovered.add(summary.recovered, common);
    span.setAttributes({
      'stablehooks.poll.result': result,
      'stablehooks.poll.recovered': summary.recovered,
      'stablehooks.poll.gaps': summary.gaps.length,
    });
    const [problem] = summary.problems;
    if (problem !== undefined && result === 'unproven') setError(span, problem.code);
  }

  return {
    delivery: (delivery, run, traceparent) =>
      inSpan(
        'receive',
        async (span) => {
          // A later pass knows the secret when it starts.
          const isFirst = delivery.secretIndex === undefined;
          const outcome = await run();
          quietly(() => {
            if (span.isRecording()) describe(span, outcome, attributesOf('receive', outcome.event).name);
            measure(outcome, isFirst);
          });
          return outcome;
        },
        { event: delivery.event, links: linksTo(traceparent) },
      ),

    claim: (event, run) => timed('claim', run, { event, histogram: 'operationDuration' }),

    handler: (event, { traceparent }, run) =>
      timed('handler', run, {
        event,
        links: () => linksTo(traceparent),
        histogram: 'processDuration',
      }),

    complete: (event, _lease, run) => timed('complete', run, { event, histogram: 'operationDuration' }),

    fail: (event, _lease, run) => timed('fail', run, { event, histogram: 'operationDuration' }),

    record: (events, run) =>
      timed('record', run, {
        event: events.length === 1 ? events[0] : undefined,
        histogram: 'operationDuration',
      }),

    enqueue: (event, recordedBy, run) =>
      timed('enqueue', run, { event, links: () => linksTo(recordedBy), histogram: 'operationDuration' }),

    redrive: (run) => inSpan('redrive', run),

    poll: (run) =>
      inSpan('poll', async (span) => {
        const summary = await run();
        quietly(() => measurePoll(summary, span));
        return summary;
      }),

    detached: (run) => context.with(ROOT_CONTEXT, run),

    traceparent() {
      const active = trace.getActiveSpan()?.spanContext();
      return active === undefined || !isSpanContextValid(active) ? undefined : toTraceparent(active);
    },

    inboxUsed(inbox) {
      if (!inboxMetrics || !hasOperations(inbox)) return;
      inboxes.add(inbox);
      quietly(instruments);
    },
  };
}

/** Runs work, and calls back at its end, also if that is later; with an error if it failed. */
function observe<Result>(run: () => Result, onEnd: (error?: unknown) => void): Result {
  const succeed = () => quietly(onEnd);
  const fail = (error: unknown) => quietly(() => onEnd(error ?? OTHER));
  let result: Result;
  try {
    result = run();
  } catch (error) {
    fail(error);
    throw error;
  }
  if (isThenable(result)) result.then(succeed, fail);
  else succeed();
  return result;
}

/** A provider, sampler or processor that throws changes nothing. */
function quietly(observe: () => void): void {
  try {
    observe();
  } catch (error) {
    diag.error('stablehooks: what observes a step threw an error.', errorType(error));
  }
}

/** What a span says of an outcome. */
function describe(span: Span, outcome: Outcome, name: string): void {
  const { kind, origin, event, error, attempt, secretIndex } = outcome;
  span.updateName(name);
  span.setAttribute('stablehooks.origin', origin);
  span.setAttribute('stablehooks.outcome', kind);
  if (event !== undefined) {
    span.setAttribute('messaging.message.id', event.id);
    span.setAttribute('stablehooks.event.type', knownType(event));
  }
  if (secretIndex !== undefined) span.setAttribute('stablehooks.secret.index', secretIndex);
  if (attempt !== undefined) span.setAttribute('stablehooks.attempt', attempt);
  if (error === undefined) return;
  span.setAttribute('error.type', error.code);
  if (ERRORS.has(kind)) span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Ends a span that no histogram measures. */
function failSpan(span: Span, error: unknown): void {
  if (error !== undefined) setError(span, errorType(error));
}

/** Marks a span as failed. Without the message of the error: what a handler throws can hold a payload. */
function setError(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** The code of an error, such as `ERR_HANDLER_FAILED`, `ECONNREFUSED` or `57P01`. */
function errorType(error: unknown): string {
  try {
    const { code } = error as { readonly code?: unknown };
    return typeof code === 'string' && /^[A-Z\d_]{2,40}$/.test(code) ? code : OTHER;
  } catch {
    return OTHER;
  }
}

function resultOf({ proven, problems }: PollSummary): 'proven' | 'unproven' | 'busy' | 'stopped' {
  if (proven) return 'proven';
  const has = (code: string) => problems.some((problem) => problem.code === code);
  if (has('ERR_POLL_BUSY')) return 'busy';
  return has('ERR_POLL_STOPPED') ? 'stopped' : 'unproven';
}

/** The service can add types, and a metric must not grow with them. */
function knownType({ type }: UnknownEvent): string {
  return (EVENT_TYPES as readonly string[]).includes(type) ? type : OTHER;
}

interface StepAttributes {
  /** The name of the span. */
  readonly name: string;
  /** The attributes of the step's metrics. */
  readonly metric: Attributes;
  /** The attributes of the step's span when it starts. */
  readonly span: Attributes;
}

/** Gives what was made for a key before: to make the attributes anew takes more time than to record them. */
function shared<Value>() {
  const made = new Map<string, Value>();
  return (key: string, make: () => Value): Value => {
    let value = made.get(key);
    if (value === undefined) {
      value = make();
      made.set(key, value);
    }
    return value;
  };
}

function createStepAttributes(common: Attributes) {
  const steps = shared<StepAttributes>();
  return (operation: Operation, event: UnknownEvent | undefined): StepAttributes => {
    const type = event && knownType(event);
    return steps(`${operation} ${type}`, () => {
      const about = type === undefined ? common : { ...common, 'stablehooks.event.type': type };
      const metric = { ...about, 'messaging.operation.name': operation };
      const span = { ...metric, 'messaging.operation.type': OPERATIONS[operation].type };
      const name = type === undefined || type === OTHER ? operation : `${operation} ${type}`;
      return { name, metric, span };
    });
  };
}

function createOutcomeAttributes(common: Attributes) {
  const outcomes = shared<Attributes>();
  return ({ kind, origin, event, error }: Outcome): Attributes => {
    const type = event && knownType(event);
    return outcomes(`${kind} ${origin} ${type} ${error?.code}`, () => ({
      ...common,
      'stablehooks.outcome': kind,
      'stablehooks.origin': origin,
      ...(type !== undefined && { 'stablehooks.event.type': type }),
      ...(error !== undefined && { 'error.type': error.code }),
    }));
  };
}

interface Gauges {
  readonly events: ReturnType<Meter['createObservableGauge']>;
  readonly oldest: ReturnType<Meter['createObservableGauge']>;
  readonly readable: ReturnType<Meter['createObservableGauge']>;
  readonly watermarkLag: ReturnType<Meter['createObservableGauge']>;
  readonly gaps: ReturnType<Meter['createObservableGauge']>;
}

function createInstruments(
  meter: Meter,
  observe: (result: BatchObservableResult, gauges: Gauges) => Promise<unknown>,
) {
  const seconds = (name: string, description: string, explicitBucketBoundaries = DURATIONS) =>
    meter.createHistogram(name, { unit: 's', description, advice: { explicitBucketBoundaries } });
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const gauges: Gauges = {
    events: gauge('stablehooks.inbox.events', '{event}', 'Events in the inbox that are not done, by state.'),
    oldest: gauge('stablehooks.inbox.oldest', 's', 'Since when the oldest event has been in its state.'),
    readable: meter.createObservableGauge('stablehooks.inbox.readable', {
      description: '1 if the inbox could be read; 0 if not, and then the other gauges have old values.',
    }),
    watermarkLag: gauge('stablehooks.poll.watermark_lag', 's', 'How far the watermark is behind now.'),
    gaps: gauge('stablehooks.poll.gaps', '{gap}', 'Gaps that are open and not acknowledged.'),
  };
  meter.addBatchObservableCallback(async (result) => {
    await observe(result, gauges);
  }, Object.values(gauges));
  return {
    outcomes: meter.createCounter('stablehooks.outcomes', {
      unit: '{delivery}',
      description: 'How deliveries and stored events ended.',
    }),
    secretMatches: meter.createCounter('stablehooks.secret.matches', {
      unit: '{delivery}',
      description: 'Authentic deliveries by the index of the secret that made the signature.',
    }),
    eventAge: seconds('stablehooks.event.age', 'From the creation of an event until it was done.', AGES),
    attempts: meter.createHistogram('stablehooks.attempts', {
      unit: '{attempt}',
      description: 'At which attempt an event was handled or dead-lettered.',
      advice: { explicitBucketBoundaries: ATTEMPTS },
    }),
    processDuration: seconds('messaging.process.duration', 'How long handlers ran.'),
    operationDuration: seconds(
      'messaging.client.operation.duration',
      'How long the inbox and the queue took.',
    ),
    polls: meter.createCounter('stablehooks.polls', {
      unit: '{poll}',
      description: 'Polls of the list, by result.',
    }),
    recovered: meter.createCounter('stablehooks.poll.recovered', {
      unit: '{event}',
      description: 'Events that only the list had.',
    }),
  };
}

/**
 * Reads an inbox for the gauges. Of one that cannot be asked, a reader with cumulative values exports what it had last:
 * `readable` says so.
 */
async function observeInbox(
  inbox: InboxOperations,
  result: BatchObservableResult,
  { gauges, common }: { readonly gauges: Gauges; readonly common: Attributes },
): Promise<void> {
  try {
    const [counts, { watermark, gaps }] = await Promise.all([inbox.count(), inbox.pollState()]);
    const now = Date.now();
    result.observe(gauges.readable, 1, common);
    for (const { state, count, oldest } of counts) {
      if (state === 'done') continue;
      const attributes = { ...common, 'stablehooks.inbox.state': state };
      result.observe(gauges.events, count, attributes);
      // Without an event the age is 0, so that an alert on it ends.
      result.observe(gauges.oldest, oldest === null ? 0 : Math.max(0, now - oldest) / 1_000, attributes);
    }
    // Nothing polls, or nothing was answered yet.
    if (watermark === null) return;
    result.observe(gauges.watermarkLag, (now - watermark) / 1_000, common);
    const open = gaps.filter(({ acknowledged }) => acknowledged === null);
    result.observe(gauges.gaps, open.length, common);
  } catch {
    result.observe(gauges.readable, 0, common);
  }
}

function hasOperations(
  inbox: Inbox<unknown> & Partial<InboxOperations>,
): inbox is Inbox<unknown> & InboxOperations {
  return typeof inbox.count === 'function' && typeof inbox.pollState === 'function';
}

/** The link to the delivery that recorded the event, if it was in another trace. */
function linksTo(traceparent: string | undefined): Link[] | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  if (trace.getActiveSpan()?.spanContext().traceId === traceId) return undefined;
  const linked = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(linked) ? [{ context: linked }] : undefined;
}

/** W3C Trace Context, 3.2. */
function toTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function';
}
