/** The cost of telemetry for a delivery of 300 B with the memory inbox, with and without the SDK of OpenTelemetry. */
import { context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';
import { createReceiver, type Layer } from 'stablehooks';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { makeDeliveries, type SignedDelivery } from './delivery.js';
import { type Candidate, type Measured, measure } from './measurement.js';
import { SECRET } from './secret.js';

const CALLS = 4_000;

export async function measureTelemetry({
  rounds,
}: {
  readonly rounds: number;
}): Promise<readonly Measured[]> {
  const deliveries = await makeDeliveries(CALLS, { sizeBytes: 300 });
  return measure(candidatesFor(deliveries), { part: 'Telemetry', rounds, calls: CALLS });
}

function candidatesFor(deliveries: readonly SignedDelivery[]): readonly Candidate[] {
  const candidate = (name: string, make?: () => Layer): Candidate => ({
    name,
    prepare() {
      // Its hooks slow down every promise of the process, so only the candidates that need it use it.
      context.disable();
      const use = make === undefined ? [] : [make()];
      const handlers = { 'transfer.settled': async () => undefined };
      const receiver = createReceiver({ secret: SECRET, handlers, use });
      return (index) => {
        const { body, signature } = deliveries[index] as SignedDelivery;
        return receiver.receive({
          method: 'POST',
          header: (name) => (name === 'X-SERVICE-Signature' ? signature : undefined),
          body: async () => body,
        });
      };
    },
  });
  return [
    candidate('receive without telemetry'),
    candidate('openTelemetry() without an SDK', () => openTelemetry()),
    candidate('metrics', () => withSdk(() => openTelemetry({ meterProvider: meters() }))),
    candidate('metrics, one trace in a hundred', () =>
      withSdk(() => openTelemetry({ meterProvider: meters(), tracerProvider: tracers(0.01) })),
    ),
    candidate('metrics, every trace', () =>
      withSdk(() => openTelemetry({ meterProvider: meters(), tracerProvider: tracers(1) })),
    ),
  ];
}

function withSdk(make: () => Layer): Layer {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  return make();
}

function meters(): MeterProvider {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  return new MeterProvider({
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
  });
}

function tracers(ratio: number): NodeTracerProvider {
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: 0 }),
    shutdown: async () => undefined,
  };
  return new NodeTracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
}
