import { type Awaitable, deferred, isPromise } from '../core/awaitable.js';
import { type BusyError, ConfigError, orUnavailable, StablehooksError } from '../core/errors.js';
import { decodeEvent, encodeEvent, isKnownEvent, type UnknownEvent } from '../core/events.js';
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
import { timeLimit } from '../core/runtime.js';
import type { ReceiverSettings } from './options.js';
import type { Tally } from './tally.js';
import type { Work } from './work.js';

type RecordOptions = StoreOptions & {
  /** Applies only to events that this process runs or enqueues. */
  readonly dueInMs: number;
};

interface StoreSettings
  extends Pick<
    ReceiverSettings,
    'inbox' | 'leaseMs' | 'maxAttempts' | 'answer' | 'inboxTimeoutMs' | 'runtime' | 'onUnknown'
  > {
  readonly keyOf: ((event: UnknownEvent) => string | undefined) | undefined;
  readonly logger: Logger;
  readonly tally: Tally;
  /** The types that this process runs or enqueues. */
  readonly dispatched: readonly string[];
}

export class Store {
  readonly durable: boolean;
  readonly hasTransactions: boolean;
  readonly #settings: StoreSettings;
  readonly #inbox: Inbox<unknown>;
  readonly #unreadable = new Set<string>();
  #isChecked = false;

  constructor(settings: StoreSettings) {
    this.#settings = settings;
    this.#inbox = settings.inbox;
    this.durable = settings.inbox.durable;
    this.hasTransactions = settings.inbox.transaction !== undefined;
  }

  async claim({ event, origin, json }: Work): Promise<Claim> {
    if (!this.#isChecked) this.#checkDurability();
    // With a non-durable inbox, only the sender retries events, so a failed event can run before its retry time.
    const { leaseMs, keyOf } = this.#settings;
    const options = { leaseMs, origin, json, early: !this.durable, key: keyOf?.(event) };
    return this.ask(() => this.#inbox.claim(event, options));
  }

  /** Returns `undefined` if the event may already be stored, has a key, or has only one attempt, which must be counted. */
  firstLease({ event, origin, json = encodeEvent(event) }: Work): Lease | undefined {
    const { answer, leaseMs, maxAttempts, keyOf } = this.#settings;
    if (origin !== 'push' || answer !== 'handled' || maxAttempts === 1 || keyOf?.(event) !== undefined)
      return;
    return this.#inbox.firstLease?.(event, { origin, json, leaseMs });
  }

  complete(lease: Lease): Promise<boolean> {
    return this.ask(() => this.#inbox.complete(lease));
  }

  fail(lease: Lease, failure: FailOptions): Promise<boolean | 'dead'> {
    return this.ask(() => this.#inbox.fail(lease, failure));
  }

  assertSteps(): void {
    if (this.#inbox.readSteps === undefined) throw new ConfigError(NO_STEPS);
  }

  async readSteps(lease: Lease): Promise<readonly InboxStep[]> {
    const steps = await this.ask(() => this.#inbox.readSteps?.(lease) ?? null);
    if (steps === null) throw leaseLost(lease);
    return steps;
  }

  async saveStep(lease: Lease, name: string, result: string | null | undefined): Promise<void> {
    if (!(await this.ask(() => this.#inbox.saveStep?.(lease, name, result)))) throw leaseLost(lease);
  }

  /** BEGIN and COMMIT can take up to `inboxTimeoutMs` each, not counting `effect`. */
  async transaction(lease: Lease, effect: (tx: unknown) => Awaitable<void>): Promise<boolean> {
    const begin = (run: typeof effect) =>
      orUnavailable(INBOX, () => this.#inbox.transaction?.(lease, run) ?? false);
    // A synchronous transaction cannot be interrupted, so it has no time limit.
    if (this.#inbox.synchronous) return begin(effect);
    let isAbandoned = false;
    let running: Awaitable<void> | undefined;
    const begun = deferred();
    const run = (tx: unknown) => {
      // The response has already been sent, so a transaction that begins too late must be rolled back.
      if (isAbandoned) throw this.#silent();
      begun.resolve();
      running = effect(tx);
      return running;
    };
    const committed = Promise.resolve(begin(run));
    try {
      await this.#inTime(Promise.race([begun.promise, committed]));
    } catch (error) {
      isAbandoned = true;
      throw error;
    }
    // Wait for the handler, because it continues even if the connection fails.
    await Promise.allSettled([running]);
    return this.#inTime(committed);
  }

  async ask<Value>(call: () => Awaitable<Value>): Promise<Value> {
    const answer = orUnavailable(INBOX, call);
    return isPromise(answer) ? this.#inTime(answer) : answer;
  }

  #inTime<Value>(answer: Promise<Value>): Promise<Value> {
    const { inboxTimeoutMs, runtime } = this.#settings;
    const onTimeUp = () => {
      throw this.#silent();
    };
    return timeLimit(answer, inboxTimeoutMs, onTimeUp, runtime);
  }

  #silent(): StablehooksError<typeof INBOX> {
    return new StablehooksError(
      INBOX,
      `The inbox did not respond within ${this.#settings.inboxTimeoutMs} ms. Check that it is reachable. If it is just slow, raise inboxTimeoutMs.`,
    );
  }

  async takeDue(limit: number): Promise<readonly StoredEvent[]> {
    const { leaseMs, dispatched } = this.#settings;
    return this.ask(() => this.#inbox.takeDue({ limit, visibilityTimeoutMs: leaseMs, types: dispatched }));
  }

  /** Skips events that cannot be read, and logs each of them once. */
  read(stored: readonly StoredEvent[]): Pick<Work, 'event' | 'json'>[] {
    return stored.flatMap(({ id, json }) => {
      const event = decodeEvent(id, json);
      if (event !== null) return [{ event, json }];
      if (!this.#unreadable.has(id)) log(this.#settings.logger, 'error', `${id} ${UNREADABLE}`);
      this.#unreadable.add(id);
      return [];
    });
  }

  async recordOne(work: Work, dueInMs: number): Promise<RecordResult | undefined> {
    const [result] = await this.record([work.event], { ...toStoreOptions(work), dueInMs });
    return result;
  }

  async ignoreOne(work: Work): Promise<RecordResult | undefined> {
    const [result] = await this.ask(() => this.#inbox.ignore([work.event], toStoreOptions(work)));
    if (result === 'new') this.#settings.tally.ignored(work.event.type);
    return result;
  }

  dispatches({ type }: UnknownEvent): boolean {
    return this.#settings.dispatched.includes(type);
  }

  /** Events become due if this process runs or enqueues their type; otherwise, they are ignored or parked. */
  async record(
    events: readonly UnknownEvent[],
    { dueInMs, origin, json }: RecordOptions,
  ): Promise<readonly RecordResult[]> {
    const { onUnknown, logger, keyOf, tally } = this.#settings;
    const indexes: Record<'record' | 'ignore' | 'park', number[]> = { record: [], ignore: [], park: [] };
    for (const [index, event] of events.entries()) {
      const how = !isKnownEvent(event) ? 'park' : this.dispatches(event) ? 'record' : 'ignore';
      indexes[how].push(index);
    }
    const results: RecordResult[] = [];
    for (const how of ['record', 'ignore', 'park'] as const) {
      if (indexes[how].length === 0) continue;
      const page = indexes[how].map((index) => at(events, index));
      const options = { origin, json: json && indexes[how].map((index) => at(json, index)) };
      const answers = await this.ask(() =>
        how === 'ignore'
          ? this.#inbox.ignore(page, options)
          : this.#inbox.record(page, {
              ...options,
              dueInMs: how === 'park' ? null : dueInMs,
              keys: keyOf && page.map(keyOf),
            }),
      );
      for (const [position, index] of indexes[how].entries()) {
        results[index] = at(answers, position);
        if (how === 'ignore' && results[index] === 'new') tally.ignored(at(page, position).type);
        if (how !== 'park' || results[index] !== 'new' || onUnknown === undefined) continue;
        notify('onUnknown', onUnknown, { value: at(page, position), logger });
      }
    }
    return results;
  }

  #checkDurability(): void {
    this.#isChecked = true;
    const { inbox, logger } = this.#settings;
    // Read from globalThis, because bundlers for edge runtimes warn about code that uses `process` directly.
    const { process } = globalThis;
    const isProduction = process?.env?.['NODE_ENV'] === 'production';
    if (isProduction) warnNotDurable(inbox, { where: 'NODE_ENV is production', logger });
  }
}

const UNREADABLE =
  'cannot run, because its stored text cannot be read. It will run if it is delivered again. Restore its row, or discard the event with inbox.discard({ ids }) once you have booked its effect.';

function toStoreOptions({ origin, json }: Work): StoreOptions {
  return { origin, json: json === undefined ? undefined : [json] };
}

function at<Value>(list: readonly Value[], index: number): Value {
  return list[index] as Value;
}

const INBOX = 'ERR_INBOX_FAILED';

const NO_STEPS =
  'ctx.step: the inbox does not store steps. Handlers in a SQLite transaction are synchronous and cannot use steps. Remove `transactional`.';

export function leaseLost(
  { attempt }: Lease,
  why = `Attempt ${attempt} took longer than its lease, so another process may be running the event. Raise leaseMs.`,
): BusyError {
  return new StablehooksError('ERR_LEASE_LOST', why, { retryAfterMs: 1_000 });
}

const warned = new WeakSet<Inbox<unknown>>();

export function warnNotDurable(
  inbox: Inbox<unknown>,
  {
    where,
    logger,
  }: { /** Why that matters, such as "a poller uses it". */ readonly where: string; readonly logger: Logger },
): void {
  if (inbox.durable || warned.has(inbox)) return;
  warned.add(inbox);
  log(
    logger,
    'warn',
    `the inbox is not durable, but ${where}. After a restart, the inbox no longer knows which events were handled. If it is a memory inbox, other processes cannot use it either. Events could therefore take effect twice. Pass one durable \`inbox\` to all processes: sqliteInbox, postgresInbox, mysqlInbox or redisInbox.`,
  );
}
