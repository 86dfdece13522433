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

/** The work and the proof of one poll. Plain data: it survives `JSON.stringify`. */
export interface PollReport {
  /** Whether this poll left nothing open: no gap opened or became longer, and nothing is unconfirmed. */
  readonly proven: boolean;
  /** Whether this poll left only a span open that a larger answer would confirm. Nothing shows that events are missing. */
  readonly unconfirmed: boolean;
  /**
   * Every event of the five types created from the start date (`since`) up to this time is in the inbox, except in the
   * gaps. ISO; `null` when another process polls, the inbox failed, or the list has not answered yet.
   */
  readonly watermark: string | null;
  /** How many different readable events the answers of this poll contain. */
  readonly fetched: number;
  /** The events of `fetched` created before the start date. They are neither recorded nor handled. */
  readonly skipped: number;
  /** The events of `fetched` that the inbox did not know before this poll, unknown types included. */
  readonly new: number;
  /**
   * The events of `new` that are of the five types: push did not bring them. Exactly one poll counts each, and any process may run
   * it.
   */
  readonly recovered: number;
  /** The events of `fetched` that wait in the inbox to be run, as far as this poll knows. */
  readonly waiting: number;
  /** The events of `new` that the list calls `delivered`, from the start date on: some endpoint responded with a 2xx. */
  readonly deliveredButUnseen: number;
  /** Events, found now or waiting in the inbox, whose handler finished in this poll. */
  readonly handled: number;
  /** The events of `fetched` that were done before this poll. */
  readonly duplicates: number;
  /** Events, found now or waiting in the inbox, that this poll ran and that did not succeed. */
  readonly failed: number;
  /** The events of `new` created before the watermark and outside every gap: they were listed later than `lagMs`. */
  readonly late: number;
  /** The ids of the events that the count of the same name counts, at most 1,000 each. */
  readonly ids: Readonly<Record<Listed, readonly string[]>>;
  /** Requests to the list, failed ones included; the client's own retries are not counted. */
  readonly requests: number;
  /** The verdict on the whole list, and on each type if it was asked for by itself. */
  readonly verdicts: readonly ListVerdict[];
  /** Where events may be missing: the gaps that are open after this poll, and the spans that are unconfirmed. */
  readonly gaps: readonly Gap[];
  /** The gaps that this poll opened. */
  readonly gapsOpened: readonly Gap[];
  /** The gaps that this poll closed: their events are now in the inbox. */
  readonly gapsClosed: readonly Gap[];
  /** The proof of this poll, or why it has none and what to do: the same sentences while the situation is the same. */
  readonly diagnosis: string;
  /** Failures, and signs that something is wrong; at most 1,000. */
  readonly problems: readonly PollProblem[];
  /**
   * Whether `problems` contains one that a proof does not cover: `ERR_INBOX_FAILED`, `ERR_CLOCK_BEHIND`, `ERR_EVENT_LATE` or
   * `ERR_EVENT_CONFLICT`.
   */
  readonly doubtful: boolean;
  /** How the events ended that this poll ran from the inbox, found now or waiting; `null` when the inbox failed. */
  readonly redriven: OutcomeCounts | null;
  /** How long the poll took, in ms. */
  readonly durationMs: number;
}

type Listed = 'new' | 'recovered' | 'deliveredButUnseen' | 'late' | 'failed';

/** The report of a poll that did not read the list. */
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
  diagnosis: 'This poll did not read the list.',
  problems: [],
  doubtful: false,
  redriven: null,
  durationMs: 0,
};

/** An event of the list, and its state in the inbox before this poll recorded it. */
export interface FoundEvent extends ListedEvent {
  readonly result: RecordResult;
}

export interface Redriven {
  /** `null` when the inbox failed. */
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
  /** Whether the new state is in the inbox; `null` if that is not known. */
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
    // A gap is reported if the state can be saved: better twice than never.
    gapsOpened: saved !== false ? openOf(advance.opened) : [],
    gapsClosed: saved ? openOf(advance.closed).map((gap) => ({ ...gap, state: 'closed' })) : [],
    problems: problems.slice(0, MAX_LISTED),
    redriven,
  };
}

/** Unconfirmed spans raise no alarm. */
const openOf = (gaps: readonly StoredGap[]) =>
  gaps.map((gap) => toGap(gap)).filter(({ state }) => state === 'open');

/** The outcomes after which this process need not run the event again. */
const ENDED: ReadonlySet<OutcomeKind | undefined> = new Set([
  'handled',
  'duplicate',
  'ignored',
  'queued',
  'dead',
]);
