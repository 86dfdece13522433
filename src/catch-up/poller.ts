import { log, notify } from '../core/log.js';
import type { Inbox } from '../core/ports.js';
import { setBackgroundTimeout } from '../core/runtime.js';
import { describeGap, describeSpan } from './gap-text.js';
import { type PollerOptions, toPollerSettings } from './options.js';
import { poll } from './poll.js';
import type { PollProblem } from './problems.js';
import type { PollReport } from './report.js';

/** Polls the service's event list for events that push missed. */
export interface Poller {
  /**
   * Polls once, or joins the poll that is already running. Never rejects: the report contains the failures. If you
   * haven't started the poller and a handler exceeds `handlerTimeoutMs`, the promise resolves only when that handler
   * returns or the event's lease expires. Aborting `signal` ends the poll early. The poll then waits only for running
   * handlers that have not exceeded `handlerTimeoutMs`. The events that the poll found stay in the inbox.
   */
  pollOnce(options?: PollOnceOptions): Promise<PollReport>;
  /** Polls immediately, and then every `intervalMs`. The timer doesn't keep the process alive. */
  start(): void;
  /** Stops polling. A poll that is running ends early, and the promise resolves once that poll has ended. */
  stop(): Promise<void>;
  /**
   * The receiver's inbox. If you passed the receiver as a function, reading this property calls that function.
   * @throws {ConfigError}
   */
  readonly inbox: Inbox<unknown>;
}

/**
 * Creates a poller. The poller reads the service's event list, stores and runs the events that push missed, and reports
 * the time up to which no event is missing. Pass it a client and your app's receiver, whose inbox must be durable. The
 * poller never runs two polls at the same time.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or invalid.
 *
 * @example
 * ```ts
 * const poller = createPoller({ client, receiver, onReport: (report) => console.log(report) });
 * poller.start();
 * ```
 */
export function createPoller(options: PollerOptions): Poller {
  const settings = toPollerSettings(options);
  const { runtime, logger, onReport, onGap } = settings;
  const holder = runtime.uuid();
  let isStarted = false;
  let stopping = new AbortController();
  let current: Promise<PollReport> | undefined;
  /** Settles when the last poll that was stopped has ended. */
  let ended: Promise<unknown> = Promise.resolve();
  let timer: unknown;
  let isFirst = true;
  /** A failure is logged once, not at every poll. */
  let isFailing = false;
  /** Conflicting ids that have been logged. Every poll finds them again. */
  const conflicts = new Set<string>();

  function pollOnce({ signal }: PollOnceOptions = {}): Promise<PollReport> {
    const signals = signal === undefined ? [stopping.signal] : [stopping.signal, signal];
    const options = { holder, signal: AbortSignal.any(signals), isFirst, isTimed: isStarted };
    current ??= poll(settings, options).then(publish);
    return current;
  }

  function publish(report: PollReport): PollReport {
    current = undefined;
    notify('onReport', onReport, { value: report, logger });
    const { verdicts, problems, gapsOpened, gapsClosed, diagnosis } = report;
    const isRead = verdicts.some(({ verdict }) => verdict !== 'failed');
    // The first poll that reads the list is the one that tries to close the gaps.
    if (isRead) isFirst = false;
    const failure = problems.find((problem) => preventsProgress(problem, isRead));
    if (failure && !isFailing) {
      log(logger, 'error', `the poll failed. ${failure.code}: ${failure.message}`);
    }
    if (!failure && isFailing) log(logger, 'warn', 'polls succeed again.');
    isFailing = failure !== undefined;
    for (const { code, id = '', message } of problems) {
      const isNews = code === 'ERR_EVENT_LATE' || (code === 'ERR_EVENT_CONFLICT' && !conflicts.has(id));
      if (isNews) log(logger, 'error', `${code}: ${[id, message].filter(Boolean).join(': ')}`);
      if (code === 'ERR_EVENT_CONFLICT') conflicts.add(id);
    }
    for (const gap of [...gapsClosed, ...gapsOpened]) {
      const isOpen = gap.state === 'open';
      // The diagnosis describes only one gap.
      const isOnly = isOpen && gapsOpened.length === 1;
      const line = isOnly ? `${describeSpan(gap)} may be missing. ${diagnosis}` : describeGap(gap);
      log(logger, isOpen ? 'error' : 'warn', line);
      notify('onGap', onGap, { value: gap, logger });
    }
    return report;
  }

  async function run(stopped: AbortSignal): Promise<void> {
    const startedAt = runtime.elapsed();
    const { problems } = await pollOnce();
    if (stopped.aborted) return;
    // Waits as long as the service asked, but at most an hour.
    const asked = Math.min(MAX_WAIT_MS, Math.max(0, ...problems.map(({ retryAfterMs = 0 }) => retryAfterMs)));
    // Varied by up to a tenth, so that processes that start together do not keep polling at the same time.
    const intervalMs = settings.intervalMs * (0.9 + runtime.random() / 5);
    const waitMs = Math.max(asked, intervalMs - (runtime.elapsed() - startedAt));
    timer = setBackgroundTimeout(runtime, () => run(stopped), waitMs);
  }

  function start(): void {
    if (isStarted) return;
    isStarted = true;
    const { signal } = stopping;
    // Waits until a stopped poll has ended, because `pollOnce` would join that poll.
    void ended.then(() => {
      if (!signal.aborted) void run(signal);
    });
  }

  async function stop(): Promise<void> {
    isStarted = false;
    runtime.clearTimeout(timer);
    stopping.abort();
    stopping = new AbortController();
    ended = Promise.resolve(current);
    await ended;
  }

  return {
    pollOnce,
    start,
    stop,
    get inbox() {
      return settings.receiver().inbox;
    },
  };
}

/** The maximum time to wait because of a `Retry-After`, in ms. */
const MAX_WAIT_MS = 3_600_000;

interface PollOnceOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Whether a problem keeps the list from being read, the watermark from moving, or due events from running. */
function preventsProgress({ code, id }: PollProblem, isRead: boolean): boolean {
  // The receiver logs the failures of single events.
  if (isRead) return code === 'ERR_CLOCK_BEHIND' || (code === 'ERR_INBOX_FAILED' && id === undefined);
  return code !== 'ERR_POLL_BUSY' && code !== 'ERR_POLL_STOPPED';
}
