/** The options of a poller: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import { assertNames, readNumbers } from '../core/options.js';
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
  readonly limit?: number;
  /** How many events to ask for at most. @default 1_000 */
  readonly maxLimit?: number;
  /** How late an event may be listed after its `created_at`, in ms; the watermark stays so far behind. @default 300_000 */
  readonly lagMs?: number;
  /** How many handlers run at a time. @default 4 */
  readonly concurrency?: number;
  /** From the start of one poll to the next, in ms, give or take a tenth. @default 60_000 */
  readonly intervalMs?: number;
  /** How long other processes keep from polling when this one dies, in ms. @default 30_000 */
  readonly leaseMs?: number;
  /** From when on nothing may be missed; only the first poll of an inbox reads it. @default the first poll */
  readonly since?: Date;
  /** Told of each poll; its own failure is logged. @default none */
  readonly onReport?: (report: PollReport) => void | Promise<void>;
  /** Told of each gap of each poll; its own failure is logged. @default logs to the console */
  readonly onGap?: (gap: Gap) => void | Promise<void>;
  /** The clock, in epoch ms. @default Date.now */
  readonly now?: () => number;
}

/** The options, checked and with their defaults. */
export interface PollerRules extends Required<Omit<PollerOptions, 'since'>> {
  /** Epoch ms. */
  readonly since: number | undefined;
}

const NUMBERS = {
  limit: { default: 50 },
  maxLimit: { default: 1_000 },
  // There may be no lag at all: a service that lists at once, and by our clock.
  lagMs: { default: 300_000, min: 0 },
  concurrency: { default: 4 },
  intervalMs: { default: 60_000 },
  leaseMs: { default: 30_000 },
};

/** Every option, so that a misspelt one is an error in JavaScript too; the compiler keeps it complete. */
const OPTIONS: Readonly<Record<keyof PollerOptions, true>> = {
  client: true,
  receiver: true,
  limit: true,
  maxLimit: true,
  lagMs: true,
  concurrency: true,
  intervalMs: true,
  leaseMs: true,
  since: true,
  onReport: true,
  onGap: true,
  now: true,
};

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions(options: PollerOptions): PollerRules {
  assertNames(options, { where: 'createPoller', names: Object.keys(OPTIONS) });
  const { client, receiver, since } = options;
  if (typeof client?.events?.page !== 'function') {
    throw new ConfigError('createPoller needs `client`, which createClient of stablehooks/client makes.');
  }
  if (typeof receiver?.accept !== 'function') {
    throw new ConfigError('createPoller needs `receiver`, which createReceiver makes.');
  }
  if (since !== undefined && !(since instanceof Date && !Number.isNaN(since.getTime()))) {
    throw new ConfigError('since must be a Date that is valid.');
  }
  const counts = readNumbers(options, NUMBERS);
  if (counts.limit > counts.maxLimit) {
    throw new ConfigError(`limit (${counts.limit}) must not be more than maxLimit (${counts.maxLimit}).`);
  }
  return {
    ...counts,
    client,
    receiver,
    since: since?.getTime(),
    onReport: options.onReport ?? (() => undefined),
    onGap: options.onGap ?? logGap,
    now: options.now ?? Date.now,
  };
}

function logGap({ type, after, before }: Gap): void {
  console.error(
    `stablehooks: ${type ?? 'events'} created after ${after} and before ${before} may be missing: the list cannot prove otherwise.`,
  );
}
