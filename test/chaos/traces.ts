/** The spans and metrics of the fleet: sent by each process before it can be killed, collected in memory. */
import { type Attributes, context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  MeterProvider,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, NodeTracerProvider, type ReadableSpan } from '@opentelemetry/sdk-trace-node';
import type { Origin } from 'stablehooks';
import { openTelemetry } from 'stablehooks/opentelemetry';

/** A span, as far as it is needed here. */
export interface SentSpan {
  readonly operation: string;
  readonly traceId: string;
  /** The traces that it links to. */
  readonly links: readonly string[];
  readonly attributes: Attributes;
  /** Everything else that the span says: its name, status, events and the attributes of its links. */
  readonly said: string;
}

/** What a process sends to the chaos run. */
export type Sent = { readonly spans: readonly SentSpan[] } | { readonly metrics: readonly SentPoint[] };

/** What a point of a metric says beside its number. */
interface SentPoint {
  readonly name: string;
  readonly attributes: Attributes;
}

/** Success, as exporters of OpenTelemetry report it. */
const DONE = { code: 0 };

/** Starts the SDK in this process. What ends is sent soon, so that a kill loses little. */
export function sendTelemetry(send: (sent: Sent) => void) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const spans = {
    export(ended: readonly ReadableSpan[], done: (result: typeof DONE) => void) {
      send({ spans: ended.map(toSent) });
      done(DONE);
    },
    shutdown: async () => undefined,
  };
  const metrics = {
    export(collected: ResourceMetrics, done: (result: typeof DONE) => void) {
      const metrics = collected.scopeMetrics.flatMap((scope) => scope.metrics);
      send({
        metrics: metrics.flatMap(({ descriptor: { name }, dataPoints }) =>
          dataPoints.map(({ attributes }) => ({ name, attributes })),
        ),
      });
      done(DONE);
    },
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
    selectAggregationTemporality: () => AggregationTemporality.CUMULATIVE,
  };
  return openTelemetry({
    tracerProvider: new NodeTracerProvider({
      spanProcessors: [new BatchSpanProcessor(spans, { scheduledDelayMillis: 100, maxQueueSize: 100_000 })],
    }),
    meterProvider: new MeterProvider({
      readers: [new PeriodicExportingMetricReader({ exporter: metrics, exportIntervalMillis: 500 })],
    }),
  });
}

function toSent(span: ReadableSpan): SentSpan {
  const { name, attributes, status, events, links } = span;
  const { traceId } = span.spanContext();
  return {
    operation: String(attributes['messaging.operation.name']),
    traceId,
    links: links.map(({ context }) => context.traceId),
    attributes,
    said: JSON.stringify([name, status, events, links.map((link) => link.attributes)]),
  };
}

/** What all processes have sent. */
export interface Telemetry {
  receive(sent: Sent): void;
  /** How many events have one chain of traces and links: from a push to a retry after a failure, or from a poll to a job. */
  joined(): { readonly push: number; readonly poll: number };
  /** Every name and value that a span or a metric held, each once. */
  readonly words: ReadonlySet<string>;
  readonly spans: number;
}

export function collectTelemetry(): Telemetry {
  const words = new Set<string>();
  const byEvent = new Map<string, SentSpan[]>();
  const polls = new Set<string>();
  let count = 0;

  function addWords(text: string, attributes: Attributes) {
    words.add(text);
    for (const [name, value] of Object.entries(attributes)) words.add(name).add(String(value));
  }

  return {
    words,
    get spans() {
      return count;
    },
    receive(sent) {
      if ('metrics' in sent) {
        for (const { name, attributes } of sent.metrics) addWords(name, attributes);
        return;
      }
      for (const span of sent.spans) {
        count += 1;
        addWords(span.said, span.attributes);
        if (span.operation === 'poll') polls.add(span.traceId);
        const id = span.attributes['messaging.message.id'];
        if (typeof id !== 'string') continue;
        const spans = byEvent.get(id);
        if (spans === undefined) byEvent.set(id, [span]);
        else spans.push(span);
      }
    },
    joined: () => {
      const groups = [...byEvent.values()].map(groupByTrace);
      return {
        push: groups.filter((all) => all.some(isPushToRetry)).length,
        poll: groups.filter((all) =>
          all.some(({ traces, spans }) => hasJob(spans) && [...traces].some((trace) => polls.has(trace))),
        ).length,
      };
    },
  };
}

/** Spans of one event that hang together by traces and links. */
interface Group {
  readonly traces: ReadonlySet<string>;
  readonly spans: readonly SentSpan[];
}

function groupByTrace(spans: readonly SentSpan[]): readonly Group[] {
  const groups: Set<string>[] = [];
  for (const { traceId, links } of spans) {
    const group = new Set([traceId, ...links]);
    const apart = groups.filter((other) => [...other].every((trace) => !group.has(trace)));
    for (const other of groups) if (!apart.includes(other)) for (const trace of other) group.add(trace);
    groups.splice(0, groups.length, group, ...apart);
  }
  return groups.map((traces) => ({ traces, spans: spans.filter(({ traceId }) => traces.has(traceId)) }));
}

/** Whether it shows a push, its job, an attempt that failed and one that succeeded. */
function isPushToRetry({ spans }: Group): boolean {
  const handlers = spans.filter(({ operation }) => operation === 'handler');
  return (
    spans.some((span) => isReceive(span, 'push')) &&
    hasJob(spans) &&
    handlers.some(({ attributes }) => 'error.type' in attributes) &&
    handlers.some(({ attributes }) => !('error.type' in attributes))
  );
}

const hasJob = (spans: readonly SentSpan[]) => spans.some((span) => isReceive(span, 'queue'));

function isReceive({ operation, attributes }: SentSpan, origin: Origin): boolean {
  return operation === 'receive' && attributes['stablehooks.origin'] === origin;
}
