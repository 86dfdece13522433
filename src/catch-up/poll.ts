/** One poll: survey, record, save, redrive. */
import { createdAtMs, isEventType, isKnownEvent } from '../core/events.js';
import type { Inbox, InboxOperations, RecordResult } from '../core/ports.js';
import { nextTurn } from '../core/runtime.js';
import { runInside } from '../receiver/layers.js';
import type { Outcome, OutcomeKind } from '../receiver/outcome.js';
import { partsOf } from '../receiver/parts.js';
import { warnNotDurable } from '../receiver/store.js';
import { MIN_CAP, type SurveyResult } from './coverage.js';
import { diagnose } from './diagnosis.js';
import { advance, isInGap } from './gaps.js';
import { acquireLease, type PollLease } from './lease.js';
import { type ListedEvent, ListReader, runSurvey } from './list.js';
import type { OpenSettings, PollerSettings } from './options.js';
import { REACH_EVENTS } from './order.js';
import { DOUBTFUL, type PollProblem, problemOf, toProblem } from './problems.js';
import {
  EMPTY_REPORT,
  type FoundEvent,
  isFailure,
  type PollReport,
  type Redriven,
  toReport,
} from './report.js';
import type { OldestListed, PollState } from './state.js';

interface PollOptions {
  readonly holder: string;
  readonly signal: AbortSignal;
  /** Whether it is the first poll of this poller. */
  readonly isFirst: boolean;
  /** Whether the poller's timer started it: then it belongs to nothing that called the poller. */
  readonly isTimed: boolean;
}

interface LeasedOptions extends PollOptions {
  readonly lease: PollLease;
  readonly startedAt: number;
}

/** Where a step adds the problems that it meets. */
interface Noting {
  readonly problems: PollProblem[];
}

/** Never rejects. */
export async function poll(settings: PollerSettings, options: PollOptions): Promise<PollReport> {
  const { logger, runtime } = settings;
  const startedAt = runtime.elapsed();
  let report: PollReport;
  try {
    const receiver = settings.receiver();
    const parts = partsOf('createPoller', receiver);
    warnNotDurable(receiver.inbox, { where: 'a poller uses it', logger });
    const { use } = parts.settings;
    const run = () => runInside(use, 'poll', () => leaseAndPoll({ ...settings, receiver, parts }, options));
    report = await (options.isTimed ? runInside(use, 'detached', run) : run());
  } catch (error) {
    report = { ...EMPTY_REPORT, problems: [toProblem(error, { code: 'ERR_CONFIG_INVALID' })] };
  }
  const doubtful = report.problems.some(({ code }) => DOUBTFUL.has(code));
  return { ...report, doubtful, durationMs: Math.round(runtime.elapsed() - startedAt) };
}

async function leaseAndPoll(settings: OpenSettings, options: PollOptions): Promise<PollReport> {
  const startedAt = Math.floor(settings.runtime.now());
  const lease = await acquireLease(settings, options.holder);
  if (lease === null) return { ...EMPTY_REPORT, problems: [problemOf('ERR_POLL_BUSY')] };
  try {
    return await pollUnderLease(settings, { ...options, lease, startedAt });
  } finally {
    lease.drop();
  }
}

/** Surveys the list, records what it found, saves the state, and redrives the inbox. */
async function pollUnderLease(settings: OpenSettings, options: LeasedOptions): Promise<PollReport> {
  const { lease, signal, isTimed, startedAt } = options;
  let { state } = lease;
  const problems: PollProblem[] = [];
  const halt = AbortSignal.any([signal, lease.lost]);
  const list = new ListReader(settings.client, halt);
  const first = state.watermark === null;
  const ourClock = { earlier: startedAt, later: startedAt };
  const watermark = state.watermark ?? toStart(settings, state, ourClock).since;
  const settledAt = startedAt - settings.lagMs;
  // Only a first poll that looks back could call a list complete that lost events before any poll saw it. If the inbox
  // fails, the poll ends, because no later poll looks.
  if (first && watermark < settledAt && state.oldest === null) {
    state = { ...state, oldest: await oldestReceived(settings, settledAt) };
  }
  // An event that was created at the start date itself counts.
  const begin = watermark === (state.since ?? watermark) ? watermark - 1 : watermark;
  const target = Math.min(begin, gapToTry(state, settings, options));
  const survey = await runSurvey(list, { ...settings, watermark, target, first, startedAt, state });
  const start = toStart(settings, state, survey.clocks);

  const taken = list.found(start.takeFrom);
  const found = await recordFound(taken, { ...settings, problems });

  // A poll that was stopped before it read and recorded the whole list has found no gap.
  const isWhole = survey.answered && found.length === taken.length && !halt.aborted;
  // Otherwise a start date that is stored stays.
  const since = isWhole ? start.since : (state.since ?? start.since);
  const wasAhead = survey.isAhead || (survey.answered && start.wasAhead);
  if (wasAhead) problems.push(problemOf('ERR_WATERMARK_AHEAD'));
  // The header has whole seconds (RFC 9110, 6.6.1).
  if (survey.until < settledAt - 1_000) problems.push(problemOf('ERR_CLOCK_BEHIND'));
  // New events, although the inbox should have every event of their time.
  const late = found.filter(({ event, at, result }) => {
    const isBefore = at > since && at <= (state.watermark ?? since) && !wasAhead;
    return isBefore && result === 'new' && isKnownEvent(event) && !isInGap(state, { type: event.type, at });
  });
  const whole = { ...survey, answered: isWhole };
  // One or two can be late by themselves. `found` has the oldest first.
  const lateFrom = late[REACH_EVENTS - 1]?.at ?? Number.POSITIVE_INFINITY;
  const next = advance({ ...state, since }, whole, { ...settings, ...start, lateFrom });
  const { all = 0, listMaxRefuted: wasRefuted = false } = state.seen ?? {};
  // An earlier answer that was complete by `listMax` alone should have shown every late event.
  const isRefuted = late.length > 0 && all >= MIN_CAP && all < (settings.listMax ?? 0);
  const seen = { ...survey.seen, listMaxRefuted: survey.seen.listMaxRefuted || isRefuted };
  if (seen.listMaxRefuted && !wasRefuted) problems.push(problemOf('ERR_LIST_MAX'));
  if (late.length > 0) problems.push(problemOf('ERR_EVENT_LATE'));
  problems.push(...list.problems(start.takeFrom));
  const doubts = new Set(problems.map(({ code }) => code).filter((code) => DOUBTFUL.has(code)));
  const read = { ...next.state, seen, doubts: [...doubts] };
  const saved = await lease.save(survey.answered ? read : next.state, problems);

  const redriven = await redriveDue(settings, { signal, isTimed, problems });
  if (signal.aborted) problems.unshift(problemOf('ERR_POLL_STOPPED'));
  const isStopped = halt.aborted || saved !== true;
  return toReport({
    survey,
    advance: saved === true ? next : { ...next, state },
    saved,
    found,
    late,
    redriven,
    store: settings.parts.store,
    fetched: list.size,
    skipped: list.size - taken.length,
    requests: list.requests,
    problems,
    diagnosis: isStopped
      ? 'This poll proves nothing, because it was stopped or its result was not saved: `problems` says why.'
      : diagnose({ survey: whole, advance: next, settings }),
  });
}

/** The inbox, and the process, are free for deliveries between two batches. */
const RECORD_BATCH = 500;

/** Records events as due, oldest first, until the inbox fails. */
async function recordFound(
  listed: readonly ListedEvent[],
  { parts, runtime, problems }: Pick<OpenSettings, 'parts' | 'runtime'> & Noting,
): Promise<readonly FoundEvent[]> {
  const found: FoundEvent[] = [];
  const oldestFirst = listed.toSorted((a, b) => a.at - b.at);
  try {
    for (let from = 0; from < oldestFirst.length; from += RECORD_BATCH) {
      if (from > 0) await nextTurn(runtime);
      const batch = oldestFirst.slice(from, from + RECORD_BATCH);
      const events = batch.map(({ event }) => event);
      const json = batch.map((each) => each.json);
      const results = await parts.store.record(events, { dueInMs: 0, origin: 'pull', json });
      for (const [index, each] of batch.entries()) {
        found.push({ ...each, result: results[index] as RecordResult });
      }
    }
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
  }
  return found;
}

/** Runs the due events of the inbox: the events that this poll found, and those that waited. */
async function redriveDue(
  { receiver }: Pick<OpenSettings, 'receiver'>,
  { signal, isTimed, problems }: Pick<PollOptions, 'signal' | 'isTimed'> & Noting,
): Promise<Redriven> {
  const kinds = new Map<string, OutcomeKind>();
  const onOutcome = ({ event, kind, error }: Outcome) => {
    if (event === undefined) return;
    kinds.set(event.id, kind);
    if (error !== undefined && isFailure(kind))
      problems.push(toProblem(error, { code: error.code, id: event.id }));
  };
  // A platform can stop the process once its cron job has ended, but not while a timer runs.
  const waitUntil = isTimed ? () => undefined : undefined;
  try {
    return { counts: await receiver.redrive({ signal, onOutcome, waitUntil }), kinds };
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return { counts: null, kinds };
  }
}

/** How many records a first poll reads to find the oldest event that push brought. */
const FIRST_RECORDS = 500;

/**
 * The oldest of the first events that the inbox received, if it was created before `settledAt`: a list without an event as old
 * has lost events. A pruned event counts by its receipt. `null` if the inbox has no `list`.
 */
async function oldestReceived(
  { receiver, parts }: OpenSettings,
  settledAt: number,
): Promise<OldestListed | null> {
  const inbox: Inbox<unknown> & Partial<Pick<InboxOperations, 'list'>> = receiver.inbox;
  const records = await parts.store.ask(() => inbox.list?.({ state: 'done', limit: FIRST_RECORDS }) ?? []);
  let at = Number.POSITIVE_INFINITY;
  for (const { type, event, receivedAt } of records) {
    const time = event === null ? receivedAt : createdAtMs(event);
    if (isEventType(type) && time <= settledAt) at = Math.min(at, time);
  }
  // No poll saw it in the list, so it does not show how long the service keeps events.
  return Number.isFinite(at) ? { at, seenAt: 0 } : null;
}

/**
 * The start date, from when on events are taken, and whether a wrong clock had set the stored date. Times are epoch ms.
 *
 * The start date moves only until the first poll with an answer has ended. A later change of `since` would add events that
 * are before the watermark and not proven, or lose events.
 *
 * A date that neither clock has reached moves back as far as the watermark does, so the span that polls covered stays. The
 * events skipped before that are not known.
 */
function toStart(
  { since: given, backfill, lagMs }: Pick<PollerSettings, 'since' | 'backfill' | 'lagMs'>,
  { since: stored, watermark }: PollState,
  { earlier, later }: SurveyResult['clocks'],
) {
  let since = stored ?? earlier;
  if (since > later) since = earlier - Math.max(0, (watermark ?? since) - since);
  if (watermark === null) since = Math.min(given ?? since, earlier);
  const takeFrom = backfill ? Number.NEGATIVE_INFINITY : Math.min(given ?? since, since);
  // Clocks can be wrong by less than the lag.
  return { since, takeFrom, wasAhead: stored !== null && stored > later + lagMs };
}

/**
 * Where the oldest open gap begins, if this poll tries to close the gaps as well, which takes more requests: at the first
 * poll, because options can be new, and then once, twice, four times, … the interval after a gap was opened.
 */
function gapToTry(
  { gaps, watermark }: PollState,
  { intervalMs, lagMs }: Pick<PollerSettings, 'intervalMs' | 'lagMs'>,
  { startedAt, isFirst }: LeasedOptions,
): number {
  const lastAt = (watermark ?? startedAt) + lagMs;
  let begin = Number.POSITIVE_INFINITY;
  let tries = isFirst;
  for (const { acknowledged, openedAt, from } of gaps) {
    if (acknowledged !== null) continue;
    begin = Math.min(from, begin);
    const steps = (time: number) => Math.floor(Math.log2(Math.max(0.5, (time - openedAt) / intervalMs)));
    tries ||= steps(startedAt) > steps(lastAt);
  }
  return tries ? begin : Number.POSITIVE_INFINITY;
}
