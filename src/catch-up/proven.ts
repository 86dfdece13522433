/** What polls have proven since a point in time, for tools that distinguish late events from missing ones. */
import { EVENT_TYPES, type EventType } from '../core/events.js';
import { toIso } from './gap-text.js';
import type { PollState } from './state.js';

/** A span of `created_at` of which every event that the service has listed is in the inbox. ISO 8601. */
export interface ProvenSpan {
  /** The span begins after this time. */
  readonly from: string;
  /** The span's end, inclusive: the watermark, or where the first gap begins, acknowledged and unconfirmed ones included. */
  readonly until: string;
}

/**
 * The span without a gap that begins at a time, or at the start date of the poller if that is later; `null` if polls have
 * proven nothing there, or the last one was doubtful. An event created later than `until` is neither proven to exist nor to be missing.
 *
 * @param state - from `readPollState`.
 * @param after - `from`: epoch ms. `types`: of which types events count; all known types by default.
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
