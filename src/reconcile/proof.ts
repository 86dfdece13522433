/** For which part of a span every event is known. Pure. Spans are `(from, until]` of `created_at`, in epoch ms. */
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { GapReason, PollState, StoredGap } from '../core/ports.js';
import type { UnprovenReason } from './report.js';

/** A span of time. */
export interface Span {
  /** Not part of the span. */
  readonly from: number;
  /** Part of the span. */
  readonly until: number;
}

/** A span for which it is not proven that every event of these types is in the list or the inbox. */
export interface UnprovenSpan extends Span {
  readonly types: readonly EventType[];
  readonly reason: UnprovenReason;
}

/** For each type the span of which one reading of the list has every event, and why it does not begin earlier. */
export type ListProof = Readonly<Record<EventType, Span & { readonly reason: GapReason }>>;

/** The parts of the span that neither the list nor the poller's state proves, types with the same ones together. */
export function findUnproven(
  span: Span,
  {
    state,
    list,
    polledFrom,
  }: {
    readonly state: PollState;
    readonly list: ListProof;
    /**
     * Events created up to here can have been removed from the list before the first poll, which then proved nothing
     * about them. `-Infinity` if nothing suggests a removal.
     */
    readonly polledFrom: number;
  },
): readonly UnprovenSpan[] {
  const groups = new Map<string, UnprovenSpan>();
  for (const type of EVENT_TYPES) {
    const proven = [list[type], ...provenByPoller(state, { type, polledFrom })];
    for (const { from, until } of proven.reduce(subtractFromAll, [span])) {
      const reason = reasonOf({ from, until }, { state, list: list[type], type });
      const key = `${from} ${until} ${reason}`;
      groups.set(key, { from, until, reason, types: [...(groups.get(key)?.types ?? []), type] });
    }
  }
  return [...groups.values()].sort((a, b) => a.from - b.from);
}

/**
 * The spans that the poller has proven for a type: up to the watermark, except in the open gaps. None begins before its
 * start date.
 */
function provenByPoller(
  state: PollState,
  { type, polledFrom }: { readonly type: EventType; readonly polledFrom: number },
): readonly Span[] {
  // A first poll puts the watermark at the start date, and proves nothing.
  if (state.watermark === null || state.watermark === state.since) return [];
  const whole = { from: polledFrom, until: state.watermark };
  // A gap that a person has acknowledged is accepted, and not proven.
  return state.gaps.flatMap((gap) => spanOf(gap, type)).reduce(subtractFromAll, [whole]);
}

function spanOf({ from, until }: StoredGap, type: EventType): readonly Span[] {
  const end = until[type];
  return end === undefined ? [] : [{ from, until: end }];
}

function reasonOf(
  part: Span,
  {
    state,
    list,
    type,
  }: { readonly state: PollState; readonly list: ListProof[EventType]; readonly type: EventType },
): UnprovenReason {
  if (part.from >= list.until) return 'not-settled';
  const isAcknowledged = state.gaps.some(
    (gap) =>
      gap.acknowledged !== null &&
      spanOf(gap, type).some(({ from, until }) => from <= part.from && until >= part.until),
  );
  return isAcknowledged ? 'acknowledged' : list.reason;
}

function subtractFromAll(spans: readonly Span[], taken: Span): readonly Span[] {
  return spans.flatMap((span) => subtract(span, taken));
}

function subtract(span: Span, taken: Span): readonly Span[] {
  const before = { from: span.from, until: Math.min(span.until, taken.from) };
  const after = { from: Math.max(span.from, taken.until), until: span.until };
  // An empty `taken` would split the span in two parts that overlap.
  if (taken.until <= taken.from) return isEmpty(span) ? [] : [span];
  return [before, after].filter((part) => !isEmpty(part));
}

function isEmpty({ from, until }: Span): boolean {
  return until <= from;
}
