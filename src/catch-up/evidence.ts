import type { EventType } from '../core/events.js';
import type { ListAnswer, ListQuery } from './answer.js';
import { type Order, REACH_EVENTS } from './order.js';
import type { GapReason, KnownEvent, PollState, SeenAnswers } from './state.js';

/** Times are in epoch ms. */
export interface SurveyOptions {
  /** Every event created up to this time is either recorded or covered by a gap. */
  readonly watermark: number;
  /** The survey tries to prove the span after this time. @default the watermark */
  readonly target?: number | undefined;
  /** Whether no poll has completed yet. If so, an earlier service clock moves the watermark back. @default false */
  readonly first?: boolean | undefined;
  /** When the poll started, by this process's clock. */
  readonly startedAt: number;
  readonly lagMs: number;
  readonly disorderMs: number;
  readonly limit: number;
  readonly maxLimit: number;
  /** @default 0, which means that the maximum is unknown */
  readonly listMax?: number | undefined;
  /** Events that were pushed. A response that covers the time of such an event must contain the event. @default none */
  readonly pushed?: readonly KnownEvent[] | undefined;
  readonly state: Pick<PollState, 'limit' | 'oldest' | 'seen' | 'unconfirmed'>;
}

/** Mutable: each query adds to the evidence. */
export type Evidence = ReturnType<typeof toEvidence>;

/** What is proven for a type: the responses contain every event created after `from` and up to the survey's `settledAt`. */
export interface Proof {
  /** In epoch ms. `-Infinity` means that the responses contain every event, and `Infinity` that nothing is proven. */
  readonly from: number;
  readonly reason: GapReason;
}

export interface Judged {
  readonly query: ListQuery;
  /** `null` if the request failed. */
  readonly answer: ListAnswer | null;
  readonly verdict: 'complete' | 'window' | 'unproven' | 'failed';
  readonly proof: Proof;
  /** `null` if the response isn't judged by its order, or if no order was found. */
  readonly order: Order | null;
}

/** The service's default limit. Any service returns at least this many events if it has that many. */
export const MIN_CAP = 50;

/** @param servedAt - when the service sent its first response, by its own clock. */
export function toEvidence(options: SurveyOptions, servedAt: number | null) {
  const { target, first, startedAt, lagMs, listMax = 0, state } = options;
  const until = Math.min(startedAt, servedAt ?? startedAt);
  const settledAt = until - lagMs;
  // If the service's clock is unknown, our clock is assumed to be up to `lagMs` ahead of it.
  const earlier = servedAt === null ? settledAt : until;
  const later = Math.max(startedAt, servedAt ?? startedAt);
  const watermark = first ? Math.min(options.watermark, earlier) : options.watermark;
  const isAhead = watermark > later;
  const start = isAhead ? Number.NEGATIVE_INFINITY : watermark;
  const answers: ListAnswer[] = [];
  return {
    options,
    /** All times are in epoch ms. */
    times: {
      watermark,
      /** Whether the watermark is later than both clocks. If so, a clock was wrong, and the watermark proves nothing. */
      isAhead,
      /** When the poll started, by the earlier clock. A clock that is ahead must not move the watermark too far. */
      until,
      /** `until` minus `lagMs`. Events created later may not be in the list yet. */
      settledAt,
      /** When the poll started, by each clock. If the service's clock is unknown, `earlier` is our clock minus `lagMs`. */
      clocks: { earlier, later },
    },
    /** Events created up to this time need no further proof. */
    start,
    target: Math.min(start, target ?? start),
    /** The app's `listMax`; 0 if it is not set or a response refuted it. If it is set, the cap need not be constant. */
    declared: state.seen?.listMaxRefuted === true ? 0 : listMax,
    answers,
    /** The last response for each type that was queried; `null` if the request failed. */
    newest: new Map<EventType, ListAnswer | null>(),
    filterFails: state.seen?.filterFails,
  };
}

export function largestSeen({ options, answers }: Evidence): Pick<SeenAnswers, 'all' | 'type'> {
  let { all, type } = options.state.seen ?? { all: 0, type: 0 };
  for (const answer of answers) {
    if (answer.type === null) all = Math.max(all, answer.events.size);
    else type = Math.max(type, answer.events.size);
  }
  return { all, type };
}

/** Whether neither the limit nor a cap cut off the response, because the service is known to return more events. */
export function isComplete({ declared }: Evidence, { size, limit }: ListAnswer, largest: number): boolean {
  if (declared > size && ROUND_CAPS.has(size)) return false;
  return size < limit && size < Math.max(MIN_CAP, declared || largest);
}

/** Caps that services often use. A response of exactly this size may have been cut off, even if `listMax` is higher. */
const ROUND_CAPS: ReadonlySet<number> = new Set([50, 100, 200, 250, 500, 1_000, 2_000, 2_500, 5_000, 10_000]);

export function complete(evidence: Evidence, answer: ListAnswer): Judged {
  const { lagMs, disorderMs, state } = evidence.options;
  const { oldest } = state;
  const oldestNow = oldestListed(evidence);
  const isKept = oldest === null || (oldest.at !== null && oldestNow <= oldest.at);
  // A service that removes the oldest events first keeps every event that is newer than the oldest listed event. The service
  // judges age by its own clock. If that clock is slow, events that were removed may be in the future by our clock.
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

/** Whether this response alone proves everything after the given time. */
export function reaches({ verdict, proof }: Judged, time: number): boolean {
  return verdict === 'complete' || proof.from <= time;
}

/** Returns the time after which no event has been removed because of its age. */
export function keptFrom({ options, times }: Evidence, { type }: ListQuery): number {
  const { lagMs, disorderMs, state } = options;
  const { at = null, seenAt = 0 } = state.oldest ?? {};
  // If an event was listed at some age, the service keeps events at least until they reach that age. A list for one type
  // proves less, because the service may keep a fixed number of events instead and remove them sooner when there are more.
  const keptMs = at !== null && type === null ? seenAt - at - lagMs - disorderMs : 0;
  return times.clocks.later - Math.max(keptMs, 2 * lagMs);
}

/** Ignores events older than the previous oldest event, which were listed late, unless that one is from the future. */
export function oldestListed({ options, answers }: Evidence): number {
  const { at = null, seenAt = 0 } = options.state.oldest ?? {};
  return oldestTime(answers, at === null ? null : Math.min(at, seenAt));
}

/** Includes unreadable elements. `Infinity` if no element was created at `start` or later. */
export function oldestTime(answers: readonly ListAnswer[], start: number | null = null): number {
  const from = start ?? Number.NEGATIVE_INFINITY;
  let oldest = Number.POSITIVE_INFINITY;
  for (const { events, unreadable } of answers) {
    for (const { at } of events.values()) if (at >= from && at < oldest) oldest = at;
    for (const at of unreadable) if (at !== null && at >= from && at < oldest) oldest = at;
  }
  return oldest;
}

/** The time of the third-oldest event, because the two oldest events may have been listed late. */
export function reachOf({ events }: ListAnswer): number {
  const times = [...events.values()].map(({ at }) => at).sort((a, b) => a - b);
  return times[REACH_EVENTS - 1] ?? Number.NEGATIVE_INFINITY;
}
