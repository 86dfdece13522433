import type { GapReason, PollState, StoredGap } from '../catch-up/state.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { UnprovenReason } from './report.js';

/** Times of `created_at`, in epoch ms: `from` is exclusive, `until` is inclusive. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** A span for which it is not proven that every event of these types is in the service's list or the inbox. */
export interface UnprovenSpan extends Span {
  readonly types: readonly EventType[];
  readonly reason: UnprovenReason;
}

/** A span in which the list that was read has every event of a type. `reason` says why it does not begin earlier. */
type ProvenSpan = Span & { readonly reason: GapReason };

export type ListProof = Readonly<Record<EventType, ProvenSpan>>;

export interface Proofs {
  readonly list: ListProof;
  readonly state: PollState;
  /** Events created up to this time may have been removed from the list; `-Infinity` if nothing suggests that. */
  readonly removedUntil: number;
  /** When the inbox received its first event. No poll can have seen events that were removed from the list before. */
  readonly firstAt: number;
}

export function isIn({ from, until }: Span, at: number): boolean {
  return at > from && at <= until;
}

/** A part that is unproven for several types is returned once. */
export function findUnproven(span: Span, proofs: Proofs): readonly UnprovenSpan[] {
  const groups = new Map<string, UnprovenSpan>();
  for (const type of EVENT_TYPES) {
    const list = provenByList(proofs.list[type], proofs.removedUntil);
    const proven = [list, ...provenByPoller(type, proofs)];
    for (const part of proven.reduce(subtractFromAll, [span])) {
      const reason =
        part.from >= list.until ? 'not-settled' : (acknowledged(part, type, proofs) ?? list.reason);
      const key = `${part.from} ${part.until} ${reason}`;
      groups.set(key, { ...part, reason, types: [...(groups.get(key)?.types ?? []), type] });
    }
  }
  return [...groups.values()].sort((a, b) => a.from - b.from);
}

function provenByList(proven: ProvenSpan, removedUntil: number): ProvenSpan {
  return proven.from < removedUntil ? { ...proven, from: removedUntil, reason: 'removed' } : proven;
}

/** From the poller's start date up to the watermark, except for gaps. */
function provenByPoller(type: EventType, { state, removedUntil, firstAt }: Proofs): readonly Span[] {
  // The first poll sets the watermark to the start date without proving anything.
  if (state.watermark === null || state.watermark === state.since) return [];
  const shownFrom = Math.min(removedUntil, firstAt, state.seen?.shownFrom ?? firstAt);
  const whole = {
    // Events created before the start date are not recorded.
    from: Math.max(shownFrom, (state.since ?? shownFrom) - 1),
    until: state.watermark,
  };
  // A gap that a person has acknowledged is accepted, but it is not proven.
  return state.gaps.flatMap((gap) => spanOf(gap, type)).reduce(subtractFromAll, [whole]);
}

function spanOf({ from, until }: StoredGap, type: EventType): readonly Span[] {
  const end = until[type];
  return end === undefined ? [] : [{ from, until: end }];
}

function acknowledged(part: Span, type: EventType, { state }: Proofs): 'acknowledged' | undefined {
  const spans = state.gaps.flatMap((gap) => (gap.acknowledged === null ? [] : spanOf(gap, type)));
  const isCovered = spans.some(({ from, until }) => from <= part.from && until >= part.until);
  return isCovered ? 'acknowledged' : undefined;
}

function subtractFromAll(spans: readonly Span[], taken: Span): readonly Span[] {
  // Without this, an empty `taken` would split a span into two parts that overlap.
  const end = Math.max(taken.from, taken.until);
  return spans
    .flatMap(({ from, until }) => [
      { from, until: Math.min(until, taken.from) },
      { from: Math.max(from, end), until },
    ])
    .filter(({ from, until }) => until > from);
}
