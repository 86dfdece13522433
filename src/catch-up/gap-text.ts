import { countOf } from '../core/count.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { GapReason, RefusedEvent, StoredGap } from './state.js';

/** A span of time. Events that were created in this span may be missing from the inbox. Times are in ISO 8601. */
export interface Gap {
  /**
   * - `open`: events may be missing.
   * - `closed`: a later poll proved that no event is missing.
   * - `acknowledged`: someone accepted the gap without proof.
   * - `unconfirmed`: nothing suggests that events are missing, but no larger response has shown that the list was
   *   complete.
   */
  readonly state: 'open' | 'closed' | 'acknowledged' | 'unconfirmed';
  /** The types of the events that may be missing. */
  readonly types: readonly EventType[];
  /** The gap begins after this time. */
  readonly from: string;
  /** The end of the gap, inclusive. */
  readonly until: string;
  readonly reason: GapReason;
  /** The event that the inbox refuses to store, if the gap is about a single event. */
  readonly event?: RefusedEvent | undefined;
  /** When the poll that opened the gap started. */
  readonly openedAt: string;
  /** Who accepted the gap without proof, when and why; `null` unless the gap is acknowledged. */
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

/** The latest time that a `Date` can represent, in epoch ms (ECMA-262, 21.4.1.1). */
const MAX_TIME = 8.64e15;

/** A time that a `Date` cannot represent becomes the nearest time that it can. */
export function toIso(time: number): string {
  return new Date(Math.max(-MAX_TIME, Math.min(MAX_TIME, time))).toISOString();
}

const REASONS: Readonly<Record<GapReason, string>> = {
  unconfirmed:
    'the list may have been cut off. A larger response would settle the question, and so would a maximum that the service documents',
  'not-reached':
    'the list contains only its newest events, which do not reach back far enough. Run reconcile for this span. If this happens without an outage, poll more often, lower lagMs or raise maxLimit',
  'oldest-first':
    'the list contains only its oldest events. Ask the service how to list the newest events. Until then, rely on push',
  'no-order':
    'the list is incomplete, and its order is not confirmed. Ask the service to list the newest events first',
  'filtered-late': 'the service cuts off the list before it filters by type. Ask the service to filter first',
  contradiction:
    "two responses from the service's event list contradict each other. If this continues, report it to the service",
  removed:
    'the service may have removed events from the list before a poll saw them. Run reconcile for this span',
  unlisted:
    "events that were pushed to you are not in the list. Check that the client's baseUrl and token belong to the environment that sends your webhooks",
  late: 'some events were listed later than lagMs allows, and the poll did not read that far back. Later polls will do so. If this happens again, raise lagMs',
  malformed: 'an element of the list is not a valid event. Report it to the service',
  'no-answer': "the service's event list could not be read, or its events could not be stored",
  'not-stored':
    "the inbox refuses the event. Fix the cause that the error code names, such as max_allowed_packet or the database's encoding, and the next poll stores the event",
  clock:
    'the stored watermark or start date was in the future, because a clock was wrong. Check the clocks, and run reconcile for this span',
};

export function describeReason(reason: GapReason): string {
  const text = REASONS[reason];
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

export function describeUnconfirmed(size: number | null): string {
  const shown =
    size === null ? 'as many events as maxLimit allows' : `${size} events regardless of the requested limit`;
  return `The list may have been cut off: it returned ${shown}. A larger response would settle the question, and so would a maximum that the service documents.`;
}

/** Such as `, except in 1 open gap`, or an empty string. */
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

/** Describes a gap in a few sentences: which events may be missing, why, and what to do. */
export function describeGap(gap: Gap): string {
  const { state, reason, acknowledged } = gap;
  const span = describeSpan(gap);
  if (state === 'closed') {
    return gap.event ? `${span} is in the inbox now.` : `${span} are all in the inbox now.`;
  }
  const what =
    state === 'unconfirmed'
      ? `${span} are unconfirmed: ${REASONS[reason]}.`
      : `${span} may be missing: ${REASONS[reason]}.`;
  if (acknowledged === null) return what;
  return `${what} Acknowledged by ${acknowledged.by} at ${acknowledged.at}: ${acknowledged.reason}`;
}
