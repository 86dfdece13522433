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
  /** The client that reads the service's event list, such as the result of `createClient` from `stablehooks/client`. */
  readonly client: PollerClient;
  /**
   * The receiver that runs the events that the poller finds. The receiver's inbox also stores the watermark. All
   * processes and jobs of your app must share this inbox, because a different inbox wouldn't know which events have
   * already been pushed and handled. If you pass a function, the first poll calls it.
   */
  readonly receiver: ReceiverSource;
  /** The `limit` of the first query. With a limit below 50, a proof takes more requests. @default 50 */
  readonly limit?: number | undefined;
  /** The maximum `limit` of a query. If `listMax` is higher, `listMax` is used instead. @default 20_000 */
  readonly maxLimit?: number | undefined;
  /**
   * How many events the service is guaranteed to return in one response if that many events match and `limit` allows
   * it. The poller treats a smaller response as complete. Set this option only if the service documents this number,
   * because too high a value hides missing events.
   * @default unknown: a response of 50 events or more counts as complete once the poller has seen a larger response
   */
  readonly listMax?: number | undefined;
  /**
   * The maximum time between an event's `created_at` and its appearance in the service's event list, in ms. The
   * watermark stays this far behind the current time. @default 300_000
   */
  readonly lagMs?: number | undefined;
  /**
   * How far out of order neighbouring events in the list can be, in ms. Up to one event in ten can be further out of
   * order. @default 1_000
   */
  readonly disorderMs?: number | undefined;
  /**
   * The time from the start of one poll to the start of the next, in ms. The poller varies this time at random by up to
   * 10 %. @default 60_000
   */
  readonly intervalMs?: number | undefined;
  /** How long other processes wait before they take over polling when this process dies, in ms. @default 30_000 */
  readonly leaseMs?: number | undefined;
  /**
   * The start date. The first poll stores the start date in the inbox, and events created before the start date are
   * neither recorded nor handled. If you set an earlier date after the first poll, the poller records older events as
   * well, but proves nothing about them. If you set a later date, nothing changes. If the date is in the future, the
   * time of the first poll is used instead.
   *
   * @default the time of the first poll, by this process's clock or the service's, whichever is earlier. If the
   * service's clock is unknown, `lagMs` is subtracted from the time of this process's clock
   */
  readonly since?: Date | undefined;
  /**
   * Whether to record and handle all listed events, however old they are. Nothing is proven about events from before
   * the start date. @default false
   */
  readonly backfill?: boolean | undefined;
  /** Receives log lines about gaps, failing polls and configuration mistakes. @default console */
  readonly logger?: Logger | undefined;
  /** Called with the report of each poll. Errors that this function throws are logged. @default none */
  readonly onReport?: ((report: PollReport) => void | Promise<void>) | undefined;
  /**
   * Called once when a gap opens and once when the gap closes. The poller also logs both, and logs errors that this
   * function throws. @default none
   */
  readonly onGap?: ((gap: Gap) => void | Promise<void>) | undefined;
  /** Replaces time, timers and randomness in tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

export type PollerSettings = ReturnType<typeof toPollerSettings>;

export type OpenSettings = Omit<PollerSettings, 'receiver'> & {
  readonly receiver: Receiver;
  readonly parts: ReceiverParts;
};

export const LIST_RULES = {
  client: required(
    rule('a client, such as the result of createClient() from stablehooks/client', (client) => {
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
      `createPoller: \`limit\` (${settings.limit}) must not be greater than \`maxLimit\` (${settings.maxLimit}).`,
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
