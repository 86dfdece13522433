/** The receiver's only caller of the inbox: its failures and its silence become `ERR_INBOX_FAILED`. */
import { Deadlines } from '#deadlines';
import { type Awaitable, isPromise } from '../core/awaitable.js';
import { type BusyError, ConfigError, orUnavailable, StablehooksError } from '../core/errors.js';
import { decodeEvent, isKnownEvent, type UnknownEvent } from '../core/events.js';
import { log, notify } from '../core/log.js';
import type {
  Claim,
  FailOptions,
  Inbox,
  InboxStep,
  Lease,
  Logger,
  RecordResult,
  StoredEvent,
  StoreOptions,
} from '../core/ports.js';
import { inTime, type Runtime } from '../core/runtime.js';
import type { Work } from './work.js';

type RecordOptions = StoreOptions & {
  /** When events that this process dispatches are due, in ms from now. */
  readonly dueInMs: number;
};

interface StoreSettings {
  /** The inbox that the app passed. */
  readonly given: Inbox<unknown>;
  /** The inbox with its layers. */
  readonly inbox: Inbox<unknown>;
  readonly leaseMs: number;
  readonly inboxTimeoutMs: number;
  readonly runtime: Runtime;
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
  /** The time limits of its steps, each of `inboxTimeoutMs`. */
  readonly #deadlines: Deadlines;
  /** The ids of the events that were named because they cannot be read. */
  readonly #unreadable = new Set<string>();
  #isChecked = false;

  constructor(settings: StoreSettings) {
    this.#settings = settings;
    this.#inbox = settings.inbox;
    this.#deadlines = new Deadlines(settings.inboxTimeoutMs, settings.runtime);
    this.durable = settings.inbox.durable;
    this.hasTransactions = settings.inbox.transaction !== undefined;
  }

  claim({ event, origin, json }: Work): Awaitable<Claim> {
    if (!this.#isChecked) this.#checkDurability();
    // An inbox that is not durable leaves retries to the sender, so a failed event can run before its retry time.
    const options = { leaseMs: this.#settings.leaseMs, origin, json, early: !this.durable };
    return this.ask(() => this.#inbox.claim(event, options));
  }

  complete(lease: Lease): Awaitable<boolean> {
    return this.ask(() => this.#inbox.complete(lease));
  }

  fail(lease: Lease, failure: FailOptions): Awaitable<boolean | 'dead'> {
    return this.ask(() => this.#inbox.fail(lease, failure));
  }

  /** @throws {ConfigError} when the inbox stores no steps. */
  assertSteps(): void {
    if (this.#inbox.readSteps === undefined) throw new ConfigError(NO_STEPS);
  }

  /** @throws {StablehooksError} `ERR_LEASE_LOST` */
  async readSteps(lease: Lease): Promise<readonly InboxStep[]> {
    const steps = await this.ask(() => this.#inbox.readSteps?.(lease) ?? null);
    if (steps === null) throw leaseLost(lease);
    return steps;
  }

  /** @throws {StablehooksError} `ERR_LEASE_LOST` */
  async saveStep(lease: Lease, name: string, result: string | null | undefined): Promise<void> {
    if (!(await this.ask(() => this.#inbox.saveStep?.(lease, name, result)))) throw leaseLost(lease);
  }

  /** The time of the effect is not limited here, only that of the begin and of the commit. */
  async transaction(lease: Lease, effect: (tx: unknown) => Awaitable<void>): Promise<boolean> {
    let onTimeUp = () => {};
    const silence = new Promise<never>((_, reject) => {
      onTimeUp = () => {
        isTimeUp = true;
        reject(this.#silent());
      };
    });
    let isTimeUp = false;
    let wait = this.#deadlines.begin(onTimeUp);
    let isOver = false;
    const beginCommit = () => {
      // The transaction of a synchronous inbox can end before the promise of its handler.
      if (!isOver) wait = this.#deadlines.begin(onTimeUp);
    };
    const run = (tx: unknown) => {
      // The delivery is answered, so the event must not take effect in this attempt.
      if (isTimeUp) throw this.#silent();
      this.#deadlines.end(wait);
      const running = effect(tx);
      if (isPromise(running)) return running.finally(beginCommit);
      beginCommit();
      return undefined;
    };
    try {
      const committed = orUnavailable(INBOX, () => this.#inbox.transaction?.(lease, run) ?? false);
      return await Promise.race([committed, silence]);
    } finally {
      isOver = true;
      this.#deadlines.end(wait);
    }
  }

  /** An immediate answer stays immediate; later ones are ignored after `inboxTimeoutMs`. */
  ask<Value>(step: () => Awaitable<Value>): Awaitable<Value> {
    const answer = orUnavailable(INBOX, step);
    return isPromise(answer) ? inTime(answer, this.#deadlines, () => this.#silent()) : answer;
  }

  #silent(): StablehooksError<typeof INBOX> {
    return new StablehooksError(
      INBOX,
      `The inbox did not answer within ${this.#settings.inboxTimeoutMs} ms. Check that it can be reached. If it is only slow, raise inboxTimeoutMs.`,
    );
  }

  takeDue(limit: number): Awaitable<readonly StoredEvent[]> {
    const { leaseMs, dispatched } = this.#settings;
    return this.ask(() => this.#inbox.takeDue({ limit, visibilityTimeoutMs: leaseMs, types: dispatched }));
  }

  /** The stored events that can be read. Each of the others is named once. */
  read(stored: readonly StoredEvent[]): Pick<Work, 'event' | 'json'>[] {
    return stored.flatMap(({ id, json }) => {
      const event = decodeEvent(id, json);
      if (event !== null) return [{ event, json }];
      if (!this.#unreadable.has(id)) log(this.#settings.logger, 'error', `${id} ${UNREADABLE}`);
      this.#unreadable.add(id);
      return [];
    });
  }

  /** Records an event without running it; it is due in `dueInMs`. */
  async recordOne(work: Work, dueInMs: number): Promise<RecordResult | undefined> {
    const [result] = await this.record([work.event], { ...toStoreOptions(work), dueInMs });
    return result;
  }

  /** Records an event without a handler in this process. */
  async ignoreOne(work: Work): Promise<RecordResult | undefined> {
    const [result] = await this.ask(() => this.#inbox.ignore([work.event], toStoreOptions(work)));
    return result;
  }

  /** Whether this process runs or enqueues events of the type. */
  dispatches({ type }: UnknownEvent): boolean {
    return this.#settings.dispatched.includes(type);
  }

  /**
   * Records events without running them: events that this process dispatches as due, other known types as ignored,
   * unknown types as parked. Returns a result for each, in order.
   *
   * @throws {StablehooksError} `ERR_INBOX_FAILED`.
   */
  async record(
    events: readonly UnknownEvent[],
    { dueInMs, origin, json }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const { onUnknown, logger } = this.#settings;
    const indexes: Record<'record' | 'ignore' | 'park', number[]> = { record: [], ignore: [], park: [] };
    for (const [index, event] of events.entries()) {
      const step = !isKnownEvent(event) ? 'park' : this.dispatches(event) ? 'record' : 'ignore';
      indexes[step].push(index);
    }
    const results: RecordResult[] = [];
    for (const step of ['record', 'ignore', 'park'] as const) {
      if (indexes[step].length === 0) continue;
      const page = indexes[step].map((index) => at(events, index));
      const options = { origin, json: json && indexes[step].map((index) => at(json, index)) };
      const answers = await this.ask(() =>
        step === 'ignore'
          ? this.#inbox.ignore(page, options)
          : this.#inbox.record(page, { ...options, dueInMs: step === 'park' ? null : dueInMs }),
      );
      for (const [position, index] of indexes[step].entries()) {
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
    // Through globalThis, because bundlers for edge runtimes warn about the members of `process`.
    const { process } = globalThis;
    const isProduction = process?.env?.['NODE_ENV'] === 'production';
    if (isProduction) warnNotDurable(given, { where: 'NODE_ENV is production', logger });
  }
}

const UNREADABLE =
  'cannot run: its stored text cannot be read. It runs when it is delivered again. Restore its row, or end it with inbox.discard({ ids }) once its effect is booked.';

function toStoreOptions({ origin, json }: Work): StoreOptions {
  return { origin, json: json === undefined ? undefined : [json] };
}

/** The element of a list that has one there. */
function at<Value>(list: readonly Value[], index: number): Value {
  return list[index] as Value;
}

const INBOX = 'ERR_INBOX_FAILED';

const NO_STEPS =
  'ctx.step: the inbox stores no steps. In a transaction of SQLite handlers are synchronous and have none: remove `transactional`.';

export function leaseLost(
  { attempt }: Lease,
  why = `Attempt ${attempt} took longer than its lease, and another process may run the event. Raise leaseMs.`,
): BusyError {
  return new StablehooksError('ERR_LEASE_LOST', why, { retryAfterMs: 1_000 });
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
