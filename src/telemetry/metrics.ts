import { type Meter, type MeterProvider, metrics } from '@opentelemetry/api';
import type { Inboxes } from './inbox-gauges.js';
import { safely } from './spans.js';

/** In seconds, from the semantic conventions. */
const DURATIONS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

const AGES = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800];

type Instruments = ReturnType<typeof createInstruments>;

function createInstruments(meter: Meter, inboxes: Inboxes) {
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { unit, description });
  const seconds = (name: string, description: string, explicitBucketBoundaries: number[]) =>
    meter.createHistogram(name, { unit: 's', description, advice: { explicitBucketBoundaries } });
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const events = gauge('stablehooks.inbox.events', '{event}', 'Events in the inbox that are not done.');
  const oldest = gauge('stablehooks.inbox.oldest', 's', 'How long the oldest event has been in its state.');
  const level = gauge(
    'stablehooks.health',
    '1',
    'The result of each health check: 2 if failing, 1 if a warning, otherwise 0.',
  );
  const gauges = { events, oldest, level };
  meter.addBatchObservableCallback((result) => inboxes.observe(result, gauges), Object.values(gauges));
  return {
    outcomes: counter('stablehooks.outcomes', '{delivery}', 'Outcomes of deliveries and stored events.'),
    processDuration: seconds('messaging.process.duration', 'How long handlers ran.', DURATIONS),
    eventAge: seconds('stablehooks.event.age', 'Time from the creation of an event until it was done.', AGES),
    polls: counter('stablehooks.polls', '{poll}', 'Polls of the event list, by result.'),
  };
}

/** Each measurement looks up the current provider, because an SDK may start after the receiver was created. */
export function createMeasure(given: MeterProvider | undefined, inboxes: Inboxes) {
  let made: { readonly by: MeterProvider; readonly instruments: Instruments } | undefined;
  return (measure: (instruments: Instruments) => void) =>
    safely(() => {
      const by = given ?? metrics.getMeterProvider();
      if (made?.by !== by) made = { by, instruments: createInstruments(by.getMeter('stablehooks'), inboxes) };
      measure(made.instruments);
    });
}
