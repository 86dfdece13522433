/**
 * The survey: which questions to put to the list, one after the other, until it is proven that nothing is missed.
 *
 * A generator: it yields a question and is given the answer, so it is pure, and whoever drives it does the I/O.
 */
import { EVENT_TYPES, type EventType } from '../core/events.js';
import {
  type Answer,
  confirmsOrder,
  contradicts,
  isComplete,
  isNewestFirst,
  oldestOf,
  type Question,
  SURE_CAP,
  toProbe,
} from './coverage.js';

/**
 * What an answer was found to be.
 *
 * - `complete`: it holds every matching event.
 * - `continuous`: it is cut, newest first, and reaches back past the watermark.
 * - `truncated`: it is cut for certain: answers by type hold events that it lacks.
 * - `unproven`: it may be cut anywhere.
 * - `failed`: there was no answer.
 */
export type Verdict = 'complete' | 'continuous' | 'truncated' | 'unproven' | 'failed';

/** The verdict on the last answer for a type, or for all of them (`null`). */
export interface Finding extends Question {
  readonly size: number;
  readonly verdict: Verdict;
}

/** What a survey is to know beforehand. Times are epoch ms. */
export interface SurveyRules {
  /** Up to here everything is recorded. */
  readonly watermark: number;
  /** No poll ended before: the watermark is only where to begin, and gives way to the service's clock. @default false */
  readonly first?: boolean;
  /** When the poll started, before its first question, by our own clock. */
  readonly startedAt: number;
  /** How late an event may be listed after its `created_at`, and how wrong a clock may be. */
  readonly lagMs: number;
  readonly limit: number;
  readonly maxLimit: number;
}

/** What a survey found. */
export interface Survey {
  readonly proven: boolean;
  /** Where the span that was looked at begins: the watermark as it was. */
  readonly since: number;
  /** Up to here everything will be recorded, once every answer is; as it was unless proven. */
  readonly watermark: number;
  /** The span that was looked at ends here, epoch ms: the poll's start by the earlier of the two clocks. */
  readonly present: number;
  readonly findings: readonly Finding[];
  /** The types that nothing was proven of; `null` stands for all of them. */
  readonly open: readonly (EventType | null)[];
}

/** Puts the questions. `null` in place of an answer says that the request failed. */
export type Inquiry<Result> = Generator<Question, Result, Answer | null>;

/** Surveys the list: as a whole, with a growing limit, then by type. */
export function* surveyList(rules: SurveyRules): Inquiry<Survey> {
  const { startedAt, lagMs, maxLimit } = rules;
  const answers: Answer[] = [];
  /** The earlier of two clocks, so that the one that is fast cannot carry the watermark too far. */
  const present = () => answers.reduce((time, { servedAt }) => Math.min(time, servedAt ?? time), startedAt);
  const settledAt = () => present() - lagMs;
  const since = () => (rules.first ? Math.min(rules.watermark, present()) : rules.watermark);

  function* ask(question: Question): Inquiry<Answer | null> {
    const answer = yield question;
    if (answer !== null) answers.push(answer);
    return answer;
  }

  function* judge(answer: Answer, cap: number): Inquiry<Verdict> {
    const complete = isComplete(answer, { cap });
    if (!complete && !(yield* isContinuous(answer))) return 'unproven';
    const denied = answers.some((other) => contradicts(other, { answer, settledAt: settledAt(), complete }));
    if (denied) return 'unproven';
    return complete ? 'complete' : 'continuous';
  }

  function* isContinuous(answer: Answer): Inquiry<boolean> {
    // A watermark that lies in the future was set by a clock that stood wrong: it vouches for nothing.
    if (since() > present()) return false;
    // The lag once more: a list in the order of listing may cut off what was created up to a lag later.
    if (oldestOf(answer) >= since() - lagMs || !isNewestFirst(answer)) return false;
    const question = toProbe(answer);
    const probe = yield* ask(question);
    return probe !== null && confirmsOrder(probe, { answer, limit: question.limit, settledAt: settledAt() });
  }

  function conclude(findings: readonly Finding[], open: Survey['open']): Survey {
    const watermark = since();
    // Backwards only where the watermark lay in the future, and then everything was proven afresh.
    const next = watermark > present() ? settledAt() : Math.max(watermark, settledAt());
    // What cannot be read cannot be recorded: the watermark stays before it.
    const hidden = answers.some(({ unreadable }) =>
      unreadable.some((at) => at === null || (at > watermark && at <= next)),
    );
    const doubtful = open.length === 0 && hidden ? [null] : open;
    const proven = doubtful.length === 0;
    return {
      proven,
      since: watermark,
      watermark: proven ? next : watermark,
      present: present(),
      findings,
      open: doubtful,
    };
  }

  /** Asks for the whole list, with a growing limit as long as the limit is what cuts it. */
  function* surveyWhole(limit: number): Inquiry<Survey> {
    const whole = yield* ask({ type: null, limit });
    if (whole === null) return conclude([{ type: null, limit, size: 0, verdict: 'failed' }], [null]);
    return yield* grow(whole);
  }

  function* grow(whole: Answer): Inquiry<Survey> {
    const { size, limit } = whole;
    const verdict = yield* judge(whole, SURE_CAP);
    if (verdict !== 'unproven') return conclude([{ type: null, limit, size, verdict }], []);
    // Smaller than the limit: all there is, or a cap. A larger limit cannot tell which.
    if (size < limit || limit >= maxLimit) return yield* surveyTypes(whole);
    const larger = yield* ask({ type: null, limit: Math.min(limit * 2, maxLimit) });
    // Perhaps the service refuses a limit of this size; the types are still worth asking for with the last one.
    return yield* larger === null ? surveyTypes(whole) : grow(larger);
  }

  /** Asks for each type by itself, and judges each alone. */
  function* surveyTypes(whole: Answer): Inquiry<Survey> {
    const { size, limit } = whole;
    const parts: { readonly type: EventType; readonly answer: Answer | null }[] = [];
    for (const type of EVENT_TYPES) parts.push({ type, answer: yield* ask({ type, limit }) });
    const given = parts.flatMap(({ answer }) => answer ?? []);

    // The cap could have shrunk since the whole was given, so it is asked for again where its size is relied on.
    const relied = given.some((part) => part.size >= SURE_CAP);
    const again = relied ? yield* ask({ type: null, limit }) : null;
    const cap = Math.max(SURE_CAP, Math.min(size, again?.size ?? 0));

    const lacking = { answer: whole, settledAt: settledAt(), complete: true };
    const truncated = given.some((part) => contradicts(part, lacking));
    // Cut by the limit, and yet no type has more: this server filters what it has cut already.
    const filteredLate = size >= limit && !truncated;

    const findings: Finding[] = [{ type: null, limit, size, verdict: truncated ? 'truncated' : 'unproven' }];
    const open: EventType[] = [];
    for (const { type, answer } of parts) {
      const judged = answer === null ? 'failed' : yield* judge(answer, cap);
      const verdict = filteredLate && answer !== null ? 'unproven' : judged;
      findings.push({ type, limit, size: answer?.size ?? 0, verdict });
      if (verdict === 'unproven' || verdict === 'failed') open.push(type);
    }
    return conclude(findings, open);
  }

  return yield* surveyWhole(rules.limit);
}
