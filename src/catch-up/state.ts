/** The state of the poller between polls, which the inbox stores as a note. */
import type { Awaitable } from '../core/awaitable.js';
import { type Inbox, POLL_NOTE } from '../core/ports.js';

/**
 * Why events may be missing in a span. In these descriptions, the list is the service's event list.
 *
 * - `unconfirmed`: the list is either complete or cut off at the service's maximum, and no larger response has shown
 *   which is the case.
 * - `not-reached`: the list contains only its newest events, which don't reach back to the span that is already proven.
 * - `oldest-first`: the list contains only its oldest events.
 * - `no-order`: the list is incomplete, and its order is not confirmed.
 * - `filtered-late`: the service cuts off the list before it filters by type.
 * - `contradiction`: an event is missing from one response, but another response in the same poll contains it.
 * - `removed`: the service may have removed events from the list before a poll saw them.
 * - `unlisted`: events that were pushed are missing from the list.
 * - `late`: events were listed later than the poller's `lagMs` allows, and the list was not read that far back.
 * - `malformed`: an element of the list is not a valid event.
 * - `no-answer`: a request to the list failed, or the events could not be stored.
 * - `not-stored`: the inbox refuses to store the event.
 * - `clock`: the watermark or the start date was in the future.
 */
export type GapReason =
  | 'unconfirmed'
  | 'not-reached'
  | 'oldest-first'
  | 'no-order'
  | 'filtered-late'
  | 'contradiction'
  | 'removed'
  | 'unlisted'
  | 'late'
  | 'malformed'
  | 'no-answer'
  | 'not-stored'
  | 'clock';

/**
 * An event that the inbox refuses to store. `error` is the code of the driver's error, such as `22P05`, or an error
 * code of this package if the driver has none.
 */
export interface RefusedEvent {
  readonly id: string;
  readonly error: string;
}

/**
 * A span of time before the watermark. Events that were created in this span may be missing from the inbox. Times are
 * in epoch ms.
 */
export interface StoredGap {
  /** The span begins after this time. */
  readonly from: number;
  /** The end of the span, inclusive, for each type of event that may be missing. */
  readonly until: Readonly<Record<string, number>>;
  readonly reason: GapReason;
  /** Set if the gap is about a single event that the inbox refuses to store. Once the event is stored, the gap closes. */
  readonly event?: RefusedEvent | undefined;
  /** When the poll that opened the gap started. */
  readonly openedAt: number;
  /** Who acknowledged the gap without proof, when and why; `null` while the gap is open. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: number } | null;
}

/**
 * The oldest event in the service's event list as of the last poll that saw the complete list and left no gap open.
 * Times are in epoch ms.
 */
export interface OldestListed {
  /** When the event was created; `null` if the list was cut off at every poll. */
  readonly at: number | null;
  /** When a poll saw the event in the list. */
  readonly seenAt: number;
}

/** An event that was listed or pushed before. `at` is when the event was created, in epoch ms. */
export interface KnownEvent {
  readonly id: string;
  readonly type: string;
  readonly at: number;
}

/** What the poller has learned from the responses of the service's event list in all polls so far. */
export interface SeenAnswers {
  /** The number of different events in the largest response to a query for all types. */
  readonly all: number;
  /** The number of different events in the largest response to a query for one type. */
  readonly type: number;
  /** Whether a response contradicted the poller's `listMax`. If so, the poller ignores `listMax`. */
  readonly listMaxRefuted: boolean;
  /** Events that were listed at the last poll and that must be listed at the next poll as well. @default none */
  readonly known?: readonly KnownEvent[] | undefined;
  /**
   * The creation time of the oldest event that was ever listed, in epoch ms. If the first poll found an empty list,
   * this is the time up to which that poll could judge the list. Whether the service keeps older events is unknown.
   * @default the start date
   */
  readonly shownFrom?: number | undefined;
  /**
   * Known events that are missing from the list although the list contains older events. Until these events reappear,
   * the list proves nothing about events created up to `until`, in epoch ms. @default none
   */
  readonly lost?:
    | {
        readonly events: readonly KnownEvent[];
        readonly until: number;
        /** `unlisted` means that some of these events were pushed but never listed. @default 'removed' */
        readonly reason?: 'unlisted' | undefined;
      }
    | undefined;
  /**
   * `late`: the service cuts off the list before it filters by type. `ignored`: the service doesn't filter by type.
   * @default neither has happened
   */
  readonly filterFails?: 'late' | 'ignored' | undefined;
}

/** A span that is proven as soon as a larger response shows that the list was not cut off. Times are in epoch ms. */
export interface Unconfirmed {
  /** The span begins after this time. */
  readonly from: number;
  /** The end of the span, inclusive. A gap covers the part that has not been proven yet. */
  readonly until: number;
  /** A response with more events than this confirms the span; `null` if the poller's limit may have cut off the list. */
  readonly size: number | null;
}

/** The last poll that held the lease. Times are in epoch ms. */
export interface LastAttempt {
  /** When the poll started. */
  readonly at: number;
  /** The error code, if the poll could not read the list or record events. @default none: the poll succeeded */
  readonly error?: string | undefined;
  /** The error message, without secrets. */
  readonly message?: string | undefined;
  /** When the first poll in the current series of failed polls started. */
  readonly failingSince?: number | undefined;
}

/** The state of the catch-up poller between polls. Times are in epoch ms. */
export interface PollState {
  /** The start date; `null` before the first poll. Events created before this date are neither recorded nor handled. */
  readonly since: number | null;
  /**
   * No event of the known types that was created between the start date and this time is missing from the inbox, except
   * in the gaps. `null` until the list has responded for the first time.
   */
  readonly watermark: number | null;
  /** The gaps, in the order in which they were opened. */
  readonly gaps: readonly StoredGap[];
  /** The `limit` that was sufficient at the last poll; 0 if that poll failed, or before the first poll. */
  readonly limit: number;
  /** Lets the poller notice when the service removes listed events; `null` until an event has been listed. */
  readonly oldest: OldestListed | null;
  /** What the poller has learned from the list's responses. @default nothing yet */
  readonly seen?: SeenAnswers | undefined;
  /** The span that a response with more events would confirm. @default none */
  readonly unconfirmed?: Unconfirmed | null | undefined;
  /** The codes of the problems that made the last poll doubtful. @default none */
  readonly doubts?: readonly string[] | undefined;
  /** The last poll, whether it succeeded or failed. @default no poll yet */
  readonly lastAttempt?: LastAttempt | undefined;
}

/** The poller's state before the first poll. */
export const EMPTY_POLL_STATE: PollState = { since: null, watermark: null, gaps: [], limit: 0, oldest: null };

/** Reads the last saved state, or {@link EMPTY_POLL_STATE} before the first poll. Doesn't acquire the poll lease. */
export async function readPollState(inbox: Pick<Inbox, 'readNote'>): Promise<PollState> {
  const note = await inbox.readNote(POLL_NOTE);
  return note === null ? EMPTY_POLL_STATE : (JSON.parse(note) as PollState);
}

/**
 * Saves the state. If you pass a `holder`, the state is saved only if that holder was the last to acquire the poll
 * lease. If another holder has acquired the lease since, the result is `false`.
 */
export const writePollState = (
  inbox: Pick<Inbox, 'writeNote'>,
  state: PollState,
  fence?: { readonly holder: string },
): Awaitable<boolean> => inbox.writeNote(POLL_NOTE, JSON.stringify(state), fence);
