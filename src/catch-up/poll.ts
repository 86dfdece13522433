import { isKnownEvent } from '../core/events.js';
import type { RecordResult } from '../core/ports.js';
import { nextTurn } from '../core/runtime.js';
import { runInside } from '../receiver/layers.js';
import type { Outcome, OutcomeKind } from '../receiver/outcome.js';
import { partsOf } from '../receiver/parts.js';
import { warnNotDurable } from '../receiver/store.js';
import { diagnose } from './diagnosis.js';
import { MIN_CAP } from './evidence.js';
import { advance, isInGap, type RefusedListed } from './gaps.js';
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
import { gapToTry, oldestReceived, pushedSince, toStart } from './start.js';
import type { LastAttempt } from './state.js';

interface PollOptions {
  readonly holder: string;
  readonly signal: AbortSignal;
  readonly isFirst: boolean;
  /** Whether the poller was started. Its timer then starts the polls, which must not run in a caller's context. */
  readonly isTimed: boolean;
}

interface LeasedOptions extends PollOptions {
  readonly lease: PollLease;
  /** Aborts when the poll is stopped, or when another process takes over the lease. */
  readonly halt: AbortSignal;
  readonly startedAt: number;
}

/** Never rejects: the report contains the failure. */
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
    const halt = AbortSignal.any([options.signal, lease.lost]);
    return await pollUnderLease(settings, { ...options, lease, halt, startedAt });
  } finally {
    lease.drop();
  }
}

async function pollUnderLease(settings: OpenSettings, options: LeasedOptions): Promise<PollReport> {
  const survey = await readSurvey(settings, options);
  const found = await recordFound(settings, survey, options.lease);
  const next = await saveNext(settings, options, found);
  const redriven = await redriveDue(settings, options);
  const { list, state } = survey;
  const { advance: advanced, saved } = next;
  const stopped = options.signal.aborted ? [problemOf('ERR_POLL_STOPPED')] : [];
  return toReport({
    survey: survey.result,
    advance: saved === true ? advanced : { ...advanced, state },
    saved,
    found: found.events,
    late: next.late,
    redriven,
    store: settings.parts.store,
    fetched: list.size,
    skipped: list.size - found.taken,
    requests: list.requests,
    problems: [...stopped, ...next.problems, ...redriven.problems],
    diagnosis:
      options.halt.aborted || saved !== true
        ? 'This poll proves nothing, because it was stopped or its result was not saved. See `problems` for the reason.'
        : diagnose({ survey: next.result, advance: advanced, settings }),
  });
}

type Survey = Awaited<ReturnType<typeof readSurvey>>;
type Found = Awaited<ReturnType<typeof recordFound>>;

async function readSurvey(settings: OpenSettings, options: LeasedOptions) {
  const { lease, halt, startedAt } = options;
  let { state } = lease;
  const first = state.watermark === null;
  const ourClock = { earlier: startedAt, later: startedAt };
  const watermark = state.watermark ?? toStart(settings, state, ourClock).since;
  const settledAt = startedAt - settings.lagMs;
  // The list may have lost events before any poll saw it, so a first poll that looks back compares it with the inbox. If
  // the inbox fails, the poll ends, because later polls do not make this comparison.
  if (first && watermark < settledAt && state.oldest === null) {
    state = { ...state, oldest: await oldestReceived(settings, settledAt) };
  }
  // Events created exactly at the start date are included.
  const begin = watermark === (state.since ?? watermark) ? watermark - 1 : watermark;
  const target = Math.min(begin, gapToTry(state, settings, options));
  const pushed = await pushedSince(settings, begin, watermark === state.since);
  const list = new ListReader(settings.client, halt);
  const result = await runSurvey(list, { ...settings, watermark, target, first, startedAt, state, pushed });
  return { state, list, result, start: toStart(settings, state, result.clocks) };
}

/** Events are recorded in batches of this size, so that deliveries can be handled between two batches. */
const RECORD_BATCH = 500;

async function recordFound(settings: OpenSettings, survey: Survey, lease: PollLease) {
  const oldestFirst = survey.list.found(survey.start.takeFrom).toSorted((a, b) => a.at - b.at);
  const taken = oldestFirst.length;
  const events: FoundEvent[] = [];
  const refused: RefusedListed[] = [];
  const problems: PollProblem[] = [];
  let refusal: unknown;

  /** If a page fails although the inbox can write, records each half separately, down to single events. */
  async function record(page: readonly ListedEvent[]): Promise<void> {
    try {
      const json = page.map((each) => each.json);
      const results = await settings.parts.store.record(
        page.map(({ event }) => event),
        { dueInMs: 0, origin: 'pull', json },
      );
      for (const [index, each] of page.entries()) {
        events.push({ ...each, result: results[index] as RecordResult });
      }
    } catch (error) {
      const [first, ...others] = page;
      const isOutage = refused.length >= MAX_REFUSED || !(await lease.renew());
      if (isOutage || first === undefined) throw error;
      if (others.length === 0) {
        const { id, type } = first.event;
        refused.push({ id, type, at: first.at, error: toCode(error) });
        refusal = error;
        return;
      }
      const half = Math.ceil(page.length / 2);
      await record(page.slice(0, half));
      await record(page.slice(half));
    }
  }

  try {
    for (let from = 0; from < taken; from += RECORD_BATCH) {
      if (from > 0) await nextTurn(settings.runtime);
      await record(oldestFirst.slice(from, from + RECORD_BATCH));
    }
    // If the inbox refuses every event, the problem lies with the inbox.
    if (taken > 0 && refused.length === taken) throw refusal;
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
  }
  return { ...survey, events, refused, taken, problems };
}

/** If the inbox refuses more events than this, the problem lies with the inbox and not with the events. */
const MAX_REFUSED = 100;

function toCode(error: unknown): string {
  const { code, cause } = Object(error) as { readonly code?: unknown; readonly cause?: unknown };
  return String(Object(cause).code ?? code).slice(0, 100);
}

async function saveNext(settings: OpenSettings, options: LeasedOptions, found: Found) {
  const { state, list, start } = found;
  const { answered, isAhead, until } = found.result;
  // An event that is running for the first time is not stored yet, so a later poll must find it if this process dies.
  const running = found.events.filter((each) => each.result === 'running').map(({ at }) => at);
  const provableUntil = Math.min(found.result.settledAt, ...running.map((at) => at - 1));
  const isHeld = running.some((at) => at <= (state.watermark ?? start.since));
  // A poll that was stopped before it had read and recorded the whole list opens no gap.
  const isWhole = answered && found.problems.length === 0 && !options.halt.aborted && !isHeld;
  const result = { ...found.result, answered: isWhole, settledAt: provableUntil };
  const last = { ...state, since: isWhole ? start.since : (state.since ?? start.since) };
  const wasAhead = isAhead || (answered && start.wasAhead);
  // New events that the watermark had already passed, oldest first.
  const late = found.events.filter(({ event, at, result: known }) => {
    const isBefore = at > last.since && at <= (last.watermark ?? last.since) && !wasAhead;
    return isBefore && known === 'new' && isKnownEvent(event) && !isInGap(last, event.type, at);
  });
  // One or two late events do not suggest that other events were late as well.
  const lateFrom = late[REACH_EVENTS - 1]?.at ?? Number.POSITIVE_INFINITY;
  const earlier = state.gaps.flatMap(({ event }) => event?.id ?? []);
  const stored = earlier.filter((id) => found.events.some(({ event }) => event.id === id));
  const { refused } = found;
  const advanced = advance(last, result, { ...start, lateFrom, refused, stored });
  const { all = 0, listMaxRefuted: wasRefuted = false } = state.seen ?? {};
  // The late events were missing from a response that counted as complete only because of `listMax`.
  const isRefuted = late.length > 0 && all >= MIN_CAP && all < (settings.listMax ?? 0);
  const seen = { ...result.seen, listMaxRefuted: result.seen.listMaxRefuted || isRefuted };

  const problems = [...found.problems];
  if (wasAhead) problems.push(problemOf('ERR_WATERMARK_AHEAD'));
  // The `Date` header has a resolution of one second (RFC 9110, 6.6.1).
  if (until < options.startedAt - settings.lagMs - 1_000) problems.push(problemOf('ERR_CLOCK_BEHIND'));
  if (seen.listMaxRefuted && !wasRefuted) problems.push(problemOf('ERR_LIST_MAX'));
  if (late.length > 0) problems.push(problemOf('ERR_EVENT_LATE'));
  problems.push(...list.problems(start.takeFrom));
  const doubts = new Set(problems.map(({ code }) => code).filter((code) => DOUBTFUL.has(code)));
  const read = { ...advanced.state, seen, doubts: [...doubts] };
  const isRead = answered && found.problems.length === 0;
  // A poll that was stopped says nothing about the list.
  const lastAttempt =
    !isRead && options.halt.aborted
      ? state.lastAttempt
      : toAttempt(state.lastAttempt, options.startedAt, isRead ? undefined : problems[0]);
  const after = { ...(answered ? read : advanced.state), lastAttempt };
  const saved = await options.lease.save(after, problems);
  return { result, advance: advanced, saved, late, problems };
}

function toAttempt(last: LastAttempt | undefined, at: number, failure: PollProblem | undefined): LastAttempt {
  if (failure === undefined) return { at };
  const { code: error, message } = failure;
  return { at, error, message, failingSince: last?.failingSince ?? at };
}

async function redriveDue(
  { receiver }: Pick<OpenSettings, 'receiver'>,
  { signal, isTimed }: PollOptions,
): Promise<Redriven> {
  const kinds = new Map<string, OutcomeKind>();
  const problems: PollProblem[] = [];
  const onOutcome = ({ event, kind, error }: Outcome) => {
    if (event === undefined) return;
    kinds.set(event.id, kind);
    if (error !== undefined && isFailure(kind))
      problems.push(toProblem(error, { code: error.code, id: event.id }));
  };
  // A platform may stop the process when its cron job ends, so only a poll started by a timer may leave handlers running.
  const waitUntil = isTimed ? () => undefined : undefined;
  try {
    return { counts: await receiver.redrive({ signal, onOutcome, waitUntil }), kinds, problems };
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return { counts: null, kinds, problems };
  }
}
