/** Gaps as people read them. */
import { countOf } from '../core/count.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { GapReason, RefusedEvent, StoredGap } from './state.js';

/** A span of `created_at` in which an event may be missing from the inbox. Times are ISO. */
export interface Gap {
  /**
   * `closed`: a later poll proved it. `acknowledged`: a person accepted it without proof. `unconfirmed`: nothing shows that
   * events are missing, and no larger answer that the list was complete.
   */
  readonly state: 'open' | 'closed' | 'acknowledged' | 'unconfirmed';
  /** The types of which events may be missing. */
  readonly types: readonly EventType[];
  /** Events created after this time may be missing. */
  readonly from: string;
  /** Events created after this time are not missing. */
  readonly until: string;
  readonly reason: GapReason;
  /** The event that the inbox refuses, if the gap is about one. */
  readonly event?: RefusedEvent | undefined;
  /** When the poll that opened it started. */
  readonly openedAt: string;
  /** Who accepted it without proof, why and when; `null` unless it is acknowledged. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: string } | null;
}

export function toGap({ from, until, reason, event, openedAt, acknowledged }: StoredGap): Gap {
  const open = reason === 'unconfirmed' ? 'unconfirmed' : 'open';
  return {
    state: acknowledged === null ? open : 'acknowledged',
    types: EVENT_TYPES.filter((type) => until[type] !== undefined),
    from: toIso(from),
    until: toIso(Math.max(...Object.values(until))),
    reason,
    ...(event && { event }),
    openedAt: toIso(openedAt),
    acknowledged: acknowledged && { ...acknowledged, at: toIso(acknowledged.at) },
  };
}

/** The last time of a `Date`, epoch ms (ECMA-262, 21.4.1.1). */
const MAX_TIME = 8.64e15;

/** ISO. A time outside the range of a `Date` becomes the nearest one within it. */
export function toIso(time: number): string {
  return new Date(Math.max(-MAX_TIME, Math.min(MAX_TIME, time))).toISOString();
}

/** Why events of a gap may be missing, and what to do. */
const REASONS: Readonly<Record<GapReason, string>> = {
  unconfirmed:
    "the list may have been cut off at exactly its size. A larger answer would settle that, as would the service's documented maximum",
  'not-reached':
    'the list shows its newest events, and they do not reach back far enough. Compare the books of the span with reconcile. If this happens without an outage, poll more often, lower lagMs or raise maxLimit',
  'oldest-first':
    'the list shows its oldest events and lacks others. Ask the service how to read the newest ones; until then rely on push',
  'no-order':
    'the list lacks events, and its order is not confirmed. Ask the service for the newest events first',
  'filtered-late': 'the service filters by type only after it has cut the list. Ask the service',
  contradiction: 'two answers of the list contradict each other. Ask the service if this continues',
  removed:
    'events of the span may have left the list before a poll saw them. Compare the books of the span with reconcile',
  unlisted:
    'the list of this URL and token does not show events that were pushed: is it another environment? Check baseUrl and token of the client',
  late: 'events of the span were listed later than lagMs, and the list was not read further back. Later polls read it. If it happens again, raise lagMs',
  malformed: 'an element of the list is not an event. Report it to the service',
  'no-answer': 'the list could not be read, or its events could not be stored',
  'not-stored':
    'the inbox refuses the event. Change what the code says, such as max_allowed_packet or the encoding of the database, and the next poll stores the event',
  clock:
    'the stored watermark or start date was in the future, because a clock was wrong. Check the clocks, and compare the books of that time with reconcile',
};

/** Why something is not proven, and what to do, as a sentence. */
export function describeReason(reason: GapReason): string {
  const text = REASONS[reason];
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

/** An undecided case: what the answers show, and what would settle it. */
export function describeUnconfirmed(size: number | null): string {
  const shown =
    size === null ? 'as many events as maxLimit asks for' : `${size} events for every limit asked`;
  return `The list may have been cut off: ${shown}. A larger answer would settle it, as would the service's documented maximum.`;
}

/** The end of a sentence about what is proven: `, except in 1 open gap`, or nothing. */
export function exceptIn(gaps: readonly StoredGap[]): string {
  const states = gaps.map((gap) => toGap(gap).state);
  const counts = (['open', 'acknowledged', 'unconfirmed'] as const).flatMap((state) => {
    const count = states.filter((each) => each === state).length;
    return count > 0 ? [countOf(count, state === 'unconfirmed' ? 'unconfirmed span' : `${state} gap`)] : [];
  });
  return counts.length > 0 ? `, except in ${counts.join(' and ')}` : '';
}

export function describeSpan({ types, from, until, event }: Gap): string {
  if (event) return `Event ${event.id} (${event.error}), created at ${until},`;
  const which = types.length === EVENT_TYPES.length ? 'Events' : `Events of ${types.join(', ')}`;
  return `${which} created after ${from} and up to ${until}`;
}

/** A gap in one or two sentences: which events may be missing, why, and what to do. */
export function describeGap(gap: Gap): string {
  const { state, reason, acknowledged } = gap;
  const span = describeSpan(gap);
  if (state === 'closed') {
    return gap.event
      ? `${span} is in the inbox now.`
      : `${span} are no longer missing: the list has proven this span.`;
  }
  const what =
    state === 'unconfirmed' ? `${span}: ${REASONS[reason]}.` : `${span} may be missing: ${REASONS[reason]}.`;
  if (acknowledged === null) return what;
  return `${what} Acknowledged by ${acknowledged.by} at ${acknowledged.at}: ${acknowledged.reason}`;
}
