/**
 * The ports. An `Inbox` stores the events of push and pull by `event.id`, so each takes effect once.
 * A `Queue` passes events to workers. A `Logger` receives the lines for operators.
 *
 * Callers pass durations and only the inbox reads a clock, so the clocks of several machines need not agree.
 * Methods reject only with the driver's errors, which the receiver turns into `ERR_INBOX_FAILED`.
 */
import type { Awaitable } from './awaitable.js';
import type { UnknownEvent } from './events.js';

/**
 * An event's state.
 *
 * - `received`: recorded and not run yet, or about to run again.
 * - `leased`: one process runs it, under a fencing token, until the lease expires.
 * - `done`: it was handled, ignored, discarded or imported. Its id is kept permanently, even when the event is pruned.
 * - `failed`: the last attempt failed; it runs again at its retry time.
 * - `dead`: dead-lettered, until a person requeues it.
 * - `parked`: its type was unknown when it was received.
 */
export type InboxState = 'received' | 'leased' | 'done' | 'failed' | 'dead' | 'parked';

/** Every {@link InboxState}, in the order in which an event can pass through them. */
export const INBOX_STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];

/** Where an event came from: a signed delivery, the list, a queue's worker, or `redrive`. */
export type Origin = 'push' | 'pull' | 'queue' | 'redrive';

/** Permission to complete or fail one attempt. */
export interface Lease {
  readonly id: string;
  /** The fencing token: it becomes invalid once another process has claimed the event. */
  readonly token: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The ordering key that the event was claimed with. */
  readonly key?: string | undefined;
  /** What a first attempt stores with its effect. @default the event is stored and leased */
  readonly first?: FirstAttempt | undefined;
}

/** An event that is not stored until the transaction of its first attempt commits. */
export interface FirstAttempt {
  readonly type: string;
  readonly json: string;
  readonly origin: Origin;
  /** The longest time that the transaction may take, in ms. */
  readonly leaseMs: number;
}

/**
 * A claim's result: the lease, or the reason why there is none. `leased`, `failed`, `done` and `dead` are states of
 * the event itself; `waiting` means that another event of its ordering key is leased.
 */
export type Claim =
  | { readonly state: 'claimed'; readonly lease: Lease }
  | { readonly state: 'done' }
  | { readonly state: 'dead' }
  | {
      readonly state: 'leased' | 'failed' | 'waiting';
      /** The time until the other lease expires, or until the event's retry time, in ms; at least 1. */
      readonly retryAfterMs: number;
    };

/**
 * The result of recording an event: `new`, or the state in which the inbox already had it. `running` means that the
 * transaction of its first attempt is open or another call stores it at this moment: whether it will be stored is not known.
 */
export type RecordResult = 'new' | 'running' | InboxState;

/** How an event is claimed. */
export interface ClaimOptions {
  readonly leaseMs: number;
  readonly origin: Origin;
  /** The event's JSON as it arrived, to be stored unchanged. @default the event serialized */
  readonly json?: string | undefined;
  /** Whether a failed event can be claimed before its retry time. @default false */
  readonly early?: boolean | undefined;
  /** The ordering key: of the events of one key, at most one is leased at a time. @default none */
  readonly key?: string | undefined;
}

/** The key of a type that marks transactions; it has no value. */
export declare const SYNCHRONOUS: unique symbol;

/** A transaction of a synchronous driver, whose handlers are synchronous. */
export type Synchronous<Tx> = Tx & { readonly [SYNCHRONOUS]: true };

/** A step of a handler. */
export interface InboxStep {
  readonly name: string;
  /** The attempt that stored it. */
  readonly attempt: number;
  /** When it was stored, in epoch ms by the inbox's clock. */
  readonly at: number;
  /** Its result as JSON, or empty for `undefined`; `null` for a step that began and recorded no result. */
  readonly result: string | null;
}

/** How an attempt ends without success. */
export interface FailOptions {
  /** In ms; `null` dead-letters the event. */
  readonly retryAfterMs: number | null;
  /** For operators; truncated to 1,000 characters, with U+FFFD for NUL and halves of surrogate pairs. */
  readonly error: string;
  /** The handler asked for a later attempt. @default the attempt failed */
  readonly later?: { readonly maxAgeMs: number } | undefined;
}

/** An event as it is stored: its JSON, character for character. */
export interface StoredEvent {
  readonly id: string;
  readonly json: string;
}

/** How events are stored without a claim. */
export interface StoreOptions {
  readonly origin: Origin;
  /** Each event's JSON as it arrived, in the same order, to be stored unchanged. @default the events serialized */
  readonly json?: readonly string[] | undefined;
}

/** Where events are recorded, claimed and remembered. */
export interface Inbox<Tx = undefined> {
  /** Whether stored events survive a restart of this process. */
  readonly durable: boolean;

  /** Whether {@link transaction} ends before a promise of its effect does, so handlers cannot be async. @default false */
  readonly synchronous?: boolean | undefined;

  /**
   * Claims an event, so that only one process runs it: records and leases it in one atomic round trip.
   *
   * Of any number of simultaneous claims exactly one returns `claimed`. An event can be claimed unless it is `done`,
   * `dead`, under a lease that has not expired, or `failed` and not due yet. Any other result uses up no attempt and changes
   * nothing, except for `waiting`. No claim waits for a handler: an event whose transaction is open, or which another call
   * changes at this moment, is `leased`.
   *
   * With a `key`, which is stored and replaces an old one, no claim returns `claimed` while another event of the key is
   * under a lease that has not expired. An event that could otherwise have been claimed returns `waiting`: it is stored as
   * `received` and due when that lease expires, or as soon as the leased event ends if it is the first-created of those that
   * wait. Once a lease of the key has expired, a claim of another event of the key takes it over: the old lease is lost, and
   * its event waits as well.
   */
  claim(event: UnknownEvent, options: ClaimOptions): Awaitable<Claim>;

  /**
   * Marks the event done. Returns `false`, without any change, when the lease is lost.
   *
   * If the lease has a key, the first-created event that waits for it becomes due in the same operation; among events created
   * at the same time, the first received.
   */
  complete(lease: Lease): Awaitable<boolean>;

  /**
   * Returns the lease of a first attempt, without asking the store: its transaction is the lease. Only in inboxes that can
   * answer other calls while the transaction runs: without waiting, a claim returns `leased`, and `record` and `ignore`
   * return `running`.
   *
   * With this lease, {@link transaction} stores the event as done together with the effect, or resolves to `false` before the
   * effect if the event is stored or runs already. {@link fail} stores a failed first attempt after the rollback; `false`
   * means that the event was stored or runs meanwhile. If the process ends, nothing is stored.
   */
  firstLease?(event: UnknownEvent, options: Omit<ClaimOptions, 'early' | 'key'>): Lease;

  /**
   * Runs the effect in a transaction that also marks the event done, fenced by the token.
   *
   * Only in inboxes with transactions, where it replaces {@link complete}. Resolves to `false` and rolls the effect back
   * when the lease is lost. A failure of `effect` rolls back and passes through. The transaction ends with `effect`; later
   * statements are refused where the library allows it. An inbox over a synchronous driver calls a synchronous `effect`.
   *
   * Rejects with `ERR_HANDLER_FAILED` when the handler caused the rollback, for example by violating a constraint that is
   * checked at COMMIT. Rejects with a `PermanentError` when the handler ended the transaction itself: its later statements
   * may have taken effect, and another attempt might repeat them.
   */
  transaction?(lease: Lease, effect: (tx: Tx) => Awaitable<void>): Awaitable<boolean>;

  /**
   * Runs an effect, which always rejects, in a transaction like a first attempt's, and rolls it back. Rejects with the
   * effect's error. Only in inboxes with {@link transaction}.
   */
  rehearse?(effect: (tx: Tx) => Awaitable<never>, options: { readonly leaseMs: number }): Awaitable<void>;

  /**
   * Ends a failed attempt: the event is due again after `retryAfterMs`, or `dead` when that is `null`. Returns `false`,
   * without any change, when the lease is lost. The next event of the key becomes due as in {@link complete}.
   *
   * With `later`, the attempt has not failed and does not count: the event becomes `received`, due after `retryAfterMs`,
   * with one attempt less. If it was first received `maxAgeMs` ago or longer, it becomes `dead` instead, and the answer
   * is `'dead'`.
   */
  fail(lease: Lease, options: FailOptions): Awaitable<boolean | 'dead'>;

  /**
   * Returns the steps of the event of a lease, in the order in which they were stored, or `null` when the lease is lost.
   * Only in inboxes that store steps, together with {@link saveStep}.
   */
  readSteps?(lease: Lease): Awaitable<readonly InboxStep[] | null>;

  /**
   * Stores a step's result: JSON, or empty for `undefined`. `null` stores that it has begun; `undefined` removes
   * this mark. Durable when it resolves, and outside of any transaction of the handler.
   *
   * Returns `false`, without any change, when the lease is lost, the step has a result, or it has begun before (for `null`).
   * It neither waits for a lock on the event nor takes one.
   */
  saveStep?(lease: Lease, name: string, result: string | null | undefined): Awaitable<boolean>;

  /**
   * Records events without running them: a page of up to 200 in one round trip. Returns a result for each, in order.
   *
   * New events become `received`, due after `dueInMs` (0 or less: now), or `parked` when that is `null`. Existing
   * events do not change: the first record of an id stays. An id that occurs twice in a page is new once.
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
   * Records events without a handler in this process, as {@link record} does. Returns a result for each, in order.
   *
   * New events become `done` without an attempt. Existing events do not change, whatever their state: a process that has
   * the handler may run them.
   */
  ignore(events: readonly UnknownEvent[], options: StoreOptions): Awaitable<readonly RecordResult[]>;

  /**
   * Takes up to `limit` due events of the given `types`, the longest due first, and makes them `received`, ready to be
   * claimed. Their attempts stay. Events are due if they are `received` or `failed` and their time has come, `leased` with an
   * expired lease (whose token becomes invalid), or `parked`. The claim decides about ordering keys.
   *
   * Atomic. The returned events are not due for `visibilityTimeoutMs`, so two callers never receive the same event.
   */
  takeDue(options: {
    readonly limit: number;
    readonly visibilityTimeoutMs: number;
    readonly types: readonly string[];
  }): Awaitable<readonly StoredEvent[]>;

  /** Returns the note of this name, or `null` before it is first written. */
  readNote(name: string): Awaitable<string | null>;

  /**
   * Writes a note: text without NUL or lone surrogates, such as JSON, which only its owner understands.
   * With `holder`, returns `false`, without any change, unless this holder was the last to lease the note: one atomic operation.
   */
  writeNote(name: string, text: string, fence?: { readonly holder: string }): Awaitable<boolean>;

  /**
   * Acquires or renews the lease of a note, or releases it when `leaseMs` is 0, and leaves the text as it is.
   * Returns `false`, without any change, while another holder has it.
   */
  leaseNote(name: string, options: { readonly holder: string; readonly leaseMs: number }): Awaitable<boolean>;
}

/** The note with the poller's state, whose lease is the right to poll. */
export const POLL_NOTE = 'poll';

/** One attempt at an event. Times are epoch ms by the inbox's clock. */
export interface InboxAttempt {
  /** The number of the attempt, from 1; 0 for an event that a person changed before its first. */
  readonly attempt: number;
  readonly startedAt: number;
  /** Equal to `startedAt` for a first attempt that succeeded in a transaction, because that is stored when it begins. */
  readonly endedAt: number;
  /**
   * `later`: the handler threw `RetryLater`, and the attempt does not count. `lapsed`: its lease expired before it was
   * completed or failed. `discarded`, `requeued`: a person ended the event, or made it due.
   */
  readonly result: 'done' | 'failed' | 'dead' | 'later' | 'lapsed' | 'discarded' | 'requeued';
  /** Why it failed, or has to run later; `null` for other results. */
  readonly error: string | null;
  /** Who discarded or requeued the event. Only in these results, as `reason`. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** An event as the inbox has it. Times are epoch ms by the inbox's clock. */
export interface InboxRecord {
  readonly id: string;
  /** Empty for an id that was imported. */
  readonly type: string;
  readonly state: InboxState;
  /** How often it was claimed since it was received or last requeued. */
  readonly attempts: number;
  /** Where it first came from; `import` for an id that {@link InboxOperations.importDone} brought in. */
  readonly origin: Origin | 'import';
  /** The ordering key that it was stored or last claimed with, or `null`. */
  readonly key: string | null;
  readonly receivedAt: number;
  /** When its state last changed. A received event that is taken or enqueued again stays received. */
  readonly updatedAt: number;
  /** When it runs again, or its lease expires; `null` when it is done, dead or parked. */
  readonly dueAt: number | null;
  /** Why the last attempt failed, or asked for a later one; `null` for neither. */
  readonly lastError: string | null;
  /** Whether it is done without an attempt, because the process that received it had no handler. Pruned events are not. */
  readonly ignored: boolean;
  /** The last 10 attempts that have ended, oldest first; empty once it is pruned. */
  readonly history: readonly InboxAttempt[];
  /**
   * The event, or `null` if it was pruned or imported, or if its stored text cannot be read, for example after a disk failure.
   * An event that cannot be read runs only when it is delivered again.
   */
  readonly event: UnknownEvent | null;
}

/**
 * Selects the events that meet every given condition. A condition that is `undefined` is refused. Times are epoch ms by the
 * inbox's clock.
 */
export interface InboxFilter {
  readonly ids?: readonly string[] | undefined;
  readonly state?: InboxState | undefined;
  readonly type?: string | undefined;
  /** The ordering key. */
  readonly key?: string | undefined;
  /** Received at this time or later. */
  readonly receivedSince?: number | undefined;
  /** Received before this time. */
  readonly receivedUntil?: number | undefined;
  /** Last changed at this time or later: a dead event has been dead since then. */
  readonly updatedSince?: number | undefined;
  /** Last changed before this time. */
  readonly updatedUntil?: number | undefined;
  /** Due before this time, or with a lease that ends before it. */
  readonly dueUntil?: number | undefined;
  /** A part of the last error, case-sensitive. */
  readonly error?: string | undefined;
  /** Only events that were ignored. They are done. */
  readonly ignored?: true | undefined;
}

/** How many events are in a state, and since when the oldest has been in it. */
export interface InboxCount {
  readonly state: InboxState;
  readonly count: number;
  /** Epoch ms; `null` for no events, and for `done`. */
  readonly oldest: number | null;
}

/**
 * Operations for operators; the receiver and the poller do not call them.
 *
 * Methods with options reject with a `ConfigError` (`ERR_CONFIG_INVALID`), before anything is read or changed, when an
 * option is missing, unknown or makes no sense.
 */
export interface InboxOperations {
  /** One event's record, or `undefined`. */
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
    },
  ): Promise<readonly InboxRecord[]>;
  /** One entry per state, in the order of {@link INBOX_STATES}. Without a filter it takes the shortest time. */
  count(filter?: InboxFilter): Promise<readonly InboxCount[]>;
  /** The steps that the handler of an event has stored, in that order; none once it is pruned. */
  steps(id: string): Promise<readonly InboxStep[]>;
  /**
   * Makes `dead` and `failed` events, or with `ignored` only ignored ones, `received` and due now, with their attempts counted
   * from 0. The same applies to `leased` events whose lease has expired or was written by a clock that was ahead, and with
   * `force` to all of them. Other
   * events do not change. Resolves to how many it requeued: with an id 1 or 0; with a filter at most `limit`, those that were
   * received first.
   *
   * An event with a step that began and recorded no result does not change, unless `steps` states for each such step
   * whether its effect happened: `done` (the step then returns `undefined`) or `again`. Other steps are left as they are.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when `steps` is given without one id in `ids`.
   */
  requeue(
    which:
      | string
      | (InboxFilter & {
          /** At most 10,000. @default 1_000 */
          readonly limit?: number | undefined;
          /** For one id: what happened to steps without a result. @default none */
          readonly steps?: Readonly<Record<string, 'done' | 'again'>> | undefined;
          /** Who requeues them, for their history; truncated to 1,000 characters, as the reason. @default not recorded */
          readonly by?: string | undefined;
          /** Why. Only with `by`. */
          readonly reason?: string | undefined;
          /**
           * Whether to end leases that have not expired. Their handlers may still be running, so effects may happen twice.
           * @default false
           */
          readonly force?: boolean | undefined;
        }),
  ): Promise<number>;
  /**
   * Ends events that must not run: `received`, `failed`, `dead` and `parked` ones become `done`, and their history says
   * who discarded them and why, until it is pruned. Later deliveries are duplicates. A leased event changes only when its
   * lease has expired or was written by a clock that was ahead, or with `force`: its handler may be running. Resolves to how
   * many it discarded: at most `limit`, those that were received first. At least one condition of the filter must be given.
   */
  discard(
    options: InboxFilter & {
      /** Who discards them; truncated to 1,000 characters, as the reason. */
      readonly by: string;
      readonly reason: string;
      /** At most 10,000. @default 1_000 */
      readonly limit?: number | undefined;
      /** Whether to end leases that have not expired. The effects of their handlers may still happen. @default false */
      readonly force?: boolean | undefined;
    },
  ): Promise<number>;
  /**
   * Records ids as `done` without their events, such as the ids that an older handler has processed: their deliveries
   * are duplicates. Ids that the inbox has do not change. Resolves to how many were new. A call that failed can be
   * repeated.
   */
  importDone(ids: readonly string[]): Promise<number>;
  /**
   * Removes the JSON, the history and the steps of events that have been `done` for `olderThanMs`. Their ids are kept, so a
   * replay is still a duplicate. Resolves to how many it pruned.
   */
  prune(options: { readonly olderThanMs: number }): Promise<number>;
}

/** A durable queue in front of workers that call `receiver.handle`. */
export interface Queue {
  /**
   * Puts an event into the queue, and resolves once it is durably stored there. Keyed by `event.id`: a waiting or running
   * event is not enqueued twice, and an event whose job has finished can be enqueued again.
   */
  enqueue(
    event: UnknownEvent,
    options?: {
      /** The event's JSON as it arrived, to be passed on unchanged. @default the event serialized */
      readonly json?: string | undefined;
      /** The trace context to pass on with the event, as a W3C `traceparent`. @default none */
      readonly traceparent?: string | undefined;
    },
  ): Promise<void>;
}

/** Receives the lines for operators. `console` and the loggers of pino, Fastify and winston fit as they are. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}
