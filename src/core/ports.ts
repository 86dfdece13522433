/**
 * The ports. An `Inbox` stores pushed and pulled events by `event.id`, so that each takes effect once.
 * A `Queue` passes events to workers. A `Logger` receives log lines for operators.
 *
 * Callers pass durations, and only the inbox reads a clock, so the clocks of several machines don't have to agree.
 * Methods reject only with the driver's errors, which the receiver turns into `ERR_INBOX_FAILED`.
 */
import type { Awaitable } from './awaitable.js';
import type { UnknownEvent } from './events.js';

/**
 * The state of an event in the inbox.
 *
 * - `received`: the event is recorded, and will run for the first time or again.
 * - `leased`: a process is running the event under a lease, which has a fencing token and an expiry time.
 * - `done`: the event was handled, ignored, discarded or imported. Its id is kept permanently, even after pruning.
 * - `failed`: the last attempt failed. The event runs again at its retry time.
 * - `dead`: the event is dead-lettered until you requeue it.
 * - `parked`: the type of the event was unknown when it was received.
 */
export type InboxState = 'received' | 'leased' | 'done' | 'failed' | 'dead' | 'parked';

/** All inbox states, in the order in which an event can pass through them. */
export const INBOX_STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];

/** Where an event came from: a signed delivery (`push`), the event list (`pull`), a queue worker, or `redrive`. */
export type Origin = 'push' | 'pull' | 'queue' | 'redrive';

/** Permission to complete or fail one attempt. */
export interface Lease {
  readonly id: string;
  /** The fencing token. It becomes invalid once another process claims the event. */
  readonly token: string;
  /** The number of this attempt, starting at 1. */
  readonly attempt: number;
  /** The ordering key with which the event was claimed. */
  readonly key?: string | undefined;
  /** What a first attempt stores together with its effect. @default none: the event is already stored and leased */
  readonly first?: FirstAttempt | undefined;
}

/** An event that is not stored until the transaction of its first attempt commits. */
export interface FirstAttempt {
  readonly type: string;
  readonly json: string;
  readonly origin: Origin;
  /** The maximum duration of the transaction, in ms. */
  readonly leaseMs: number;
}

/**
 * The result of a claim: the lease, or the reason why the event can't be claimed. `leased`, `failed`, `done` and `dead` are
 * states of the event itself. `waiting` means that another event with the same ordering key is leased.
 */
export type Claim =
  | { readonly state: 'claimed'; readonly lease: Lease }
  | { readonly state: 'done' }
  | { readonly state: 'dead' }
  | {
      readonly state: 'leased' | 'failed' | 'waiting';
      /** The time until the other lease expires or the event's retry time is reached, in ms. At least 1. */
      readonly retryAfterMs: number;
    };

/**
 * The result of recording an event: `new`, or its state if the inbox already had the event. `running` means that the
 * transaction of its first attempt is open, or that another call is storing the event, so it isn't known yet whether the
 * event will be stored.
 */
export type RecordResult = 'new' | 'running' | InboxState;

/** Options of {@link Inbox.claim}. */
export interface ClaimOptions {
  readonly leaseMs: number;
  readonly origin: Origin;
  /** The event's JSON as it arrived, which is stored unchanged. @default the event, serialized */
  readonly json?: string | undefined;
  /** Whether a failed event can be claimed before its retry time. @default false */
  readonly early?: boolean | undefined;
  /** The ordering key. At most one event per key is leased at a time. @default none */
  readonly key?: string | undefined;
}

/** A key that marks the types of synchronous transactions. It has no value at run time. */
export declare const SYNCHRONOUS: unique symbol;

/** A transaction of a synchronous driver. Its handlers must be synchronous as well. */
export type Synchronous<Tx> = Tx & { readonly [SYNCHRONOUS]: true };

/** A stored step of a handler. */
export interface InboxStep {
  readonly name: string;
  /** The number of the attempt that stored the step. */
  readonly attempt: number;
  /** When the step was stored, in epoch ms by the inbox's clock. */
  readonly at: number;
  /** The result as JSON, or an empty string for `undefined`. `null` if the step began but recorded no result. */
  readonly result: string | null;
}

/** Options of {@link Inbox.fail}. */
export interface FailOptions {
  /** The time until the event is due again, in ms. `null` dead-letters the event. */
  readonly retryAfterMs: number | null;
  /** The error text for operators. Truncated to 1,000 characters, with U+FFFD in place of NUL and lone surrogates. */
  readonly error: string;
  /** Set if the handler asked for a later attempt. @default none: the attempt failed */
  readonly later?: { readonly maxAgeMs: number } | undefined;
}

/** A stored event: its id and its JSON, character for character. */
export interface StoredEvent {
  readonly id: string;
  readonly json: string;
}

/** Options for storing events without claiming them. */
export interface StoreOptions {
  readonly origin: Origin;
  /** The JSON of each event as it arrived, in the same order. It is stored unchanged. @default the events, serialized */
  readonly json?: readonly string[] | undefined;
}

/** Records, claims and remembers events. */
export interface Inbox<Tx = undefined> {
  /** Whether stored events survive a restart of this process. */
  readonly durable: boolean;

  /** Whether {@link transaction} runs its effect synchronously, so handlers can't be async. @default false */
  readonly synchronous?: boolean | undefined;

  /**
   * Claims an event so that only one process runs it. Records and leases the event in one atomic round trip.
   *
   * If several processes claim an event at the same time, exactly one claim returns `claimed`. An event can be claimed
   * unless it is `done`, `dead`, under a lease that hasn't expired, or `failed` and not due yet. Only `claimed` uses up
   * an attempt, and all results except `claimed` and `waiting` change nothing. A claim never waits for a handler: it
   * returns `leased` if the event's transaction is open or another call is changing the event.
   *
   * A `key` is stored with the event and replaces an earlier key. While another event with that key is under a lease that
   * hasn't expired, a claim that would have succeeded returns `waiting`. The waiting event is stored as `received`. It
   * becomes due when that lease expires. If it was created before all other waiting events, it becomes due as soon as the
   * leased event ends. Once the lease has expired, a claim for another event with the key takes over: the old lease is
   * lost, and its event waits as well.
   */
  claim(event: UnknownEvent, options: ClaimOptions): Awaitable<Claim>;

  /**
   * Marks the event done. Returns `false` and changes nothing if the lease was lost.
   *
   * If the lease has a key, the waiting event that was created first becomes due in the same operation. If several were
   * created at the same time, the one that was received first becomes due.
   */
  complete(lease: Lease): Awaitable<boolean>;

  /**
   * Returns the lease of a first attempt without a query, because the attempt's transaction acts as the lease. Implement
   * this only if other calls don't wait for that transaction: while it is open, a claim must return `leased`, and
   * `record` and `ignore` must return `running`.
   *
   * With this lease, {@link transaction} stores the event as done together with the effect. If the event is already
   * stored or running, it resolves to `false` and doesn't call the effect. After a rollback, {@link fail} stores the
   * failed first attempt. It returns `false` if the event has meanwhile been stored or is running. If the process dies,
   * nothing is stored.
   */
  firstLease?(event: UnknownEvent, options: Omit<ClaimOptions, 'early' | 'key'>): Lease;

  /**
   * Runs the effect in a transaction that also marks the event done, fenced by the token.
   *
   * Only inboxes with transactions have this method, which replaces {@link complete}. If the lease was lost, it rolls the
   * effect back and resolves to `false`. If `effect` fails, it rolls back and rejects with the same error. The transaction
   * ends with `effect`; later statements are rejected if the library allows that. Over a synchronous driver, `effect` is
   * synchronous.
   *
   * Rejects with `ERR_HANDLER_FAILED` if the handler caused the rollback, for example by violating a constraint that is
   * checked at COMMIT. Rejects with a `PermanentError` if the handler ended the transaction itself: its later statements
   * may have been committed, and another attempt might repeat them.
   */
  transaction?(lease: Lease, effect: (tx: Tx) => Awaitable<void>): Awaitable<boolean>;

  /**
   * Runs an effect in a transaction like that of a first attempt, and rolls it back. The effect always rejects, and this
   * method rejects with the same error. Only inboxes with {@link transaction} have this method.
   */
  rehearse?(effect: (tx: Tx) => Awaitable<never>, options: { readonly leaseMs: number }): Awaitable<void>;

  /**
   * Ends a failed attempt: the event is due again after `retryAfterMs`, or becomes `dead` if that is `null`. The next event
   * with the key becomes due, as in {@link complete}. Returns `false` and changes nothing if the lease was lost.
   *
   * With `later`, the attempt doesn't count as failed: the event becomes `received` and due after `retryAfterMs`, and its
   * number of attempts decreases by one. If the event was first received at least `maxAgeMs` ago, it becomes `dead`
   * instead, and the method returns `'dead'`.
   */
  fail(lease: Lease, options: FailOptions): Awaitable<boolean | 'dead'>;

  /**
   * Returns the steps of the leased event, in the order in which they were stored, or `null` if the lease was lost.
   * Only inboxes that store steps have this method and {@link saveStep}.
   */
  readSteps?(lease: Lease): Awaitable<readonly InboxStep[] | null>;

  /**
   * Stores the result of a step: JSON, or an empty string for `undefined`. `null` marks the step as begun, and `undefined`
   * removes that mark. The change is durable once this resolves, and isn't part of the handler's transaction.
   *
   * Returns `false` and changes nothing if the lease was lost, if the step already has a result, or, with `null`, if the
   * step has already begun. It neither takes a lock on the event nor waits for one.
   */
  saveStep?(lease: Lease, name: string, result: string | null | undefined): Awaitable<boolean>;

  /**
   * Records up to 200 events in one round trip, without running them. Returns one result per event, in the same order.
   *
   * New events become `received` and due after `dueInMs` (immediately if it is 0 or less), or `parked` if it is `null`.
   * Existing events don't change. If an id occurs twice in one call, only its first occurrence is new.
   */
  record(
    events: readonly UnknownEvent[],
    options: StoreOptions & {
      readonly dueInMs: number | null;
      /** The ordering key of each event, in the same order. @default none */
      readonly keys?: readonly (string | undefined)[] | undefined;
    },
  ): Awaitable<readonly RecordResult[]>;

  /**
   * Records events that have no handler in this process, like {@link record}. Returns one result per event, in the same
   * order.
   *
   * New events become `done` without an attempt. Existing events don't change, whatever their state, because another
   * process may have a handler for them.
   */
  ignore(events: readonly UnknownEvent[], options: StoreOptions): Awaitable<readonly RecordResult[]>;

  /**
   * Takes up to `limit` due events of the given `types`, most overdue first, and makes them `received`, ready to be
   * claimed. Their number of attempts doesn't change. An event is due if it is `received` or `failed` and its time has
   * come, if it is `leased` and its lease has expired (the token becomes invalid), or if it is `parked`. Ordering keys
   * are checked later, by {@link claim}.
   *
   * The operation is atomic. The returned events aren't due for `visibilityTimeoutMs`, so two callers never receive the
   * same event.
   */
  takeDue(options: {
    readonly limit: number;
    readonly visibilityTimeoutMs: number;
    readonly types: readonly string[];
  }): Awaitable<readonly StoredEvent[]>;

  /** Returns the note with this name, or `null` if it hasn't been written yet. */
  readNote(name: string): Awaitable<string | null>;

  /**
   * Writes a note: text without NUL or lone surrogates, such as JSON. The inbox doesn't interpret it. With `holder`, it
   * returns `false` and changes nothing unless this holder was the last to lease the note. Check and write are one
   * atomic operation.
   */
  writeNote(name: string, text: string, fence?: { readonly holder: string }): Awaitable<boolean>;

  /**
   * Acquires or renews the lease of a note, or releases it if `leaseMs` is 0. The text doesn't change.
   * Returns `false` and changes nothing while another holder has the lease.
   */
  leaseNote(name: string, options: { readonly holder: string; readonly leaseMs: number }): Awaitable<boolean>;
}

/** The note that stores the poller's state. Its lease is the poll lease. */
export const POLL_NOTE = 'poll';

/** One attempt at an event. Times are epoch ms by the inbox's clock. */
export interface InboxAttempt {
  /** The number of the attempt, starting at 1; 0 if you discarded or requeued the event before its first attempt. */
  readonly attempt: number;
  readonly startedAt: number;
  /**
   * Equal to `startedAt` if a first attempt succeeded in a transaction, because it is stored when the transaction begins.
   */
  readonly endedAt: number;
  /**
   * `later`: the handler threw `RetryLater`, so the attempt doesn't count. `lapsed`: the lease expired before the attempt
   * was completed or failed. `discarded`, `requeued`: an operator discarded or requeued the event.
   */
  readonly result: 'done' | 'failed' | 'dead' | 'later' | 'lapsed' | 'discarded' | 'requeued';
  /** Why the attempt failed, or why the event has to run later; `null` for other results. */
  readonly error: string | null;
  /** Who discarded or requeued the event. Set only for these results, like `reason`. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** An event as the inbox stores it. Times are epoch ms by the inbox's clock. */
export interface InboxRecord {
  readonly id: string;
  /** Empty for an imported id. */
  readonly type: string;
  readonly state: InboxState;
  /** How many times the event was claimed since it was received or last requeued. */
  readonly attempts: number;
  /** Where the event first came from; `import` for an id that {@link InboxOperations.importDone} recorded. */
  readonly origin: Origin | 'import';
  /** The ordering key with which the event was stored or last claimed, or `null`. */
  readonly key: string | null;
  readonly receivedAt: number;
  /** When the state last changed. Taking or enqueuing a received event again doesn't count as a change. */
  readonly updatedAt: number;
  /** When the event runs again or its lease expires; `null` if it is done, dead or parked. */
  readonly dueAt: number | null;
  /** Why the last attempt failed or asked for a later one; `null` if it did neither. */
  readonly lastError: string | null;
  /** Whether the event is done without an attempt, because its process had no handler. `false` for pruned events. */
  readonly ignored: boolean;
  /**
   * The last 10 attempts that have ended, oldest first. If the lease of an earlier attempt expired, the first entry is that
   * attempt. Empty once the event is pruned.
   */
  readonly history: readonly InboxAttempt[];
  /**
   * The event, or `null` if it was pruned or imported, or if its stored text can't be read, for example after a disk
   * failure. An unreadable event runs only if it is delivered again.
   */
  readonly event: UnknownEvent | null;
}

/**
 * Selects the events that match all given conditions. A condition with the value `undefined` is rejected. Times are epoch
 * ms by the inbox's clock.
 */
export interface InboxFilter {
  readonly ids?: readonly string[] | undefined;
  readonly state?: InboxState | undefined;
  readonly type?: string | undefined;
  /** The ordering key. */
  readonly key?: string | undefined;
  /** Received at or after this time. */
  readonly receivedSince?: number | undefined;
  /** Received before this time. */
  readonly receivedUntil?: number | undefined;
  /** Last changed at or after this time. A dead event last changed when it became dead. */
  readonly updatedSince?: number | undefined;
  /** Last changed before this time. */
  readonly updatedUntil?: number | undefined;
  /** Due before this time, or under a lease that expires before this time. */
  readonly dueUntil?: number | undefined;
  /** A substring of the last error. Case-sensitive. */
  readonly error?: string | undefined;
  /** Only ignored events. They are all done. */
  readonly ignored?: true | undefined;
}

/** How many events are in a state, and when the oldest of them entered it. */
export interface InboxCount {
  readonly state: InboxState;
  readonly count: number;
  /** Epoch ms; `null` if there are no events, and always for `done`. */
  readonly oldest: number | null;
}

/**
 * Operations for operators. The receiver and the poller don't need them to process events.
 *
 * Methods with options reject with a `ConfigError` (`ERR_CONFIG_INVALID`) if an option is missing, unknown or invalid. They
 * do so before they read or change anything.
 */
export interface InboxOperations {
  /** Returns the record of one event, or `undefined`. */
  find(id: string): Promise<InboxRecord | undefined>;
  /**
   * Lists up to `limit` records, sorted by `receivedAt` and then by id. It returns fewer only if there are no more.
   * To continue after a page, pass the id of its last record as `after`, even if that record no longer matches the
   * filter. Without `state`, events in every state are listed.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when the inbox doesn't have the event `after`, for example because a
   * full memory inbox has forgotten it. Start again without `after`.
   */
  list(
    options: InboxFilter & {
      readonly limit: number;
      readonly after?: string | undefined;
      /** @default 'oldest' */
      readonly order?: 'oldest' | 'newest' | undefined;
      /** `false` doesn't read the events, so every `event` is `null`. This is faster if payloads are large. @default true */
      readonly withEvents?: boolean | undefined;
    },
  ): Promise<readonly InboxRecord[]>;
  /** Returns one entry per state, in the order of {@link INBOX_STATES}. It is fastest without a filter. */
  count(filter?: InboxFilter): Promise<readonly InboxCount[]>;
  /** Returns the stored steps of an event, in the order in which they were stored. Empty once the event is pruned. */
  steps(id: string): Promise<readonly InboxStep[]>;
  /**
   * Requeues `dead` and `failed` events, or with `ignored` only ignored events: they become `received` and due now, and
   * their attempts are counted from 0 again. Events that are `leased` are requeued if their lease has expired or was
   * written by a clock that was ahead. With `force`, all of them are. Other events don't change. Resolves to the number
   * of requeued events: 1 or 0 for an id; at most `limit` for a filter, earliest received first.
   *
   * If a step of an event began but recorded no result, the event is requeued only if `steps` says for each such step
   * whether its effect happened: `done` (the step then returns `undefined`) or `again`. Other steps don't change.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when `steps` is given and `ids` doesn't contain exactly one id.
   */
  requeue(
    which:
      | string
      | (InboxFilter & {
          /** At most 10,000. @default 1_000 */
          readonly limit?: number | undefined;
          /** What happened to the steps without a result, for exactly one id. @default none */
          readonly steps?: Readonly<Record<string, 'done' | 'again'>> | undefined;
          /** Who requeues the events. The history keeps 1,000 characters of it, and of `reason`. @default not recorded */
          readonly by?: string | undefined;
          /** Why the events are requeued. Only together with `by`. */
          readonly reason?: string | undefined;
          /**
           * Whether to end leases that haven't expired. Their handlers may still be running, so effects may happen twice.
           * @default false
           */
          readonly force?: boolean | undefined;
        }),
  ): Promise<number>;
  /**
   * Discards events that must not run: `received`, `failed`, `dead` and `parked` events become `done`. Their history says
   * who discarded them and why, until they are pruned. Later deliveries of these events are duplicates. The handler of a
   * leased event may be running, so a leased event changes only if its lease has expired or was written by a clock that
   * was ahead, or with `force`. Resolves to the number of discarded events: at most `limit`, starting with the event that
   * was received first. Pass at least one condition of the filter.
   */
  discard(
    options: InboxFilter & {
      /** Who discards the events. The history keeps 1,000 characters of it, and of `reason`. */
      readonly by: string;
      readonly reason: string;
      /** At most 10,000. @default 1_000 */
      readonly limit?: number | undefined;
      /** Whether to end leases that haven't expired. The effects of their handlers may still happen. @default false */
      readonly force?: boolean | undefined;
    },
  ): Promise<number>;
  /**
   * Records ids as `done` without their events, for example the ids that your old handler has processed. Deliveries of
   * these events are then duplicates. Ids that the inbox already has don't change. Resolves to the number of new ids. If
   * a call fails, you can repeat it.
   */
  importDone(ids: readonly string[]): Promise<number>;
  /**
   * Removes the JSON, the history and the steps of events that have been `done` for `olderThanMs`. Their ids are kept, so a
   * replay is still a duplicate. Resolves to the number of pruned events.
   */
  prune(options: { readonly olderThanMs: number }): Promise<number>;
}

/** A durable queue that passes events to workers, which call `receiver.handle`. */
export interface Queue {
  /**
   * Enqueues an event, and resolves once the queue has durably stored it. Jobs are keyed by `event.id`: while the job of an
   * event is waiting or running, the event isn't enqueued again. Once its job has finished, it can be.
   */
  enqueue(
    event: UnknownEvent,
    options?: {
      /** The event's JSON as it arrived, which is passed on unchanged. @default the event, serialized */
      readonly json?: string | undefined;
      /** The trace context to pass on with the event, as a W3C `traceparent`. @default none */
      readonly traceparent?: string | undefined;
    },
  ): Promise<void>;
}

/**
 * Receives log lines for operators. You can pass `console`, or a logger from pino, Fastify or winston, without a wrapper.
 */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}
