/**
 * Judges what the answers of the list prove. Pure: no request, clock or inbox.
 *
 * The model: an answer contains `min(|S|, L, C)` of the matching events `S`, where `L` is the limit of the query and
 * `C` an unspecified cap of the server. Which events it contains and in which order is not specified either.
 */
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { GapReason, OldestListed } from '../core/ports.js';

/** One query of the list. */
export interface ListQuery {
  /** `null`: every type. */
  readonly type: EventType | null;
  readonly limit: number;
}

/** The part of an event that coverage depends on. */
export interface EventKey {
  readonly id: string;
  readonly type: string;
  /** `created_at`, epoch ms. */
  readonly at: number;
}

/** One answer of the list. */
export interface ListAnswer extends ListQuery {
  /** How many elements came back, unreadable ones and repetitions included: a cap counts them all. */
  readonly size: number;
  /** The events in the order of the answer, repetitions included. */
  readonly events: readonly EventKey[];
  /** When the elements were created that cannot be read and can be of a known type; `null` if that cannot be read either. */
  readonly unreadable: readonly (number | null)[];
  /** The service's clock when it answered, epoch ms; `null` when it did not say. */
  readonly servedAt: number | null;
}

/** The verdict on the last answer for a type, or for all types (`null`). */
export interface ListVerdict {
  readonly type: EventType | null;
  /** The limit of the query. */
  readonly limit: number;
  /** How many elements came back. */
  readonly size: number;
  /**
   * - `complete`: the answer contains every matching event.
   * - `window`: it is cut, and contains the newest events.
   * - `unproven`: it can be cut anywhere.
   * - `failed`: there was no answer.
   */
  readonly verdict: 'complete' | 'window' | 'unproven' | 'failed';
  /** Why it proves nothing, or begins later than it could; `null` if it does not. */
  readonly reason: GapReason | null;
  /** How far back it shows the events in their order, in ms before the poll; `null` if it has no order. */
  readonly windowMs: number | null;
  /** By how much neighbours are out of order, in ms, apart from a tenth that can be late; `null` for too few events. */
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
  /** How late an event can be listed after its `created_at`, and how wrong a clock can be. */
  readonly lagMs: number;
  /** By how much neighbours of the list can be out of order. */
  readonly disorderMs: number;
  /** The lowest limit of a query. */
  readonly limit: number;
  readonly maxLimit: number;
  /** The limit that sufficed at the last poll; 0 for none. @default 0 */
  readonly lastLimit?: number | undefined;
  /** The `oldest` of the last survey. @default null */
  readonly oldest?: OldestListed | null | undefined;
}

/** The result of a survey. Times are epoch ms. */
export interface SurveyResult {
  /** Whether the list answered at all. */
  readonly answered: boolean;
  readonly watermark: number;
  /** Whether the watermark is in the future by both clocks: a clock was wrong. */
  readonly isAhead: boolean;
  /** The start of the poll by the earlier of the two clocks. */
  readonly until: number;
  /** Until then less the lag: what was created later can still be listed. */
  readonly settledAt: number;
  readonly proofs: Readonly<Record<EventType, Proof>>;
  readonly verdicts: readonly ListVerdict[];
  /** The limit to begin with at the next poll. */
  readonly limit: number;
  /** The oldest event of the list, of this survey or the last one that knew it; `null` for an empty list. */
  readonly oldest: OldestListed | null;
  /** Events created up to here can have been removed from the list; `null` without a sign of that. */
  readonly removedUntil: number | null;
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
  /** The types of which it proves nothing, although it is an answer for all types. @default none */
  readonly except?: ReadonlySet<EventType> | undefined;
}

/** Surveys the list: as a whole with a growing limit, then by type. */
export function* surveyList(options: SurveyOptions): Survey {
  const { startedAt, lagMs, disorderMs, maxLimit, lastLimit = 0, oldest = null } = options;
  const answers: ListAnswer[] = [];
  /** The last answers for one type, with the newest events of it; `null`: the request failed. */
  const asked = new Map<EventType, ListAnswer | null>();
  let removedUntil: number | null = null;
  /** The earlier of two clocks, so that a clock that is ahead cannot move the watermark too far. */
  const until = () => answers.reduce((time, { servedAt }) => Math.min(time, servedAt ?? time), startedAt);
  const latest = () => answers.reduce((time, { servedAt }) => Math.max(time, servedAt ?? time), startedAt);
  const settledAt = () => until() - lagMs;
  const watermark = () => {
    if (!options.first) return options.watermark;
    // Without the service's clock, ours can be ahead of it by `lagMs`.
    const said = answers.some(({ servedAt }) => servedAt !== null);
    return Math.min(options.watermark, said ? until() : settledAt());
  };
  /** A watermark that both clocks have not reached was set by a clock that was wrong: it proves nothing. */
  const isAhead = () => watermark() > latest();
  /** The unproven part begins here. */
  const start = () => (isAhead() ? Number.NEGATIVE_INFINITY : watermark());
  const target = () => Math.min(start(), options.target ?? start());

  function* ask(query: ListQuery): Survey<ListAnswer | null> {
    const answer = yield query;
    if (answer !== null) answers.push(answer);
    return answer;
  }

  /** Asks for the whole list, with a limit that grows as long as the limit is what cuts it. */
  function* surveyWhole(): Survey {
    let limit = Math.min(Math.max(options.limit, lastLimit), maxLimit);
    let whole = yield* ask({ type: null, limit });
    if (whole === null && limit > options.limit) {
      // The service can refuse a limit that it took before, or answer it too slowly.
      limit = options.limit;
      whole = yield* ask({ type: null, limit });
    }
    if (whole === null) return conclude([failed({ type: null, limit })]);
    for (;;) {
      const judged = isComplete(whole, MIN_CAP) ? complete(whole) : yield* judgeWindow(whole, target());
      const proven = judged.proof.from <= target() || judged.verdict === 'complete';
      // Until the watermark leaves the start date there is nothing to prove.
      const isEarly = settledAt() <= target() && oldestTime([whole], Number.NEGATIVE_INFINITY) <= target();
      if (proven || isEarly) return conclude([judged]);
      // Smaller than the limit: the whole list, or a cap. A larger limit cannot tell which.
      if (whole.size < limit || limit >= maxLimit) return yield* surveyTypes(judged, whole);
      limit = Math.min(limit * 2, maxLimit);
      const larger: ListAnswer | null = yield* ask({ type: null, limit });
      // The service can refuse a limit of this size. The types are then asked for with the last one.
      if (larger === null) return yield* surveyTypes(judged, whole);
      whole = larger;
    }
  }

  /** Asks for each type by itself, and judges each alone. */
  function* surveyTypes(judgedWhole: Judged, whole: ListAnswer): Survey {
    const { query } = judgedWhole;
    const parts: { readonly query: ListQuery; readonly answer: ListAnswer | null }[] = [];
    for (const type of EVENT_TYPES) {
      const part = { type, limit: query.limit };
      const answer = yield* ask(part);
      parts.push({ query: part, answer });
      if (answer !== null) asked.set(type, answer);
    }
    // The cap can have shrunk since the whole was answered, so the whole is asked for again where its size matters.
    const sizeMatters = parts.some(({ answer }) => (answer?.size ?? 0) >= MIN_CAP);
    const again = sizeMatters ? yield* ask(query) : null;
    // A cap of 60 events can let pass 120 elements if it is applied before events are repeated.
    const cap = Math.max(MIN_CAP, Math.min(countEvents(whole), again === null ? 0 : countEvents(again)));
    const isWhole = (answer: ListAnswer | null) => answer !== null && isComplete(answer, cap);
    const filter = parts.some(({ answer }) => isWhole(answer)) ? yield* judgeFilter(whole) : null;

    const judged: Judged[] = [];
    for (const part of parts) {
      if (part.answer === null) judged.push(failed(part.query));
      else if (!isWhole(part.answer)) judged.push(yield* judgeWindow(part.answer, settledAt()));
      else judged.push(filter === null ? complete(part.answer) : unproven(part.answer, filter));
    }
    // The window of the whole can prove what no type proves by itself.
    const helps =
      judgedWhole.proof.reason === 'not-reached' && judged.some(({ proof }) => proof.from > settledAt());
    return conclude([helps ? yield* judgeWindow(whole, settledAt()) : judgedWhole, ...judged]);
  }

  /** Judges an answer as the newest part of the list. It is confirmed by a second query if it begins before `reach`. */
  function* judgeWindow(answer: ListAnswer, reach: number): Survey<Judged> {
    const order = readOrder(answer, disorderMs);
    if (order === null) return unproven(answer, 'no-order');
    // A list in the order of listing can cut off what was created up to a lag later than the oldest that it shows.
    const spare = lagMs + disorderMs;
    // One that is further below its place than that shows how much newer than its place what is cut off can be.
    const sink = order.sink > spare ? order.sink : 0;
    const from = order.tail + spare + sink;
    if (from >= settledAt()) return unproven(answer, sink > 0 ? 'no-order' : 'window-too-short');
    if (from > reach) return unproven(answer, 'not-reached');
    const query = { type: answer.type, limit: Math.max(1, Math.ceil(answer.size * PROBED_SHARE)) };
    const probe = yield* ask(query);
    if (probe === null) return unproven(answer, 'no-answer');
    const reason = refutesWindow({ probe, order, limit: query.limit, disorderMs });
    if (reason !== null) return unproven(answer, reason);
    const except = answer.type === null ? yield* judgeUnshown(answer, from) : new Set<EventType>();
    if (except === null) return unproven(answer, 'contradiction');
    return { query: answer, answer, verdict: 'window', proof: { from, reason: 'not-reached' }, except };
  }

  /**
   * Asks for the newest events of each type that a window of all types does not show: a list that is sorted by type first,
   * and by time then, looks like a window of the first types. `null` if there are events that the window lacks; otherwise
   * the types of which that is not known.
   */
  function* judgeUnshown(window: ListAnswer, from: number): Survey<ReadonlySet<EventType> | null> {
    const shown = new Set(window.events.map(({ type }) => type));
    const except = new Set<EventType>();
    for (const type of EVENT_TYPES.filter((each) => !shown.has(each))) {
      if (!asked.has(type)) asked.set(type, yield* ask({ type, limit: REACH_EVENTS }));
      const answer = asked.get(type) ?? null;
      if (answer === null) {
        except.add(type);
        continue;
      }
      const times = answer.events.filter((event) => event.type === type).map(({ at }) => at);
      if (times.some((at) => at > from && at > start() && at <= settledAt())) return null;
      // With the elements that cannot be read. So many can hardly all have been listed since the window was, and the
      // answer shows nothing of older ones.
      const elements = [...times, ...answer.unreadable];
      if (elements.length >= REACH_EVENTS && elements.every((at) => at === null || at > from)) return null;
    }
    return except;
  }

  /**
   * `null` if the service filters by type before it cuts the list: then a type of which an answer has `n` events has `n`
   * with a limit of `n`. One that cuts first answers only those of the first `n` events.
   */
  function* judgeFilter(whole: ListAnswer): Survey<GapReason | null> {
    const query = chooseFilterProbe(whole);
    if (query === null) return 'no-order';
    const answer = yield* ask(query);
    if (answer === null) return 'no-answer';
    return answer.size >= query.limit ? null : 'filtered-late';
  }

  /**
   * An event that is older than the oldest one before was listed late, and shows nothing of the others. If that one was
   * dated in the future, those that were created since are older as well, and count.
   */
  function oldestNow(): number {
    const before = oldest?.at ?? Number.NEGATIVE_INFINITY;
    return oldestTime(answers, Math.min(before, oldest?.seenAt ?? before));
  }

  /** A complete answer proves everything unless events have been removed from the list. */
  function complete(answer: ListAnswer): Judged {
    let from = Number.NEGATIVE_INFINITY;
    if (oldest !== null && (oldest.at === null || oldestNow() > oldest.at)) {
      // An event that was listed up to an age shows that the service keeps events at least as long. A list of so many that
      // it is not complete as a whole can also keep a number of events: these are the younger, the more there are.
      const isByAge = oldest.at !== null && answer.type === null;
      const keptMs = isByAge ? Math.max(0, oldest.seenAt - oldest.at) : 0;
      // A service that removes the oldest first has everything that is newer than the oldest that it has. It judges the
      // age by its own clock: ours can be so slow that what it has removed is in our future.
      from = Math.min(oldestNow(), latest() - keptMs) + lagMs + disorderMs;
      removedUntil = from;
    }
    return { query: answer, answer, verdict: 'complete', proof: { from, reason: 'removed' } };
  }

  /** The oldest event, by which the next poll notices that events have been removed. */
  function oldestToKeep(judged: readonly Judged[]): OldestListed | null {
    const parts = judged.filter(({ query }) => query.type !== null);
    const isWhole = (parts.length > 0 ? parts : judged).every(({ verdict }) => verdict === 'complete');
    // While the event that is known is listed, nothing newer has been removed, even if a list was cut meanwhile.
    if (!isWhole) return oldest ?? { at: null, seenAt: until() };
    const at = oldestNow();
    return Number.isFinite(at) ? { at, seenAt: until() } : null;
  }

  function conclude(judged: readonly Judged[]): SurveyResult {
    const checked = judged.map((each) => ({ ...each, proof: limitProof(each) }));
    const proofOf = (type: EventType) =>
      checked
        .filter(({ query, except }) => (query.type === null ? !except?.has(type) : query.type === type))
        .map(({ proof }) => proof)
        .reduce((best, proof) => (proof.from <= best.from ? proof : best), nothing('no-answer'));
    const proofs = Object.fromEntries(EVENT_TYPES.map((type) => [type, proofOf(type)]));
    return {
      answered: answers.length > 0,
      watermark: watermark(),
      isAhead: isAhead(),
      until: until(),
      settledAt: settledAt(),
      proofs: proofs as Record<EventType, Proof>,
      verdicts: checked.map(toVerdict),
      limit: nextLimit(checked),
      oldest: answers.length > 0 ? oldestToKeep(judged) : oldest,
      removedUntil,
    };
  }

  /** Then an answer for a type that is not smaller than its limit does not show that the service filters first. */
  function ignoresLimit(): boolean {
    return answers.some(({ size, limit }) => size > limit);
  }

  /** Limits a proof by the other answers and by elements that cannot be read. */
  function limitProof({ answer, verdict, proof }: Judged): Proof {
    if (answer === null || proof.from >= settledAt()) return { ...proof, from: Number.POSITIVE_INFINITY };
    if (verdict === 'complete' && answer.type !== null && ignoresLimit()) return nothing('no-order');
    let { from, reason } = proof;
    const ids = new Set(answer.events.map(({ id }) => id));
    const isLacked = ({ id, type, at }: EventKey) =>
      (answer.type === null || type === answer.type) && at > from && at <= settledAt() && !ids.has(id);
    for (const { at } of answers.flatMap(({ events }) => events.filter(isLacked))) {
      // An event from before the start can have been removed in the meantime.
      [from, reason] = [at > start() ? Number.POSITIVE_INFINITY : Math.max(from, at), 'contradiction'];
    }
    // An element that cannot be read cannot be recorded.
    for (const at of answers.flatMap(({ unreadable }) => unreadable)) {
      if (at === null) [from, reason] = [Number.POSITIVE_INFINITY, 'malformed'];
      else if (at > from && at <= settledAt()) [from, reason] = [at, 'malformed'];
    }
    return { from, reason };
  }

  /** The smallest limit in the order of growth that would have sufficed now. */
  function nextLimit(judged: readonly Judged[]): number {
    const [whole, ...parts] = judged;
    if (!whole?.answer || judged.every(({ proof }) => proof.from > settledAt())) return lastLimit;
    if (parts.length > 0) return whole.answer.limit;
    const { size, events } = whole.answer;
    const reached = events.filter(({ at }) => at >= start() - lagMs - disorderMs).length + REACH_EVENTS;
    const needed = whole.verdict === 'complete' ? size : Math.max(reached, MIN_PROBED_EVENTS / PROBED_SHARE);
    let { limit } = options;
    while (limit <= needed && limit < maxLimit) limit = Math.min(limit * 2, maxLimit);
    return limit;
  }

  function toVerdict({ query, answer, verdict, proof }: Judged): ListVerdict {
    const order = answer && readOrder(answer, disorderMs);
    return {
      type: query.type,
      limit: query.limit,
      size: answer?.size ?? 0,
      verdict: proof.from > settledAt() && verdict !== 'failed' ? 'unproven' : verdict,
      reason: isLimited({ verdict, proof }) ? proof.reason : null,
      windowMs: order && until() - order.tail,
      disorderMs: answer && measureDisorder(answer),
    };
  }

  return yield* surveyWhole();
}

/** Whether a proof is less than what an answer of this verdict proves by itself. */
function isLimited({ verdict, proof }: Pick<Judged, 'verdict' | 'proof'>): boolean {
  if (verdict === 'complete') return proof.from !== Number.NEGATIVE_INFINITY;
  return verdict !== 'window' || proof.reason !== 'not-reached';
}

function failed(query: ListQuery): Judged {
  return { query, answer: null, verdict: 'failed', proof: nothing('no-answer') };
}

function unproven(answer: ListAnswer, reason: GapReason): Judged {
  return { query: answer, answer, verdict: 'unproven', proof: nothing(reason) };
}

function nothing(reason: GapReason): Proof {
  return { from: Number.POSITIVE_INFINITY, reason };
}

/**
 * Every server answers at least this many: the service's default limit is 50.
 *
 * Caps can shrink, so a larger answer of an earlier poll does not count, only answers of the same poll.
 */
const MIN_CAP = 50;

/** `cap` must be known from other answers: no answer proves its own. */
function isComplete({ size, limit }: ListAnswer, cap: number): boolean {
  return size < limit && size < cap;
}

/** The highest probability at which what can happen by chance still counts as evidence. */
const MAX_CHANCE = 1e-9;

/** So many events must show how far back a list reaches: one or two can be there because they were listed late. */
const REACH_EVENTS = 3;

/** One in so many events can be older than its place by more than the disorder. */
const LATE_SHARE = 10;

/** A list that is sorted by time, in either direction. */
interface Order {
  /** The events in order, newest first, without those that are late. */
  readonly events: readonly EventKey[];
  /** When the oldest event was created, by {@link REACH_EVENTS} events. */
  readonly tail: number;
  /** By how much an event is newer than its place, at most, in ms. In a list by listing, the lag has the same look. */
  readonly sink: number;
}

/**
 * The order of an answer, or `null`: neighbours are in order within `disorderMs`, all but a few that are late, and the
 * times are too many and too different for a shuffled list to look so by chance. Fifty equal times show no order, nor
 * does one event repeated.
 */
function readOrder(answer: ListAnswer, disorderMs: number): Order | null {
  const distinct = distinctEvents(answer);
  for (const events of [distinct, distinct.toReversed()]) {
    const kept = withoutLate(events, disorderMs);
    const outliers = events.length - kept.length;
    const tail = kept.map(({ at }) => at).sort((a, b) => a - b)[REACH_EVENTS - 1];
    if (tail === undefined || outliers * LATE_SHARE > events.length) continue;
    // Every choice of the outliers is one more way for chance.
    const maxChance = Math.log(MAX_CHANCE) - outliers * Math.log(events.length);
    if (isMoreThanChance(kept, { disorderMs, maxChance })) {
      return { events: kept, tail, sink: measureSink(events) };
    }
  }
  return null;
}

/** How many different events an answer has at least. */
function countEvents({ events }: ListAnswer): number {
  return new Set(events.map(({ id }) => id)).size;
}

/** Each event once, without those whose date no clock shows. */
function distinctEvents({ events }: ListAnswer): readonly EventKey[] {
  return [
    ...new Map(events.filter(({ at }) => Number.isFinite(at)).map((event) => [event.id, event])).values(),
  ];
}

/**
 * Of events that are newest first, those that are in order: without the ones that are older than a later one of the list,
 * because they were listed late. That shows nothing of the others, but an event below its place shows that others can be
 * below the cut, so none is left out for that.
 */
function withoutLate(events: readonly EventKey[], disorderMs: number): readonly EventKey[] {
  let newest = Number.NEGATIVE_INFINITY;
  const notLate = events.toReversed().filter(({ at }) => {
    newest = Math.max(newest, at);
    return newest - at <= disorderMs;
  });
  return notLate.toReversed();
}

/** An event is below its place if it is newer than most of so many before it: one of them can have been listed late. */
const SINK_NEIGHBOURS = 3;

/** By how much an event is newer than most of those just before it, at most; of events that are newest first, in ms. */
function measureSink(events: readonly EventKey[]): number {
  return events.reduce((deepest, { at }, index) => {
    const before = events.slice(Math.max(0, index - SINK_NEIGHBOURS), index).map((event) => event.at);
    const [, second = Number.POSITIVE_INFINITY] = before.sort((a, b) => a - b);
    return Math.max(deepest, at - second);
  }, 0);
}

/** An event that can change places with more than these shows no order: to count them all would take too long. */
const MAX_PLACES = 500;

/**
 * Whether events in random order are in this order with less than a probability, given as its logarithm. It is the
 * product, step by step, of the share of places that the next event can have, as those within the disorder can change
 * places freely.
 */
function isMoreThanChance(
  events: readonly EventKey[],
  { disorderMs, maxChance }: { readonly disorderMs: number; readonly maxChance: number },
): boolean {
  let chance = 0;
  for (const [index, { at }] of events.entries()) {
    let places = 1;
    for (let before = index - 1; before >= 0 && places <= MAX_PLACES; before--) {
      const other = events[before]?.at ?? 0;
      // In order within the disorder, so all that come before are newer than this.
      if (other > at + 2 * disorderMs) break;
      if (other <= at + disorderMs) places += 1;
    }
    if (places <= MAX_PLACES) chance += Math.log(places / (index + 1));
    if (chance < maxChance) return true;
  }
  return false;
}

/** By how much events are out of order, in the better direction and without {@link LATE_SHARE}, in ms. */
function measureDisorder(answer: ListAnswer): number | null {
  const distinct = distinctEvents(answer);
  if (distinct.length < REACH_EVENTS) return null;
  const measure = (events: readonly EventKey[]) => {
    let newest = Number.NEGATIVE_INFINITY;
    const late = events.toReversed().map(({ at }) => {
      newest = Math.max(newest, at);
      return newest - at;
    });
    return late.sort((a, b) => a - b)[Math.ceil(late.length * (1 - 1 / LATE_SHARE)) - 1] ?? 0;
  };
  return Math.min(measure(distinct), measure(distinct.toReversed()));
}

/** When the oldest element from `start` on was created, readable or not; infinite when there is none. */
function oldestTime(answers: readonly ListAnswer[], start: number): number {
  return answers
    .flatMap(({ events, unreadable }) => [...events.map(({ at }) => at), ...unreadable])
    .reduce<number>(
      (oldest, at) => (at === null || at < start ? oldest : Math.min(oldest, at)),
      Number.POSITIVE_INFINITY,
    );
}

/** The limit of the query that confirms a window, as a share of the window's size. */
const PROBED_SHARE = 0.6;

/** So many events must be in the probe; a server that cuts at random passes once in a million. */
const MIN_PROBED_EVENTS = 20;

/**
 * Whether a smaller answer, asked for after a larger one, lacks some of the newest events of it; `null` if it has them
 * all.
 *
 * A server can take any fifty events and then sort them: that looks like a window and is always the same old one. A
 * server that cuts where it sorts answers a smaller limit with the newer part.
 */
function refutesWindow({
  probe,
  order,
  limit,
  disorderMs,
}: {
  readonly probe: ListAnswer;
  readonly order: Order;
  readonly limit: number;
  readonly disorderMs: number;
}): GapReason | null {
  // A server that ignores the limit answers the same list again, which proves nothing.
  if (probe.size > limit) return 'no-order';
  const times = distinctEvents(probe)
    .map(({ at }) => at)
    .sort((a, b) => a - b);
  const ids = new Set(probe.events.map(({ id }) => id));
  const hasAll = (events: readonly EventKey[]) =>
    events.length >= MIN_PROBED_EVENTS && events.every(({ id }) => ids.has(id));

  const from = (times[REACH_EVENTS - 1] ?? Number.POSITIVE_INFINITY) + disorderMs;
  if (hasAll(order.events.filter(({ at }) => at > from))) return null;
  const to = (times.at(-REACH_EVENTS) ?? Number.NEGATIVE_INFINITY) - disorderMs;
  return hasAll(order.events.filter(({ at }) => at < to)) ? 'oldest-first' : 'no-order';
}

/** At most this probability that a server that cuts a shuffled list first and filters then passes. */
const MAX_FILTER_CHANCE = 1e-6;

/**
 * The query that tells whether the list is filtered before it is cut: a type, and as many events of it as the answer
 * has. `null` if no type is scattered enough over the answer for the result to show anything.
 */
function chooseFilterProbe(whole: ListAnswer): ListQuery | null {
  const events = distinctEvents(whole);
  const probes = EVENT_TYPES.map((type) => {
    const limit = events.filter((event) => event.type === type).length;
    const isAllAt = (part: readonly EventKey[]) => part.every((event) => event.type === type);
    const tells = !isAllAt(events.slice(0, limit)) && !isAllAt(events.slice(-limit));
    return { type, limit, chance: tells ? (limit / events.length) ** limit : 1 };
  });
  const [best] = probes.sort((a, b) => a.chance - b.chance);
  return best !== undefined && best.chance < MAX_FILTER_CHANCE
    ? { type: best.type, limit: best.limit }
    : null;
}
