/**
 * What the answers of the list prove. Pure: no request, clock or inbox.
 *
 * The model: an answer contains `min(|S|, L, C)` of the matching events `S`, where `L` is the limit of the query and
 * `C` an unspecified cap of the server. Which events it contains and in which order is not specified either.
 */
import { EVENT_TYPES, type EventType } from '../core/events.js';

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

/**
 * What an answer proves.
 *
 * - `complete`: it contains every matching event.
 * - `continuous`: it is cut, newest first, and begins before the watermark.
 * - `truncated`: it is cut for certain: answers by type contain events that it lacks.
 * - `unproven`: it can be cut anywhere.
 * - `failed`: there was no answer.
 */
export type Verdict = 'complete' | 'continuous' | 'truncated' | 'unproven' | 'failed';

/** The verdict on the last answer for a type, or for all types (`null`). */
export interface ListVerdict {
  readonly type: EventType | null;
  /** The limit of the query. */
  readonly limit: number;
  /** How many elements came back. */
  readonly size: number;
  readonly verdict: Verdict;
}

/** What a survey depends on. Times are epoch ms. */
export interface SurveyOptions {
  /** Up to here every event is recorded. */
  readonly watermark: number;
  /** No poll was completed before: the watermark is only a start, and can move back to the service's clock. @default false */
  readonly first?: boolean | undefined;
  /** When the poll started, before its first query, by our own clock. */
  readonly startedAt: number;
  /** How late an event can be listed after its `created_at`, and how wrong a clock can be. */
  readonly lagMs: number;
  /** The limit of the first query. */
  readonly limit: number;
  readonly maxLimit: number;
}

/** The result of a survey. */
export interface SurveyResult {
  readonly proven: boolean;
  /** The start of the span that was examined: the watermark before the survey. */
  readonly since: number;
  /** The end of that span, epoch ms: the start of the poll by the earlier of the two clocks. */
  readonly until: number;
  /** Up to here every event is recorded once the answers are; the same as before unless proven. */
  readonly watermark: number;
  readonly verdicts: readonly ListVerdict[];
  /** The types of which nothing is proven; `null` stands for all of them. */
  readonly unproven: readonly (EventType | null)[];
}

/** Yields queries and takes their answers; `null` stands for a request that failed. */
export type Survey<Result = SurveyResult> = Generator<ListQuery, Result, ListAnswer | null>;

/** Surveys the list: as a whole with a growing limit, then by type. */
export function* surveyList(options: SurveyOptions): Survey {
  const { startedAt, lagMs, maxLimit } = options;
  const answers: ListAnswer[] = [];
  /** The earlier of two clocks, so that a clock that is ahead cannot move the watermark too far. */
  const until = () => answers.reduce((time, { servedAt }) => Math.min(time, servedAt ?? time), startedAt);
  const settledAt = () => until() - lagMs;
  const since = () => (options.first ? Math.min(options.watermark, until()) : options.watermark);

  function* ask(query: ListQuery): Survey<ListAnswer | null> {
    const answer = yield query;
    if (answer !== null) answers.push(answer);
    return answer;
  }

  function* judge(answer: ListAnswer, cap: number): Survey<Verdict> {
    const complete = isComplete(answer, cap);
    if (!complete && !(yield* isContinuous(answer))) return 'unproven';
    const contradicted = answers.some((other) =>
      contradicts(other, { answer, settledAt: settledAt(), complete }),
    );
    if (contradicted) return 'unproven';
    return complete ? 'complete' : 'continuous';
  }

  function* isContinuous(answer: ListAnswer): Survey<boolean> {
    // A watermark in the future was set by a clock that was wrong, so it proves nothing.
    if (since() > until()) return false;
    // The lag a second time: a list in the order of listing can cut off what was created up to a lag later.
    if (oldestTime(answer) >= since() - lagMs || !isNewestFirst(answer)) return false;
    const query = probeQuery(answer);
    const probe = yield* ask(query);
    return probe !== null && confirmsOrder(probe, { answer, limit: query.limit, settledAt: settledAt() });
  }

  function conclude(verdicts: readonly ListVerdict[], unprovenTypes: SurveyResult['unproven']): SurveyResult {
    const watermark = since();
    // It moves back only if it was in the future, and then the answers prove everything up to its new place.
    const next = watermark > until() ? settledAt() : Math.max(watermark, settledAt());
    // What cannot be read cannot be recorded: the watermark stays before it.
    const lacksUnreadable = answers.some(({ unreadable }) =>
      unreadable.some((at) => at === null || (at > watermark && at <= next)),
    );
    const unproven = unprovenTypes.length === 0 && lacksUnreadable ? [null] : unprovenTypes;
    const proven = unproven.length === 0;
    return {
      proven,
      since: watermark,
      until: until(),
      watermark: proven ? next : watermark,
      verdicts,
      unproven,
    };
  }

  /** Asks for the whole list, with a growing limit as long as the limit is what cuts it. */
  function* surveyWhole(limit: number): Survey {
    const whole = yield* ask({ type: null, limit });
    if (whole === null) return conclude([{ type: null, size: 0, limit, verdict: 'failed' }], [null]);
    return yield* grow(whole);
  }

  function* grow(whole: ListAnswer): Survey {
    const { size, limit } = whole;
    const verdict = yield* judge(whole, MIN_CAP);
    if (verdict !== 'unproven') return conclude([{ type: null, size, limit, verdict }], []);
    // Smaller than the limit: the whole list, or a cap. A larger limit cannot tell which.
    if (size < limit || limit >= maxLimit) return yield* surveyTypes(whole);
    const larger = yield* ask({ type: null, limit: Math.min(limit * 2, maxLimit) });
    // The service can refuse a limit of this size. The types are then asked for with the last one.
    return yield* larger === null ? surveyTypes(whole) : grow(larger);
  }

  /** Asks for each type by itself, and judges each alone. */
  function* surveyTypes(whole: ListAnswer): Survey {
    const { size, limit } = whole;
    const parts: { readonly type: EventType; readonly answer: ListAnswer | null }[] = [];
    for (const type of EVENT_TYPES) parts.push({ type, answer: yield* ask({ type, limit }) });
    const answered = parts.flatMap(({ answer }) => answer ?? []);

    // The cap can have shrunk since the whole was answered, so the whole is asked for again where its size matters.
    const sizeMatters = answered.some((part) => part.size >= MIN_CAP);
    const again = sizeMatters ? yield* ask({ type: null, limit }) : null;
    const cap = Math.max(MIN_CAP, Math.min(size, again?.size ?? 0));

    const lacking = { answer: whole, settledAt: settledAt(), complete: true };
    const truncated = answered.some((part) => contradicts(part, lacking));
    // Cut by the limit, and no type has more: this server filters after it cuts.
    const filteredLate = size >= limit && !truncated;

    const verdicts: ListVerdict[] = [
      { type: null, size, limit, verdict: truncated ? 'truncated' : 'unproven' },
    ];
    const unproven: EventType[] = [];
    for (const { type, answer } of parts) {
      const judged = answer === null ? 'failed' : yield* judge(answer, cap);
      const verdict = filteredLate && answer !== null ? 'unproven' : judged;
      verdicts.push({ type, size: answer?.size ?? 0, limit, verdict });
      if (verdict === 'unproven' || verdict === 'failed') unproven.push(type);
    }
    return conclude(verdicts, unproven);
  }

  return yield* surveyWhole(options.limit);
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

/** The highest probability at which an order by chance still counts as evidence. */
const MAX_CHANCE = 1e-9;

/**
 * Whether the answer is newest first: never older before newer, and with too many different times for a shuffled
 * list to look so by chance. Fifty equal times show no order, nor does one event repeated.
 */
function isNewestFirst({ events }: ListAnswer): boolean {
  let chance = 1;
  let run = 0;
  let last = Number.POSITIVE_INFINITY;
  const ids = new Set<string>();
  for (const { id, at } of events) {
    if (at > last) return false;
    if (ids.has(id)) continue;
    ids.add(id);
    run = at === last ? run + 1 : 1;
    // Of all orders of these times, equal ones exchanged freely, one descends: the product, step by step.
    chance *= run / ids.size;
    last = at;
  }
  return chance < MAX_CHANCE;
}

/** Infinite when the answer is empty. */
function oldestTime({ events }: ListAnswer): number {
  return events.reduce((oldest, { at }) => Math.min(oldest, at), Number.POSITIVE_INFINITY);
}

/** So many events must be in the probe; a server that cuts at random passes once in a million. */
const MIN_PROBED_EVENTS = 20;

/** The query whose answer tells a list that is cut newest first from one that is only sorted so. */
function probeQuery({ type, size }: ListAnswer): ListQuery {
  return { type, limit: Math.max(1, Math.floor(size / 2)) };
}

/**
 * Whether a smaller answer, asked for after a larger one, contains exactly the newest of it.
 *
 * A server can take any fifty events and then sort them: that looks newest first and is always the same old
 * window. A server that cuts where it sorts answers half the limit with the newer half.
 */
function confirmsOrder(
  probe: ListAnswer,
  {
    answer,
    limit,
    settledAt,
  }: { readonly answer: ListAnswer; readonly limit: number; readonly settledAt: number },
): boolean {
  // A server that ignores the limit answers the same list again, which proves nothing.
  if (probe.size === 0 || probe.size > limit) return false;
  const from = oldestTime(probe);
  const newer = answer.events.filter(({ at }) => at > from);
  return (
    new Set(newer.map(({ id }) => id)).size >= MIN_PROBED_EVENTS &&
    !lacks(probe, newer) &&
    !contradicts(probe, { answer, settledAt })
  );
}

/**
 * Whether another answer of the same poll contains an event that this one should contain: of its type, newer than its
 * oldest (or of any age, for one that is `complete`), and created early enough to be listed.
 */
function contradicts(
  other: ListAnswer,
  {
    answer,
    settledAt,
    complete = false,
  }: { readonly answer: ListAnswer; readonly settledAt: number; readonly complete?: boolean | undefined },
): boolean {
  const from = complete ? Number.NEGATIVE_INFINITY : oldestTime(answer);
  const expected = other.events.filter(
    ({ type, at }) => (answer.type === null || type === answer.type) && at > from && at <= settledAt,
  );
  return lacks(answer, expected);
}

function lacks(answer: ListAnswer, events: readonly EventKey[]): boolean {
  const ids = new Set(answer.events.map(({ id }) => id));
  return events.some(({ id }) => !ids.has(id));
}
