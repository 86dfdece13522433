/** The receiver's only caller of the inbox. Failures of the inbox become `ERR_INBOX_FAILED`. */
import type { Awaitable } from '../core/awaitable.js';
import { orUnavailable } from '../core/errors.js';
import { isKnownEvent, type UnknownEvent } from '../core/events.js';
import { log, notify } from '../core/log.js';
import type { Claim, Inbox, Lease, Logger, Origin, RecordResult, StoredEvent } from '../core/ports.js';
import type { Work } from './work.js';

/** How a page of events is recorded. */
export interface RecordOptions {
  /** When events that this process dispatches are due, in ms from now. */
  readonly dueInMs: number;
  readonly origin: Origin;
  /** The JSON of each event as it arrived, in the same order. @default the events serialized */
  readonly json?: readonly string[] | undefined;
}

interface StoreSettings {
  /** The inbox that the app passed. */
  readonly given: Inbox<unknown>;
  /** The inbox with its layers. */
  readonly inbox: Inbox<unknown>;
  readonly leaseMs: number;
  readonly onUnknown: ((event: UnknownEvent) => unknown) | undefined;
  readonly logger: Logger;
  /** The types that this process runs or enqueues. */
  readonly dispatched: readonly string[];
}

export class Store {
  readonly durable: boolean;
  readonly hasTransactions: boolean;
  readonly #settings: StoreSettings;
  readonly #inbox: Inbox<unknown>;
  /** With a non-durable inbox the sender makes the retries, so a failed event can run before its retry time. */
  readonly #early: boolean;
  #isChecked = false;

  constructor(settings: StoreSettings) {
    this.#settings = settings;
    this.#inbox = settings.inbox;
    this.durable = settings.inbox.durable;
    this.hasTransactions = settings.inbox.transaction !== undefined;
    this.#early = !this.durable;
  }

  claim({ event, origin, json }: Work): Awaitable<Claim> {
    if (!this.#isChecked) this.#checkDurability();
    const options = { leaseMs: this.#settings.leaseMs, origin, json, early: this.#early };
    return orUnavailable(INBOX, () => this.#inbox.claim(event, options));
  }

  complete(lease: Lease): Awaitable<boolean> {
    return orUnavailable(INBOX, () => this.#inbox.complete(lease));
  }

  fail(
    lease: Lease,
    failure: { readonly retryAfterMs: number | null; readonly error: string },
  ): Awaitable<boolean> {
    return orUnavailable(INBOX, () => this.#inbox.fail(lease, failure));
  }

  transaction(lease: Lease, effect: (tx: unknown) => Promise<void>): Awaitable<boolean> {
    return orUnavailable(INBOX, () => this.#inbox.transaction?.(lease, effect) ?? false);
  }

  takeDue(limit: number): Awaitable<readonly StoredEvent[]> {
    const { leaseMs, dispatched } = this.#settings;
    return orUnavailable(INBOX, () =>
      this.#inbox.takeDue({ limit, visibilityTimeoutMs: leaseMs, types: dispatched }),
    );
  }

  /** Records an event without running it; it is due in `dueInMs`. */
  async recordOne({ event, origin, json }: Work, dueInMs: number): Promise<RecordResult | undefined> {
    const texts = json === undefined ? undefined : [json];
    const [result] = await this.record([event], { dueInMs, origin, json: texts });
    return result;
  }

  /** Records an event without a handler in this process. */
  async ignoreOne({ event, origin, json }: Work): Promise<RecordResult | undefined> {
    const texts = json === undefined ? undefined : [json];
    const [result] = await orUnavailable(INBOX, () => this.#inbox.ignore([event], { origin, json: texts }));
    return result;
  }

  /**
   * Records events without running them: events that this process dispatches as due, other known types as ignored,
   * unknown types as parked. Returns a result for each, in order.
   */
  async record(
    events: readonly UnknownEvent[],
    { dueInMs, origin, json }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const { dispatched, onUnknown, logger } = this.#settings;
    const stepOf = (event: UnknownEvent) => {
      if (!isKnownEvent(event)) return 'park';
      return dispatched.includes(event.type) ? 'record' : 'ignore';
    };
    const results: RecordResult[] = [];
    for (const step of ['record', 'ignore', 'park'] as const) {
      const indexes = [...events.keys()].filter((index) => stepOf(at(events, index)) === step);
      if (indexes.length === 0) continue;
      const page = indexes.map((index) => at(events, index));
      const options = { origin, json: json && indexes.map((index) => at(json, index)) };
      const answers = await orUnavailable(INBOX, () =>
        step === 'ignore'
          ? this.#inbox.ignore(page, options)
          : this.#inbox.record(page, { ...options, dueInMs: step === 'park' ? null : dueInMs }),
      );
      for (const [position, index] of indexes.entries()) {
        results[index] = at(answers, position);
        if (step !== 'park' || results[index] !== 'new' || onUnknown === undefined) continue;
        notify('onUnknown', onUnknown, { value: at(page, position), logger });
      }
    }
    return results;
  }

  #checkDurability(): void {
    this.#isChecked = true;
    const { given, logger } = this.#settings;
    if (isProduction()) warnNotDurable(given, { where: 'NODE_ENV is production', logger });
  }
}

/** The element at an index that is known to exist. */
function at<Value>(list: readonly Value[], index: number): Value {
  return list[index] as Value;
}

const INBOX = 'ERR_INBOX_FAILED';

function isProduction(): boolean {
  // Through globalThis, because bundlers for edge runtimes warn about the members of `process`.
  const { process } = globalThis;
  return process?.env?.['NODE_ENV'] === 'production';
}

const warned = new WeakSet<Inbox<unknown>>();

/** Warns once per inbox that it is not durable, with the fix. */
export function warnNotDurable(
  inbox: Inbox<unknown>,
  { where, logger }: { /** Such as "a poller uses it". */ readonly where: string; readonly logger: Logger },
): void {
  if (inbox.durable || warned.has(inbox)) return;
  warned.add(inbox);
  log(
    logger,
    'warn',
    `the inbox is not durable, and ${where}: it forgets which events were handled, and a memory inbox is not shared, so events can take effect twice. Pass one durable \`inbox\` to all processes: sqliteInbox, postgresInbox or redisInbox.`,
  );
}
