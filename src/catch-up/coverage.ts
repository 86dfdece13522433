/**
 * If `S` events match a query with the limit `L`, the response contains `min(S, L, C)` of them, where `C` is an unknown
 * but constant cap. Which events the response contains, and in which order, is unknown.
 */
import { EVENT_TYPES } from '../core/events.js';
import type { EventKey, ListAnswer, ListQuery } from './answer.js';
import { conclude, type SurveyResult } from './conclude.js';
import {
  complete,
  type Evidence,
  isComplete,
  type Judged,
  largestSeen,
  oldestTime,
  reaches,
  reachOf,
  type SurveyOptions,
  toEvidence,
  unanswered,
  unproven,
} from './evidence.js';
import {
  chooseFilterProbe,
  ignoresLimit,
  PROBED_SHARE,
  REACH_EVENTS,
  readOrder,
  refutesWindow,
} from './order.js';
import type { GapReason } from './state.js';

/** Yields queries. Receives the response to each query, or `null` if the request failed. */
export type Survey<Result = SurveyResult> = Generator<ListQuery, Result, ListAnswer | null>;

/** Queries all types with a growing limit first, and then, if necessary, each type separately. */
export function* surveyList(options: SurveyOptions): Survey {
  const { limit: lowest, maxLimit, state } = options;
  const query = { type: null, limit: Math.min(Math.max(lowest, state.limit), maxLimit) };
  const first = yield query;
  const evidence = toEvidence(options, first?.servedAt ?? null);
  if (first === null) return conclude(evidence, [unanswered(query)]);
  evidence.answers.push(first);
  return conclude(evidence, yield* judgeList(evidence, first));
}

function* ask({ answers }: Evidence, query: ListQuery): Survey<ListAnswer | null> {
  const answer = yield query;
  if (answer !== null) answers.push(answer);
  return answer;
}

function* judgeList(evidence: Evidence, first: ListAnswer): Survey<readonly Judged[]> {
  const { target, times, options } = evidence;
  // Until the watermark has moved past the start date, there is nothing to prove.
  const isEarly = times.settledAt <= target;
  let answer = first;
  for (;;) {
    const whole = isComplete(evidence, answer, largestSeen(evidence).all)
      ? complete(evidence, answer)
      : yield* judgeWindow(evidence, answer, target);
    if (reaches(whole, target) || (isEarly && oldestTime([answer]) < target)) return [whole];
    // A higher limit cannot show whether a response smaller than its limit is complete or was cut off by a cap.
    const limit = Math.min(answer.size * 2, options.maxLimit);
    const grows = answer.size >= answer.limit && limit > answer.limit;
    const larger = grows ? yield* ask(evidence, { type: null, limit }) : null;
    // If the service rejects the higher limit, the types are queried with the previous limit.
    if (larger === null) return isEarly ? [whole] : yield* judgeTypes(evidence, whole, answer);
    answer = larger;
  }
}

function* judgeTypes(evidence: Evidence, judgedWhole: Judged, whole: ListAnswer): Survey<readonly Judged[]> {
  const { limit } = whole;
  const { settledAt } = evidence.times;
  // Unless the app sets `listMax`, queries for one type are assumed to have the same cap as queries for all types.
  const isWhole = (answer: ListAnswer) =>
    isComplete(evidence, answer, Math.max(largestSeen(evidence).type, whole.events.size));
  const answers: (readonly [ListQuery, ListAnswer | null])[] = [];
  for (const type of EVENT_TYPES) {
    const query = { type, limit };
    const answer = yield* ask(evidence, query);
    if (answer !== null) evidence.newest.set(type, answer);
    answers.push([query, answer]);
  }
  const given = answers.flatMap(([, answer]) => answer ?? []);
  const hasComplete = given.some(isWhole);
  const reason = hasComplete ? yield* judgeFilter(evidence, whole) : null;
  const hiding = given.filter((answer) => hides(answer, whole, settledAt));
  if (reason === 'filtered-late' || hiding.length > 0) evidence.filterFails = 'late';
  else if (given.some(isForeign)) evidence.filterFails = 'ignored';
  else if ((hasComplete && reason === null) || evidence.filterFails === 'ignored')
    evidence.filterFails = undefined;
  const types: Judged[] = [];
  for (const [query, answer] of answers) {
    if (answer === null) types.push(unanswered(query));
    else if (isForeign(answer) || hiding.includes(answer)) types.push(unproven(answer, 'filtered-late'));
    else if (!isWhole(answer)) types.push(yield* judgeWindow(evidence, answer, settledAt));
    else types.push(reason === null ? complete(evidence, answer) : unproven(answer, reason));
  }
  // The newest events of all types may prove something about a type even if the response for that type does not.
  const isNeeded =
    judgedWhole.proof.reason === 'not-reached' && types.some(({ proof }) => proof.from > settledAt);
  return [isNeeded ? yield* judgeWindow(evidence, whole, settledAt) : judgedWhole, ...types];
}

/** Judges a response as the newest part of the list. If that part goes back to `reach`, a second query checks it. */
function* judgeWindow(evidence: Evidence, answer: ListAnswer, reach: number): Survey<Judged> {
  const { lagMs, disorderMs } = evidence.options;
  const order = ignoresLimit(answer) ? null : readOrder(answer, disorderMs);
  if (order === null) return unproven(answer, 'no-order');
  // A list that is sorted by when events were listed may lack events created up to `lagMs` after the oldest event in it.
  const spare = lagMs + disorderMs;
  // If an event is listed even further below its chronological place, events that were cut off may be just as far below.
  const sink = order.sink > spare ? order.sink : 0;
  const from = order.tail + spare + sink;
  const isYoung = from >= evidence.times.settledAt;
  if (isYoung || from > reach)
    return unproven(answer, isYoung && sink > 0 ? 'no-order' : 'not-reached', order);
  const limit = Math.max(1, Math.ceil(answer.size * PROBED_SHARE));
  const probe = yield* ask(evidence, { type: answer.type, limit });
  const refuted = probe === null ? 'no-answer' : refutesWindow(order, probe, disorderMs);
  const reason = refuted ?? (answer.type === null ? yield* judgeUnshown(evidence, answer, from) : null);
  if (reason !== null) return unproven(answer, reason, order);
  return { query: answer, answer, verdict: 'window', proof: { from, reason: 'not-reached' }, order };
}

/** Without this check, a list that is sorted by type would look like a window that contains only the first types. */
function* judgeUnshown(evidence: Evidence, window: ListAnswer, from: number): Survey<GapReason | null> {
  const { newest, start, times } = evidence;
  const shown = new Set([...window.events.values()].map(({ type }) => type));
  for (const type of EVENT_TYPES) {
    if (shown.has(type)) continue;
    if (!newest.has(type)) newest.set(type, yield* ask(evidence, { type, limit: REACH_EVENTS }));
    const answer = newest.get(type) ?? null;
    if (answer === null) return 'no-answer';
    if (isForeign(answer)) evidence.filterFails ??= 'ignored';
    else if (evidence.filterFails === 'ignored') evidence.filterFails = undefined;
    const ofType = [...answer.events.values()].filter((event) => event.type === type).map(({ at }) => at);
    if (evidence.filterFails && ofType.length < REACH_EVENTS) return 'filtered-late';
    const begin = Math.max(from, start);
    if (ofType.some((at) => at > begin && at <= times.settledAt)) return 'contradiction';
    // Unreadable elements count too. So many newer elements can hardly all have been listed since the window was read.
    const elements = [...ofType, ...answer.unreadable];
    if (elements.length >= REACH_EVENTS && elements.every((at) => at === null || at > from)) {
      return 'contradiction';
    }
  }
  return null;
}

/** `null` if the service filters by type before it cuts off the list. */
function* judgeFilter(evidence: Evidence, whole: ListAnswer): Survey<GapReason | null> {
  const query = chooseFilterProbe(whole);
  if (query === null) return 'no-order';
  const answer = yield* ask(evidence, query);
  if (answer === null) return 'no-answer';
  return answer.size >= query.limit ? null : 'filtered-late';
}

/** Whether a response smaller than its limit lacks events of its type. One or two old events may be missing. */
function hides({ type, events, size, limit }: ListAnswer, whole: ListAnswer, settledAt: number): boolean {
  if (size >= limit) return false;
  const hidden = [...whole.events.values()].filter((event) => event.type === type && !events.has(event.id));
  const isYoung = ({ at }: EventKey) => at > reachOf(whole) && at <= settledAt;
  return hidden.length >= REACH_EVENTS || hidden.some(isYoung);
}

/** Whether a response for one type contains events of other types, which shows that the service does not filter. */
function isForeign({ type, events }: ListAnswer): boolean {
  return type !== null && [...events.values()].some((event) => event.type !== type);
}
