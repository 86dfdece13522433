import { isKnownEvent } from '../core/events.js';
import type { RecordResult } from '../core/ports.js';
import type { OutcomeCounts, OutcomeKind } from '../receiver/outcome.js';
import type { Store } from '../receiver/store.js';
import type { ListVerdict, SurveyResult } from './conclude.js';
import { type Gap, toGap, toIso } from './gap-text.js';
import type { Advance } from './gaps.js';
import type { ListedEvent } from './list.js';
import type { PollProblem } from './problems.js';
import type { StoredGap } from './state.js';

/** What one poll did and what it proved. You can pass the report to `JSON.stringify`. */
export interface PollReport {
  /** Whether this poll neither opened nor extended a gap, and left nothing unconfirmed. */
  readonly proven: boolean;
  /**
   * Whether this poll left only one thing unproven: a span that a response with more events would confirm. Nothing suggests that
   * events are missing in that span.
   */
  readonly unconfirmed: boolean;
  /**
   * No event of the five types that was created between the start date (`since`) and this time is missing from the
   * inbox, except in the gaps. In ISO 8601; `null` if another process is polling, if the inbox failed, or if no request
   * for the list has succeeded yet.
   */
  readonly watermark: string | null;
  /** How many distinct valid events this poll read from the service's event list. */
  readonly fetched: number;
  /** How many of the `fetched` events were created before the start date. These events are neither recorded nor handled. */
  readonly skipped: number;
  /** How many of the `fetched` events the inbox didn't have before this poll, including events of unknown types. */
  readonly new: number;
  /**
   * How many of the `new` events are of the five types, which means that push missed them. Exactly one poll counts each
   * event, even if another process handles it.
   */
  readonly recovered: number;
  /** How many of the `fetched` events are still waiting to be run, as far as this poll knows. */
  readonly waiting: number;
  /**
   * How many of the `new` events the service's event list marks as `delivered`. The service marks an event this way
   * when any endpoint responds with a 2xx. Events from before the start date don't count.
   */
  readonly deliveredButUnseen: number;
  /** How many events were handled during this poll, including events that were already waiting in the inbox. */
  readonly handled: number;
  /** How many of the `fetched` events were done before this poll. */
  readonly duplicates: number;
  /** How many events failed during this poll, including events that were already waiting in the inbox. */
  readonly failed: number;
  /**
   * How many of the `new` events were created before the watermark and outside all gaps. These events were listed later
   * than `lagMs` allows.
   */
  readonly late: number;
  /** The ids of the events in each of these counts, up to 1,000 per count. */
  readonly ids: Readonly<Record<Listed, readonly string[]>>;
  /** How many requests for the event list were made, including failed requests. The client's own retries don't count. */
  readonly requests: number;
  /** The verdict on the whole list, and on each type that was queried separately. */
  readonly verdicts: readonly ListVerdict[];
  /** The gaps that are open or unconfirmed after this poll. Events may be missing in these gaps. */
  readonly gaps: readonly Gap[];
  /** The gaps that this poll opened. */
  readonly gapsOpened: readonly Gap[];
  /** The gaps that this poll closed. Their events are now in the inbox. */
  readonly gapsClosed: readonly Gap[];
  /**
   * What this poll proved, or why it proved nothing and what to do about it. Advice in the text stays the same as long
   * as the situation does.
   */
  readonly diagnosis: string;
  /** Failures, and signs that something is wrong. The report contains up to 1,000 of them. */
  readonly problems: readonly PollProblem[];
  /**
   * Whether `problems` contains a code that casts doubt on the proof: `ERR_INBOX_FAILED`, `ERR_CLOCK_BEHIND`,
   * `ERR_EVENT_LATE` or `ERR_EVENT_CONFLICT`.
   */
  readonly doubtful: boolean;
  /**
   * How many of the events that this poll ran had each outcome, including events that were already waiting in the
   * inbox; `null` if the inbox failed.
   */
  readonly redriven: OutcomeCounts | null;
  /** How long the poll took, in ms. */
  readonly durationMs: number;
}

type Listed = 'new' | 'recovered' | 'deliveredButUnseen' | 'late' | 'failed';

export const EMPTY_REPORT: PollReport = {
  proven: false,
  unconfirmed: false,
  watermark: null,
  fetched: 0,
  skipped: 0,
  new: 0,
  recovered: 0,
  waiting: 0,
  deliveredButUnseen: 0,
  handled: 0,
  duplicates: 0,
  failed: 0,
  late: 0,
  ids: { new: [], recovered: [], deliveredButUnseen: [], late: [], failed: [] },
  requests: 0,
  verdicts: [],
  gaps: [],
  gapsOpened: [],
  gapsClosed: [],
  diagnosis: "This poll did not read the service's event list.",
  problems: [],
  doubtful: false,
  redriven: null,
  durationMs: 0,
};

/** A listed event, with the state that it had in the inbox before this poll recorded it. */
export interface FoundEvent extends ListedEvent {
  readonly result: RecordResult;
}

export interface Redriven {
  /** `null` if the inbox failed. */
  readonly counts: OutcomeCounts | null;
  readonly kinds: ReadonlyMap<string, OutcomeKind>;
  readonly problems: readonly PollProblem[];
}

export function isFailure(kind: OutcomeKind): boolean {
  return kind === 'failed' || kind === 'dead' || kind === 'rejected' || kind === 'unavailable';
}

const MAX_LISTED = 1_000;

export function toReport({
  survey,
  advance,
  saved,
  found,
  late,
  redriven: { counts: redriven, kinds },
  store,
  problems,
  ...rest
}: Pick<PollReport, 'fetched' | 'skipped' | 'requests' | 'problems' | 'diagnosis'> & {
  readonly survey: SurveyResult;
  readonly advance: Advance;
  /** Whether the inbox has the new state; `null` if that is unknown. */
  readonly saved: boolean | null;
  readonly found: readonly FoundEvent[];
  readonly late: readonly FoundEvent[];
  readonly redriven: Redriven;
  readonly store: Pick<Store, 'dispatches'>;
}): PollReport {
  const { since, watermark, gaps } = advance.state;
  const ids: Record<Listed, string[]> = {
    new: [],
    recovered: [],
    deliveredButUnseen: [],
    late: late.map(({ event }) => event.id),
    failed: [],
  };
  let waiting = 0;
  let duplicates = 0;
  for (const { event, at, result } of found) {
    const { id, delivered } = event;
    const kind = kinds.get(id);
    const isRun = store.dispatches(event);
    if (result === 'done') duplicates += 1;
    else if (isRun && result !== 'dead' && !ENDED.has(kind)) waiting += 1;
    if (result !== 'new') continue;
    ids.new.push(id);
    if (isKnownEvent(event)) ids.recovered.push(id);
    if (delivered === true && at >= (since ?? at)) ids.deliveredButUnseen.push(id);
  }
  for (const [id, kind] of kinds) if (isFailure(kind)) ids.failed.push(id);
  const counts = {} as Record<Listed, number>;
  for (const [name, all] of Object.entries(ids)) {
    counts[name as Listed] = all.length;
    all.splice(MAX_LISTED);
  }
  return {
    ...EMPTY_REPORT,
    ...rest,
    ...counts,
    waiting,
    duplicates,
    proven: advance.proven && saved === true,
    unconfirmed: advance.unconfirmed && saved === true,
    watermark: watermark === null ? null : toIso(watermark),
    handled: redriven?.handled ?? 0,
    ids,
    verdicts: survey.verdicts,
    gaps: gaps.map((gap) => toGap(gap)).filter(({ state }) => state !== 'acknowledged'),
    // If it is unknown whether the state was saved, opened gaps are reported: better twice than never.
    gapsOpened: saved !== false ? openOf(advance.opened) : [],
    gapsClosed: saved ? openOf(advance.closed).map((gap) => ({ ...gap, state: 'closed' })) : [],
    problems: problems.slice(0, MAX_LISTED),
    redriven,
  };
}

/** Unconfirmed spans raise no alarm. */
const openOf = (gaps: readonly StoredGap[]) =>
  gaps.map((gap) => toGap(gap)).filter(({ state }) => state === 'open');

/** After these outcomes, this process does not have to run the event again. */
const ENDED: ReadonlySet<OutcomeKind | undefined> = new Set([
  'handled',
  'duplicate',
  'ignored',
  'queued',
  'dead',
]);
