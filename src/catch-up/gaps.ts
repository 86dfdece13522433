/** How a survey changes the poller's state: the watermark moves, and gaps open, shrink, grow and close. Pure. */
import { EVENT_TYPES } from '../core/events.js';
import type { SurveyResult } from './conclude.js';
import type { GapReason, PollState, RefusedEvent, StoredGap } from './state.js';

/** The state of a poller with a start date, which the first poll sets. */
type Started = PollState & { readonly since: number };

export interface Advance {
  readonly state: PollState;
  /** Whether everything from the old watermark to the new one is proven, and no span is unconfirmed. */
  readonly proven: boolean;
  /** Whether the unproven rest of that span is only unconfirmed. */
  readonly unconfirmed: boolean;
  readonly reason: GapReason;
  readonly opened: readonly StoredGap[];
  readonly closed: readonly StoredGap[];
}

interface Circumstances {
  /** Whether the start date of the last poll was set by a wrong clock. */
  readonly wasAhead: boolean;
  /** The time from which on events were listed late; `Infinity` if none were. */
  readonly lateFrom: number;
  readonly refused: readonly RefusedListed[];
  /** The ids of earlier refused events that the inbox has now. */
  readonly stored: readonly string[];
}

/** `at`: when the event was created, epoch ms. */
export interface RefusedListed extends RefusedEvent {
  readonly type: string;
  readonly at: number;
}

/** Moves the watermark. Unproven spans become gaps, and proven gaps close. */
export function advance(last: Started, survey: SurveyResult, circumstances: Circumstances): Advance {
  if (!survey.answered) {
    const nothing = { proven: false, unconfirmed: false, opened: [], closed: [] };
    // The service may refuse a limit that it accepted before, so the next poll begins with the lowest.
    return { ...nothing, state: { ...last, limit: 0 }, reason: 'no-answer' };
  }
  const span = spanToProve(last, survey, circumstances.wasAhead);
  const unproven = findUnproven(last, survey, { ...circumstances, ...span });
  return settle(last, survey, { ...circumstances, ...span, ...unproven });
}

type Span = ReturnType<typeof spanToProve>;

/** The span that a survey has to prove. */
function spanToProve(
  last: Started,
  { watermark, isAhead, settledAt, seen }: SurveyResult,
  wasAhead: boolean,
) {
  const { since } = last;
  const isClockWrong = isAhead || wasAhead;
  const asked = isClockWrong ? null : (last.unconfirmed ?? null);
  // After a larger answer, the unconfirmed one was complete.
  const confirmed = asked !== null && asked.size !== null && seen.all > asked.size ? asked : null;
  const known = Math.max(watermark, last.watermark ?? watermark);
  // A wrong clock may have skipped any event.
  const ever = Math.min(0, settledAt);
  const start = wasAhead ? ever : isAhead ? since : known;
  return {
    start,
    /** The span begins after this time: an event that was created at the start date itself counts. */
    begin: start === since ? start - 1 : start,
    end: Math.max(start, since, settledAt),
    isClockWrong,
    confirmed,
    /** The unconfirmed span, if it still waits. */
    waiting: confirmed ? null : asked,
  };
}

type Ends = Record<string, number>;

type Unproven = ReturnType<typeof findUnproven>;

/** The part of the span that the survey leaves unproven. */
function findUnproven(
  last: Started,
  { proofs, unconfirmed }: SurveyResult,
  { start, begin, end, isClockWrong, lateFrom }: Span & Circumstances,
) {
  // An answer proves nothing before the start date, because older events are skipped.
  const firstAt = last.since - 1;
  const [provenFrom, ends, late]: [Ends, Ends, Ends] = [{}, {}, {}];
  let reason: GapReason = 'no-order';
  for (const type of EVENT_TYPES) {
    const from = Math.max(proofs[type].from, firstAt);
    provenFrom[type] = from;
    // Until the watermark leaves the start date there is nothing to prove.
    if (end > start && from > begin) {
      ends[type] = Math.min(from, end);
      // Any other reason says more.
      if (reason === 'no-order') reason = proofs[type].reason;
    }
    // Other events may be listed just as late.
    if (lateFrom <= start && from >= lateFrom) late[type] = Math.min(from, start);
  }
  const isConfirmable = !isEmpty(ends) && !isClockWrong && unconfirmed !== null && unconfirmed.from <= begin;
  if (isConfirmable) reason = 'unconfirmed';
  if (isClockWrong) reason = 'clock';
  return {
    /** From where each type is proven. */
    provenFrom,
    /** The ends of the unproven part of the span, which begins with it. */
    ends,
    /** The ends of the spans in which further events may be listed late. */
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
      // A poll that proves a gap must notice events that were removed in the meantime.
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

/** Shortens open gaps by what is proven now, and lengthens those that the unproven span continues; `rest` is what is left of it. */
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
      // The contents of the list do not close it.
      (stored.includes(gap.event.id) ? closed : kept).push(gap);
      continue;
    }
    const isConfirmed = confirmed !== null && gap.reason === 'unconfirmed' && gap.from >= confirmed.from;
    // A larger answer closes unconfirmed gaps only, so their spans stay apart from others.
    const isContinued = (gap.reason === 'unconfirmed') === (reason === 'unconfirmed');
    const left: Ends = {};
    for (const [type, end] of Object.entries(gap.until)) {
      if (isConfirmed && end <= confirmed.until) continue;
      // The clock was set back, so the proof ends before the gap does.
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

/** How many open gaps are kept separate. A poller that is too slow for its list opens a gap at each poll. */
const MAX_GAPS = 500;

/** Merges the two oldest open gaps until there are few enough. The merged gap covers the time between them as well. */
function limitGaps(gaps: readonly StoredGap[]): readonly StoredGap[] {
  const [first, second, ...open] = gaps.filter(isOpen);
  if (first === undefined || second === undefined || open.length + 2 <= MAX_GAPS) return gaps;
  const until = { ...first.until };
  for (const [type, end] of Object.entries(second.until)) until[type] = Math.max(end, until[type] ?? end);
  // A larger answer closes unconfirmed gaps only.
  const { reason } = first.reason === 'unconfirmed' ? second : first;
  const joined = { ...first, reason, event: undefined, from: Math.min(first.from, second.from), until };
  return limitGaps(gaps.filter((gap) => gap !== second).map((gap) => (gap === first ? joined : gap)));
}

export function isInGap({ gaps }: PollState, type: string, at: number): boolean {
  return gaps.some(({ from, until }) => at > from && at <= (until[type] ?? Number.NEGATIVE_INFINITY));
}
