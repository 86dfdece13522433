import { isKnownEvent, type UnknownEvent } from '../core/events.js';
import type { RecordResult } from '../core/ports.js';
import type { OutcomeCounts, OutcomeKind } from '../receiver/outcome.js';
import type { ListVerdict, SurveyResult } from './coverage.js';
import { type Advance, describeReason, type Gap, toGap, toIso } from './gaps.js';
import type { ListedEvent } from './list.js';
import type { PollProblem } from './problems.js';

/** The work and the proof of one poll. Plain data: it survives `JSON.stringify`. */
export interface PollReport {
  /** Whether this poll has proven everything from the last watermark to the new one: it has neither opened nor extended a gap. */
  readonly proven: boolean;
  /**
   * Every event of the five types created from the start date (`since`) up to this time is in the inbox, except in the
   * gaps. ISO; `null` when another process polls, the inbox failed, or the list has not answered yet.
   */
  readonly watermark: string | null;
  /** How many different readable events the answers of this poll contain. */
  readonly fetched: number;
  /** Of `fetched`, the events created before the start date, which are neither recorded nor handled. */
  readonly skipped: number;
  /** Of `fetched`, the events that the inbox did not know before this poll, unknown types included. */
  readonly new: number;
  /**
   * Of `new`, the events that this poll handled, enqueued or ignored. With push alone they would be lost or late. If
   * `receiver.start()` runs beside and takes an event first, it counts as `waiting` instead.
   */
  readonly recovered: number;
  /**
   * Of `fetched`, the events that wait in the inbox to be run, as far as this poll knows: their handler failed or runs
   * elsewhere, or this poll ended before their turn.
   */
  readonly waiting: number;
  /**
   * Of `new`, the events created from the start date on that the list calls `delivered`: an endpoint answered 2xx, but
   * this inbox did not record them.
   */
  readonly deliveredButUnseen: number;
  /** Events, found now or waiting in the inbox, whose handler finished in this poll. */
  readonly handled: number;
  /** Of `fetched`, the events that were done before this poll. */
  readonly duplicates: number;
  /** Events, found now or waiting in the inbox, that this poll ran and that did not succeed. */
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
  /** The proof of this poll, or why it has none and which number to change: one or two sentences. */
  readonly diagnosis: string;
  /** Failures, and signs that something is wrong; at most 1,000. */
  readonly problems: readonly PollProblem[];
  /**
   * Whether `problems` has one that a proof does not cover: what is due in the inbox could not run (`ERR_INBOX_FAILED`),
   * the watermark follows a clock that is behind (`ERR_CLOCK_BEHIND`), or different events have one id, of which the wrong
   * one can be in the inbox (`ERR_EVENT_CONFLICT`).
   */
  readonly doubtful: boolean;
  /** How the events ended that this poll ran from the inbox, found now or waiting; `null` when the inbox failed. */
  readonly redriven: OutcomeCounts | null;
  /** How long the poll took, in ms. */
  readonly durationMs: number;
}

/** The report of a poll that did not read the list. */
export const EMPTY_REPORT: PollReport = {
  proven: false,
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

/** An event of the list, and what the inbox knew of it when this poll recorded it. */
export interface FoundEvent extends ListedEvent {
  readonly result: RecordResult;
}

/** The result of one redrive of the inbox. */
export interface Redriven {
  /** `null` when the inbox failed. */
  readonly counts: OutcomeCounts | null;
  /** How each event ended last, by id. */
  readonly kinds: ReadonlyMap<string, OutcomeKind>;
  readonly problems: readonly PollProblem[];
}

/** Whether an outcome counts as failed. */
export function isFailure(kind: OutcomeKind): boolean {
  return kind === 'failed' || kind === 'dead' || kind === 'rejected' || kind === 'unavailable';
}

/** How many ids of each kind, and how many problems, a report has. */
const MAX_LISTED = 1_000;

export function toReport({
  survey,
  advance,
  saved,
  found,
  late,
  redriven: { counts, kinds },
  dispatches,
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
  /** Whether this process runs or enqueues the event, and does not ignore it. */
  readonly dispatches: (event: UnknownEvent) => boolean;
}): PollReport {
  const { since, watermark, gaps } = advance.state;
  const isWaiting = ({ event, result }: FoundEvent) =>
    dispatches(event) && WAITS.has(result) && !ENDED.has(kinds.get(event.id));
  const isRecovered = ({ event }: FoundEvent) => {
    const kind = kinds.get(event.id);
    return dispatches(event) ? kind === 'handled' || kind === 'queued' : isKnownEvent(event);
  };
  const unseen = found.filter(({ result }) => result === 'new');
  const recovered = unseen.filter(isRecovered);
  const unseenDelivered = unseen.filter(
    ({ event, at }) => event.delivered === true && at >= (since ?? Number.NEGATIVE_INFINITY),
  );
  const failedIds = [...kinds].filter(([, kind]) => isFailure(kind)).map(([id]) => id);
  const toIds = (events: readonly FoundEvent[]) => events.slice(0, MAX_LISTED).map(({ event }) => event.id);
  const open = gaps.filter(({ acknowledged }) => acknowledged === null);
  return {
    ...rest,
    proven: advance.proven && saved === true,
    watermark: watermark === null ? null : toIso(watermark),
    new: unseen.length,
    recovered: recovered.length,
    waiting: found.filter(isWaiting).length,
    deliveredButUnseen: unseenDelivered.length,
    handled: counts?.handled ?? 0,
    duplicates: found.filter(({ result }) => result === 'done').length,
    failed: failedIds.length,
    late: late.length,
    ids: {
      new: toIds(unseen),
      recovered: toIds(recovered),
      deliveredButUnseen: toIds(unseenDelivered),
      late: toIds(late),
      failed: failedIds.slice(0, MAX_LISTED),
    },
    verdicts: survey.verdicts,
    gaps: open.map((gap) => toGap(gap)),
    // If the state can be saved, a gap is told: better twice than never.
    gapsOpened: saved !== false ? advance.opened.map((gap) => toGap(gap)) : [],
    gapsClosed: saved ? advance.closed.map((gap) => toGap(gap, 'closed')) : [],
    problems: problems.slice(0, MAX_LISTED),
    doubtful: false,
    redriven: counts,
    durationMs: 0,
  };
}

/** The states in which an event of the list can have to be run. */
const WAITS: ReadonlySet<RecordResult> = new Set(['new', 'received', 'leased', 'failed', 'parked']);

/** The outcomes after which this process need not run the event again. */
const ENDED: ReadonlySet<OutcomeKind | undefined> = new Set([
  'handled',
  'duplicate',
  'ignored',
  'queued',
  'dead',
]);

/** The numbers that a diagnosis tells to change. */
export interface DiagnosisSettings {
  readonly lagMs: number;
  readonly disorderMs: number;
  readonly intervalMs: number;
  readonly maxLimit: number;
}

interface Diagnosis {
  readonly survey: SurveyResult;
  readonly advance: Advance;
  readonly settings: DiagnosisSettings;
}

/** Says what the poll proved, or why it proved nothing and which number to change. */
export function diagnose(diagnosis: Diagnosis): string {
  const { survey, advance } = diagnosis;
  if (!survey.answered) {
    return 'The list was not read, or what it showed was not recorded, so nothing is proven and the watermark stays.';
  }
  if (!advance.proven) return explainGap(diagnosis);
  const { since, watermark, gaps } = advance.state;
  const open = gaps.filter(({ acknowledged }) => acknowledged === null).length;
  const except = [countOf(open, 'open gap'), countOf(gaps.length - open, 'acknowledged gap')].filter(Boolean);
  const from = since === null ? '' : ` from ${toIso(since)}`;
  return `Every event created${from} up to ${toIso(watermark ?? survey.settledAt)} is in the inbox${except.length > 0 ? `, except in ${except.join(' and ')}` : ''}.`;
}

function countOf(count: number, name: string): string {
  return count === 0 ? '' : `${count} ${name}${count === 1 ? '' : 's'}`;
}

/** A window is planned for this share of what the list shows now: the rate of events varies. */
const PLANNED_SHARE = 0.7;

/** A poll that comes so many intervals after the last one follows an outage. */
const OUTAGE_INTERVALS = 3;

function explainGap({ survey, advance, settings }: Diagnosis): string {
  const { lagMs, disorderMs, intervalMs, maxLimit } = settings;
  const [whole] = survey.verdicts;
  const { reason } = advance;
  if (whole === undefined || !WINDOW_REASONS.has(reason)) return describeReason(reason);
  const { size, limit, windowMs, disorderMs: measuredMs } = whole;
  const isCutByUs = size >= limit && limit >= maxLimit;
  if (reason === 'oldest-first') {
    if (isCutByUs) {
      return `The list shows its oldest ${size} events, as many as maxLimit asks for. Set maxLimit to ${maxLimit * 2}.`;
    }
    return `The list shows its oldest events first, ${size} of them. If that is as many as it ever shows, it can never show new events beyond its first ${size}. Ask the service how to read the newest ones; until then rely on push.`;
  }
  if (reason === 'no-order' || windowMs === null) {
    if (measuredMs !== null && measuredMs > disorderMs && measuredMs < lagMs) {
      return `The list returned ${size} events, and neighbours are out of order by ${measuredMs} ms. Set disorderMs to ${roundUp(measuredMs * 1.5, 1_000)}.`;
    }
    const more = isCutByUs ? `Set maxLimit to ${maxLimit * 2}, or ask` : 'Rely on push, and ask';
    return `The list returned ${size} events and shows no order, so what it lacks cannot be known. ${more} the service for the newest events first.`;
  }

  const elapsedMs = survey.settledAt - survey.watermark;
  const shown = `The list shows the newest ${size} events, which is ${toWords(windowMs)} at the present rate`;
  const plannedMs = windowMs * PLANNED_SHARE;
  if (elapsedMs > OUTAGE_INTERVALS * intervalMs && plannedMs > 2 * lagMs + disorderMs + intervalMs) {
    const seconds = Math.floor(roundDown(plannedMs - 2 * lagMs - disorderMs) / 1_000);
    return `${shown}, and ${toWords(elapsedMs)} were to be proven. Compare the books of the gap with reconcile, and acknowledge it when nothing is missing: after an outage, or if the list has no older events. If polls are always that far apart, poll every ${seconds} seconds.`;
  }
  const neededMs = 2 * lagMs + disorderMs + Math.max(intervalMs, elapsedMs);
  const changes: string[] = [];
  if (isCutByUs) {
    const factor = Math.max(2, neededMs / Math.max(1, plannedMs));
    changes.push(`maxLimit to ${roundUp(Math.min(maxLimit * factor, 1e9), 100)}`);
  }
  const shorterMs = roundDown(plannedMs - 2 * lagMs - disorderMs);
  const lowerMs = roundDown((plannedMs - intervalMs - disorderMs) / 2);
  if (lowerMs >= 1_000 && lowerMs < lagMs) changes.push(`lagMs to ${lowerMs}`);
  if (shorterMs >= 1_000 && shorterMs < intervalMs) changes.push(`intervalMs to ${shorterMs}`);
  // The window is too short for either alone.
  const thirdMs = Math.max(1_000, roundDown((plannedMs - disorderMs) / 3));
  if (changes.length === 0 && thirdMs < lagMs && thirdMs < intervalMs) {
    changes.push(`lagMs to ${thirdMs} and intervalMs to ${thirdMs}`);
  }
  const advice =
    changes.length === 0
      ? 'If this happens often, poll more often or lower lagMs.'
      : `Set ${changes.join(', or ')}.`;
  return `${shown}; ${toWords(neededMs)} were needed (2 x lagMs + disorderMs + the time since the last poll). ${advice}`;
}

/** The reasons for which the numbers of the list say what to change. */
const WINDOW_REASONS: ReadonlySet<string> = new Set([
  'not-reached',
  'window-too-short',
  'oldest-first',
  'no-order',
]);

/** Down to a number with one or two digits that are not 0. */
function roundDown(value: number): number {
  if (!(value > 0)) return 0;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.floor(value / unit) * unit;
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** A duration in its largest unit, such as "7 minutes". */
function toWords(ms: number): string {
  const [name, unit] = UNITS.find(([, length]) => ms >= length * 1.5) ?? ['second', 1_000];
  const count = Math.round((ms / unit) * 10) / 10;
  const shown = count >= 10 ? Math.round(count) : count;
  return `${shown} ${name}${shown === 1 ? '' : 's'}`;
}
