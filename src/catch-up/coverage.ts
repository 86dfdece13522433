/**
 * Judges what the answers of the list prove. Pure: no request, clock or inbox.
 *
 * The model: an answer contains `min(|S|, L, C)` of the matching events `S`, where `L` is the limit of the query and
 * `C` a constant cap of the server, which is not specified. Nor is which events it contains, and in which order.
 */
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { EventKey, ListAnswer, ListQuery } from './answer.js';
import { toKnown } from './known.js';
import {
  chooseFilterProbe,
  ignoresLimit,
  MIN_PROBED_EVENTS,
  measureDisorder,
  type Order,
  PROBED_SHARE,
  REACH_EVENTS,
  readOrder,
  refutesWindow,
} from './order.js';
import type { GapReason, KnownEvent, OldestListed, PollState, SeenAnswers, Unconfirmed } from './state.js';

/** The verdict on the last answer for a type, or for all types (`null`). */
export interface ListVerdict {
  readonly type: EventType | null;
  /** The limit of the query. */
  readonly limit: number;
  /** How many elements came back. */
  readonly size: number;
  /**
   * - `complete`: the answer contains every matching event.
   * - `window`: it contains the newest events.
   * - `unconfirmed`: it can be complete, or as large as the service's answers ever are.
   * - `unproven`: it can be cut anywhere.
   * - `failed`: there was no answer.
   */
  readonly verdict: 'complete' | 'window' | 'unconfirmed' | 'unproven' | 'failed';
  /** Why it proves nothing, or begins later than it could; `null` if it does not. */
  readonly reason: GapReason | null;
  /** How far back it shows the events in their order, in ms before the poll; `null` if it is complete, ignores the limit or has no order. */
  readonly windowMs: number | null;
  /** By how much neighbours are out of order, in ms, apart from a tenth that can be late; `null` if it is complete, ignores the limit or has too few events. */
  readonly disorderMs: number | null;
}

/** The proof of a type: every event created after `from` and up to `settledAt` of the survey is in the answers. */
export interface Proof {
  /** Epoch ms. `-Infinity`: every event. `Infinity`: nothing is proven. */
  readonly from: number;
  /** Why it does not begin earlier. */
  readonly reason: GapReason;
}

/** The input of a survey. Times are epoch ms. */
export interface SurveyOptions {
  /** Up to here every event is recorded, or it is in a gap. */
  readonly watermark: number;
  /** The survey tries to prove from here on. @default the watermark */
  readonly target?: number | undefined;
  /** No poll was completed before: the watermark is only a start, and can move back to the service's clock. @default false */
  readonly first?: boolean | undefined;
  /** When the poll started, before its first query, by our own clock. */
  readonly startedAt: number;
  readonly lagMs: number;
  readonly disorderMs: number;
  /** The lowest limit of a query. */
  readonly limit: number;
  readonly maxLimit: number;
  /** @default 0: not known */
  readonly listMax?: number | undefined;
  /** The state that earlier polls saved. */
  readonly state: Pick<PollState, 'limit' | 'oldest' | 'seen' | 'unconfirmed'>;
}

/** The times of a survey, epoch ms. */
interface Times {
  readonly watermark: number;
  /** Whether the watermark is in the future by both clocks. A clock was wrong, so it proves nothing. */
  readonly isAhead: boolean;
  /** The start of the poll by the earlier of the two clocks: a clock that is ahead must not move the watermark too far. */
  readonly until: number;
  /** `until` less the lag: events created later can still be listed. */
  readonly settledAt: number;
  /** The start of the poll by our clock and the service's; `earlier` is a lag before ours if the service's is not known. */
  readonly clocks: { readonly earlier: number; readonly later: number };
}

/** The result of a survey. */
export interface SurveyResult extends Times {
  /** Whether the list answered at all. */
  readonly answered: boolean;
  readonly proofs: Readonly<Record<EventType, Proof>>;
  readonly verdicts: readonly ListVerdict[];
  /** The limit to begin with at the next poll. */
  readonly limit: number;
  /** The oldest event of the list, of this survey or the last one that knew it; `null` for an empty list. */
  readonly oldest: OldestListed | null;
  readonly seen: SeenAnswers;
  /** The proof if the list was complete; `null` if an answer contradicts that, or if the proof would not suffice. */
  readonly ifComplete: Pick<Unconfirmed, 'from' | 'size'> | null;
}

/** Yields queries and takes their answers; `null` stands for a request that failed. */
export type Survey<Result = SurveyResult> = Generator<ListQuery, Result, ListAnswer | null>;

/** An answer and what it proves by itself. */
interface Judged {
  readonly query: ListQuery;
  /** `null`: the request failed. */
  readonly answer: ListAnswer | null;
  readonly verdict: ListVerdict['verdict'];
  readonly proof: Proof;
  /** `null`: it is not judged by its order, or shows none. */
  readonly order: Order | null;
}

/** Surveys the list: as a whole with a growing limit, then by type. */
export function* surveyList(options: SurveyOptions): Survey {
  const { limit: lowest, maxLimit, state } = options;
  const query = { type: null, limit: Math.min(Math.max(lowest, state.limit), maxLimit) };
  const whole = yield query;
  const survey = new ListSurvey(options, whole?.servedAt ?? null);
  return whole === null ? survey.conclude([failed(query)]) : yield* survey.run(whole);
}

/** The service's default limit: every server answers at least this many. */
export const MIN_CAP = 50;

/** How many lost events the list must show again. */
const MAX_LOST = 100;

/** One survey, and the answers that it has so far. */
class ListSurvey {
  readonly #options: SurveyOptions;
  readonly #times: Times;
  /** The unproven part begins here. */
  readonly #start: number;
  readonly #target: number;
  /** Whether the app declares `listMax`, which replaces the evidence of larger answers: the cap can then fall, and differ per type. */
  readonly #isDeclared: boolean;
  /** The facts of earlier polls, to which this one adds. */
  readonly #seen: { -readonly [Fact in keyof SeenAnswers]: SeenAnswers[Fact] };
  readonly #answers: ListAnswer[] = [];
  /** The events of all answers, and the index of the last answer that shows each. */
  readonly #shown = new Map<string, { readonly event: EventKey; readonly last: number }>();
  /** The last answers for one type, with the newest events of it; `null`: the request failed. */
  readonly #newest = new Map<EventType, ListAnswer | null>();
  /** The last answer for all types that was not a probe. */
  #whole: ListAnswer | null = null;
  /** Whether the list loses events now, so it proves nothing. */
  #isLosing = false;

  /** @param servedAt - the service's clock, by its first answer. */
  constructor(options: SurveyOptions, servedAt: number | null) {
    const { watermark, target, first, startedAt, lagMs, listMax = 0, state } = options;
    this.#options = options;
    this.#seen = { all: 0, type: 0, listMaxRefuted: false, ...state.seen };
    this.#isDeclared = listMax > 0 && !this.#seen.listMaxRefuted;
    const until = Math.min(startedAt, servedAt ?? startedAt);
    const settledAt = until - lagMs;
    // Without the service's clock, ours can be ahead of it by `lagMs`.
    const earlier = servedAt === null ? settledAt : until;
    const clocks = { earlier, later: Math.max(startedAt, servedAt ?? startedAt) };
    const start = first ? Math.min(watermark, earlier) : watermark;
    const isAhead = start > clocks.later;
    this.#times = { watermark: start, isAhead, until, settledAt, clocks };
    this.#start = isAhead ? Number.NEGATIVE_INFINITY : start;
    this.#target = Math.min(this.#start, target ?? this.#start);
  }

  /** Asks for the whole list, with a limit that grows while the limit is what cuts the answer. */
  *run(first: ListAnswer): Survey {
    // Until the watermark leaves the start date there is nothing to prove.
    const isEarly = this.#times.settledAt <= this.#target;
    let whole = this.#keep(first);
    for (;;) {
      this.#whole = whole;
      const judged: Judged = this.#isComplete(whole)
        ? this.#complete(whole)
        : yield* this.#judgeWindow(whole, this.#target);
      const isEnough = judged.verdict === 'complete' || judged.proof.from <= this.#target;
      if (isEnough || (isEarly && oldestTime([whole]) < this.#target)) return this.conclude([judged]);
      // An answer smaller than its limit is the whole list, or cut by a cap. A larger limit cannot tell which.
      const limit = Math.min(whole.size * 2, this.#options.maxLimit);
      const grows = whole.size >= whole.limit && limit > whole.limit;
      const larger = grows ? yield* this.#ask({ type: null, limit }) : null;
      // The service can refuse a limit of this size. The types are then asked for with the previous one.
      if (larger === null) return isEarly ? this.conclude([judged]) : yield* this.#surveyTypes(judged, whole);
      whole = larger;
    }
  }

  *#ask(query: ListQuery): Survey<ListAnswer | null> {
    const answer = yield query;
    return answer && this.#keep(answer);
  }

  #keep(answer: ListAnswer): ListAnswer {
    const last = this.#answers.push(answer) - 1;
    for (const [id, event] of answer.events) this.#shown.set(id, { event, last });
    const kind = answer.type === null ? 'all' : 'type';
    this.#seen[kind] = Math.max(this.#seen[kind], answer.events.size);
    return answer;
  }

  /** Asks for each type by itself, and judges each alone. */
  *#surveyTypes(judgedWhole: Judged, whole: ListAnswer): Survey {
    const { limit } = whole;
    const { settledAt } = this.#times;
    const answers: (ListAnswer | null)[] = [];
    for (const type of EVENT_TYPES) {
      const answer = yield* this.#ask({ type, limit });
      if (answer !== null) this.#newest.set(type, answer);
      answers.push(answer);
    }
    const given = answers.filter((answer) => answer !== null);
    const hasComplete = given.some((answer) => this.#isComplete(answer));
    const reason = hasComplete ? yield* this.#judgeFilter(whole) : null;
    const isShown = hasComplete && reason === null;
    const hiding = given.filter((answer) => this.#hides(answer, whole));
    if (reason === 'filtered-late' || hiding.length > 0) this.#seen.filterFails = 'late';
    else if (given.some(isForeign)) this.#seen.filterFails = 'ignored';
    else if (isShown || this.#seen.filterFails === 'ignored') this.#seen.filterFails = undefined;
    const types: Judged[] = [];
    for (const [index, answer] of answers.entries()) {
      if (answer === null) types.push(failed({ type: EVENT_TYPES[index] ?? null, limit }));
      else if (isForeign(answer) || hiding.includes(answer)) types.push(unproven(answer, 'filtered-late'));
      else if (!this.#isComplete(answer)) types.push(yield* this.#judgeWindow(answer, settledAt));
      else types.push(reason === null ? this.#complete(answer) : unproven(answer, reason));
    }
    // The window of the whole list can prove a type that its own answer does not.
    const isNeeded =
      judgedWhole.proof.reason === 'not-reached' && types.some(({ proof }) => proof.from > settledAt);
    return this.conclude([isNeeded ? yield* this.#judgeWindow(whole, settledAt) : judgedWhole, ...types]);
  }

  /** Judges an answer as the newest part of the list. A second query confirms it if it begins before `reach`. */
  *#judgeWindow(answer: ListAnswer, reach: number): Survey<Judged> {
    const { lagMs, disorderMs } = this.#options;
    const order = ignoresLimit(answer) ? null : readOrder(answer, disorderMs);
    if (order === null) return unproven(answer, 'no-order');
    // A list in the order of listing can lack events created up to a lag after the oldest event that it shows.
    const spare = lagMs + disorderMs;
    // An event further below its place shows that the events below the cut can be newer than their place by as much.
    const sink = order.sink > spare ? order.sink : 0;
    const from = order.tail + spare + sink;
    const isYoung = from >= this.#times.settledAt;
    if (isYoung || from > reach)
      return unproven(answer, isYoung && sink > 0 ? 'no-order' : 'not-reached', order);
    const limit = Math.max(1, Math.ceil(answer.size * PROBED_SHARE));
    const probe = yield* this.#ask({ type: answer.type, limit });
    const refuted = probe === null ? 'no-answer' : refutesWindow(order, probe, disorderMs);
    const reason = refuted ?? (answer.type === null ? yield* this.#judgeUnshown(answer, from) : null);
    if (reason !== null) return unproven(answer, reason, order);
    return { query: answer, answer, verdict: 'window', proof: { from, reason: 'not-reached' }, order };
  }

  /**
   * Asks for the newest events of each type that a window of all types does not show. A list sorted by type, then by time,
   * looks like a window of the first types. `null` if the window lacks no event.
   */
  *#judgeUnshown(window: ListAnswer, from: number): Survey<GapReason | null> {
    const shown = new Set([...window.events.values()].map(({ type }) => type));
    for (const type of EVENT_TYPES) {
      if (shown.has(type)) continue;
      if (!this.#newest.has(type)) this.#newest.set(type, yield* this.#ask({ type, limit: REACH_EVENTS }));
      const answer = this.#newest.get(type) ?? null;
      if (answer === null) return 'no-answer';
      if (isForeign(answer)) this.#seen.filterFails ??= 'ignored';
      else if (this.#seen.filterFails === 'ignored') this.#seen.filterFails = undefined;
      const times = [...answer.events.values()].filter((event) => event.type === type).map(({ at }) => at);
      if (this.#seen.filterFails && times.length < REACH_EVENTS) return 'filtered-late';
      const begin = Math.max(from, this.#start);
      if (times.some((at) => at > begin && at <= this.#times.settledAt)) return 'contradiction';
      // Including unreadable elements. So many can hardly all have been listed since the window was, and the answer does
      // not show older ones.
      const elements = [...times, ...answer.unreadable];
      if (elements.length >= REACH_EVENTS && elements.every((at) => at === null || at > from)) {
        return 'contradiction';
      }
    }
    return null;
  }

  /**
   * `null` if the service filters by type before it cuts the list. It then returns `n` events of a type with a limit of `n`;
   * a service that cuts first returns only the events of that type among the first `n`.
   */
  *#judgeFilter(whole: ListAnswer): Survey<GapReason | null> {
    const query = chooseFilterProbe(whole);
    if (query === null) return 'no-order';
    const answer = yield* this.#ask(query);
    if (answer === null) return 'no-answer';
    return answer.size >= query.limit ? null : 'filtered-late';
  }

  /**
   * Whether an answer for one type, which its limit did not cut, lacks events of the type that the whole list shows. Between
   * the two requests, the oldest ones can have left.
   */
  #hides({ type, events, size, limit }: ListAnswer, whole: ListAnswer): boolean {
    if (size >= limit) return false;
    const hidden = [...whole.events.values()].filter((event) => event.type === type && !events.has(event.id));
    const isYoung = ({ at }: EventKey) => at > reachOf(whole) && at <= this.#times.settledAt;
    return hidden.length >= REACH_EVENTS || hidden.some(isYoung);
  }

  /** Whether neither the limit nor the cap can have cut the answer: larger answers show that the cap is larger. */
  #isComplete({ type, size, limit }: ListAnswer): boolean {
    const { all, type: ofType } = this.#seen;
    // Unless the app declares it, one cap is assumed for both kinds of queries.
    const seen = type === null ? all : Math.max(ofType, this.#whole?.events.size ?? 0);
    const shown = this.#isDeclared ? (this.#options.listMax ?? 0) : seen;
    return size < limit && size < Math.max(MIN_CAP, shown);
  }

  /** A complete answer proves everything unless events can have been removed from the list. */
  #complete(answer: ListAnswer): Judged {
    const { lagMs, disorderMs, state } = this.#options;
    const { oldest } = state;
    const oldestNow = this.#oldestNow();
    const isKept = oldest === null || (oldest.at !== null && oldestNow <= oldest.at);
    // A service that removes the oldest events first has every event newer than the oldest listed one. It judges age by its
    // own clock: by ours, if it is slow, removed events can be in the future.
    const from = isKept
      ? Number.NEGATIVE_INFINITY
      : Math.min(oldestNow + lagMs + disorderMs, this.#youngFrom(answer));
    return { query: answer, answer, verdict: 'complete', proof: { from, reason: 'removed' }, order: null };
  }

  /** No event that was created later has been removed for its age. */
  #youngFrom({ type }: ListQuery): number {
    const { lagMs, disorderMs, state } = this.#options;
    const { at = null, seenAt = 0 } = state.oldest ?? {};
    // An event that was listed up to an age shows that the service keeps events at least as long. A list that is not
    // complete as a whole can instead keep a number of events, which are younger the more events there are.
    const keptMs = at !== null && type === null ? seenAt - at - lagMs - disorderMs : 0;
    return this.#times.clocks.later - Math.max(keptMs, 2 * lagMs);
  }

  /**
   * The oldest event now. An event older than the previous oldest one was listed late, and shows nothing about others. If
   * that one was dated in the future, events created since then are older as well, and count.
   */
  #oldestNow(): number {
    const { at = null, seenAt = 0 } = this.#options.state.oldest ?? {};
    return oldestTime(this.#answers, at === null ? null : Math.min(at, seenAt));
  }

  /** The oldest event, by which the next poll notices that events have been removed. */
  #oldestToKeep([whole, ...types]: readonly Judged[]): OldestListed | null {
    const { oldest } = this.#options.state;
    const seenAt = this.#times.until;
    const parts = types.length > 0 ? types : [whole];
    // While the known oldest event is listed, no newer event has been removed, even if a list was cut in the meantime.
    if (parts.some((part) => part?.verdict !== 'complete')) {
      return oldest ?? (this.#whole && { at: null, seenAt });
    }
    const at = this.#oldestNow();
    return Number.isFinite(at) ? { at, seenAt } : null;
  }

  conclude(judged: readonly Judged[]): SurveyResult {
    const { known = [] } = this.#seen;
    const lacking = known.filter(({ id, at }) => at <= this.#times.settledAt && !this.#shown.has(id));
    this.#noteLost(judged, lacking);
    const checked = judged.map((each) => ({ ...each, proof: this.#limitProof(each) }));
    const [whole] = checked;
    // After a window that suffices there are no further queries, so nothing is known about the rest of the list.
    const isEnough =
      whole?.verdict === 'complete' || (whole?.verdict === 'window' && whole.proof.from <= this.#start);
    const answer = this.#whole;
    // An answer with more events shows that it was not cut, unless its limit can have cut it.
    const isConfirmable = answer !== null && answer.size < answer.limit && !this.#isDeclared;
    const size = isConfirmable ? answer.size : null;
    const maybe = isEnough || lacking.length > 0 ? null : this.#judgeIfComplete(size);
    const ifComplete = maybe && maybe.from <= this.#start ? { from: maybe.from, size } : null;
    const proofs = {} as Record<EventType, Proof>;
    for (const type of EVENT_TYPES) {
      let best = nothing('no-answer');
      for (const { query, proof } of checked) {
        if ((query.type ?? type) === type && proof.from <= best.from) best = proof;
      }
      // Without a sign that events are missing, the order of the list gives no reason for a gap.
      const keepsReason = maybe === null || maybe.reason === 'contradiction' || best.from <= this.#start;
      proofs[type] = keepsReason ? best : { ...best, reason: maybe.reason };
    }
    return {
      ...this.#times,
      answered: answer !== null,
      proofs,
      verdicts: checked.map((each) => this.#toVerdict(each, ifComplete)),
      limit: this.#nextLimit(judged),
      oldest: this.#oldestToKeep(judged),
      seen: this.#toSeen(),
      ifComplete,
    };
  }

  /** Notes the known events that the list has lost, of those that no answer shows. */
  #noteLost(judged: readonly Judged[], lacking: readonly KnownEvent[]): void {
    const oldest = this.#options.state.oldest?.at ?? Number.POSITIVE_INFINITY;
    const { events: before = [], until = 0 } = this.#seen.lost ?? {};
    const lost = new Set(before.filter(({ id }) => !this.#shown.has(id)));
    const still = lost.size;
    for (const { answer, verdict, proof } of judged) {
      if (answer === null) continue;
      // An event can have left a complete list for its age if it is older than the oldest one was then.
      const from = verdict === 'complete' ? Math.min(this.#youngFrom(answer), oldest) : proof.from;
      const gone = lacking.filter(({ type, at }) => (answer.type ?? type) === type && at > from);
      for (const event of gone) lost.add(event);
      // A list that is complete only by `listMax` is cut if it lacks events from before those that it shows.
      const isRefutable = this.#isDeclared && verdict === 'complete' && answer.size >= MIN_CAP;
      if (isRefutable && gone.some(({ at }) => at < reachOf(answer))) this.#seen.listMaxRefuted = true;
    }
    // An empty list goes on losing events until it shows something again.
    this.#isLosing = lost.size > (this.#shown.size === 0 ? 0 : still);
    const lostUntil = this.#isLosing ? this.#times.until : until;
    this.#seen.lost = lost.size > 0 ? { events: [...lost].slice(0, MAX_LOST), until: lostUntil } : undefined;
  }

  /** The proof of the last answer for all types if neither its limit nor the cap has cut it; `null` if it is cut. */
  #judgeIfComplete(size: number | null): Proof | null {
    const { unconfirmed } = this.#options.state;
    const whole = this.#whole;
    if (whole === null || this.#isCut(whole)) return null;
    // No event has been removed while the span waited: later polls would have noticed, unless our limit had cut the list. While
    // it still does, no larger answer confirms the span.
    const isWaiting =
      unconfirmed != null &&
      unconfirmed.until > this.#times.watermark &&
      (unconfirmed.size !== null || size === null);
    const judged = this.#complete(whole);
    const from = isWaiting ? unconfirmed.from : judged.proof.from;
    const reason = from <= this.#start ? 'unconfirmed' : 'removed';
    return this.#limitProof({ ...judged, proof: { from, reason } });
  }

  /** Limits a proof by the other answers and by elements that cannot be read. */
  #limitProof({ answer, verdict, proof }: Judged): Proof {
    const { settledAt } = this.#times;
    if (answer === null || proof.from >= settledAt) return nothing(proof.reason);
    // The probe of a service that ignores the limit does not show that it filters before it cuts.
    if (verdict === 'complete' && answer.type !== null && this.#answers.some(ignoresLimit))
      return nothing('no-order');
    if (this.#isLosing) return nothing('removed');
    let { from, reason } = proof;
    const { until = from } = this.#seen.lost ?? {};
    if (until > from) [from, reason] = [until, 'removed'];
    const lackedAt = this.#newestLacked(answer, from);
    if (lackedAt !== null) {
      // An event from before the start can have been removed in the meantime.
      [from, reason] = [lackedAt > this.#start ? Number.POSITIVE_INFINITY : lackedAt, 'contradiction'];
    }
    for (const { unreadable } of this.#answers) {
      // An element that cannot be read cannot be recorded.
      for (const at of unreadable) {
        if (at === null) [from, reason] = [Number.POSITIVE_INFINITY, 'malformed'];
        else if (at > from && at <= settledAt) [from, reason] = [at, 'malformed'];
      }
    }
    return { from, reason };
  }

  /** Whether it lacks an event that was not removed: one newer than its oldest event, or one that a later answer shows. */
  #isCut(answer: ListAnswer): boolean {
    const index = this.#answers.indexOf(answer);
    return (
      this.#newestLacked(answer, Number.NEGATIVE_INFINITY, index) !== null ||
      this.#newestLacked(answer, oldestTime([answer])) !== null
    );
  }

  /**
   * When the newest event after a time was created that an answer lacks and another one shows; or `null`.
   *
   * @param index - only answers after this one count.
   */
  #newestLacked(answer: ListAnswer, from: number, index = -1): number | null {
    let newest: number | null = null;
    // A list without a cap can have a million events, and no other answer then shows more.
    if (answer.events.size === this.#shown.size) return newest;
    for (const { event, last } of this.#shown.values()) {
      if (last <= index || answer.events.has(event.id)) continue;
      const { type, at } = event;
      const counts = (answer.type ?? type) === type && at > (newest ?? from) && at <= this.#times.settledAt;
      if (counts) newest = at;
    }
    return newest;
  }

  /** The smallest limit in the order of growth that would have sufficed now. */
  #nextLimit([whole, ...types]: readonly Judged[]): number {
    const { limit: lowest, maxLimit, lagMs, disorderMs } = this.#options;
    if (!whole?.answer) return lowest;
    const { size, events } = whole.answer;
    if (types.length > 0) return whole.answer.limit;
    let reached = REACH_EVENTS;
    for (const { at } of events.values()) if (at >= this.#start - lagMs - disorderMs) reached += 1;
    const needed = whole.verdict === 'complete' ? size : Math.max(reached, MIN_PROBED_EVENTS / PROBED_SHARE);
    let limit = lowest;
    while (limit <= needed && limit < maxLimit) limit = Math.min(limit * 2, maxLimit);
    return limit;
  }

  #toSeen(): SeenAnswers {
    const { listMax = 0 } = this.#options;
    const { listMaxRefuted, shownFrom = this.#times.settledAt, known = [] } = this.#seen;
    const isShort = ({ size, limit }: ListAnswer) => size < Math.min(limit, listMax);
    return {
      ...this.#seen,
      listMaxRefuted: listMaxRefuted || this.#answers.some((each) => isShort(each) && this.#isCut(each)),
      shownFrom: Math.min(shownFrom, oldestTime(this.#whole ? [this.#whole] : [])),
      known: toKnown(this.#shown.values(), known, this.#times),
    };
  }

  #toVerdict(
    { query, answer, verdict, proof, order }: Judged,
    ifComplete: SurveyResult['ifComplete'],
  ): ListVerdict {
    const { type, limit } = query;
    const { from, reason } = proof;
    const isCut = answer !== null && verdict !== 'complete';
    const isUnproven = from > this.#times.settledAt && verdict !== 'failed';
    const isUnconfirmed = type === null && isCut && ifComplete !== null && from > this.#start;
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
      windowMs: order && this.#times.until - order.tail,
      disorderMs: isCut && !ignoresLimit(answer) ? measureDisorder(answer) : null,
    };
  }
}

function failed(query: ListQuery): Judged {
  return { query, answer: null, verdict: 'failed', proof: nothing('no-answer'), order: null };
}

function unproven(answer: ListAnswer, reason: GapReason, order: Order | null = null): Judged {
  return { query: answer, answer, verdict: 'unproven', proof: nothing(reason), order };
}

function nothing(reason: GapReason): Proof {
  return { from: Number.POSITIVE_INFINITY, reason };
}

/** Whether an answer for one type shows other types: the service does not filter. */
function isForeign({ type, events }: ListAnswer): boolean {
  return type !== null && [...events.values()].some((event) => event.type !== type);
}

/** When the third oldest event of an answer was created: one or two can have been listed late. */
function reachOf({ events }: ListAnswer): number {
  const times = [...events.values()].map(({ at }) => at).sort((a, b) => a - b);
  return times[REACH_EVENTS - 1] ?? Number.NEGATIVE_INFINITY;
}

/** When the oldest element from `start` on was created, readable or not; `Infinity` without one. */
function oldestTime(answers: readonly ListAnswer[], start: number | null = null): number {
  const from = start ?? Number.NEGATIVE_INFINITY;
  let oldest = Number.POSITIVE_INFINITY;
  for (const { events, unreadable } of answers) {
    for (const { at } of events.values()) if (at >= from && at < oldest) oldest = at;
    for (const at of unreadable) if (at !== null && at >= from && at < oldest) oldest = at;
  }
  return oldest;
}
