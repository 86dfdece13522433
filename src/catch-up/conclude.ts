import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { EventKey, ListAnswer } from './answer.js';
import {
  complete,
  type Evidence,
  type Judged,
  keptFrom,
  largestSeen,
  MIN_CAP,
  nothing,
  oldestListed,
  oldestTime,
  type Proof,
  reaches,
  reachOf,
} from './evidence.js';
import { toKnown } from './known.js';
import { ignoresLimit, MIN_PROBED_EVENTS, measureDisorder, PROBED_SHARE, REACH_EVENTS } from './order.js';
import type { GapReason, KnownEvent, OldestListed, SeenAnswers, Unconfirmed } from './state.js';

/** What the poller concluded from the last response to a query for one type or for all types. */
export interface ListVerdict {
  /** The type that the query asked for; `null` if it asked for all types. */
  readonly type: EventType | null;
  /** The `limit` of the query. */
  readonly limit: number;
  /** How many elements the response contains. */
  readonly size: number;
  /**
   * - `complete`: the response contains every matching event.
   * - `window`: the response contains only the newest events.
   * - `unconfirmed`: it is unknown whether the response is complete or was cut off at the service's maximum.
   * - `unproven`: events may be missing from the response.
   * - `failed`: the request failed.
   */
  readonly verdict: 'complete' | 'window' | 'unconfirmed' | 'unproven' | 'failed';
  /** Why the response proves nothing, or less than its verdict suggests; `null` if neither is the case. */
  readonly reason: GapReason | null;
  /**
   * How far back the events in the response reach, in ms before the start of the poll. `null` if the response is
   * complete, if the service ignores the limit, or if the events are in no particular order.
   */
  readonly windowMs: number | null;
  /**
   * How far neighbouring events in the response are out of order, in ms. The worst tenth of the events is ignored.
   * `null` if the response is complete, if the service ignores the limit, or if there are too few events.
   */
  readonly disorderMs: number | null;
}

export interface SurveyResult extends Readonly<Evidence['times']> {
  readonly answered: boolean;
  readonly proofs: Readonly<Record<EventType, Proof>>;
  readonly verdicts: readonly ListVerdict[];
  readonly limit: number;
  /** The oldest event according to the last survey that saw the whole list; `null` if the list was empty. */
  readonly oldest: OldestListed | null;
  readonly seen: SeenAnswers;
  /** The span that a response with more events would confirm. */
  readonly unconfirmed: Pick<Unconfirmed, 'from' | 'size'> | null;
  /** Whether the list still has its unconfirmed size although known events are missing. If so, that size is a cap. */
  readonly isCut: boolean;
}

/** @param judged - the last response for all types, followed by the last response for each type that was queried. */
export function conclude(evidence: Evidence, judged: readonly Judged[]): SurveyResult {
  const { times, start, declared } = evidence;
  const gathered = gather(evidence, judged);
  const checked = judged.map((each) => ({ ...each, proof: limitProof(gathered, each) }));
  const [whole] = checked;
  const answer = whole?.answer ?? null;
  // `null` if our own limit may have cut off the response, because then a larger response would not rule out a cap.
  const size = answer !== null && answer.size < answer.limit && declared === 0 ? answer.size : null;
  // If the newest events suffice, the survey sends no further queries, so it learns nothing about the rest of the list.
  const isUnclear = answer !== null && !(whole && reaches(whole, start)) && gathered.lacking.length === 0;
  const assumed = isUnclear ? proveUnconfirmed(gathered, answer, size) : null;
  const unconfirmed = assumed && assumed.from <= start ? { from: assumed.from, size } : null;
  const proofs = {} as Record<EventType, Proof>;
  for (const type of EVENT_TYPES) {
    let best = nothing('no-answer');
    for (const { query, proof } of checked) {
      if ((query.type ?? type) === type && proof.from <= best.from) best = proof;
    }
    // If nothing suggests that events are missing, the order of the list is not the reason for a gap.
    const isOther = assumed !== null && assumed.reason !== 'contradiction' && best.from > start;
    proofs[type] = isOther ? { ...best, reason: assumed.reason } : best;
  }
  return {
    ...times,
    answered: answer !== null,
    proofs,
    verdicts: checked.map((each) => toVerdict(evidence, each, unconfirmed !== null)),
    limit: nextLimit(evidence, judged),
    oldest: oldestToKeep(evidence, judged),
    seen: toSeen(gathered),
    unconfirmed,
    isCut: size !== null && size === evidence.options.state.unconfirmed?.size && gathered.lacking.length > 0,
  };
}

const MAX_LOST = 100;

type Gathered = ReturnType<typeof gather>;

function gather(evidence: Evidence, judged: readonly Judged[]) {
  const { answers, times, options } = evidence;
  const { known = [], lost: last } = options.state.seen ?? {};
  /** By id, with the index of the last response that contains the event. */
  const shown = new Map<string, readonly [event: EventKey, last: number]>();
  for (const [last, { events }] of answers.entries()) {
    for (const [id, event] of events) shown.set(id, [event, last]);
  }
  /** Known events that are missing from every response although they are too old to be listed late. */
  const lacking = known.filter(({ id, at }) => at <= times.settledAt && !shown.has(id));
  const still = (last?.events ?? []).filter(({ id }) => !shown.has(id));
  const pushed = (options.pushed ?? []).filter(({ id, at }) => !shown.has(id) && at <= times.settledAt);
  const unlisted = pushed.filter(({ type, at }) =>
    judged.some(({ query, proof }) => (query.type ?? type) === type && at > proof.from),
  );
  const gone = judged.flatMap((each) => lostFrom(evidence, lacking, each));
  const all = new Set([...still, ...gone, ...unlisted]);
  // An empty list is treated as losing events until it contains an event again.
  const isLosing = all.size > (shown.size === 0 ? 0 : still.length);
  const events = [...all].slice(0, MAX_LOST);
  // A list that is losing events proves nothing.
  const until = isLosing ? times.until : (last?.until ?? 0);
  const reason = unlisted.length > 0 ? 'unlisted' : last?.reason;
  const lost = events.length > 0 ? { events, until, reason } : undefined;
  return { ...evidence, judged, shown, lacking, lost };
}

/** Returns the known events whose absence from this response shows that the list no longer contains them. */
function lostFrom(evidence: Evidence, lacking: readonly KnownEvent[], judged: Judged) {
  const { answer, verdict, proof } = judged;
  if (answer === null || lacking.length === 0) return [];
  const oldest = evidence.options.state.oldest?.at ?? Number.POSITIVE_INFINITY;
  // The service may have removed events older than the oldest event of an earlier poll, or older than all listed events.
  const left = Math.max(oldest, oldestTime([answer]));
  const from = verdict === 'complete' ? Math.min(keptFrom(evidence, answer), left) : proof.from;
  return lacking.filter(({ type, at }) => (answer.type ?? type) === type && at > from);
}

/** `null` if another response shows that this response was cut off. */
function proveUnconfirmed(gathered: Gathered, answer: ListAnswer, size: number | null): Proof | null {
  if (isContradicted(gathered, answer)) return null;
  const { options, times, start } = gathered;
  const { unconfirmed } = options.state;
  // If events had been removed since the last unconfirmed poll, this poll would have noticed, unless our limit cut off the
  // list. As long as our limit cuts off the list, no larger response can confirm the span.
  const isContinued =
    unconfirmed != null &&
    unconfirmed.until >= times.watermark &&
    (unconfirmed.size !== null || size === null);
  const judged = complete(gathered, answer);
  const from = isContinued ? unconfirmed.from : judged.proof.from;
  return limitProof(gathered, {
    ...judged,
    proof: { from, reason: from <= start ? 'unconfirmed' : 'removed' },
  });
}

function limitProof(gathered: Gathered, { answer, verdict, proof }: Judged): Proof {
  const { answers, times, start, lost } = gathered;
  if (answer === null || proof.from >= times.settledAt) return nothing(proof.reason);
  // If the service ignores the limit, no probe can show that it filters by type before it cuts off the list.
  if (verdict === 'complete' && answer.type !== null && answers.some(ignoresLimit))
    return nothing('no-order');
  let { from, reason } = proof;
  if (lost !== undefined && lost.until > from) [from, reason] = [lost.until, lost.reason ?? 'removed'];
  let lackedAt = from;
  for (const [{ at }] of lackedBy(gathered, answer)) lackedAt = Math.max(lackedAt, at);
  if (lackedAt > from) {
    // If the missing event is from before the start, the service may have removed it in the meantime.
    [from, reason] = [lackedAt > start ? Number.POSITIVE_INFINITY : lackedAt, 'contradiction'];
  }
  for (const at of answers.flatMap(({ unreadable }) => unreadable)) {
    // Unreadable elements cannot be recorded.
    if (at === null) [from, reason] = [Number.POSITIVE_INFINITY, 'malformed'];
    else if (at > from && at <= times.settledAt) [from, reason] = [at, 'malformed'];
  }
  return { from, reason };
}

/** Whether a response lacks an event that is newer than the response's oldest event, or that a later response contains. */
function isContradicted(gathered: Gathered, answer: ListAnswer): boolean {
  const index = gathered.answers.indexOf(answer);
  const oldest = oldestTime([answer]);
  return lackedBy(gathered, answer).some(([{ at }, last]) => last > index || at > oldest);
}

/** Returns the events of this type that only other responses contain and that are too old to be listed late. */
function lackedBy({ shown, times }: Gathered, { events, ...query }: ListAnswer) {
  // A shortcut for long lists: a response that contains every event lacks none.
  if (events.size === shown.size) return [];
  return [...shown.values()].filter(
    ([{ id, type, at }]) => (query.type ?? type) === type && at <= times.settledAt && !events.has(id),
  );
}

/** Lets the next poll notice whether events have been removed. */
function oldestToKeep(evidence: Evidence, [whole, ...types]: readonly Judged[]): OldestListed | null {
  const { oldest } = evidence.options.state;
  const seenAt = evidence.times.until;
  const parts = types.length > 0 ? types : [whole];
  // As long as the oldest known event is listed, no newer event has been removed, even if responses were cut off since.
  if (parts.some((part) => part?.verdict !== 'complete')) {
    return oldest ?? (whole?.answer ? { at: null, seenAt } : null);
  }
  const at = oldestListed(evidence);
  return Number.isFinite(at) ? { at, seenAt } : null;
}

/** Doubles the lowest limit until it would have been sufficient for this poll. */
function nextLimit({ options, start }: Evidence, [whole, ...types]: readonly Judged[]): number {
  const { limit: lowest, maxLimit, lagMs, disorderMs } = options;
  if (!whole?.answer) return lowest;
  const { size, events } = whole.answer;
  if (types.length > 0) return whole.answer.limit;
  let reached = REACH_EVENTS;
  for (const { at } of events.values()) if (at >= start - lagMs - disorderMs) reached += 1;
  const needed = whole.verdict === 'complete' ? size : Math.max(reached, MIN_PROBED_EVENTS / PROBED_SHARE);
  let limit = lowest;
  while (limit <= needed && limit < maxLimit) limit = Math.min(limit * 2, maxLimit);
  return limit;
}

function toSeen(gathered: Gathered): SeenAnswers {
  const { judged, shown, lost, filterFails, options, times, declared } = gathered;
  const { seen } = options.state;
  const { listMaxRefuted = false, shownFrom = times.settledAt, known = [] } = seen ?? {};
  const answer = judged[0]?.answer ?? null;
  return {
    ...seen,
    ...largestSeen(gathered),
    listMaxRefuted: listMaxRefuted || (declared > 0 && refutesDeclared(gathered)),
    shownFrom: answer === null ? shownFrom : Math.min(shownFrom, oldestTime([answer])),
    known: toKnown(shown.values(), known, times),
    lost,
    filterFails,
  };
}

/** Whether a response is smaller than the app's `listMax` and lacks events that the list contains or used to contain. */
function refutesDeclared(gathered: Gathered): boolean {
  const { answers, judged, lacking, declared } = gathered;
  for (const each of judged) {
    const { answer, verdict } = each;
    if (answer === null || verdict !== 'complete' || answer.size < MIN_CAP) continue;
    // If only `listMax` suggests that a response is complete, but older events are missing from it, it was cut off.
    if (lostFrom(gathered, lacking, each).some(({ at }) => at < reachOf(answer))) return true;
  }
  return answers.some((each) => each.size < Math.min(each.limit, declared) && isContradicted(gathered, each));
}

function toVerdict({ times, start }: Evidence, judged: Judged, isUnclear: boolean): ListVerdict {
  const { query, answer, verdict, proof, order } = judged;
  const { type, limit } = query;
  const { from, reason } = proof;
  const isCut = answer !== null && verdict !== 'complete';
  const isUnproven = from > times.settledAt && verdict !== 'failed';
  const isUnconfirmed = type === null && isCut && isUnclear && from > start;
  const isFull =
    verdict === 'complete'
      ? from === Number.NEGATIVE_INFINITY
      : verdict === 'window' && reason === 'not-reached';
  return {
    type,
    limit,
    size: answer?.size ?? 0,
    verdict: isUnconfirmed ? 'unconfirmed' : isUnproven ? 'unproven' : verdict,
    reason: isFull ? null : reason,
    windowMs: order && times.until - order.tail,
    disorderMs: isCut && !ignoresLimit(answer) ? measureDisorder(answer) : null,
  };
}
