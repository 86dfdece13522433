/**
 * Callers pass durations instead of times, and only the inbox reads a clock, so the clocks of different machines don't have
 * to agree. Unless their description says otherwise, methods reject only with errors from the driver, which the receiver
 * turns into `ERR_INBOX_FAILED`.
 */
import type { Awaitable } from './awaitable.js';
import type { UnknownEvent } from './events.js';

/**
 * The state of an event in the inbox.
 *
 * - `received`: the event is stored and is waiting to run, either for the first time or again.
 * - `leased`: a process is running the event under a lease, which has a fencing token and an expiry time.
 * - `done`: the event was handled, ignored, discarded or imported. Its id is never deleted, even if the event is pruned.
 * - `failed`: the last attempt failed. The event runs again at its retry time.
 * - `dead`: the event was dead-lettered. It doesn't run again until you requeue it.
 * - `parked`: the event's type was unknown when the event was received.
 */
export type InboxState = 'received' | 'leased' | 'done' | 'failed' | 'dead' | 'parked';

/** All inbox states, in the order in which {@link InboxOperations.count} returns them. */
export const INBOX_STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];

/**
 * Where an event came from: a signed delivery (`push`), the event list (`pull`), a job in a queue (`queue`), or the inbox,
 * if a stored event was due (`redrive`).
 */
export type Origin = 'push' | 'pull' | 'queue' | 'redrive';

/** The right to make one attempt at an event, and to complete or fail that attempt. */
export interface Lease {
  readonly id: string;
  /** The fencing token, which becomes invalid once another process claims the event. */
  readonly token: string;
  /** The number of this attempt, starting at 1. */
  readonly attempt: number;
  /** The ordering key with which the event was claimed. */
  readonly key?: string | undefined;
  /** What to store when the first attempt commits. @default none, because the event is already stored and leased */
  readonly first?: FirstAttempt | undefined;
}

/** An event that isn't stored until its first attempt commits its transaction. */
export interface FirstAttempt {
  readonly type: string;
  readonly json: string;
  readonly origin: Origin;
  /** The maximum duration of the transaction, in ms. */
  readonly leaseMs: number;
}

/**
 * The result of a claim: the lease, or the reason why the event can't be claimed. For `leased`, `failed`, `done` and
 * `dead`, the reason is the event's own state. `waiting` means that another event with the same ordering key is leased.
 */
export type Claim =
  | { readonly state: 'claimed'; readonly lease: Lease }
  | { readonly state: 'done' }
  | { readonly state: 'dead' }
  | {
      readonly state: 'leased' | 'failed' | 'waiting';
      /** How long to wait, in ms, until the blocking lease expires or the event's retry time is reached. At least 1. */
      readonly retryAfterMs: number;
    };

/**
 * The result of recording an event: `new`, or the event's state if the inbox already had the event. `running` means that the
 * event's first attempt has an open transaction, or that another call is storing the event. In both cases, it is not yet
 * known whether the event will be stored.
 */
export type RecordResult = 'new' | 'running' | InboxState;

/** Options of {@link Inbox.claim}. */
export interface ClaimOptions {
  readonly leaseMs: number;
  readonly origin: Origin;
  /** The event's JSON exactly as it arrived. The inbox stores it unchanged. @default the event, serialized */
  readonly json?: string | undefined;
  /** Whether a failed event can be claimed before its retry time. @default false */
  readonly early?: boolean | undefined;
  /** The ordering key. At most one event per key is leased at a time. @default none */
  readonly key?: string | undefined;
}

/** A property key that marks the type of a synchronous transaction. It exists only as a type, not at run time. */
export declare const SYNCHRONOUS: unique symbol;

/** A transaction from a synchronous driver. Handlers that receive this transaction must be synchronous as well. */
export type Synchronous<Tx> = Tx & { readonly [SYNCHRONOUS]: true };

/** A step of a handler, as the inbox stored it. */
export interface InboxStep {
  readonly name: string;
  /** The number of the attempt that stored the step. */
  readonly attempt: number;
  /** When the step was stored, in epoch ms, by the inbox's clock. */
  readonly at: number;
  /** The result as JSON, or an empty string for `undefined`. `null` if the step began but recorded no result. */
  readonly result: string | null;
}

/** Options of {@link Inbox.fail}. */
export interface FailOptions {
  /** How long to wait until the event is due again, in ms. Pass `null` to dead-letter the event. */
  readonly retryAfterMs: number | null;
  /** The error text for operators. The inbox keeps 1,000 characters, and replaces NUL and lone surrogates with U+FFFD. */
  readonly error: string;
  /** Set this if the handler threw `RetryLater`. @default none: the attempt failed */
  readonly later?: { readonly maxAgeMs: number } | undefined;
}

/** A stored event: its id, and its JSON exactly as it was stored. */
export interface StoredEvent {
  readonly id: string;
  readonly json: string;
}

/** Options for storing events without claiming them. */
export interface StoreOptions {
  readonly origin: Origin;
  /** The JSON of each event exactly as it arrived, in the order of the events. @default the events, serialized */
  readonly json?: readonly string[] | undefined;
}

/** Stores events, and makes sure that each event takes effect only once. */
export interface Inbox<Tx = undefined> {
  /** Whether stored events survive a restart of this process. */
  readonly durable: boolean;

  /** Whether {@link transaction} runs its effect synchronously. Handlers must then be synchronous too. @default false */
  readonly synchronous?: boolean | undefined;

  /**
   * Claims an event, so that no other process runs it. The event is stored and leased in one atomic round trip.
   *
   * If several processes claim an event at the same time, exactly one claim returns `claimed`. An event can't be claimed if
   * it is `done` or `dead`, if its lease hasn't expired, or if it is `failed` and isn't due yet. Only a claim that returns
   * `claimed` uses up an attempt. A claim changes the inbox only if it returns `claimed` or `waiting`. A claim never waits
   * for a handler: it returns `leased` if the event's transaction is open, or if another call is changing the event.
   *
   * A `key` is stored with the event and replaces any earlier key. While another event with the same key has an unexpired
   * lease, a claim that would otherwise succeed returns `waiting`. The waiting event is stored as `received` and becomes due
   * when the lease of the other event expires. If several events are waiting, the one that was created first becomes due
   * earlier, as soon as the attempt at the leased event ends. Once the lease has expired, a claim for another event with the
   * same key succeeds. The expired lease is then lost, and its event waits as well.
   */
  claim(event: UnknownEvent, options: ClaimOptions): Awaitable<Claim>;

  /**
   * Marks the event as done. Returns `false` and changes nothing if the lease was lost.
   *
   * If the lease has a key, the same operation makes the next waiting event with that key due. The next event is the one
   * that was created first or, if several were created at the same time, the one that was received first.
   */
  complete(lease: Lease): Awaitable<boolean>;

  /**
   * Returns a lease for the first attempt at an event. This needs no query, because the attempt's open transaction acts as
   * the lease. Implement this method only if other calls don't wait for that transaction: while the transaction is open, a
   * claim must return `leased`, and `record` and `ignore` must return `running`.
   *
   * With this lease, {@link transaction} stores the event as done and commits the effect in the same transaction. If the
   * event is already stored or running, `transaction` resolves to `false` without calling the effect. After a rollback,
   * {@link fail} stores the event and its failed first attempt. `fail` returns `false` if the event has been stored in the
   * meantime or is running. If the process dies before one of these methods commits, nothing is stored.
   */
  firstLease?(event: UnknownEvent, options: Omit<ClaimOptions, 'early' | 'key'>): Lease;

  /**
   * Runs the effect in a transaction that also marks the event as done, if the lease's token is still valid.
   *
   * Only inboxes with transactions have this method. The receiver calls it instead of {@link complete}. If the lease was
   * lost, this method rolls back the effect and resolves to `false`. If `effect` fails, this method rolls back the
   * transaction and rejects with the same error. The transaction ends when `effect` ends. Statements that are sent later are
   * rejected if the database library makes this possible. With a synchronous driver, `effect` is synchronous.
   *
   * Rejects with `ERR_HANDLER_FAILED` if the handler caused the rollback, for example by violating a constraint that is
   * checked at COMMIT. Rejects with a `PermanentError` if the handler ended the transaction itself. In that case, the
   * handler's later statements may already be committed, and another attempt could repeat them.
   */
  transaction?(lease: Lease, effect: (tx: Tx) => Awaitable<void>): Awaitable<boolean>;

  /**
   * Runs an effect in the same kind of transaction as a first attempt, and then rolls back that transaction. The effect
   * always rejects, and this method rejects with the same error. Only inboxes with {@link transaction} have this method.
   */
  rehearse?(effect: (tx: Tx) => Awaitable<never>, options: { readonly leaseMs: number }): Awaitable<void>;

  /**
   * Ends a failed attempt. The event is due again after `retryAfterMs`, or becomes `dead` if `retryAfterMs` is `null`. If
   * the lease has a key, the next event with that key becomes due, as in {@link complete}. Returns `false` and changes
   * nothing if the lease was lost.
   *
   * With `later`, the attempt doesn't count as failed. The event becomes `received` and is due after `retryAfterMs`, and
   * its number of attempts decreases by one. If the event was first received at least `maxAgeMs` ago, it becomes `dead`
   * instead, and the method returns `'dead'`.
   */
  fail(lease: Lease, options: FailOptions): Awaitable<boolean | 'dead'>;

  /**
   * Returns the steps of the leased event, in the order in which they were stored, or `null` if the lease was lost.
   * Only inboxes that store steps have this method and {@link saveStep}.
   */
  readSteps?(lease: Lease): Awaitable<readonly InboxStep[] | null>;

  /**
   * Stores the result of a step, which is JSON, or an empty string if the step returned `undefined`. Pass `null` to mark
   * the step as begun, or `undefined` to remove that mark. The change isn't part of the handler's transaction, and it is
   * durable once this method resolves.
   *
   * Returns `false` and changes nothing if the lease was lost, if the step already has a result, or, with `null`, if the
   * step has already begun. This method neither locks the event nor waits for other calls to unlock the event.
   */
  saveStep?(lease: Lease, name: string, result: string | null | undefined): Awaitable<boolean>;

  /**
   * Records up to 200 events in one round trip, without running them. Returns one result per event, in the same order.
   *
   * New events become `received`, and are due after `dueInMs`, or immediately if `dueInMs` is 0 or less. If `dueInMs` is
   * `null`, new events become `parked`. Existing events don't change. If an id occurs twice in one call, only its first
   * occurrence counts as new.
   */
  record(
    events: readonly UnknownEvent[],
    options: StoreOptions & {
      readonly dueInMs: number | null;
      /** The ordering key of each event, in the order of the events. @default none */
      readonly keys?: readonly (string | undefined)[] | undefined;
    },
  ): Awaitable<readonly RecordResult[]>;

  /**
   * Records events that have no handler in this process as `done`, without an attempt. Existing events don't change,
   * whatever their state, because another process might have a handler for them. Returns one result per event, in the same
   * order.
   */
  ignore(events: readonly UnknownEvent[], options: StoreOptions): Awaitable<readonly RecordResult[]>;

  /**
   * Takes up to `limit` due events of the given `types`, starting with the most overdue event, and makes these events
   * `received`, so that they can be claimed. Their attempt counts don't change. An event is due if it is `received` or
   * `failed` and its due time has come, if it is `leased` and its lease has expired, or if it is `parked`. If a taken event
   * had a lease, the token of that lease becomes invalid. Ordering keys are checked later, by {@link claim}.
   *
   * The operation is atomic, and the returned events aren't due again until `visibilityTimeoutMs` has passed, so two
   * callers don't receive the same event at the same time.
   */
  takeDue(options: {
    readonly limit: number;
    readonly visibilityTimeoutMs: number;
    readonly types: readonly string[];
  }): Awaitable<readonly StoredEvent[]>;

  /** Returns the note with this name, or `null` if it hasn't been written yet. */
  readNote(name: string): Awaitable<string | null>;

  /**
   * Writes a note. The inbox doesn't interpret the text, which must not contain NUL or lone surrogates. If you pass a
   * `holder` that wasn't the last to lease the note, this method returns `false` and changes nothing. The check and the
   * write are one atomic operation.
   */
  writeNote(name: string, text: string, fence?: { readonly holder: string }): Awaitable<boolean>;

  /**
   * Acquires or renews the lease on a note, or releases the lease if `leaseMs` is 0. The note's text doesn't change.
   * Returns `false` and changes nothing while another holder has the lease.
   */
  leaseNote(name: string, options: { readonly holder: string; readonly leaseMs: number }): Awaitable<boolean>;
}

/** The name of the note that stores the poller's state. A poller leases this note while it polls. */
export const POLL_NOTE = 'poll';

/** One attempt at an event. Times come from the inbox's clock, in epoch ms. */
export interface InboxAttempt {
  /** The attempt's number, starting at 1, or 0 if an operator discarded or requeued the event before its first attempt. */
  readonly attempt: number;
  readonly startedAt: number;
  /** When the attempt ended. If a first attempt succeeded in a transaction, this time equals `startedAt`. */
  readonly endedAt: number;
  /**
   * `later`: the handler threw `RetryLater`, so the attempt doesn't count. `lapsed`: the lease expired before the attempt
   * was completed or failed. `discarded`, `requeued`: an operator discarded or requeued the event.
   */
  readonly result: 'done' | 'failed' | 'dead' | 'later' | 'lapsed' | 'discarded' | 'requeued';
  /** Why the attempt failed, or why the event has to run later; `null` for other results. */
  readonly error: string | null;
  /** Who discarded or requeued the event. Like `reason`, it is set only if `result` is `discarded` or `requeued`. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** An event as the inbox stores it. Times come from the inbox's clock, in epoch ms. */
export interface InboxRecord {
  readonly id: string;
  /** The event's type, or an empty string if only the event's id was imported. */
  readonly type: string;
  readonly state: InboxState;
  /** How many times the event has been claimed since it was received or last requeued. */
  readonly attempts: number;
  /** Where the event first came from, or `import` if {@link InboxOperations.importDone} recorded its id. */
  readonly origin: Origin | 'import';
  /** The ordering key with which the event was stored or last claimed, or `null` if it has no key. */
  readonly key: string | null;
  readonly receivedAt: number;
  /** When the event's state last changed. Taking or enqueuing a `received` event again doesn't count as a change. */
  readonly updatedAt: number;
  /** When the event is due to run or when its lease expires; `null` if the event is done, dead or parked. */
  readonly dueAt: number | null;
  /** Why the last attempt failed, or why its handler threw `RetryLater`; `null` if neither happened. */
  readonly lastError: string | null;
  /** Whether the event is done without an attempt, because its type had no handler. `false` for pruned events. */
  readonly ignored: boolean;
  /**
   * The last 10 attempts that have ended, oldest first. If the lease of an earlier attempt expired, that attempt is kept as
   * the first entry. The list is empty once the event is pruned.
   */
  readonly history: readonly InboxAttempt[];
  /**
   * The event, or `null` if it was pruned, if only its id was imported, or if its stored text can't be read, for example
   * after a disk failure. An unreadable event runs only if it is delivered again.
   */
  readonly event: UnknownEvent | null;
}

/**
 * Selects the events that match all given conditions. A condition whose value is `undefined` is rejected. Times are in epoch
 * ms, and refer to the inbox's clock.
 */
export interface InboxFilter {
  readonly ids?: readonly string[] | undefined;
  readonly state?: InboxState | undefined;
  readonly type?: string | undefined;
  /** The ordering key. */
  readonly key?: string | undefined;
  /** Only events that were received at or after this time. */
  readonly receivedSince?: number | undefined;
  /** Only events that were received before this time. */
  readonly receivedUntil?: number | undefined;
  /** Only events whose state last changed at or after this time. */
  readonly updatedSince?: number | undefined;
  /** Only events whose state last changed before this time. */
  readonly updatedUntil?: number | undefined;
  /** Only events that are due before this time, or whose lease expires before this time. */
  readonly dueUntil?: number | undefined;
  /** Only events whose last error contains this text. The match is case-sensitive. */
  readonly error?: string | undefined;
  /** Only ignored events, all of which are `done`. */
  readonly ignored?: true | undefined;
}

/** The number of events in a state, and when the first of these events entered that state. */
export interface InboxCount {
  readonly state: InboxState;
  readonly count: number;
  /** When the first of these events entered the state, in epoch ms. `null` if `count` is 0, and always `null` for `done`. */
  readonly oldest: number | null;
}

/**
 * Methods for operators. The receiver and the poller can process events without these methods. If an option is missing,
 * unknown or invalid, a method rejects with a `ConfigError` (`ERR_CONFIG_INVALID`) before it reads or changes anything.
 */
export interface InboxOperations {
  /** Returns the record of one event, or `undefined` if the inbox doesn't have the event. */
  find(id: string): Promise<InboxRecord | undefined>;
  /**
   * Lists up to `limit` records, sorted by `receivedAt` and then by id. It returns fewer than `limit` records only if no
   * more records match. To get the next page, pass the id of the last record as `after`, even if that record no longer
   * matches the filter. Without `state`, it lists events in every state.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when the inbox doesn't have the event `after`, for example because a full
   * memory inbox has forgotten it. Start again without `after`.
   */
  list(
    options: InboxFilter & {
      readonly limit: number;
      readonly after?: string | undefined;
      /** @default 'oldest' */
      readonly order?: 'oldest' | 'newest' | undefined;
      /** Pass `false` to set every `event` to `null`, which is faster if payloads are large. @default true */
      readonly withEvents?: boolean | undefined;
    },
  ): Promise<readonly InboxRecord[]>;
  /** Returns one entry per state, in the order of {@link INBOX_STATES}. Counting is fastest without a filter. */
  count(filter?: InboxFilter): Promise<readonly InboxCount[]>;
  /** Returns an event's steps, in the order in which they were stored. The list is empty once the event is pruned. */
  steps(id: string): Promise<readonly InboxStep[]>;
  /**
   * Requeues `dead` and `failed` events, or, with `ignored`, only ignored events. Requeued events become `received` and due
   * now, and their attempt counts start again at 0. A `leased` event is requeued only if its lease has expired, if its lease
   * was set by a clock that was running ahead, or if you pass `force`. Other events don't change. Resolves to the number of
   * requeued events, which is 0 or 1 for an id, and at most `limit` for a filter. Events are requeued in the order in which
   * they were received.
   *
   * If a step of an event began but recorded no result, the event is requeued only if `steps` resolves each such step. Pass
   * `done` if the step's effect happened (the step then returns `undefined`), or `again` to rerun the step. Other steps
   * don't change.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when `steps` is given and `ids` doesn't contain exactly one id.
   */
  requeue(
    which:
      | string
      | (InboxFilter & {
          /** At most 10,000. @default 1_000 */
          readonly limit?: number | undefined;
          /** How to resolve steps that began but recorded no result, if you requeue a single event. @default none */
          readonly steps?: Readonly<Record<string, 'done' | 'again'>> | undefined;
          /** Who requeues the events. The history keeps 1,000 characters of `by` and `reason` each. @default not recorded */
          readonly by?: string | undefined;
          /** Why the events are requeued. Allowed only together with `by`. */
          readonly reason?: string | undefined;
          /**
           * Whether to requeue events even if their leases haven't expired. The events' handlers might still be running, so
           * the effects could happen twice.
           * @default false
           */
          readonly force?: boolean | undefined;
        }),
  ): Promise<number>;
  /**
   * Discards events that must not run. Events that are `received`, `failed`, `dead` or `parked` become `done`. Until these
   * events are pruned, their history says who discarded them and why. If a discarded event is delivered again, it counts as
   * a duplicate. The handler of a `leased` event might be running, so a `leased` event is discarded only if its lease has
   * expired, if its lease was set by a clock that was running ahead, or if you pass `force`. Resolves to the number of
   * discarded events, which is at most `limit`. Events are discarded in the order in which they were received. You must pass
   * at least one condition of the filter.
   */
  discard(
    options: InboxFilter & {
      /** Who discards the events. The history keeps the first 1,000 characters of `by` and of `reason`. */
      readonly by: string;
      readonly reason: string;
      /** At most 10,000. @default 1_000 */
      readonly limit?: number | undefined;
      /**
       * Whether to discard events even if their leases haven't expired. The events' handlers might still be running, so the
       * effects could still happen.
       *
       * @default false
       */
      readonly force?: boolean | undefined;
    },
  ): Promise<number>;
  /**
   * Records ids as `done` without their events, for example the ids of events that your old handler processed. If such an
   * event is delivered later, it counts as a duplicate. Ids that the inbox already has don't change. Resolves to the number
   * of new ids. If a call fails, you can safely repeat it.
   */
  importDone(ids: readonly string[]): Promise<number>;
  /**
   * Removes the JSON, the history and the steps of events that have been `done` for at least `olderThanMs`. Their ids are
   * kept, so an event that is delivered again still counts as a duplicate. Resolves to the number of pruned events.
   */
  prune(options: { readonly olderThanMs: number }): Promise<number>;
}

/** A durable queue that passes events to workers. Each worker calls `receiver.handle`. */
export interface Queue {
  /**
   * Enqueues an event, and resolves once the queue has durably stored a job for the event. Jobs are identified by
   * `event.id`: while the event's job is waiting or running, enqueuing the event again adds no second job. Once that job
   * has finished, the event can be enqueued again.
   */
  enqueue(
    event: UnknownEvent,
    options?: {
      /** The event's JSON exactly as it arrived. The queue passes it on unchanged. @default the event, serialized */
      readonly json?: string | undefined;
      /** The trace context to pass on with the event, as a W3C `traceparent`. @default none */
      readonly traceparent?: string | undefined;
    },
  ): Promise<void>;
}

/** Receives log lines for operators. `console` and loggers from pino, Fastify or winston work without a wrapper. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}
