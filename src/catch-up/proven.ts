import { EVENT_TYPES, type EventType } from '../core/events.js';
import { toIso } from './gap-text.js';
import type { PollState } from './state.js';

/**
 * A span of time in which no event is missing: the inbox has every event created in this span that the service has
 * listed. Times are in ISO 8601.
 */
export interface ProvenSpan {
  /** The span begins after this time. */
  readonly from: string;
  /**
   * The end of the span, inclusive. The span ends at the watermark or where the first gap begins, even if that gap is
   * acknowledged or unconfirmed.
   */
  readonly until: string;
}

/**
 * Returns the span without gaps that begins at `after.from`, or at the poller's start date if that is later. Returns
 * `null` if polls have proven nothing after that time, or if the last poll was doubtful. Nothing is known about events
 * created after the end of the span.
 *
 * @param state - the result of `readPollState`.
 * @param after - `from` is in epoch ms. `types` are the event types to consider, by default all known types.
 */
export function provenSpan(
  { since, watermark, gaps, doubts = [] }: Pick<PollState, 'since' | 'watermark' | 'gaps' | 'doubts'>,
  after: { readonly from: number; readonly types?: readonly EventType[] | undefined },
): ProvenSpan | null {
  if (since === null || watermark === null || doubts.length > 0) return null;
  const { types = EVENT_TYPES } = after;
  const from = Math.max(after.from, since);
  const starts = gaps
    .filter((gap) => types.some((type) => (gap.until[type] ?? Number.NEGATIVE_INFINITY) > from))
    .map((gap) => Math.max(gap.from, from));
  const until = Math.min(watermark, ...starts);
  if (until <= from) return null;
  return { from: toIso(from), until: toIso(until) };
}
