/** What all responses of a survey prove together. */
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

/** The poller's verdict on the last response to a query for one type or for all types. */
export interface ListVerdict {
  /** The type that was queried; `null` for all types. */
  readonly type: EventType | null;
  /** The `limit` of the query. */
  readonly limit: number;
  /** How many elements the list returned. */
  readonly size: number;
  /**
   * - `complete`: the response contains every matching event.
   * - `window`: the response contains only the newest events.
   * - `unconfirmed`: the response may be complete, or it may have been cut off at the service's maximum.
   * - `unproven`: events may be missing from the response.
   * - `failed`: the request failed.
   */
  readonly verdict: 'complete' | 'window' | 'unconfirmed' | 'unproven' | 'failed';
  /** Why the response proves nothing, or less than it could. Otherwise `null`. */
  readonly reason: GapReason | null;
  /**
   * How far back the events of the response reach, in ms before the poll. `null` if the response is complete, if the
   * service ignores the limit, or if the events are in no particular order.
   */
  readonly windowMs: number | null;
  /**
   * By how much neighbouring events are out of order, in ms. The worst tenth doesn't count. `null` if the response is
   * complete, if the service ignores the limit, or if there are too few events.
   */
  readonly disorderMs: number | null;
}

export interface SurveyResult extends Readonly<Evidence['times']> {
  readonly answered: boolean;
  readonly proofs: Readonly<Record<EventType, Proof>>;
  readonly verdicts: readonly ListVerdict[];
  readonly limit: number;
  /** The oldest event of the list, from this survey or the last one that saw it; `null` for an empty list. */
  readonly oldest: OldestListed | null;
  readonly seen: SeenAnswers;
  /**
   * The span that a larger response would confirm; `null` if a response contradicts it, or if a larger response would
   * not be enough.
   */
  readonly unconfirmed: Pick<Unconfirmed, 'from' | 'size'> | null;
  /**
   * Whether the list has lost events although it is as long as when the span was unconfirmed. If so, the list is cut
   * off at that size.
   */
  readonly isCut: boolean;
}

/** @param judged - the last response for all types, followed by the last response for each type. */
export function conclude(evidence: Evidence, judged: readonly Judged[]): SurveyResult {
  const { times, start, declared } = evidence;
  const gathered = gather(evidence, judged);
  const checked = judged.map((each) => ({ ...each, proof: limitProof(gathered, each) }));
  const [whole] = checked;
  const answer = whole?.answer ?? null;
  // An answer with more events shows that this one was not cut off, unless its own limit may have cut it.
  const size = answer !== null && answer.size < answer.limit && declared === 0 ? answer.size : null;
  // Once a window suffices there are no further queries, so nothing is known about the rest of the list.
  const isUnclear = answer !== null && !(whole && reaches(whole, start)) && gathered.lacking.length === 0;
  const assumed = isUnclear ? proveUnconfirmed(gathered, answer, size) : null;
  const unconfirmed = assumed && assumed.from <= start ? { from: assumed.from, size } : null;
  const proofs = {} as Record<EventType, Proof>;
  for (const type of EVENT_TYPES) {
    let best = nothing('no-answer');
    for (const { query, proof } of checked) {
      if ((query.type ?? type) === type && proof.from <= best.from) best = proof;
    }
    // Without a sign that events are missing, the order of the list gives no reason for a gap.
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
  /** The events of all answers by id, and the index of the last answer that shows each. */
  const shown = new Map<string, readonly [event: EventKey, last: number]>();
  for (const [last, { events }] of answers.entries()) {
    for (const [id, event] of events) shown.set(id, [event, last]);
  }
  /** Known events that are missing from every answer, although it is too late for them to be listed late. */
  const lacking = known.filter(({ id, at }) => at <= times.settledAt && !shown.has(id));
  const still = (last?.events ?? []).filter(({ id }) => !shown.has(id));
  const pushed = (options.pushed ?? []).filter(({ id, at }) => !shown.has(id) && at <= times.settledAt);
  const unlisted = pushed.filter(({ type, at }) =>
    judged.some(({ query, proof }) => (query.type ?? type) === type && at > proof.from),
  );
  const gone = judged.flatMap((each) => lostFrom(evidence, lacking, each));
  const all = new Set([...still, ...gone, ...unlisted]);
  // An empty list keeps losing events until it shows something again.
  const isLosing = all.size > (shown.size === 0 ? 0 : still.length);
  const events = [...all].slice(0, MAX_LOST);
  // A list that is losing events proves nothing.
  const until = isLosing ? times.until : (last?.until ?? 0);
  const reason = unlisted.length > 0 ? 'unlisted' : last?.reason;
  const lost = events.length > 0 ? { events, until, reason } : undefined;
  return { ...evidence, judged, shown, lacking, lost };
}

/** The lacking events that an answer would show if the list had them. */
function lostFrom(evidence: Evidence, lacking: readonly KnownEvent[], judged: Judged) {
  const { answer, verdict, proof } = judged;
  if (answer === null || lacking.length === 0) return [];
  const oldest = evidence.options.state.oldest?.at ?? Number.POSITIVE_INFINITY;
  // A complete list may have dropped an event for its age if it is older than the list's oldest event then, or than all
  // events now.
  const left = Math.max(oldest, oldestTime([answer]));
  const from = verdict === 'complete' ? Math.min(keptFrom(evidence, answer), left) : proof.from;
  return lacking.filter(({ type, at }) => (answer.type ?? type) === type && at > from);
}

/** The proof of the last answer for all types if neither its limit nor the cap has cut it; `null` if it is cut. */
function proveUnconfirmed(gathered: Gathered, answer: ListAnswer, size: number | null): Proof | null {
  if (isContradicted(gathered, answer)) return null;
  const { options, times, start } = gathered;
  const { unconfirmed } = options.state;
  // No event has been removed since the last unconfirmed poll: this poll would have noticed, unless our limit cut the list
  // off. While the limit still does so, no larger answer confirms the span.
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

/** Limits a proof by the other answers and by elements that cannot be read. */
function limitProof(gathered: Gathered, { answer, verdict, proof }: Judged): Proof {
  const { answers, times, start, lost } = gathered;
  if (answer === null || proof.from >= times.settledAt) return nothing(proof.reason);
  // The probe of a service that ignores the limit does not show that it filters before it cuts.
  if (verdict === 'complete' && answer.type !== null && answers.some(ignoresLimit))
    return nothing('no-order');
  let { from, reason } = proof;
  if (lost !== undefined && lost.until > from) [from, reason] = [lost.until, lost.reason ?? 'removed'];
  let lackedAt = from;
  for (const [{ at }] of lackedBy(gathered, answer)) lackedAt = Math.max(lackedAt, at);
  if (lackedAt > from) {
    // An event from before the start may have been removed in the meantime.
    [from, reason] = [lackedAt > start ? Number.POSITIVE_INFINITY : lackedAt, 'contradiction'];
  }
  for (const at of answers.flatMap(({ unreadable }) => unreadable)) {
    // An element that cannot be read cannot be recorded.
    if (at === null) [from, reason] = [Number.POSITIVE_INFINITY, 'malformed'];
    else if (at > from && at <= times.settledAt) [from, reason] = [at, 'malformed'];
  }
  return { from, reason };
}

/** Whether an answer lacks an event that was not removed: one newer than its oldest event, or one in a later answer. */
function isContradicted(gathered: Gathered, answer: ListAnswer): boolean {
  const index = gathered.answers.indexOf(answer);
  const oldest = oldestTime([answer]);
  return lackedBy(gathered, answer).some(([{ at }, last]) => last > index || at > oldest);
}

/** The events of the query that an answer lacks and another one shows, and that are too old to be listed late. */
function lackedBy({ shown, times }: Gathered, { events, ...query }: ListAnswer) {
  // A list without a cap may have a million events, and then no other answer shows more.
  if (events.size === shown.size) return [];
  return [...shown.values()].filter(
    ([{ id, type, at }]) => (query.type ?? type) === type && at <= times.settledAt && !events.has(id),
  );
}

/** The oldest event, by which the next poll notices that events have been removed. */
function oldestToKeep(evidence: Evidence, [whole, ...types]: readonly Judged[]): OldestListed | null {
  const { oldest } = evidence.options.state;
  const seenAt = evidence.times.until;
  const parts = types.length > 0 ? types : [whole];
  // While the known oldest event is listed, no newer event has been removed, even if a list was cut in the meantime.
  if (parts.some((part) => part?.verdict !== 'complete')) {
    return oldest ?? (whole?.answer ? { at: null, seenAt } : null);
  }
  const at = oldestListed(evidence);
  return Number.isFinite(at) ? { at, seenAt } : null;
}

/** The smallest of the growing limits that would have sufficed this time. */
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

/** Whether an answer has fewer events than the app declares, and lacks some that the list has or has lost. */
function refutesDeclared(gathered: Gathered): boolean {
  const { answers, judged, lacking, declared } = gathered;
  for (const each of judged) {
    const { answer, verdict } = each;
    if (answer === null || verdict !== 'complete' || answer.size < MIN_CAP) continue;
    // A list that is complete only by `listMax` was cut off if it lacks events older than the ones it shows.
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
