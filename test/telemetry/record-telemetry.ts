/** Spans and metrics in memory, by the SDK of OpenTelemetry. */
import type { Attributes, MeterProvider, TracerProvider } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider as Meters,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-node';

interface Point {
  readonly attributes: Attributes;
  readonly value: unknown;
}

interface Metric {
  readonly name: string;
  readonly points: readonly Point[];
}

export interface Recorded {
  readonly providers: { readonly tracerProvider: TracerProvider; readonly meterProvider: MeterProvider };
  /** The spans that have ended, in this order. */
  spans(): readonly ReadableSpan[];
  openSpans(): readonly ReadableSpan[];
  /** Collects, and returns what was collected. */
  metrics(): Promise<readonly Metric[]>;
  /** Collects, and returns the points of one metric. */
  metric(name: string): Promise<readonly Point[]>;
}

export function recordTelemetry(): Recorded {
  const spans = new InMemorySpanExporter();
  const open = new Set<ReadableSpan>();
  const watchOpen: SpanProcessor = {
    onStart: (span) => void open.add(span as unknown as ReadableSpan),
    onEnd: (span) => void open.delete(span),
    forceFlush: async () => undefined,
    shutdown: async () => undefined,
  };
  const tracerProvider = new NodeTracerProvider({
    spanProcessors: [new SimpleSpanProcessor(spans), watchOpen],
  });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  // Collected by forceFlush; the interval is longer than any test.
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new Meters({ readers: [reader] });

  async function metrics(): Promise<readonly Metric[]> {
    await meterProvider.forceFlush();
    const last = exporter.getMetrics().at(-1);
    return (last?.scopeMetrics ?? []).flatMap((scope) =>
      scope.metrics.map(({ descriptor, dataPoints }) => ({ name: descriptor.name, points: dataPoints })),
    );
  }

  return {
    providers: { tracerProvider, meterProvider },
    spans: () => spans.getFinishedSpans(),
    openSpans: () => [...open],
    metrics,
    metric: async (name) => (await metrics()).find((metric) => metric.name === name)?.points ?? [],
  };
}
