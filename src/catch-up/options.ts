/** The options of a poller: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import {
  readOptions as checkOptions,
  date,
  func,
  integer,
  required,
  rule,
  withMethods,
} from '../core/options.js';
import type { Receiver } from '../receiver/receiver.js';
import type { ListsEvents } from './page.js';
import type { Gap, PollReport } from './report.js';

/** Options of {@link createPoller}. */
export interface PollerOptions {
  /** Asks the list: a client of `stablehooks/client`. */
  readonly client: ListsEvents;
  /** Takes the events; its inbox keeps the watermark. */
  readonly receiver: Pick<Receiver, 'accept' | 'record' | 'redrive' | 'inbox'>;
  /** How many events to ask for at first. Below 50, proofs cost more requests. @default 50 */
  readonly limit?: number | undefined;
  /** How many events to ask for at most. @default 1_000 */
  readonly maxLimit?: number | undefined;
  /** How late an event may be listed after its `created_at`, in ms; the watermark stays so far behind. @default 300_000 */
  readonly lagMs?: number | undefined;
  /** How many handlers run at a time. @default 4 */
  readonly concurrency?: number | undefined;
  /** From the start of one poll to the next, in ms, give or take a tenth. @default 60_000 */
  readonly intervalMs?: number | undefined;
  /** How long other processes keep from polling when this one dies, in ms. @default 30_000 */
  readonly leaseMs?: number | undefined;
  /** From when on nothing may be missed; only the first poll of an inbox reads it. @default the first poll */
  readonly since?: Date | undefined;
  /** Told of each poll; its own failure is logged. @default none */
  readonly onReport?: ((report: PollReport) => void | Promise<void>) | undefined;
  /** Told of each gap of each poll; its own failure is logged. @default logs to the console */
  readonly onGap?: ((gap: Gap) => void | Promise<void>) | undefined;
  /** The clock, in epoch ms. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** The options, checked and with their defaults. */
export type PollerRules = {
  readonly [Name in keyof Omit<PollerOptions, 'since'>]-?: Exclude<PollerOptions[Name], undefined>;
} & {
  /** Epoch ms. */
  readonly since: number | undefined;
};

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions(options: PollerOptions): PollerRules {
  const read = checkOptions('createPoller', options, {
    client: required(rule('a client, which createClient of stablehooks/client makes', listsEvents)),
    receiver: required(
      withMethods('a receiver, which createReceiver makes', ['accept', 'record', 'redrive']),
    ),
    limit: integer({ default: 50 }),
    maxLimit: integer({ default: 1_000 }),
    // There may be no lag at all: a service that lists at once, and by our clock.
    lagMs: integer({ default: 300_000, min: 0 }),
    concurrency: integer({ default: 4 }),
    intervalMs: integer({ default: 60_000 }),
    leaseMs: integer({ default: 30_000 }),
    since: date(),
    onReport: func((): void => undefined),
    onGap: func(logGap),
    now: func(Date.now),
  });
  if (read.limit > read.maxLimit) {
    throw new ConfigError(
      `createPoller: \`limit\` (${read.limit}) must not be more than maxLimit (${read.maxLimit}).`,
    );
  }
  return { ...read, since: read.since?.getTime() };
}

function listsEvents(client: unknown): boolean {
  return typeof (client as PollerOptions['client'] | null)?.events?.page === 'function';
}

function logGap({ type, after, before }: Gap): void {
  console.error(
    `stablehooks: ${type ?? 'events'} created after ${after} and before ${before} may be missing: the list cannot prove otherwise.`,
  );
}
