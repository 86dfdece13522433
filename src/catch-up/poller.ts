import type { AsyncDisposal } from '../core/disposal.js';
import { ConfigError } from '../core/errors.js';
import { createdAtMs, isEventType, isKnownEvent } from '../core/events.js';
import { log, notify } from '../core/log.js';
import { boolean, date, func, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Inbox, InboxOperations, Logger, OldestListed, PollState } from '../core/ports.js';
import {
  orAborted,
  RUNTIME,
  type Runtime,
  type RuntimeOptions,
  setBackgroundTimeout,
  toRuntime,
} from '../core/runtime.js';
import { emptyCounts, type Outcome, type OutcomeCounts } from '../receiver/outcome.js';
import { partsOf, type Receiver, type ReceiverParts } from '../receiver/receiver.js';
import { type ReceiverSource, toReceiver } from '../receiver/source.js';
import { warnNotDurable } from '../receiver/store.js';
import {
  type Acknowledgement,
  type Advance,
  acknowledgeGap,
  advance,
  describeGap,
  type Gap,
  isInGap,
} from './gaps.js';
import { type Clocks, createListReader, type PollerClient, runSurvey } from './list.js';
import {
  DOUBTFUL,
  diagnose,
  EMPTY_REPORT,
  type FoundEvent,
  isFailure,
  type PollProblem,
  type PollReport,
  problemOf,
  toProblem,
  toReport,
} from './report.js';

/** Options of {@link createPoller}. */
export interface PollerOptions {
  /** Reads the list: a client of `stablehooks/client`. */
  readonly client: PollerClient;
  /**
   * Receives the events. Its inbox keeps the watermark, and must be the one that every process and job of the app
   * uses: another inbox does not know which events push has handled. A function is called at the first poll.
   */
  readonly receiver: ReceiverSource;
  /** The limit of the first query. Below 50, a proof takes more requests. @default 50 */
  readonly limit?: number | undefined;
  /** The highest limit of a query. @default 1_000 */
  readonly maxLimit?: number | undefined;
  /** How late an event can be listed after its `created_at`, in ms. The watermark stays this far behind now. @default 300_000 */
  readonly lagMs?: number | undefined;
  /**
   * By how much neighbours of the list can be out of order, in ms; one in ten can be older than its place by more. Applies
   * to `created_at` in a list that is sorted by something like it, such as ids.
   *
   * @default 1_000
   */
  readonly disorderMs?: number | undefined;
  /** How many handlers run at a time. @default 4 */
  readonly concurrency?: number | undefined;
  /** The time from the start of one poll to the start of the next, in ms, plus or minus a tenth. @default 60_000 */
  readonly intervalMs?: number | undefined;
  /** How long no other process polls when this one dies, in ms. @default 30_000 */
  readonly leaseMs?: number | undefined;
  /**
   * The opening date: events created before it are neither recorded nor handled, and no event created from it on can be
   * missing. The first poll stores it in the inbox. Later, an earlier date opens the poller for older events, of which
   * nothing is proven, and a later date changes nothing. A date in the future counts as the first poll.
   *
   * @default the first poll, by the earlier of this clock and the service's, or `lagMs` before this one alone
   */
  readonly since?: Date | undefined;
  /** Records and handles listed events of any age. Nothing is proven of those from before the opening date. @default false */
  readonly backfill?: boolean | undefined;
  /** Takes a line for each gap, and for what is wrong with the wiring. @default console */
  readonly logger?: Logger | undefined;
  /** Called with the report of each poll. Its failure is logged. @default none */
  readonly onReport?: ((report: PollReport) => void | Promise<void>) | undefined;
  /** Called once when a gap opens and once when it closes, which is also logged. Its failure is logged. @default none */
  readonly onGap?: ((gap: Gap) => void | Promise<void>) | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Polls the list for events that push missed. */
export interface Poller extends AsyncDisposal {
  /**
   * Polls once, or joins the poll that is running. Never rejects: what failed is in the report. A handler that outlives
   * `handlerTimeoutMs` is waited for until it ends, or its lease, unless the poller was started. The signal ends the poll
   * early: other handlers that run are waited for, and what was found is kept.
   */
  pollOnce(options?: PollOnceOptions): Promise<PollReport>;
  /** Polls now and every `intervalMs` from now on. The timer does not keep the process alive. */
  start(): void;
  /** Stops polling. Ends the running poll early and resolves when it has ended. */
  stop(): Promise<void>;
  /**
   * Accepts a gap of a report without a proof, such as after a comparison of the books: as {@link acknowledgeGap} does,
   * after the poll that is running.
   */
  acknowledgeGap(
    gap: Pick<Gap, 'from' | 'until' | 'openedAt'>,
    acknowledgement: Acknowledgement,
  ): Promise<Gap | null>;
  /** The receiver's inbox. Reading it makes a receiver that is given as a function. @throws {ConfigError} */
  readonly inbox: Inbox<unknown>;
}

/** The options, checked, with their defaults. */
type PollerSettings = {
  readonly [Name in keyof Omit<PollerOptions, 'client' | 'receiver' | 'runtime' | 'since'>]-?: Exclude<
    PollerOptions[Name],
    undefined
  >;
} & {
  readonly client: PollerClient;
  readonly receiver: () => Receiver;
  readonly runtime: Runtime;
  /** Epoch ms. */
  readonly since: number | undefined;
};

/**
 * Creates a poller. It never runs two polls at a time.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or makes no sense.
 *
 * @example
 * ```ts
 * const poller = createPoller({ client, receiver, onReport: (report) => console.log(report) });
 * poller.start();
 * ```
 */
export function createPoller(options: PollerOptions): Poller {
  const settings = toSettings(options);
  const { runtime } = settings;
  /** Identifies this poller among the processes that share the inbox. */
  const holder = runtime.uuid();
  let stopping = new AbortController();
  let current: Promise<PollReport> | undefined;
  let timer: unknown;
  /** What {@link Poller.start} began, until it is stopped. */
  let loop: symbol | undefined;
  /** Settles when the poll that was stopped last has ended. */
  let ended: Promise<unknown> = Promise.resolve();
  let isFirst = true;
  /** Logged once, and not at each poll. */
  let lastFailure: PollProblem | undefined;

  function pollOnce({ signal }: PollOnceOptions = {}): Promise<PollReport> {
    const signals = signal === undefined ? [stopping.signal] : [stopping.signal, signal];
    const isTimed = loop !== undefined;
    current ??= poll(settings, { holder, signal: AbortSignal.any(signals), isFirst, isTimed })
      .finally(() => {
        current = undefined;
      })
      .then(publish);
    return current;
  }

  function publish(report: PollReport): PollReport {
    const { logger, onReport, onGap } = settings;
    notify('onReport', onReport, { value: report, logger });
    // The gaps are tried by the first poll that reads the list.
    if (report.verdicts.some(({ verdict }) => verdict !== 'failed')) isFirst = false;
    const failure = failureOf(report);
    if (failure !== undefined && lastFailure === undefined) {
      log(logger, 'error', `the poll failed. ${failure.code}: ${failure.message}`);
    }
    if (failure === undefined && lastFailure !== undefined) log(logger, 'warn', 'polls succeed again.');
    lastFailure = failure;
    for (const gap of report.gapsClosed) tell('warn', gap, describeGap(gap));
    for (const gap of report.gapsOpened) tell('error', gap, `${describeGap(gap)} ${report.diagnosis}`);
    function tell(level: 'warn' | 'error', gap: Gap, line: string) {
      log(logger, level, line);
      notify('onGap', onGap, { value: gap, logger });
    }
    return report;
  }

  async function run(own: symbol): Promise<void> {
    const startedAt = runtime.elapsed();
    await pollOnce();
    if (loop !== own) return;
    // A tenth more or less, so that processes that start together do not keep polling at the same time.
    const intervalMs = settings.intervalMs * (0.9 + runtime.random() / 5);
    const waitMs = Math.max(0, intervalMs - (runtime.elapsed() - startedAt));
    timer = setBackgroundTimeout(runtime, () => run(own), waitMs);
  }

  function start(): void {
    if (loop !== undefined) return;
    const own = Symbol('loop');
    loop = own;
    // A poll that was stopped and has not ended yet is not the first one of this loop.
    void ended.then(() => {
      if (loop === own) void run(own);
    });
  }

  async function stop(): Promise<void> {
    loop = undefined;
    runtime.clearTimeout(timer);
    stopping.abort();
    stopping = new AbortController();
    ended = Promise.resolve(current);
    await ended;
  }

  async function acknowledge(
    gap: Pick<Gap, 'from' | 'until' | 'openedAt'>,
    acknowledgement: Acknowledgement,
  ): Promise<Gap | null> {
    await current;
    return acknowledgeGap(settings.receiver().inbox, gap, acknowledgement, { runtime });
  }

  return {
    pollOnce,
    start,
    stop,
    acknowledgeGap: acknowledge,
    [Symbol.asyncDispose]: stop,
    get inbox() {
      return settings.receiver().inbox;
    },
  };
}

interface PollOnceOptions {
  readonly signal?: AbortSignal | undefined;
}

const CLIENT = rule(
  'a client, such as createClient of stablehooks/client returns',
  (client) => typeof (client as PollerClient | null | undefined)?.events?.listWithProblems === 'function',
);

function toSettings(options: PollerOptions): PollerSettings {
  const settings = readOptions('createPoller', options, {
    client: required(CLIENT),
    receiver: required(rule('given', () => true)),
    limit: integer({ default: 50 }),
    maxLimit: integer({ default: 1_000 }),
    // 0 suits a service that lists events immediately and whose clock equals ours.
    lagMs: integer({ default: 300_000, min: 0 }),
    disorderMs: integer({ default: 1_000, min: 0 }),
    concurrency: integer({ default: 4 }),
    intervalMs: integer({ default: 60_000 }),
    leaseMs: integer({ default: 30_000 }),
    since: date(),
    backfill: boolean(false),
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    onReport: func((): void => undefined),
    onGap: func((): void => undefined),
    runtime: RUNTIME,
  });
  if (settings.limit > settings.maxLimit) {
    throw new ConfigError(
      `createPoller: \`limit\` (${settings.limit}) must not be more than \`maxLimit\` (${settings.maxLimit}).`,
    );
  }
  return {
    ...settings,
    receiver: toReceiver('createPoller', settings.receiver),
    runtime: toRuntime(settings.runtime),
    since: settings.since?.getTime(),
  };
}

/** The settings of one poll, with the receiver that is made. */
type OpenSettings = Omit<PollerSettings, 'receiver'> & {
  readonly receiver: Receiver;
  readonly parts: ReceiverParts;
};

interface PollOptions {
  readonly holder: string;
  readonly signal: AbortSignal;
  /** Whether it is the first poll of this poller. */
  readonly isFirst: boolean;
  /** Whether the poller's timer started it: then it belongs to nothing that called the poller. */
  readonly isTimed: boolean;
}

/**
 * Why polls do not get on: the list was not read, the watermark stands still, or what is due in the inbox does not run.
 * `undefined` if a poll was stopped, or another process polls.
 */
function failureOf({ verdicts, problems }: PollReport): PollProblem | undefined {
  if (verdicts.some(({ verdict }) => verdict !== 'failed')) {
    // The receiver logs what is wrong with a single event.
    return problems.find(
      ({ code, id }) => code === 'ERR_CLOCK_BEHIND' || (code === 'ERR_INBOX_FAILED' && id === undefined),
    );
  }
  return problems.find(({ code }) => code !== 'ERR_POLL_BUSY' && code !== 'ERR_POLL_STOPPED');
}

/** Never rejects. */
async function poll(settings: PollerSettings, options: PollOptions): Promise<PollReport> {
  const { logger, runtime } = settings;
  const startedAt = runtime.elapsed();
  let report: PollReport;
  try {
    const receiver = settings.receiver();
    const parts = partsOf('createPoller', receiver);
    warnNotDurable(receiver.inbox, { where: 'a poller uses it', logger });
    const run = () => parts.poll(() => leaseAndPoll({ ...settings, receiver, parts }, options));
    report = await (options.isTimed ? parts.detached(run) : run());
  } catch (error) {
    report = { ...EMPTY_REPORT, problems: [toProblem(error, { code: 'ERR_CONFIG_INVALID' })] };
  }
  const doubtful = report.problems.some(({ code }) => DOUBTFUL.has(code));
  return { ...report, doubtful, durationMs: Math.round(runtime.elapsed() - startedAt) };
}

async function leaseAndPoll(settings: OpenSettings, options: PollOptions): Promise<PollReport> {
  const startedAt = Math.floor(settings.runtime.now());
  let lease: PollLease | null;
  try {
    lease = await acquireLease(settings, options.holder);
  } catch (error) {
    return { ...EMPTY_REPORT, problems: [toProblem(error, { code: 'ERR_INBOX_FAILED' })] };
  }
  if (lease === null) return { ...EMPTY_REPORT, problems: [problemOf('ERR_POLL_BUSY')] };
  return pollUnderLease(settings, { ...options, lease, startedAt }).finally(lease.drop);
}

/** Redrives the inbox, surveys the list, dispatches what is new, saves the state. */
async function pollUnderLease(
  settings: OpenSettings,
  {
    lease,
    signal,
    isFirst,
    isTimed,
    startedAt,
  }: PollOptions & { readonly lease: PollLease; readonly startedAt: number },
): Promise<PollReport> {
  const problems: PollProblem[] = [];
  /** The handlers that outlived their limit. They must delay neither the list nor the state. */
  const running: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>) => void running.push(work);
  const halt = AbortSignal.any([signal, lease.lost]);

  let redriven: OutcomeCounts | null = null;
  const failedIds: string[] = [];
  const redrivenIds = new Set<string>();
  const onOutcome = ({ kind, event }: Outcome) => {
    if (event === undefined) return;
    if (isFailure(kind)) failedIds.push(event.id);
    if (kind === 'handled') redrivenIds.add(event.id);
  };
  try {
    redriven = await settings.receiver.redrive({ signal: halt, onOutcome, waitUntil });
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
  }

  const { state } = lease;
  const first = state.watermark === null;
  const openingBy = (clocks: Clocks) => toOpening(settings, { state, clocks });
  const takeFrom = (clocks: Clocks) => openingBy(clocks).takeFrom;
  const { record } = settings.parts;
  const list = createListReader({ ...settings, record, startedAt, takeFrom, signal: halt });
  const watermark = state.watermark ?? openingBy(list.clocks()).since;
  const { limit: lastLimit } = state;
  let { oldest } = state;
  const settledAt = startedAt - settings.lagMs;
  // Only a first poll that looks back could take for whole what has lost events before any poll saw it. If the inbox fails,
  // the poll ends: no later one looks.
  if (first && watermark < settledAt) oldest ??= await oldestReceived(settings, settledAt);
  const target = triesGaps(state, { ...settings, startedAt, isFirst }) ? oldestGap(state) : undefined;
  const survey = await runSurvey(list, {
    ...settings,
    watermark,
    target,
    first,
    startedAt,
    lastLimit,
    oldest,
  });
  // Without an answer, the service's clock is not known: ours can be ahead of it by `lagMs`.
  const { until, latest } = list.clocks();
  const untilAlone = Math.min(until, startedAt - settings.lagMs);
  const opening = openingBy({ until: survey.answered ? until : untilAlone, latest });
  // Then an opening date that is stored stays.
  const since = survey.answered && !halt.aborted ? opening.since : (state.since ?? opening.since);
  const opened = { ...state, since: since === Number.NEGATIVE_INFINITY ? null : since };
  // A poll that was stopped before it read the whole list has found no gap.
  const next: Advance = halt.aborted
    ? { state: opened, proven: false, reason: 'no-answer', opened: [], closed: [] }
    : advance(opened, survey, opening);
  const found = [...list.found.values()];
  const wasAhead = survey.isAhead || (survey.answered && opening.wasAhead);
  if (wasAhead) problems.push(problemOf('ERR_WATERMARK_AHEAD'));
  // The header has whole seconds (RFC 9110, 6.6.1).
  const isClockBehind = survey.until < startedAt - settings.lagMs - 1_000;
  if (isClockBehind) problems.push(problemOf('ERR_CLOCK_BEHIND'));
  const late = first || wasAhead ? [] : found.filter((event) => isLate(event, { state, since }));
  if (late.length > 0) problems.push(problemOf('ERR_EVENT_LATE'));

  const { dispatches } = settings.parts;
  const isToRun = ({ event, result }: FoundEvent) =>
    // An event that failed waits until `redrive` runs it: a list that shows it every minute must not use up its attempts
    // while its handler fails for an hour. A received one was recorded by a poll that ended before its dispatch.
    dispatches(event) && (result === 'new' || result === 'received');
  const isIgnored = ({ event, result }: FoundEvent) =>
    isKnownEvent(event) && !dispatches(event) && result === 'new';
  const dispatched = await dispatchEvents(found.filter(isToRun), {
    ignored: found.filter(isIgnored),
    ...settings,
    signal: halt,
    waitUntil,
  });
  if (signal.aborted) problems.push(problemOf('ERR_POLL_STOPPED'));
  const saved = await saveState(lease, { state: next.state, problems });
  // A platform can stop the process once its cron job has ended, but not while a timer runs.
  if (!isTimed) await orAborted(Promise.all(running), halt);
  const kept = saved === true ? next : { ...next, state };
  return toReport({
    survey,
    advance: kept,
    saved,
    skipped: list.skipped(),
    found,
    late,
    dispatched,
    redriven,
    redrivenIds,
    failedIds: [...failedIds, ...dispatched.failedIds],
    requests: list.requests(),
    problems: [...problems, ...list.problems(), ...dispatched.problems],
    diagnosis:
      halt.aborted || saved !== true
        ? 'This poll proves nothing, because it was stopped or its result was not saved: `problems` says why.'
        : diagnose({ survey, advance: next, settings }),
  });
}

/** How many records a first poll reads to find the oldest event that push brought. */
const FIRST_RECORDS = 500;

/**
 * The oldest of the first events that the inbox received, if it was created by then: a list that shows only newer ones
 * has lost events. A pruned event counts by its receipt. `null` if there is none, or the inbox has no `list`.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 */
async function oldestReceived(
  { receiver, parts }: OpenSettings,
  settledAt: number,
): Promise<OldestListed | null> {
  const inbox: Inbox<unknown> & Partial<Pick<InboxOperations, 'list'>> = receiver.inbox;
  const records = await parts.ask(() => inbox.list?.({ state: 'done', limit: FIRST_RECORDS }) ?? []);
  const at = records
    .filter(({ type }) => isEventType(type))
    .map(({ event, receivedAt }) => (event === null ? receivedAt : createdAtMs(event)))
    .filter((time) => time <= settledAt)
    .reduce((oldest, time) => Math.min(oldest, time), Number.POSITIVE_INFINITY);
  // The list was never seen with it, so it shows no age up to which the service keeps events, and any older event of the
  // list can be it: one that is pruned was created before it was received.
  return Number.isFinite(at) ? { at, seenAt: 0 } : null;
}

/** Which events the poller takes. Times are epoch ms. */
interface Opening {
  /** The opening date, which the inbox keeps; `-Infinity` for an inbox that was polled before there was one. */
  readonly since: number;
  /** Events created before this are skipped. */
  readonly takeFrom: number;
  /** Whether a wrong clock had set the stored date. */
  readonly wasAhead: boolean;
}

/**
 * The opening date moves only until the first poll with an answer has ended: later, what a changed `since` would add is
 * before the watermark and not proven, and what it would take away would be lost.
 *
 * One that neither clock has reached moves back by as much as the watermark does: so far back from now as polls had
 * covered. It isn't known what was skipped before that.
 */
function toOpening(
  { since: given, backfill, lagMs }: Pick<PollerSettings, 'since' | 'backfill' | 'lagMs'>,
  { state, clocks: { until, latest } }: { readonly state: PollState; readonly clocks: Clocks },
): Opening {
  const { since: stored, watermark } = state;
  let since = stored ?? (watermark === null ? until : Number.NEGATIVE_INFINITY);
  if (since > latest) since = until - Math.max(0, (watermark ?? since) - since);
  if (watermark === null) since = Math.min(given ?? since, until);
  const takeFrom = backfill ? Number.NEGATIVE_INFINITY : Math.min(given ?? since, since);
  // Clocks can be wrong by less than the lag.
  return { since, takeFrom, wasAhead: stored !== null && stored > latest + lagMs };
}

/**
 * Whether this poll also tries to close the open gaps, which takes more requests: the first poll of a poller does, whose
 * options can be new, and later ones once, twice, four times, … the interval after a gap was opened.
 */
function triesGaps(
  { gaps, watermark }: PollState,
  {
    startedAt,
    isFirst,
    intervalMs,
    lagMs,
  }: Pick<PollerSettings, 'intervalMs' | 'lagMs'> & { readonly startedAt: number; readonly isFirst: boolean },
): boolean {
  const lastAt = (watermark ?? startedAt) + lagMs;
  const steps = (time: number, openedAt: number) =>
    Math.floor(Math.log2(Math.max(0.5, (time - openedAt) / intervalMs)));
  return gaps.some(
    ({ acknowledged, openedAt }) =>
      acknowledged === null && (isFirst || steps(startedAt, openedAt) > steps(lastAt, openedAt)),
  );
}

function oldestGap({ gaps }: PollState): number | undefined {
  const open = gaps.filter(({ acknowledged }) => acknowledged === null);
  return open.length === 0 ? undefined : Math.min(...open.map(({ from }) => from));
}

/** New, but from between the opening date and the watermark and from no gap, where every event should be known. */
function isLate(
  { event, at, result }: FoundEvent,
  { state, since }: { readonly state: PollState; readonly since: number },
): boolean {
  const isBefore = at > since && at <= (state.watermark ?? since);
  return result === 'new' && isKnownEvent(event) && isBefore && !isInGap(state, { type: event.type, at });
}

interface Dispatched {
  readonly counts: OutcomeCounts;
  /** The new events that were handled or enqueued. */
  readonly recoveredIds: readonly string[];
  readonly failedIds: readonly string[];
  readonly problems: readonly PollProblem[];
}

/** Dispatches events, oldest first, a few at a time. One that fails does not stop the others. */
async function dispatchEvents(
  events: readonly FoundEvent[],
  {
    receiver,
    concurrency,
    ignored,
    signal,
    waitUntil,
  }: Pick<OpenSettings, 'receiver' | 'concurrency'> & {
    /** New events that were recorded as ignored, which count with the dispatched ones. */
    readonly ignored: readonly FoundEvent[];
    /** When it aborts, no further event starts; events that run are waited for. */
    readonly signal: AbortSignal;
    /** Gets the handlers that outlive their limit. */
    readonly waitUntil: (work: Promise<unknown>) => void;
  },
): Promise<Dispatched> {
  const counts = { ...emptyCounts(), ignored: ignored.length };
  const problems: PollProblem[] = [];
  const recoveredIds: string[] = ignored.map(({ event }) => event.id);
  const failedIds: string[] = [];
  const queue = [...events].sort((a, b) => a.at - b.at).values();

  const waiting = new Map<string, FoundEvent>();

  async function accept(found: FoundEvent): Promise<void> {
    const outcome = await receiver.accept(found.event, 'pull', { waitUntil });
    if (outcome.error?.code === 'ERR_KEY_BUSY') waiting.set(found.event.id, found);
    else count(found, outcome);
  }

  function count({ event, result }: FoundEvent, outcome: Outcome): void {
    const { error } = outcome;
    const { kind } = outcome;
    counts[kind] += 1;
    if (isFailure(kind)) failedIds.push(event.id);
    if (result === 'new' && (kind === 'handled' || kind === 'queued')) recoveredIds.push(event.id);
    // No problem: a push of the event arrived in the meantime, and runs or has failed.
    if (error?.code === 'ERR_EVENT_BUSY' || error?.code === 'ERR_EVENT_NOT_DUE') return;
    if (error !== undefined) {
      problems.push(toProblem(error, { code: error.code, id: event.id }));
    }
  }

  async function work(): Promise<void> {
    // Checked before next(): what the iterator returns has left the queue.
    while (!signal.aborted) {
      const next = queue.next();
      if (next.done) return;
      await accept(next.value);
    }
  }
  /** Runs the events that waited for others of their ordering key: most of these, this poll has run. */
  async function runWaiting(): Promise<void> {
    const onOutcome = (outcome: Outcome) => {
      const { event } = outcome;
      if (event === undefined || outcome.error?.code === 'ERR_KEY_BUSY') return;
      const found = waiting.get(event.id);
      waiting.delete(event.id);
      if (found !== undefined) {
        count(found, outcome);
        return;
      }
      counts[outcome.kind] += 1;
      if (isFailure(outcome.kind)) failedIds.push(event.id);
    };
    try {
      await receiver.redrive({ signal, onOutcome, waitUntil });
    } catch (error) {
      problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    }
    counts.busy += waiting.size;
  }

  await Promise.all(Array.from({ length: concurrency }, work));
  if (waiting.size > 0) await runWaiting();
  return { counts, recoveredIds, failedIds, problems };
}

/** The right to poll. One process has it at a time. */
interface PollLease {
  /** What the last poll saved. */
  readonly state: PollState;
  /** Aborts when another process has taken over. */
  readonly lost: AbortSignal;
  /** Saves the state and returns the lease; `false`, and nothing saved, when another process has it. */
  readonly release: (state: PollState) => Promise<boolean>;
  /** Stops renewing. Unless it is released, the lease lapses. */
  readonly drop: () => void;
}

/**
 * Acquires the lease and renews it until it is released; `null` while another holder has it.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED`, also from `release`.
 */
async function acquireLease(
  { receiver, parts, leaseMs, runtime }: OpenSettings,
  holder: string,
): Promise<PollLease | null> {
  const inbox: Inbox<unknown> = receiver.inbox;
  const state = await parts.ask(() => inbox.acquirePoll({ holder, leaseMs }));
  if (state === null) return null;

  const lost = new AbortController();
  let renewal = Promise.resolve();
  const renew = async () => {
    try {
      if (!(await parts.ask(() => inbox.savePoll(state, { holder, leaseMs })))) lost.abort();
    } catch {
      // Two more renewals fit into the lease. If they fail too, saving the state at the end fails and is reported.
    }
  };
  // One at a time: with a slow inbox renewals must not accumulate, and none must run after the release.
  const renewLater = () =>
    runtime.setTimeout(() => {
      timer = renewLater();
      renewal = renewal.then(renew);
    }, leaseMs / 3);
  let timer = renewLater();
  const drop = () => runtime.clearTimeout(timer);

  return {
    state,
    lost: lost.signal,
    drop,
    release: async (next) => {
      drop();
      await renewal;
      return parts.ask(() => inbox.savePoll(next, { holder, leaseMs: 0 }));
    },
  };
}

/** Whether the state is saved; `null` if that is not known, because the inbox failed. */
async function saveState(
  lease: PollLease,
  { state, problems }: { readonly state: PollState; readonly problems: PollProblem[] },
): Promise<boolean | null> {
  try {
    const saved = await lease.release(state);
    if (!saved) problems.push(problemOf('ERR_LEASE_LOST'));
    return saved;
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return null;
  }
}
