/** The responses of a survey so far, and what each of them proves. */
import type { EventType } from '../core/events.js';
import type { ListAnswer, ListQuery } from './answer.js';
import { type Order, REACH_EVENTS } from './order.js';
import type { GapReason, KnownEvent, PollState, SeenAnswers } from './state.js';

/** The input of a survey. Times are epoch ms. */
export interface SurveyOptions {
  /** Every event created up to this time is recorded, or it is in a gap. */
  readonly watermark: number;
  /** The survey tries to prove the span after this time. @default the watermark */
  readonly target?: number | undefined;
  /**
   * Whether no poll has completed yet. The watermark is then only a start, and it may move back to the service's
   * clock.
   * @default false
   */
  readonly first?: boolean | undefined;
  /** When the poll started, before its first query, by our own clock. */
  readonly startedAt: number;
  readonly lagMs: number;
  readonly disorderMs: number;
  readonly limit: number;
  readonly maxLimit: number;
  /** @default 0: not known */
  readonly listMax?: number | undefined;
  /** Events that were pushed. A response that covers their time must contain them. @default none */
  readonly pushed?: readonly KnownEvent[] | undefined;
  readonly state: Pick<PollState, 'limit' | 'oldest' | 'seen' | 'unconfirmed'>;
}

/** The state of a survey, to which each query adds. */
export type Evidence = ReturnType<typeof toEvidence>;

/** The proof of a type: every event created after `from` and up to `settledAt` of the survey is in the responses. */
export interface Proof {
  /** Epoch ms. `-Infinity`: every event. `Infinity`: nothing is proven. */
  readonly from: number;
  readonly reason: GapReason;
}

export interface Judged {
  readonly query: ListQuery;
  /** `null`: the request failed. */
  readonly answer: ListAnswer | null;
  readonly verdict: 'complete' | 'window' | 'unproven' | 'failed';
  readonly proof: Proof;
  /** `null` if the response isn't judged by its order, or has none. */
  readonly order: Order | null;
}

/** The service's default limit. Every server returns at least this many events if it has them. */
export const MIN_CAP = 50;

/** @param servedAt - the service's clock according to its first response. */
export function toEvidence(options: SurveyOptions, servedAt: number | null) {
  const { target, first, startedAt, lagMs, listMax = 0, state } = options;
  const until = Math.min(startedAt, servedAt ?? startedAt);
  const settledAt = until - lagMs;
  // Without the service's clock, ours may be ahead of it by `lagMs`.
  const earlier = servedAt === null ? settledAt : until;
  const later = Math.max(startedAt, servedAt ?? startedAt);
  const watermark = first ? Math.min(options.watermark, earlier) : options.watermark;
  const isAhead = watermark > later;
  const start = isAhead ? Number.NEGATIVE_INFINITY : watermark;
  const answers: ListAnswer[] = [];
  return {
    options,
    /** Epoch ms. */
    times: {
      watermark,
      /** Whether the watermark is in the future by both clocks. A clock was wrong, so it proves nothing. */
      isAhead,
      /** The poll's start by the earlier of the two clocks: a clock that is ahead must not move the watermark too far. */
      until,
      /** `until` less the lag: events created later may still be listed. */
      settledAt,
      /** The poll's start by our clock and the service's; `earlier` is a lag before ours if the service's is not known. */
      clocks: { earlier, later },
    },
    /** The unproven part begins here. */
    start,
    target: Math.min(start, target ?? start),
    /**
     * The `listMax` of the app, which replaces the evidence of larger answers: the cap may then fall, and differ per type. 0:
     * none.
     */
    declared: state.seen?.listMaxRefuted === true ? 0 : listMax,
    answers,
    /** The last answers for one type, with the newest events of it; `null`: the request failed. */
    newest: new Map<EventType, ListAnswer | null>(),
    filterFails: state.seen?.filterFails,
  };
}

/** How many different events the largest responses of this and earlier surveys had, for all types and for one type. */
export function largestSeen({ options, answers }: Evidence): Pick<SeenAnswers, 'all' | 'type'> {
  let { all, type } = options.state.seen ?? { all: 0, type: 0 };
  for (const answer of answers) {
    if (answer.type === null) all = Math.max(all, answer.events.size);
    else type = Math.max(type, answer.events.size);
  }
  return { all, type };
}

/** Whether a larger response shows that neither the limit nor the cap has cut off this one. */
export function isComplete({ declared }: Evidence, { size, limit }: ListAnswer, largest: number): boolean {
  if (declared > size && ROUND_CAPS.has(size)) return false;
  return size < limit && size < Math.max(MIN_CAP, declared || largest);
}

/** Common caps of services. An answer of exactly such a size, below a declared one, may have been cut off. */
const ROUND_CAPS: ReadonlySet<number> = new Set([50, 100, 200, 250, 500, 1_000, 2_000, 2_500, 5_000, 10_000]);

/** A complete response proves everything unless events may have been removed from the list. */
export function complete(evidence: Evidence, answer: ListAnswer): Judged {
  const { lagMs, disorderMs, state } = evidence.options;
  const { oldest } = state;
  const oldestNow = oldestListed(evidence);
  const isKept = oldest === null || (oldest.at !== null && oldestNow <= oldest.at);
  // A service that removes the oldest events first keeps every event newer than the oldest listed one. It judges age by its
  // own clock. If that clock is slow, removed events may be in the future by ours.
  const from = isKept
    ? Number.NEGATIVE_INFINITY
    : Math.min(oldestNow + lagMs + disorderMs, keptFrom(evidence, answer));
  return { query: answer, answer, verdict: 'complete', proof: { from, reason: 'removed' }, order: null };
}

export function unproven(answer: ListAnswer, reason: GapReason, order: Order | null = null): Judged {
  return { query: answer, answer, verdict: 'unproven', proof: nothing(reason), order };
}

export function unanswered(query: ListQuery): Judged {
  return { query, answer: null, verdict: 'failed', proof: nothing('no-answer'), order: null };
}

export function nothing(reason: GapReason): Proof {
  return { from: Number.POSITIVE_INFINITY, reason };
}

/** Whether a response alone proves everything after a time. */
export function reaches({ verdict, proof }: Judged, time: number): boolean {
  return verdict === 'complete' || proof.from <= time;
}

/** Returns the time after which no event has been removed because of its age. */
export function keptFrom({ options, times }: Evidence, { type }: ListQuery): number {
  const { lagMs, disorderMs, state } = options;
  const { at = null, seenAt = 0 } = state.oldest ?? {};
  // An event that was listed up to an age shows that the service keeps events at least as long. A list that is not complete
  // as a whole may instead keep a fixed number of events, which are younger the more events there are.
  const keptMs = at !== null && type === null ? seenAt - at - lagMs - disorderMs : 0;
  return times.clocks.later - Math.max(keptMs, 2 * lagMs);
}

/**
 * When the oldest event that is listed now was created. An event older than the previous oldest was listed late,
 * unless the previous one was dated in the future.
 */
export function oldestListed({ options, answers }: Evidence): number {
  const { at = null, seenAt = 0 } = options.state.oldest ?? {};
  return oldestTime(answers, at === null ? null : Math.min(at, seenAt));
}

/** When the oldest element from `start` on was created, whether readable or not; `Infinity` if there is none. */
export function oldestTime(answers: readonly ListAnswer[], start: number | null = null): number {
  const from = start ?? Number.NEGATIVE_INFINITY;
  let oldest = Number.POSITIVE_INFINITY;
  for (const { events, unreadable } of answers) {
    for (const { at } of events.values()) if (at >= from && at < oldest) oldest = at;
    for (const at of unreadable) if (at !== null && at >= from && at < oldest) oldest = at;
  }
  return oldest;
}

/** When the third-oldest event of a response was created. One or two events may have been listed late. */
export function reachOf({ events }: ListAnswer): number {
  const times = [...events.values()].map(({ at }) => at).sort((a, b) => a - b);
  return times[REACH_EVENTS - 1] ?? Number.NEGATIVE_INFINITY;
}
