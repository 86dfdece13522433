/** `stablehooks/opentelemetry`: a layer that exports spans and metrics of a receiver and its poller. */
import {
  type Attributes,
  type BatchObservableResult,
  type Context,
  context,
  type MeterProvider,
  metrics,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  type TracerProvider,
  trace,
} from '@opentelemetry/api';
import { isPromise } from '../core/awaitable.js';
import { decorateInbox } from '../core/decorate-inbox.js';
import { createdAtMs, type UnknownEvent } from '../core/events.js';
import { boolean, readOptions, rule, withMethods } from '../core/options.js';
import type { Inbox, InboxOperations, Lease } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { Outcome, OutcomeKind } from '../receiver/outcome.js';
import type { Layer, PollSummary } from '../receiver/work.js';
import { AttributeCache, knownType } from './attributes.js';
import { Inboxes } from './inbox-gauges.js';
import { createInstruments, type Instruments } from './instruments.js';
import { noteFailure, type Step, Steps, setError } from './steps.js';
import { isSampled, toTraceparent } from './trace-context.js';

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** Receives the spans. @default the global provider, at each span */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Receives the metrics. @default the global provider at the first measurement */
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

/** The outcomes whose span has the status ERROR, because a person has to act. */
const ERRORS: ReadonlySet<OutcomeKind> = new Set<OutcomeKind>(['failed', 'unavailable', 'dead']);

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
  const cache = new AttributeCache(common);
  const inboxes = new Inboxes(runtime);
  const tracer = (tracerProvider ?? trace).getTracer('stablehooks');
  const steps = new Steps({ tracer, attributes: cache, instruments, runtime });
  /** The events of leases, because an inbox completes a lease without its event. */
  const events = new WeakMap<Lease, UnknownEvent>();
  /** The contexts of the passes whose handlers run, because a shared timer reports the end of an overdue handler. */
  const passes = new WeakMap<UnknownEvent, Context>();
  let made: Instruments | undefined;
  let madeBy: MeterProvider | undefined;

  /** The instruments of the current provider. The SDK can start after the first measurement. */
  function instruments(): Instruments {
    const provider = meterProvider ?? metrics.getMeterProvider();
    if (made !== undefined && madeBy === provider) return made;
    const meter = provider.getMeter('stablehooks');
    const fresh = createInstruments(meter);
    const observe = (result: BatchObservableResult) => inboxes.observe(result, fresh.gauges, common);
    meter.addBatchObservableCallback(observe, Object.values(fresh.gauges));
    made = fresh;
    madeBy = provider;
    return fresh;
  }

  /** `isFirst`: whether it is the first pass of its delivery. */
  function measure(outcome: Outcome, isFirst: boolean): void {
    const { kind, event, attempt, secretIndex } = outcome;
    const { outcomes, secretMatches, eventAge, attempts } = instruments();
    const measured = cache.outcome(outcome);
    outcomes.add(1, measured);
    if (secretIndex !== undefined && isFirst) secretMatches.add(1, cache.secret(secretIndex));
    if (event !== undefined && (kind === 'handled' || kind === 'ignored')) {
      // Clocks differ: an age is at least 0.
      eventAge.record(Math.max(0, runtime.now() - createdAtMs(event)) / 1_000, measured);
    }
    if (attempt !== undefined && (kind === 'handled' || kind === 'dead')) attempts.record(attempt, measured);
  }

  /** The span of a delivery, once its outcome is known. */
  function describe(span: Span, outcome: Outcome): void {
    const { kind, origin, event, error, attempt, secretIndex } = outcome;
    span.updateName(cache.step('receive', event).name);
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

  function measurePoll(summary: PollSummary, span: Span | undefined): void {
    const { polls, recovered } = instruments();
    const result = resultOf(summary);
    polls.add(1, { ...common, 'stablehooks.poll.result': result });
    recovered.add(summary.recovered, common);
    if (span === undefined) return;
    span.setAttributes({
      'stablehooks.poll.result': result,
      'stablehooks.poll.recovered': summary.recovered,
      'stablehooks.poll.gaps': summary.gaps.length,
    });
    const [problem] = summary.problems;
    if (problem !== undefined && result === 'unproven') setError(span, problem.code);
  }

  /** Runs the step for a page of events. */
  function runPage<Result>(
    operation: 'record' | 'ignore',
    page: readonly UnknownEvent[],
    work: () => Result,
  ): Result {
    const event = page.length === 1 ? page[0] : undefined;
    return steps.run(steps.begin(operation, { event }), work);
  }

  const beginOf = (operation: 'complete' | 'fail', lease: Lease) =>
    steps.begin(operation, { event: events.get(lease), id: lease.id });

  return {
    inbox(inbox) {
      const { transaction } = inbox;
      return decorateInbox(inbox, {
        claim(event, claimOptions) {
          const traced = withTraceparent(claimOptions);
          return steps.run(
            steps.begin('claim', { event }),
            () => inbox.claim(event, traced),
            (claim) => claim?.state === 'claimed' && events.set(claim.lease, event),
          );
        },
        complete: (lease) => steps.run(beginOf('complete', lease), () => inbox.complete(lease)),
        fail: (lease, failure) => steps.run(beginOf('fail', lease), () => inbox.fail(lease, failure)),
        record(page, storeOptions) {
          const traced = withTraceparent(storeOptions);
          return runPage('record', page, () => inbox.record(page, traced));
        },
        ignore(page, storeOptions) {
          const traced = withTraceparent(storeOptions);
          return runPage('ignore', page, () => inbox.ignore(page, traced));
        },
        ...(transaction && {
          async transaction(lease, effect) {
            let commit: Step | undefined;
            const beginCommit = () => {
              commit = beginOf('complete', lease);
            };
            const run = (tx: unknown) => {
              const running = effect(tx);
              if (isPromise(running)) return running.then(beginCommit);
              beginCommit();
              return undefined;
            };
            try {
              const isCompleted = await transaction.call(inbox, lease, run);
              if (commit !== undefined) steps.end(commit, undefined, isCompleted);
              return isCompleted;
            } catch (error) {
              if (commit !== undefined) steps.end(commit, error);
              throw error;
            }
          },
        }),
      });
    },

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
          if (step.span?.isRecording()) describe(step.span, outcome);
          measure(outcome, isFirst);
        },
      );
    },

    handler: (next) => (event, lease, handlerContext) => {
      const step = steps.begin('handler', { event, traceparent: lease.traceparent });
      if (step.span === undefined) return steps.run(step, () => next(event, lease, handlerContext));
      passes.set(event, context.active());
      const forget = () => passes.delete(event);
      return steps.run(step, () => next(event, lease, handlerContext), forget);
    },

    enqueue: (next, inbox) => async (event, enqueueOptions) => {
      const pass = trace.getActiveSpan();
      const needsLink = !enqueueOptions.isNew && pass !== undefined && isSampled(pass);
      const recordedBy = needsLink ? await recordedTrace(inbox, event.id) : undefined;
      const step = steps.begin('enqueue', { event, traceparent: recordedBy });
      const traceparent = toTraceparent(step.span ?? pass);
      await steps.run(step, () => next(event, { ...enqueueOptions, traceparent }));
    },

    redrive: (next) => () => steps.run(steps.begin('redrive'), next),

    poll(run) {
      const step = steps.begin('poll');
      return steps.run(step, run, (summary) => summary && measurePoll(summary, step.span));
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

/** Stores the trace of the delivery with new events. */
function withTraceparent<Options extends { readonly traceparent?: string | undefined }>(
  options: Options,
): Options {
  const traceparent = toTraceparent(trace.getActiveSpan());
  return traceparent === undefined ? options : { ...options, traceparent };
}

/** The trace that an event was recorded in. A failure only omits the link. */
async function recordedTrace(
  inbox: Inbox<unknown> & Partial<InboxOperations>,
  id: string,
): Promise<string | undefined> {
  try {
    return (await inbox.find?.(id))?.traceparent ?? undefined;
  } catch {
    return undefined;
  }
}

function resultOf({ proven, problems }: PollSummary): 'proven' | 'unproven' | 'busy' | 'stopped' {
  if (proven) return 'proven';
  const has = (code: string) => problems.some((problem) => problem.code === code);
  if (has('ERR_POLL_BUSY')) return 'busy';
  return has('ERR_POLL_STOPPED') ? 'stopped' : 'unproven';
}
