/** The metrics of a receiver, by name. */
import type { Attributes, Counter, Meter } from '@opentelemetry/api';
import { createGauges } from './inbox-gauges.js';

/** Buckets of durations in seconds, by the semantic conventions. */
const DURATIONS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Buckets of ages in seconds: from a prompt delivery to a delay of days. */
const AGES = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800];

const ATTEMPTS = [1, 2, 3, 5, 8, 13, 25];

export type Instruments = ReturnType<typeof createInstruments>;

export function createInstruments(meter: Meter) {
  const seconds = (name: string, description: string, explicitBucketBoundaries = DURATIONS) =>
    meter.createHistogram(name, { unit: 's', description, advice: { explicitBucketBoundaries } });
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { unit, description });
  const outcomes = new LocalCounter(
    counter('stablehooks.outcomes', '{delivery}', 'How deliveries and stored events ended.'),
  );
  const secretMatches = new LocalCounter(
    counter(
      'stablehooks.secret.matches',
      '{delivery}',
      'Authentic deliveries by the index of the secret that made the signature.',
    ),
  );
  const gauges = createGauges(meter);
  // An SDK calls back before it reads the counters.
  gauges.readable.addCallback(() => {
    outcomes.flush();
    secretMatches.flush();
  });
  return {
    outcomes,
    secretMatches,
    eventAge: seconds('stablehooks.event.age', 'From the creation of an event until it was done.', AGES),
    attempts: meter.createHistogram('stablehooks.attempts', {
      unit: '{attempt}',
      description: 'The attempt at which an event was handled or dead-lettered.',
      advice: { explicitBucketBoundaries: ATTEMPTS },
    }),
    processDuration: seconds('messaging.process.duration', 'How long handlers ran.'),
    operationDuration: seconds(
      'messaging.client.operation.duration',
      'How long the inbox and the queue took.',
    ),
    polls: counter('stablehooks.polls', '{poll}', 'Polls of the list, by result.'),
    recovered: counter('stablehooks.poll.recovered', '{event}', 'Events that only the list had.'),
    gauges,
  };
}

/** Counts here and adds at each collection, because an SDK sorts and serializes the attributes at every addition. */
class LocalCounter {
  readonly #counter: Counter;
  readonly #counts = new Map<Attributes, number>();

  constructor(counter: Counter) {
    this.#counter = counter;
  }

  add(value: number, attributes: Attributes): void {
    this.#counts.set(attributes, (this.#counts.get(attributes) ?? 0) + value);
  }

  flush(): void {
    for (const [attributes, count] of this.#counts) this.#counter.add(count, attributes);
    this.#counts.clear();
  }
}
