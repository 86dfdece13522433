/** The options of the poller. */
import { ConfigError } from '../core/errors.js';
import { boolean, date, func, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Logger } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { ReceiverParts } from '../receiver/parts.js';
import type { Receiver } from '../receiver/receiver.js';
import { type ReceiverSource, toReceiver } from '../receiver/source.js';
import type { Gap } from './gap-text.js';
import type { PollerClient } from './list.js';
import type { PollReport } from './report.js';

/** Options of `createPoller`. */
export interface PollerOptions {
  /** Reads the list: a client of `stablehooks/client`. */
  readonly client: PollerClient;
  /**
   * Receives the events. Its inbox keeps the watermark. Every process and job of the app must use this inbox, because a
   * different inbox does not know which events push has handled. If it is a function, it is called at the first poll.
   */
  readonly receiver: ReceiverSource;
  /** The limit of the first query. Below 50, a proof takes more requests. @default 50 */
  readonly limit?: number | undefined;
  /** The highest limit of a query; `listMax` if that is more. @default 20_000 */
  readonly maxLimit?: number | undefined;
  /**
   * The number of events that the service is guaranteed to list, if it has them and `limit` asks for them. Only a smaller
   * answer is complete. Declare it only if the service documents it, because a value that is too high hides events. @default
   * not known:
   * an answer of 50 events or more is complete once a larger one was seen
   */
  readonly listMax?: number | undefined;
  /**
   * How late an event may be listed after its `created_at`, in ms. The watermark stays this far behind now. @default 300_000
   */
  readonly lagMs?: number | undefined;
  /**
   * By how much neighbours in the list may be out of order, in ms. One event in ten may be older than its place by more.
   * @default 1_000
   */
  readonly disorderMs?: number | undefined;
  /** The time from the start of one poll to the start of the next, in ms, plus or minus a tenth. @default 60_000 */
  readonly intervalMs?: number | undefined;
  /** How long other processes wait before they poll if this one dies, in ms. @default 30_000 */
  readonly leaseMs?: number | undefined;
  /**
   * The start date, which the first poll stores in the inbox. Events created before it are neither recorded nor handled. After
   * that, an earlier date lets the poller record older events, without proof. A later date changes nothing. A date in
   * the future counts as the first poll.
   *
   * @default the first poll, by the earlier of this clock and the service's, or `lagMs` before this one alone
   */
  readonly since?: Date | undefined;
  /** Records and handles listed events of any age, without proof for events before the start date. @default false */
  readonly backfill?: boolean | undefined;
  /** Receives a line for each gap, and for mistakes in the wiring. @default console */
  readonly logger?: Logger | undefined;
  /** Called with each poll's report. Its errors are logged. @default none */
  readonly onReport?: ((report: PollReport) => void | Promise<void>) | undefined;
  /**
   * Called once when a gap opens and once when it closes. Both are also logged, as are errors of this function. @default none
   */
  readonly onGap?: ((gap: Gap) => void | Promise<void>) | undefined;
  /** Time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

export type PollerSettings = ReturnType<typeof toPollerSettings>;

/** The settings of one poll, with the receiver that is made. */
export type OpenSettings = Omit<PollerSettings, 'receiver'> & {
  readonly receiver: Receiver;
  readonly parts: ReceiverParts;
};

/** How the list is read, in every call that reads it. */
export const LIST_RULES = {
  client: required(
    rule('a client, such as createClient of stablehooks/client returns', (client) => {
      const { events }: Partial<PollerClient> = Object(client);
      return typeof events?.listWithProblems === 'function';
    }),
  ),
  limit: integer({ default: 50 }),
  maxLimit: integer({ default: 20_000 }),
  listMax: integer(),
  // 0 suits a service that lists events immediately and whose clock equals ours.
  lagMs: integer({ default: 300_000, min: 0 }),
  disorderMs: integer({ default: 1_000, min: 0 }),
  runtime: RUNTIME,
};

export function toPollerSettings(options: PollerOptions) {
  const settings = readOptions('createPoller', options, {
    ...LIST_RULES,
    receiver: required(rule('given', () => true)),
    intervalMs: integer({ default: 60_000 }),
    leaseMs: integer({ default: 30_000 }),
    since: date(),
    backfill: boolean(false),
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    onReport: func((): void => undefined),
    onGap: func((): void => undefined),
  });
  if (settings.limit > settings.maxLimit) {
    throw new ConfigError(
      `createPoller: \`limit\` (${settings.limit}) must not be more than \`maxLimit\` (${settings.maxLimit}).`,
    );
  }
  return {
    ...settings,
    maxLimit: Math.max(settings.maxLimit, settings.listMax ?? 0),
    receiver: toReceiver('createPoller', settings.receiver),
    runtime: toRuntime(settings.runtime),
    since: settings.since?.getTime(),
  };
}
