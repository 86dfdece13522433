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
  TraceFlags,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { createdAtMs, EVENT_TYPES, type UnknownEvent } from './core/events.js';
import { boolean, readOptions, rule, withMethods } from './core/options.js';
import type { Inbox, InboxOperations, InboxState } from './core/ports.js';
import { orTimeout, RUNTIME, type Runtime, type RuntimeOptions, toRuntime } from './core/runtime.js';
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
  /** Time and timers, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
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
  const tracer = (tracerProvider ?? trace).getTracer('stablehooks');
  const attributesOf = createStepAttributes(common);
  const attributesOfOutcome = createOutcomeAttributes(common);
  const inboxes = createInboxes(runtime);
  let made: Instruments | undefined;
  let madeBy: MeterProvider | undefined;

  function instruments(): Instruments {
    const provider = meterProvider ?? metrics.getMeterProvider();
    // The SDK can start after the first measurement, which went nowhere.
    if (made === undefined || madeBy !== provider) {
      const observeInboxes = async (result: BatchObservableResult, gauges: Gauges) =>
        observeSummary(await inboxes.read(), result, { gauges, common });
      made = createInstruments(provider.getMeter('stablehooks'), observeInboxes);
      madeBy = provider;
    }
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
      readonly end?: ((span: Span, error: unknown, value: unknown) => void) | undefined;
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
      (error, value) => {
        end(span, error, value);
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
    const startedAt = runtime.elapsed();
    /** Returns the error of the step. */
    const measureStep: StepEnd = (thrown, value) => {
      const isLost = value === false && OPERATIONS[operation].type === 'settle';
      const error = isLost ? LEASE_LOST : thrown;
      const { metric } = attributesOf(operation, event);
      const attributes = error === undefined ? metric : { ...metric, 'error.type': errorType(error) };
      instruments()[histogram].record((runtime.elapsed() - startedAt) / 1_000, attributes);
      return error;
    };
    if (isUnsampled(trace.getActiveSpan())) return observe(run, measureStep);
    return inSpan(operation, run, {
      event,
      links: links?.(),
      end: (span, thrown, value) => failSpan(span, measureStep(thrown, value)),
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
    // An event that is ignored again was done before, and has no attempt.
    if (event !== undefined && attempt !== undefined && (kind === 'handled' || kind === 'ignored')) {
      // Clocks differ: an age below zero is none.
      eventAge.record(Math.max(0, runtime.now() - createdAtMs(event)) / 1_000, attributes);
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

    inboxClosed: (inbox) => inboxes.remove(inbox),
  };
}

/** Gets the error of a step, or `undefined`, and the value that it returned or resolved to. */
type StepEnd = (error: unknown, value: unknown) => unknown;

/** What `complete` and `fail` resolve to is `false` if another process has claimed the event. */
const LEASE_LOST = { code: 'ERR_LEASE_LOST' };

/**
 * Whether a span is not sampled: then the steps in it have no spans, whose objects would take more time than the
 * delivery. A span that has ended records nothing either, but what a late handler does belongs to it.
 */
function isUnsampled(span: Span | undefined): boolean {
  return (
    span !== undefined &&
    !span.isRecording() &&
    (span.spanContext().traceFlags & TraceFlags.SAMPLED) === TraceFlags.NONE
  );
}

/** Runs work, and calls back at its end, also if that is later; with an error if it failed. */
function observe<Result>(run: () => Result, onEnd: StepEnd): Result {
  const succeed = (value: unknown) => quietly(() => onEnd(undefined, value));
  const fail = (error: unknown) => quietly(() => onEnd(error ?? OTHER, undefined));
  let result: Result;
  try {
    result = run();
  } catch (error) {
    fail(error);
    throw error;
  }
  if (isThenable(result)) result.then(succeed, fail);
  else succeed(result);
  return result;
}

/** A provider, sampler or processor that throws changes nothing. */
function quietly(observe: () => void): void {
  try {
    observe();
  } catch (error) {
    try {
      diag.error('stablehooks: what observes a step threw an error.', errorType(error));
    } catch {
      // There is no other place to say it.
    }
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

/** What the gauges show: of several inboxes with the same attributes, the worst. */
interface InboxSummary {
  /** Whether every inbox could be read. */
  readonly readable: boolean;
  readonly states: ReadonlyMap<InboxState, { readonly count: number; readonly oldestMs: number }>;
  /** `undefined` before a poll was answered. */
  readonly watermarkLagMs: number | undefined;
  readonly gaps: number | undefined;
}

/** How long an inbox is waited for, in ms: exporters that are asked for metrics wait without a limit. */
const READ_TIMEOUT_MS = 5_000;

/** The inboxes that are in use. */
function createInboxes(runtime: Runtime) {
  const users = new Map<InboxOperations, number>();
  const reads = new Map<InboxOperations, ReturnType<typeof readInbox>>();

  /** Joins the read that runs: those of an inbox that hangs must not take all its connections. */
  function read(inbox: InboxOperations): ReturnType<typeof readInbox> {
    let running = reads.get(inbox);
    if (running === undefined) {
      running = readInbox(inbox).finally(() => reads.delete(inbox));
      running.catch(() => undefined);
      reads.set(inbox, running);
    }
    return orTimeout(running, {
      runtime,
      ms: READ_TIMEOUT_MS,
      toError: () => new Error('The inbox did not answer.'),
    });
  }

  return {
    add: (inbox: InboxOperations) => users.set(inbox, (users.get(inbox) ?? 0) + 1),

    remove(inbox: Inbox<unknown> & Partial<InboxOperations>): void {
      if (!hasOperations(inbox)) return;
      const left = (users.get(inbox) ?? 0) - 1;
      if (left > 0) users.set(inbox, left);
      else users.delete(inbox);
    },

    /** `undefined` if no inbox is in use. */
    async read(): Promise<InboxSummary | undefined> {
      const all = await Promise.allSettled([...users.keys()].map(read));
      return all.length === 0 ? undefined : summarize(all, runtime.now());
    },
  };
}

const readInbox = (inbox: InboxOperations) => Promise.all([inbox.count(), inbox.pollState()]);

function summarize(
  all: readonly PromiseSettledResult<Awaited<ReturnType<typeof readInbox>>>[],
  now: number,
): InboxSummary {
  const states = new Map<InboxState, { readonly count: number; readonly oldestMs: number }>();
  const lags: number[] = [];
  const gapCounts: number[] = [];
  for (const read of all) {
    if (read.status === 'rejected') continue;
    const [counts, { watermark, gaps }] = read.value;
    for (const { state, count, oldest } of counts) {
      if (state === 'done') continue;
      const { count: most = 0, oldestMs: longest = 0 } = states.get(state) ?? {};
      // Without an event the age is 0, so that an alert on it ends.
      const oldestMs = oldest === null ? 0 : Math.max(0, now - oldest);
      states.set(state, { count: Math.max(most, count), oldestMs: Math.max(longest, oldestMs) });
    }
    if (watermark === null) continue;
    lags.push(now - watermark);
    gapCounts.push(gaps.filter(({ acknowledged }) => acknowledged === null).length);
  }
  return {
    readable: all.every(({ status }) => status === 'fulfilled'),
    states,
    watermarkLagMs: lags.length === 0 ? undefined : Math.max(...lags),
    gaps: lags.length === 0 ? undefined : Math.max(...gapCounts),
  };
}

/**
 * Of an inbox that cannot be read, a reader with cumulative values exports what it had last: `readable` says so.
 */
function observeSummary(
  summary: InboxSummary | undefined,
  result: BatchObservableResult,
  { gauges, common }: { readonly gauges: Gauges; readonly common: Attributes },
): void {
  if (summary === undefined) return;
  const { readable, states, watermarkLagMs, gaps } = summary;
  result.observe(gauges.readable, readable ? 1 : 0, common);
  for (const [state, { count, oldestMs }] of states) {
    const attributes = { ...common, 'stablehooks.inbox.state': state };
    result.observe(gauges.events, count, attributes);
    result.observe(gauges.oldest, oldestMs / 1_000, attributes);
  }
  // Nothing polls, or nothing was answered yet.
  if (watermarkLagMs !== undefined) result.observe(gauges.watermarkLag, watermarkLagMs / 1_000, common);
  if (gaps !== undefined) result.observe(gauges.gaps, gaps, common);
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
