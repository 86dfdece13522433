/**
 * The `Inbox` port: where push and pull meet, keyed by `event.id`, so that each event takes effect once.
 *
 * Durations come in and the inbox keeps the time, so that the clocks of many machines need not agree.
 * Methods reject only with what the driver threw; the receiver turns that into `ERR_INBOX_FAILED`.
 */
import type { UnknownEvent } from './events.js';

/**
 * Where an event stands.
 *
 * - `received`: recorded, waiting until it is due.
 * - `leased`: one process runs it until its lease lapses, under a fencing token.
 * - `done`: it took effect; the id is never forgotten, pruning included.
 * - `failed`: to be run again once it is due.
 * - `dead`: given up, until somebody requeues it.
 * - `parked`: of a type that no release knew when it came.
 */
export type InboxState = 'received' | 'leased' | 'done' | 'failed' | 'dead' | 'parked';

/** Every {@link InboxState}, in the order in which an event can pass through them. */
export const INBOX_STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];

/** Which way an event came in: a signed delivery, the list, a queue's worker, or a second run from the inbox. */
export type Origin = 'push' | 'pull' | 'queue' | 'redrive';

/** The right to settle one attempt. */
export interface Lease {
  readonly id: string;
  /** Fences: once another process has claimed the event, this token no longer settles anything. */
  readonly token: string;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
}

/** The answer to a claim: the lease, or why there is none. */
export type Claim =
  | { readonly state: 'claimed'; readonly lease: Lease }
  | { readonly state: 'done' }
  | { readonly state: 'dead' }
  | { readonly state: 'leased' /** Until the other lease lapses. */; readonly retryAfterMs: number };

/** What `record` found: `new`, or the state in which the event already was. */
export type RecordResult = 'new' | InboxState;

/** What the catch-up poller keeps between polls. */
export interface PollState {
  /** Every event of the known types created up to this time is in the inbox; epoch ms, `null` before any proof. */
  readonly watermark: number | null;
  /** The largest answer that the list ever gave; 0 before the first. */
  readonly largest: number;
}

/** How an event is claimed. */
export interface ClaimOptions {
  readonly leaseMs: number;
  readonly origin: Origin;
  /** The event's own JSON where it is at hand, to be kept as it is. @default written anew from the event */
  readonly json?: string | undefined;
}

/** Where events wait, are claimed, and are remembered. */
export interface Inbox<Tx = undefined> {
  /** Whether what it holds survives this process. */
  readonly durable: boolean;

  /**
   * Takes an event, so that only one process runs it: records or leases it in one atomic round trip.
   *
   * Of any number of simultaneous claims exactly one is answered `claimed`. Claimable is whatever is not
   * `done`, not `dead` and not under a lease that still runs: a `failed` event before it is due, too.
   */
  claim(event: UnknownEvent, options: ClaimOptions): Promise<Claim>;

  /** Marks the event done; `false` when the lease is lost, and then nothing changed. */
  complete(lease: Lease): Promise<boolean>;

  /**
   * Runs the effect in a transaction and marks the event done in the same one, fenced by the token.
   *
   * Only in inboxes that can; it then replaces {@link complete}. `false` when the lease is lost, and then
   * the effect was rolled back; a rejection of `effect` rolls back and passes through. A transaction that
   * ended refuses what a late handler still sends through it.
   */
  transaction?(lease: Lease, effect: (tx: Tx) => Promise<void>): Promise<boolean>;

  /**
   * Ends an attempt that failed: due again after `retryAfterMs`, or `dead` when that is `null`.
   * `false` when the lease is lost, and then nothing changed.
   */
  fail(
    lease: Lease,
    options: {
      readonly retryAfterMs: number | null /** For operators; cut at 1,000 characters. */;
      readonly error: string;
    },
  ): Promise<boolean>;

  /**
   * Records events without running them, a whole page in one round trip, and answers for each, in order.
   *
   * New ones become `received`, due after `dueInMs` (0 or less: now), or `parked` when that is `null`. Events already there
   * stay as they are: the first record of an id stands. An id twice in one page is new once.
   */
  record(
    events: readonly UnknownEvent[],
    options: { readonly dueInMs: number | null; readonly origin: Origin },
  ): Promise<readonly RecordResult[]>;

  /**
   * Takes up to `limit` events that are due, oldest due first: `received`, `failed`, `leased` whose lease
   * lapsed (now `failed`: the old token settles nothing), and `parked` of one of `types` (now `received`).
   *
   * Atomic, and what it took is not due for `visibilityTimeoutMs`, so that two callers never take the same event.
   */
  takeDue(options: {
    readonly limit: number;
    readonly visibilityTimeoutMs: number;
    readonly types: readonly string[];
  }): Promise<readonly UnknownEvent[]>;

  /**
   * Takes the lease to poll and reads the poller's state in one round trip; `null` while another holder's
   * lease runs. The same holder may take it again.
   */
  acquirePoll(options: { readonly holder: string; readonly leaseMs: number }): Promise<PollState | null>;

  /**
   * Keeps the poller's state and renews the lease, or gives it back when `leaseMs` is 0.
   * `false` when another holder has it, and then nothing changed.
   */
  savePoll(
    state: PollState,
    options: { readonly holder: string; readonly leaseMs: number },
  ): Promise<boolean>;
}

/** An event as the inbox remembers it. Times are epoch ms by the inbox's own clock. */
export interface InboxRecord {
  readonly id: string;
  readonly type: string;
  readonly state: InboxState;
  /** How often it was claimed since it came or was requeued. */
  readonly attempts: number;
  /** The way it first came in. */
  readonly origin: Origin;
  readonly receivedAt: number;
  readonly updatedAt: number;
  /** When it is run again, or its lease lapses; `null` once it is done, dead or parked. */
  readonly dueAt: number | null;
  /** Why the last attempt failed, or `null`. */
  readonly lastError: string | null;
  /** The event's own JSON as a value; `null` once pruned. */
  readonly event: UnknownEvent | null;
}

/** How many events are in a state, and since when the oldest of them has been there. */
export interface InboxCount {
  readonly state: InboxState;
  readonly count: number;
  /** Epoch ms; `null` when there is none. */
  readonly oldest: number | null;
}

/** What operators need beside {@link Inbox}; the receiver and the poller never call it. */
export interface InboxOperations {
  /** One event's record, or `undefined`. */
  find(id: string): Promise<InboxRecord | undefined>;
  /**
   * Records of one state, oldest first by `receivedAt`, then id; `after` is the id of the last one seen, which may
   * have left the state since.
   */
  list(options: {
    readonly state: InboxState;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<readonly InboxRecord[]>;
  /** One entry a state, in the order of {@link INBOX_STATES}. */
  count(): Promise<readonly InboxCount[]>;
  /** Makes a `dead` event `received` and due, its attempts counted anew; `false` when it was not dead. */
  requeue(id: string): Promise<boolean>;
  /**
   * Drops the events' JSON of what has been `done` for `olderThanMs`, and keeps the ids, so that a replay
   * stays a duplicate. Answers how many it pruned.
   */
  prune(options: { readonly olderThanMs: number }): Promise<number>;
}
