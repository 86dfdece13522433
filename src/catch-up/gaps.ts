import { EVENT_TYPES } from '../core/events.js';
import type { SurveyResult } from './conclude.js';
import type { GapReason, PollState, RefusedEvent, StoredGap } from './state.js';

type Started = PollState & { readonly since: number };

export interface Advance {
  readonly state: PollState;
  /** Whether everything between the old and the new watermark is proven, and no event was late or refused. */
  readonly proven: boolean;
  /** Whether the only thing left unproven is a span that a response with more events would confirm. */
  readonly unconfirmed: boolean;
  readonly reason: GapReason;
  readonly opened: readonly StoredGap[];
  readonly closed: readonly StoredGap[];
}

interface Circumstances {
  /** Whether the stored start date was in the future, because a clock was wrong. */
  readonly wasAhead: boolean;
  /** When the third-oldest late event was created, in epoch ms; `Infinity` if fewer than three events were late. */
  readonly lateFrom: number;
  readonly refused: readonly RefusedListed[];
  /** The ids of events that the inbox refused earlier and has stored now. */
  readonly stored: readonly string[];
}

export interface RefusedListed extends RefusedEvent {
  readonly type: string;
  readonly at: number;
}

export function advance(last: Started, survey: SurveyResult, circumstances: Circumstances): Advance {
  if (!survey.answered) {
    const nothing = { proven: false, unconfirmed: false, opened: [], closed: [] };
    // The service may reject a limit that it accepted before, so the next poll begins with the lowest limit.
    return { ...nothing, state: { ...last, limit: 0 }, reason: 'no-answer' };
  }
  const span = spanToProve(last, survey, circumstances.wasAhead);
  const unproven = findUnproven(last, survey, { ...circumstances, ...span });
  return settle(last, survey, { ...circumstances, ...span, ...unproven });
}

type Span = ReturnType<typeof spanToProve>;

function spanToProve(
  last: Started,
  { watermark, isAhead, settledAt, seen }: SurveyResult,
  wasAhead: boolean,
) {
  const { since } = last;
  const isClockWrong = isAhead || wasAhead;
  const asked = isClockWrong ? null : (last.unconfirmed ?? null);
  // A larger response shows that the unconfirmed response was complete.
  const confirmed = asked !== null && asked.size !== null && seen.all > asked.size ? asked : null;
  const known = Math.max(watermark, last.watermark ?? watermark);
  // While a clock was wrong, any event may have been skipped.
  const ever = Math.min(0, settledAt);
  const start = wasAhead ? ever : isAhead ? since : known;
  return {
    start,
    /** Exclusive. Events created exactly at the start date are part of the span. */
    begin: start === since ? start - 1 : start,
    end: Math.max(start, since, settledAt),
    isClockWrong,
    confirmed,
    waiting: confirmed ? null : asked,
  };
}

type Ends = Record<string, number>;

type Unproven = ReturnType<typeof findUnproven>;

function findUnproven(
  last: Started,
  { proofs, unconfirmed }: SurveyResult,
  { start, begin, end, isClockWrong, lateFrom }: Span & Circumstances,
) {
  // No response proves anything about events from before the start date, because those events are skipped.
  const firstAt = last.since - 1;
  const [provenFrom, ends, late]: [Ends, Ends, Ends] = [{}, {}, {}];
  let reason: GapReason = 'no-order';
  for (const type of EVENT_TYPES) {
    const from = Math.max(proofs[type].from, firstAt);
    provenFrom[type] = from;
    // Until the watermark has moved past the start date, there is nothing to prove.
    if (end > start && from > begin) {
      ends[type] = Math.min(from, end);
      // Any other reason is more specific than `no-order`.
      if (reason === 'no-order') reason = proofs[type].reason;
    }
    // Other events may be listed just as late.
    if (lateFrom <= start && from >= lateFrom) late[type] = Math.min(from, start);
  }
  const isConfirmable = !isEmpty(ends) && !isClockWrong && unconfirmed !== null && unconfirmed.from <= begin;
  if (isConfirmable) reason = 'unconfirmed';
  if (isClockWrong) reason = 'clock';
  return {
    provenFrom,
    /** Where the unproven part of the span ends, by type. The unproven part begins at `begin`. */
    ends,
    /** By type: events created up to this time may still be listed late. */
    late,
    reason,
    unconfirmed: isConfirmable
      ? {
          from: Math.max(unconfirmed.from, firstAt),
          until: end,
          size: unconfirmed.size,
        }
      : null,
  };
}

function settle(
  last: Started,
  { until, settledAt, limit, oldest, seen, isCut }: SurveyResult,
  change: Span & Unproven & Circumstances,
): Advance {
  const { start, begin, end, waiting, ends, late, reason, unconfirmed, lateFrom, refused } = change;
  const { kept: carried, closed, rest } = carryOver(last.gaps, settledAt, change);
  const kept = carried.map((gap) =>
    isCut && isOpen(gap) && gap.reason === 'unconfirmed' ? { ...gap, reason: 'not-reached' as const } : gap,
  );
  const opened: StoredGap[] = [];
  const facts = { openedAt: until, acknowledged: null };
  if (!isEmpty(rest)) opened.push({ from: begin, until: rest, reason, ...facts });
  if (!isEmpty(late)) opened.push({ from: lateFrom - 1, until: late, reason: 'late', ...facts });
  const isKnown = (id: string) => kept.some(({ event }) => event?.id === id);
  for (const { id, type, at, error } of refused) {
    if (isKnown(id)) continue;
    opened.push({
      from: at - 1,
      until: { [type]: at },
      reason: 'not-stored',
      event: { id, error },
      ...facts,
    });
  }
  const gaps = limitGaps([...kept, ...opened]);
  const open = gaps.filter(isOpen);
  const isProven = isEmpty(ends);
  const isComplete = isEmpty(late) && !opened.some(({ event }) => event);
  return {
    state: {
      ...last,
      watermark: end,
      gaps,
      limit,
      // Unchanged while a gap is open, so that the poll that closes the gap can still notice removed events.
      oldest: end > start && open.length === 0 ? oldest : (last.oldest ?? oldest),
      seen,
      unconfirmed: unconfirmed ?? (open.some((gap) => gap.reason === 'unconfirmed') ? waiting : null),
    },
    proven: isProven && isComplete,
    unconfirmed: unconfirmed !== null && isComplete,
    reason: !isProven ? reason : isEmpty(late) ? 'not-stored' : 'late',
    opened: [...kept.filter((gap) => !carried.includes(gap)), ...opened],
    closed,
  };
}

/** `rest` is the part of the unproven span that does not continue an existing gap. */
function carryOver(
  gaps: readonly StoredGap[],
  settledAt: number,
  { provenFrom, ends, start, confirmed, reason, stored }: Span & Unproven & Circumstances,
) {
  const kept: StoredGap[] = [];
  const closed: StoredGap[] = [];
  const rest = { ...ends };
  for (const gap of gaps) {
    if (!isOpen(gap)) {
      kept.push(gap);
      continue;
    }
    if (gap.event) {
      (stored.includes(gap.event.id) ? closed : kept).push(gap);
      continue;
    }
    const isConfirmed = confirmed !== null && gap.reason === 'unconfirmed' && gap.from >= confirmed.from;
    // A larger response closes only unconfirmed gaps, so unconfirmed gaps are not joined with other gaps.
    const isContinued = (gap.reason === 'unconfirmed') === (reason === 'unconfirmed');
    const left: Ends = {};
    for (const [type, end] of Object.entries(gap.until)) {
      if (isConfirmed && end <= confirmed.until) continue;
      // If the clock was set back, the proof ends before the gap does, so the gap stays as it is.
      const from = end > settledAt ? end : Math.min(end, provenFrom[type] ?? end);
      if (from > gap.from) left[type] = from;
      if (left[type] === start && ends[type] !== undefined && isContinued) {
        left[type] = ends[type];
        delete rest[type];
      }
    }
    if (isEmpty(left)) closed.push(gap);
    else kept.push({ ...gap, until: left });
  }
  return { kept, closed, rest };
}

function isOpen({ acknowledged }: StoredGap): boolean {
  return acknowledged === null;
}

function isEmpty(ends: Ends): boolean {
  return Object.keys(ends).length === 0;
}

/** The maximum number of open gaps. If a poller polls too rarely, every poll opens a gap. */
const MAX_GAPS = 500;

/** Merges the two oldest open gaps, including the time between them, until there are few enough. */
function limitGaps(gaps: readonly StoredGap[]): readonly StoredGap[] {
  const [first, second, ...open] = gaps.filter(isOpen);
  if (first === undefined || second === undefined || open.length + 2 <= MAX_GAPS) return gaps;
  const until = { ...first.until };
  for (const [type, end] of Object.entries(second.until)) until[type] = Math.max(end, until[type] ?? end);
  // A larger response closes only unconfirmed gaps, so the merged gap takes the reason of the other gap.
  const { reason } = first.reason === 'unconfirmed' ? second : first;
  const joined = { ...first, reason, event: undefined, from: Math.min(first.from, second.from), until };
  return limitGaps(gaps.filter((gap) => gap !== second).map((gap) => (gap === first ? joined : gap)));
}

export function isInGap({ gaps }: PollState, type: string, at: number): boolean {
  return gaps.some(({ from, until }) => at > from && at <= (until[type] ?? Number.NEGATIVE_INFINITY));
}
