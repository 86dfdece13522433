/**
 * The ports. An `Inbox` stores the events of push and pull by `event.id`, so that each takes effect once. A `Queue`
 * passes events to workers. A `Logger` takes the lines for operators.
 *
 * Callers pass durations and the inbox has the clock, so that the clocks of several machines need not agree.
 * Methods reject only with what the driver threw; the receiver turns that into `ERR_INBOX_FAILED`.
 */
import type { Awaitable } from './awaitable.js';
import type { UnknownEvent } from './events.js';

/**
 * The state of an event.
 *
 * - `received`: recorded and not run yet, or taken to be run again; it can be claimed at any time, unless another event
 *   of its ordering key is leased.
 * - `leased`: one process runs it, under a fencing token, until the lease lapses.
 * - `done`: it was handled. Its id is kept permanently, also when the event is pruned.
 * - `failed`: the last attempt failed; it runs again at its retry time, and not before.
 * - `dead`: dead-lettered, until a person requeues it.
 * - `parked`: its type was unknown when it was received.
 */
export type InboxState = 'received' | 'leased' | 'done' | 'failed' | 'dead' | 'parked';

/** Every {@link InboxState}, in the order in which an event can pass through them. */
export const INBOX_STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];

/** Where an event came from: a signed delivery, the list, a queue's worker, or `redrive`. */
export type Origin = 'push' | 'pull' | 'queue' | 'redrive';

/** The right to complete or fail one attempt. */
export interface Lease {
  readonly id: string;
  /** The fence: once another process has claimed the event, this token changes nothing. */
  readonly token: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** The ordering key that the event was claimed with. */
  readonly key?: string | undefined;
  /** The trace context that the event was first recorded with, whoever claims it; `undefined` if there was none. */
  readonly traceparent?: string | undefined;
}

/**
 * The result of a claim: the lease, or what prevents one. `leased`, `failed`, `done` and `dead` are the event's own
 * state; `waiting` says that another event of its ordering key is leased.
 */
export type Claim =
  | { readonly state: 'claimed'; readonly lease: Lease }
  | { readonly state: 'done' }
  | { readonly state: 'dead' }
  | {
      readonly state: 'leased' | 'failed' | 'waiting';
      /** How long until the other lease lapses, or until the event's retry time, in ms; at least 1. */
      readonly retryAfterMs: number;
    };

/** The result of recording an event: `new`, or the state in which the inbox already had it. */
export type RecordResult = 'new' | InboxState;

/**
 * Why events of a span can be missing.
 *
 * - `not-reached`: the list is cut, and what it shows begins after what was proven before.
 * - `window-too-short`: the list is cut, and all that it shows is so new that more can still be listed.
 * - `oldest-first`: the list is cut, and shows its oldest events.
 * - `no-order`: the list is cut, and shows no order.
 * - `filtered-late`: the service filters by type only after it has cut the list.
 * - `contradiction`: an answer lacks an event that another answer of the same poll has.
 * - `removed`: the service has removed events from the list.
 * - `malformed`: an element of the list is not an event.
 * - `no-answer`: a request failed.
 * - `clock`: the watermark was in the future.
 */
export type GapReason =
  | 'not-reached'
  | 'window-too-short'
  | 'oldest-first'
  | 'no-order'
  | 'filtered-late'
  | 'contradiction'
  | 'removed'
  | 'malformed'
  | 'no-answer'
  | 'clock';

/** A span of `created_at` before the watermark for which it is not proven that every event is in the inbox. Times are epoch ms. */
export interface StoredGap {
  /** The span begins after this time. */
  readonly from: number;
  /** For each type of which events can be missing, the end of the span; an event created then can be missing, too. */
  readonly until: Readonly<Record<string, number>>;
  readonly reason: GapReason;
  /** When the poll that opened it started. */
  readonly openedAt: number;
  /** Events created up to here can have been removed from the list: a complete list does not prove this part. */
  readonly removedUntil?: number | undefined;
  /** Who accepted it without a proof, why and when; `null` while it is open. Such a gap is kept as a record. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: number } | null;
}

/** The oldest event that the list had when it was last known whole. Times are epoch ms. */
export interface OldestListed {
  /** When it was created; `null` if the list was cut at every poll. */
  readonly at: number | null;
  /** When the list had it. */
  readonly seenAt: number;
}

/** What the catch-up poller keeps between polls. Times are epoch ms. */
export interface PollState {
  /** The opening date: events created before it are neither recorded nor handled; `null` before the first poll. */
  readonly since: number | null;
  /**
   * Every event of the known types created from the opening date up to this time is in the inbox, except in the gaps;
   * `null` before the list has answered.
   */
  readonly watermark: number | null;
  /** Ordered by when they were opened. */
  readonly gaps: readonly StoredGap[];
  /** The limit that sufficed at the last poll; 0 before one did. */
  readonly limit: number;
  /** What shows that the service removes events from its list; `null` before the list had any. */
  readonly oldest: OldestListed | null;
}

/** The poller's state before the first poll. */
export const EMPTY_POLL_STATE: PollState = { since: null, watermark: null, gaps: [], limit: 0, oldest: null };

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
  /**
   * The trace context to store with the event if it is new, as a W3C `traceparent`: printable ASCII, of usually 55
   * characters. The inbox does not check it, stores it as it is, and never changes it. @default none
   */
  readonly traceparent?: string | undefined;
}

/** An event, and its JSON as it is stored. */
export interface StoredEvent {
  readonly event: UnknownEvent;
  readonly json: string;
}

/** How events are stored that are not claimed at the same time. */
export interface StoreOptions {
  readonly origin: Origin;
  /** The JSON of each event as it arrived, in the same order, to be stored unchanged. @default the events serialized */
  readonly json?: readonly string[] | undefined;
  /** The trace context of new events, as in {@link ClaimOptions}. @default none */
  readonly traceparent?: string | undefined;
}

/** Where events are recorded, claimed and remembered. */
export interface Inbox<Tx = undefined> {
  /** Whether stored events survive the end of this process. */
  readonly durable: boolean;

  /**
   * Claims an event, so that only one process runs it: records and leases it in one atomic round trip.
   *
   * Of any number of simultaneous claims exactly one is answered `claimed`. An event can be claimed unless it is
   * `done`, `dead`, under a lease that has not lapsed, or `failed` and not due yet. A claim that is not answered
   * `claimed` uses up no attempt, whoever repeats a captured delivery, and unless it is answered `waiting` it changes
   * nothing.
   *
   * With a `key`, of any number of simultaneous claims of its events at most one is answered `claimed`, and none while
   * another event of the key is under a lease that has not lapsed. An event that could be claimed otherwise is answered
   * `waiting`: it is stored as `received` and waits for that lease. It is due when that lease ends: at its lapse at the
   * latest, and immediately when its event is completed or failed and no other event of the key that waits was created
   * earlier. A lease of the key that has lapsed is lost when another event of the key is claimed, and its event waits as
   * well. The key is stored with the event. A claim replaces it, as after a change of the app's function.
   */
  claim(event: UnknownEvent, options: ClaimOptions): Awaitable<Claim>;

  /**
   * Marks the event done; `false` when the lease is lost, and then nothing has changed.
   *
   * If the lease has a key, the event that waits for it and was created first is due in the same step; of those that
   * were created at the same time, the one that was received first.
   */
  complete(lease: Lease): Awaitable<boolean>;

  /**
   * Runs the effect in a transaction and marks the event done in the same one, fenced by the token.
   *
   * Only in inboxes that have transactions; it then replaces {@link complete}. `false` when the lease is lost, and
   * then the effect is rolled back; a rejection of `effect` rolls back and passes through. The
   * transaction lives as long as `effect`; where its library allows, it refuses later statements.
   *
   * Rejects with `ERR_HANDLER_FAILED` when the handler is the reason that nothing was committed, such as a constraint that
   * failed at COMMIT, and with a `PermanentError` when the handler ended the transaction itself, so that what it wrote
   * afterwards may have taken effect: another attempt could double it.
   */
  transaction?(lease: Lease, effect: (tx: Tx) => Promise<void>): Promise<boolean>;

  /**
   * Ends an attempt that failed: the event is due again after `retryAfterMs`, or `dead` when that is `null`.
   * `false` when the lease is lost, and then nothing has changed. The next event of its key is due as in
   * {@link complete}: an event that failed does not keep its key.
   */
  fail(
    lease: Lease,
    options: {
      /** In ms; `null` dead-letters the event. */
      readonly retryAfterMs: number | null;
      /** For operators; truncated to 1,000 characters. */
      readonly error: string;
    },
  ): Awaitable<boolean>;

  /**
   * Records events without running them, a whole page in one round trip, and answers for each, in order.
   *
   * New events become `received`, due after `dueInMs` (0 or less: now), or `parked` when that is `null`. Events that
   * are already there do not change: the first record of an id stays. An id twice in one page is new once.
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
   * Records events that this process has no handler for, a whole page in one atomic step, and answers for each, in
   * order.
   *
   * New events become `done` without an attempt. Events that are already there do not change, whatever their state:
   * a process that has the handler may run them.
   */
  ignore(events: readonly UnknownEvent[], options: StoreOptions): Awaitable<readonly RecordResult[]>;

  /**
   * Takes up to `limit` events that are due, the longest due first: `received`, `failed`, `leased` whose lease has
   * lapsed (the old token then changes nothing), and `parked`. Only events of `types` are taken: those that the caller
   * dispatches. All of them become `received`, so that they can be claimed; their attempts stay. Ordering keys do not
   * matter here: the claim decides about them.
   *
   * Atomic. The events it took are not due for `visibilityTimeoutMs`, so that two callers never take the same one. An
   * event whose stored text cannot be read is taken like the others and left out of the answer: it keeps no other event
   * from running. `onDamaged` is called with its id.
   */
  takeDue(options: {
    readonly limit: number;
    readonly visibilityTimeoutMs: number;
    readonly types: readonly string[];
    /** @default damaged events are left out silently */
    readonly onDamaged?: ((id: string) => void) | undefined;
  }): Awaitable<readonly StoredEvent[]>;

  /**
   * Acquires the lease to poll and reads the poller's state in one round trip; `null` while another holder has the
   * lease. The same holder can acquire it again.
   */
  acquirePoll(options: { readonly holder: string; readonly leaseMs: number }): Awaitable<PollState | null>;

  /**
   * Saves the poller's state and renews the lease, or releases it when `leaseMs` is 0.
   * `false` when another holder has it, and then nothing has changed.
   */
  savePoll(
    state: PollState,
    options: { readonly holder: string; readonly leaseMs: number },
  ): Awaitable<boolean>;
}

/** One attempt at an event. Times are epoch ms by the inbox's clock. */
export interface InboxAttempt {
  /** Which attempt it was, from 1; 0 for an event that was discarded before its first. */
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt: number;
  /** `lapsed`: its lease ended before it was completed or failed. `discarded`: a person ended the event. */
  readonly result: 'done' | 'failed' | 'dead' | 'lapsed' | 'discarded';
  /** Why it failed, or `null`. */
  readonly error: string | null;
  /** Who discarded the event. Only where `result` is `discarded`, as `reason`. */
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** An event as the inbox has it. Times are epoch ms by the inbox's clock. */
export interface InboxRecord {
  readonly id: string;
  /** Empty for an id that was imported. */
  readonly type: string;
  readonly state: InboxState;
  /** How often it was claimed since it was received or requeued. */
  readonly attempts: number;
  /** Where it first came from; `import` for an id that {@link InboxOperations.importDone} brought in. */
  readonly origin: Origin | 'import';
  /** The ordering key that it was stored or last claimed with, or `null`. */
  readonly key: string | null;
  /** The trace context that it was first recorded with, or `null`; kept when it is pruned. */
  readonly traceparent: string | null;
  readonly receivedAt: number;
  readonly updatedAt: number;
  /** When it runs again, or its lease lapses; `null` when it is done, dead or parked. */
  readonly dueAt: number | null;
  /** Why the last attempt failed, or `null`. */
  readonly lastError: string | null;
  /** The last 10 attempts that have ended, oldest first; empty once it is pruned. */
  readonly history: readonly InboxAttempt[];
  /** The event; `null` once it is pruned, if it was imported, and if its stored text is damaged. */
  readonly event: UnknownEvent | null;
  /**
   * `true` if the stored text is not the JSON of an event, as after a failed disk or an edit by hand. Such an event runs
   * only when it is delivered again. Absent otherwise.
   */
  readonly damaged?: true | undefined;
}

/** Which events an operation is about: those that meet every condition that is given. Times are epoch ms by the inbox's clock. */
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
  /** A part of the last error; upper and lower case differ. */
  readonly error?: string | undefined;
  /** Only events that are {@link InboxRecord.damaged} and not done. */
  readonly damaged?: true | undefined;
}

/** How many events are in a state, and since when the oldest of them is. */
export interface InboxCount {
  readonly state: InboxState;
  readonly count: number;
  /** Epoch ms; `null` when there is none. */
  readonly oldest: number | null;
}

/**
 * What operators call; the receiver and the poller do not.
 *
 * Methods with options reject with a `ConfigError` (`ERR_CONFIG_INVALID`), before anything is read or changed, when an
 * option is missing, unknown or makes no sense.
 */
export interface InboxOperations {
  /** One event's record, or `undefined`. */
  find(id: string): Promise<InboxRecord | undefined>;
  /**
   * Records by `receivedAt`, then id: `limit` of them, and fewer only if there are no more. `after` is the id of the last
   * record seen; it need not meet the filter any more. Without `state`, the events of every state.
   *
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when the inbox does not have the event `after`, or not any more, as an
   * inbox that is not durable: start again without it.
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
  /** What the poller saved last, without its lease; {@link EMPTY_POLL_STATE} before the first poll. */
  pollState(): Promise<PollState>;
  /** The `holder` that acquired the lease to poll last, also if it has it no longer; `null` before the first. */
  lastPoller(): Promise<string | null>;
  /**
   * Makes `dead` and `failed` events `received` and due now, with their attempts counted from 0. Events in other states
   * do not change. Resolves to how many it requeued: with an id 1 or 0; with a filter at most `limit`, those that were
   * received first.
   */
  requeue(
    which:
      | string
      | (InboxFilter & {
          /** At most 10,000. @default 1_000 */
          readonly limit?: number | undefined;
        }),
  ): Promise<number>;
  /**
   * Ends events that must not run: `received`, `failed`, `dead` and `parked` ones become `done`, and their history says
   * who discarded them and why, until it is pruned. Later deliveries are duplicates. A leased event does not change,
   * because its handler may be running. Resolves to how many it discarded: at most `limit`, those that were received
   * first. At least one condition of the filter must be given.
   */
  discard(
    options: InboxFilter & {
      /** Who discards them; truncated to 1,000 characters, as the reason. */
      readonly by: string;
      readonly reason: string;
      /** At most 10,000. @default 1_000 */
      readonly limit?: number | undefined;
    },
  ): Promise<number>;
  /**
   * Records ids as `done` without their events, such as the ids that an older handler has processed: their deliveries
   * are duplicates. Ids that the inbox has do not change. Resolves to how many were new. A call that failed can be
   * repeated.
   */
  importDone(ids: readonly string[]): Promise<number>;
  /**
   * Removes the JSON and the history of events that have been `done` for `olderThanMs`, and keeps their ids, so that
   * a replay is still a duplicate. Resolves to how many it pruned.
   */
  prune(options: { readonly olderThanMs: number }): Promise<number>;
}

/** A durable queue in front of workers that call `receiver.handle`. */
export interface Queue {
  /**
   * Puts an event into the queue and resolves once it is durably there.
   *
   * Keyed by `event.id`: an event that is waiting or running is not put in twice. An event whose job has finished
   * can be put in again.
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

/** Takes the lines for operators: `console`, and the loggers of pino, Fastify, winston and others, fit as they are. */
export interface Logger {
  warn(message: string): void;
  error(message: string): void;
}
