import { StablehooksError } from '../core/errors.js';
import type { EventType, UnknownEvent } from '../core/events.js';
import type { GapReason, RecordResult } from '../core/ports.js';
import type { OutcomeCounts, OutcomeKind } from '../receiver/outcome.js';
import type { ListVerdict, SurveyResult } from './coverage.js';

/** What one poll did and proved. Plain data: it survives `JSON.stringify`. */
export interface PollReport {
  /** Whether every event of the five types created from the opening date (`since`) up to the new watermark is recorded. */
  readonly proven: boolean;
  /** The watermark after this poll, ISO; `null` when another process polls or the inbox failed. */
  readonly watermark: string | null;
  /** How many different readable events the answers of this poll contain. */
  readonly fetched: number;
  /** Of `fetched`, the events created before the opening date, which are neither recorded nor handled. */
  readonly skipped: number;
  /** Of `fetched`, the events that the inbox did not know before this poll, unknown types included. */
  readonly new: number;
  /** Of `new`, the events that this poll handled or enqueued. With push alone they would be lost or late. */
  readonly recovered: number;
  /**
   * Of `new`, the events created from the opening date on that the list calls `delivered`: an endpoint answered 2xx, but
   * this inbox did not record them.
   */
  readonly deliveredButUnseen: number;
  /** Events, from the list or from the inbox, whose handler finished in this poll. */
  readonly handled: number;
  /** Events of the list that were done before. Events that wait in the inbox, are dead or parked count only as `fetched`. */
  readonly duplicates: number;
  /** Events, from the list or from the inbox, that this poll tried and that did not succeed. */
  readonly failed: number;
  /** Of `new`, the events created before the watermark and outside every gap: they were listed later than `lagMs`. */
  readonly late: number;
  /** The ids of the events that the count of the same name counts, at most 1,000 each. */
  readonly ids: Readonly<
    Record<'new' | 'recovered' | 'deliveredButUnseen' | 'late' | 'failed', readonly string[]>
  >;
  /** Requests to the list, failed ones included; the client's own retries are not counted. */
  readonly requests: number;
  /** The verdict on the whole list, and on each type if it was asked for by itself. */
  readonly verdicts: readonly ListVerdict[];
  /** Where events can be missing: the gaps that are open after this poll. */
  readonly gaps: readonly Gap[];
  /** The gaps that this poll opened. */
  readonly gapsOpened: readonly Gap[];
  /** The gaps that this poll closed: their events are now in the inbox. */
  readonly gapsClosed: readonly Gap[];
  /** What this poll proved, or why it did not and which number to change: one or two sentences. */
  readonly diagnosis: string;
  /** What failed or looks wrong. */
  readonly problems: readonly PollProblem[];
  /** The outcomes of the events that waited in the inbox and ran before the list was read; `null` when none could run. */
  readonly redriven: OutcomeCounts | null;
  /** How long the poll took, in ms. */
  readonly durationMs: number;
}

/** A span of `created_at` for which it is not proven that every event is in the inbox. Times are ISO. */
export interface Gap {
  /** `closed`: a later poll proved it. `acknowledged`: a person accepted it without a proof. */
  readonly state: 'open' | 'closed' | 'acknowledged';
  /** The types of which events can be missing. */
  readonly types: readonly EventType[];
  /** Events created after this time can be missing. */
  readonly from: string;
  /** Events created after this time are not missing. */
  readonly until: string;
  readonly reason: GapReason;
  /** When the poll that opened it started. */
  readonly openedAt: string;
  /** Who accepted it without a proof, why and when; `null` unless it is acknowledged. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: string } | null;
}

/** Something that failed or looks wrong. Holds no payload and no secret. */
export interface PollProblem {
  /** An error code of this package, or one of {@link PollProblemCode}. */
  readonly code: string;
  readonly message: string;
  /** The id of the event, if the problem is about one. */
  readonly id?: string | undefined;
}

/**
 * The codes of the poller itself.
 *
 * - `ERR_EVENT_MALFORMED`: an element of the list is not an event. The watermark stays before it.
 * - `ERR_EVENT_CONFLICT`: two events with one id differ. The first is used.
 * - `ERR_EVENT_LATE`: events were listed only after the watermark had passed them. Raise `lagMs`.
 * - `ERR_HORIZON_AHEAD`: the stored watermark is in the future, because a clock was wrong.
 * - `ERR_POLL_BUSY`: another process polls.
 * - `ERR_POLL_STOPPED`: the poll was stopped before its end.
 * - `ERR_LEASE_LOST`: this poll was too slow and another process polls now. The watermark was not saved.
 */
export type PollProblemCode =
  | 'ERR_EVENT_MALFORMED'
  | 'ERR_EVENT_CONFLICT'
  | 'ERR_EVENT_LATE'
  | 'ERR_HORIZON_AHEAD'
  | 'ERR_POLL_BUSY'
  | 'ERR_POLL_STOPPED'
  | 'ERR_LEASE_LOST';

const MESSAGES = {
  ERR_POLL_BUSY:
    'Another process polls with this inbox, so this poll did nothing. This is normal when several processes poll.',
  ERR_POLL_STOPPED:
    'The poll was stopped. What it found is in the inbox, and the next poll continues from there.',
  ERR_LEASE_LOST:
    'Another process took over the lease to poll, so the watermark was not saved. Raise leaseMs if this happens often.',
  ERR_HORIZON_AHEAD:
    'The stored watermark is in the future, because a clock was wrong. Until that time only a complete list proves anything. Check the clocks.',
  ERR_EVENT_LATE:
    'The list shows new events from before the watermark. They were listed later than lagMs after they were created. They were recorded. Raise lagMs.',
} as const satisfies Partial<Record<PollProblemCode, string>>;

/** A problem of the poller itself that is not about one event. */
export function problemOf(code: keyof typeof MESSAGES): PollProblem {
  return { code, message: MESSAGES[code] };
}

/** Turns an error into a problem with its own code, or the given one for an error that is not of this package. */
export function toProblem(
  error: unknown,
  { code, id }: { readonly code: string; readonly id?: string | undefined },
): PollProblem {
  const about = id === undefined ? {} : { id };
  if (error instanceof StablehooksError) return { code: error.code, message: error.message, ...about };
  // The messages of other packages can contain secrets, so only the name is kept.
  const name = error instanceof Error ? error.name : typeof error;
  return { code, message: `An unexpected error (${name}) was thrown.`, ...about };
}

/** The report of a poll that did not read the list. */
export const EMPTY_REPORT: PollReport = {
  proven: false,
  watermark: null,
  fetched: 0,
  skipped: 0,
  new: 0,
  recovered: 0,
  deliveredButUnseen: 0,
  handled: 0,
  duplicates: 0,
  failed: 0,
  requests: 0,
  verdicts: [],
  gaps: [],
  problems: [],
  redriven: null,
  durationMs: 0,
};

/** An event of the list, and what the inbox knew of it when this poll first saw it. */
export interface FoundEvent {
  readonly event: UnknownEvent;
  /** When it was created, epoch ms. */
  readonly at: number;
  readonly result: RecordResult;
}

const FAILED_KINDS: readonly OutcomeKind[] = ['failed', 'dead', 'rejected', 'unavailable'];

export function toReport({
  survey,
  since,
  skipped,
  found,
  dispatched,
  redriven,
  requests,
  problems,
}: Pick<PollReport, 'skipped' | 'redriven' | 'requests' | 'problems'> & {
  readonly survey: SurveyResult;
  /** The opening date, epoch ms. */
  readonly since: number;
  readonly found: readonly FoundEvent[];
  readonly dispatched: { readonly counts: OutcomeCounts; readonly recovered: number };
}): PollReport {
  const { counts, recovered } = dispatched;
  const unseen = found.filter(({ result }) => result === 'new');
  const span = { after: toIso(survey.since), before: toIso(survey.until) };
  return {
    proven: survey.proven,
    watermark: toIso(survey.watermark),
    fetched: found.length + skipped,
    skipped,
    new: unseen.length,
    recovered,
    deliveredButUnseen: unseen.filter(({ event, at }) => event.delivered === true && at >= since).length,
    handled: counts.handled + (redriven?.handled ?? 0),
    duplicates: found.filter(({ result }) => result === 'done').length + counts.duplicate,
    failed: FAILED_KINDS.reduce((sum, kind) => sum + counts[kind] + (redriven?.[kind] ?? 0), 0),
    requests,
    verdicts: survey.verdicts,
    gaps: survey.unproven.map((type) => ({ type, ...span })),
    problems,
    redriven,
    durationMs: 0,
  };
}

function toIso(time: number): string {
  return new Date(time).toISOString();
}
