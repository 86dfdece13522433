/** The state of the poller between polls, which it keeps in a note of the inbox. */
import type { Awaitable } from '../core/awaitable.js';
import { type Inbox, POLL_NOTE } from '../core/ports.js';

/**
 * Why events of a span may be missing.
 *
 * - `unconfirmed`: the list may be complete, or cut off at the service's maximum: no larger answer was seen.
 * - `not-reached`: the list shows its newest events, and begins after the previously proven span.
 * - `oldest-first`: the list shows its oldest events, and lacks others.
 * - `no-order`: the list lacks events, and its order is not confirmed.
 * - `filtered-late`: the service filters by type only after it has cut the list.
 * - `contradiction`: an answer lacks an event that another answer of the same poll has.
 * - `removed`: events of the span may have left the list before a poll saw them.
 * - `unlisted`: the list lacks events of the span that were pushed.
 * - `late`: events of the span were listed later than the poller's `lagMs`, and the list was not read further back.
 * - `malformed`: an element of the list is not an event.
 * - `no-answer`: a request failed.
 * - `not-stored`: the inbox refuses the event of the gap.
 * - `clock`: the watermark was in the future.
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

/** An event that the inbox refuses, and the code of the driver's error: such as `22P05`, or that of this package without one. */
export interface RefusedEvent {
  readonly id: string;
  readonly error: string;
}

/** A span of `created_at` before the watermark in which events may be missing from the inbox. Times are epoch ms. */
export interface StoredGap {
  /** The span begins after this time. */
  readonly from: number;
  /** The span's end, inclusive, for each type of which events may be missing. */
  readonly until: Readonly<Record<string, number>>;
  readonly reason: GapReason;
  /** The event that the inbox refuses, if the gap is about one. It closes when the inbox has the event. */
  readonly event?: RefusedEvent | undefined;
  /** When the poll that opened it started. */
  readonly openedAt: number;
  /** The person who acknowledged the gap without proof, the reason and the time; `null` while it is open. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: number } | null;
}

/** The oldest event of the list when it was last known to be complete and no gap was open. Times are epoch ms. */
export interface OldestListed {
  /** When it was created; `null` if the list was cut at every poll. */
  readonly at: number | null;
  /** When the list had it. */
  readonly seenAt: number;
}

/** An event that the list showed. `at`: when it was created, epoch ms. */
export interface KnownEvent {
  readonly id: string;
  readonly type: string;
  readonly at: number;
}

/** Facts that the answers of the list have shown over all polls. */
export interface SeenAnswers {
  /** The number of different events in the largest answer to a query for all types. */
  readonly all: number;
  /** The number in the largest answer to a query for one type. */
  readonly type: number;
  /** Whether an answer contradicted the poller's `listMax`, which then no longer counts. */
  readonly listMaxRefuted: boolean;
  /** Events that the last list showed, and that the next one must show again. @default none */
  readonly known?: readonly KnownEvent[] | undefined;
  /**
   * When the oldest event of all lists was created, or up to when the first one could be judged if it was empty, epoch ms.
   * Whether the service keeps older events is not shown. @default the start date
   */
  readonly shownFrom?: number | undefined;
  /**
   * Known events that the list lacks although it keeps older ones. Until it shows them again, it proves nothing up to
   * `until`, epoch ms. @default none
   */
  readonly lost?:
    | {
        readonly events: readonly KnownEvent[];
        readonly until: number;
        /** `unlisted`: push brought some of them, and no list has shown them. @default 'removed' */
        readonly reason?: 'unlisted' | undefined;
      }
    | undefined;
  /** `late`: the service filters by type only after it has cut the list; `ignored`: not at all. @default neither was seen */
  readonly filterFails?: 'late' | 'ignored' | undefined;
}

/** A span that is proven as soon as a larger answer shows that the list was not cut. Times are epoch ms. */
export interface Unconfirmed {
  /** The span begins after this time. */
  readonly from: number;
  /** The span's end, inclusive. A gap contains what is left of it. */
  readonly until: number;
  /** An answer with more events confirms the span; `null` if the poller's own limit may have cut the list off. */
  readonly size: number | null;
}

/** A poll that had the lease, and what kept it from reading the list and recording its events. Times are epoch ms. */
export interface LastAttempt {
  /** When it started. */
  readonly at: number;
  /** The code of the error. @default it succeeded */
  readonly error?: string | undefined;
  /** The error in words, without secrets. */
  readonly message?: string | undefined;
  /** The start of the first of the failed attempts without a success between them. */
  readonly failingSince?: number | undefined;
}

/** The state of the catch-up poller between polls. Times are epoch ms. */
export interface PollState {
  /** The start date: events created before it are neither recorded nor handled; `null` before the first poll. */
  readonly since: number | null;
  /**
   * Every event of the known types created from the start date up to this time is in the inbox, except in the gaps.
   * `null` before the first answer of the list.
   */
  readonly watermark: number | null;
  /** Ordered by when they were opened. */
  readonly gaps: readonly StoredGap[];
  /** The limit that sufficed at the last poll; 0 before the first success. */
  readonly limit: number;
  /** Shows whether the service removes events from its list; `null` until the list has had an event. */
  readonly oldest: OldestListed | null;
  /** @default no answer was seen */
  readonly seen?: SeenAnswers | undefined;
  /** The span that a larger answer would confirm. @default none */
  readonly unconfirmed?: Unconfirmed | null | undefined;
  /** The codes of what made the last poll doubtful. @default none */
  readonly doubts?: readonly string[] | undefined;
  /** The last poll, whether it succeeded or failed. @default none was tried */
  readonly lastAttempt?: LastAttempt | undefined;
}

/** The poller's state before the first poll. */
export const EMPTY_POLL_STATE: PollState = { since: null, watermark: null, gaps: [], limit: 0, oldest: null };

/** The state that the poller saved last; {@link EMPTY_POLL_STATE} before the first poll. Takes no lease. */
export async function readPollState(inbox: Pick<Inbox, 'readNote'>): Promise<PollState> {
  const note = await inbox.readNote(POLL_NOTE);
  return note === null ? EMPTY_POLL_STATE : (JSON.parse(note) as PollState);
}

/** Saves the state. With `holder`, returns `false`, without any change, unless this holder had the poll lease last. */
export const writePollState = (
  inbox: Pick<Inbox, 'writeNote'>,
  state: PollState,
  fence?: { readonly holder: string },
): Awaitable<boolean> => inbox.writeNote(POLL_NOTE, JSON.stringify(state), fence);
