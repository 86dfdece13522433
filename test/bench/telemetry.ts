/** What telemetry costs a delivery of 300 B with the memory inbox: switched off, and with the SDK of OpenTelemetry. */
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
import { createReceiver, type Outcome, type Telemetry, type UnknownEvent } from 'stablehooks';
import { openTelemetry } from 'stablehooks/opentelemetry';
import { exampleEvent } from 'stablehooks/testing';
import { makeDeliveries, type SignedDelivery } from './delivery.js';
import { type Candidate, type Measured, measure, median } from './measurement.js';
import { SECRET } from './secret.js';

export interface TelemetryResult {
  readonly measured: readonly Measured[];
  /** The calls of a receiver without telemetry to the object that observes nothing: median µs per delivery. */
  readonly offUs: number;
  /** Of a delivery without telemetry. */
  readonly offRatio: number;
}

const CALLS = 4_000;

export async function measureTelemetry({ rounds }: { readonly rounds: number }): Promise<TelemetryResult> {
  const deliveries = await makeDeliveries(CALLS, { sizeBytes: 300 });
  const measured = await measure(candidatesFor(deliveries), { rounds, calls: CALLS });
  const offUs = measureOff(rounds);
  return { measured, offUs, offRatio: offUs / (measured[0]?.p50Us ?? Number.NaN) };
}

function candidatesFor(deliveries: readonly SignedDelivery[]): readonly Candidate[] {
  const candidate = (name: string, make: () => Telemetry | undefined): Candidate => ({
    name,
    prepare() {
      // Its hooks slow down every promise of the process, so that only candidates that need it have it.
      context.disable();
      const telemetry = make();
      const handlers = { 'transfer.settled': async () => undefined };
      const receiver = createReceiver({ secret: SECRET, handlers, telemetry });
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
    candidate('receive without telemetry', () => undefined),
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

function withSdk(make: () => Telemetry): Telemetry {
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

/** The same calls as one delivery makes. */
function measureOff(rounds: number): number {
  const { telemetry } = createReceiver({ secret: SECRET, handlers: {} });
  const event: UnknownEvent = exampleEvent('transfer.settled');
  const lease = { id: event.id, token: '1', attempt: 1 };
  const outcome = Promise.resolve<Outcome>({ kind: 'handled', origin: 'push', event });
  const repeats = 200_000;
  const took: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now();
    for (let index = 0; index < repeats; index++) {
      telemetry.delivery({ origin: 'push' }, () => outcome);
      telemetry.traceparent();
      telemetry.claim(event, () => index);
      telemetry.handler(event, lease, () => index);
      telemetry.complete(event, lease, () => index);
    }
    if (round > 0) took.push(((performance.now() - startedAt) * 1_000) / repeats);
  }
  return median(took);
}
