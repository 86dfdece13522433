import type { AsyncDisposal } from '../core/disposal.js';
import { log, notify } from '../core/log.js';
import type { Inbox } from '../core/ports.js';
import { setBackgroundTimeout } from '../core/runtime.js';
import { describeGap, describeSpan, type Gap } from './gaps.js';
import { type PollerOptions, toPollerSettings } from './options.js';
import { poll } from './poll.js';
import type { PollProblem } from './problems.js';
import type { PollReport } from './report.js';

/** Polls the list for events that push missed. */
export interface Poller extends AsyncDisposal {
  /**
   * Polls once, or joins the running poll. Never rejects: failures are in the report. Unless the poller was started, it waits
   * for a handler that outlives `handlerTimeoutMs` until the handler or its lease ends. The signal ends the poll early: it
   * waits for other running handlers, and the inbox keeps the events that were found.
   */
  pollOnce(options?: PollOnceOptions): Promise<PollReport>;
  /** Polls now and every `intervalMs` from now on. The timer does not keep the process alive. */
  start(): void;
  /** Stops polling. Ends the running poll early and resolves when it has ended. */
  stop(): Promise<void>;
  /** The receiver's inbox. Reading it makes a receiver that is given as a function. @throws {ConfigError} */
  readonly inbox: Inbox<unknown>;
}

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
  const settings = toPollerSettings(options);
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
  /** The ids whose events differ, which each poll finds again. */
  const conflicts = new Set<string>();

  function pollOnce({ signal }: PollOnceOptions = {}): Promise<PollReport> {
    const signals = signal === undefined ? [stopping.signal] : [stopping.signal, signal];
    const isTimed = loop !== undefined;
    current ??= poll(settings, { holder, signal: AbortSignal.any(signals), isFirst, isTimed }).then(publish);
    return current;
  }

  function publish(report: PollReport): PollReport {
    current = undefined;
    const { logger, onReport, onGap } = settings;
    notify('onReport', onReport, { value: report, logger });
    const isRead = report.verdicts.some(({ verdict }) => verdict !== 'failed');
    // The first poll that reads the list tries to close the gaps.
    if (isRead) isFirst = false;
    const failure = report.problems.find((problem) => preventsProgress(problem, isRead));
    if (failure !== undefined && lastFailure === undefined) {
      log(logger, 'error', `the poll failed. ${failure.code}: ${failure.message}`);
    }
    if (failure === undefined && lastFailure !== undefined) log(logger, 'warn', 'polls succeed again.');
    lastFailure = failure;
    for (const { code, id = '', message } of report.problems) {
      const isNews = code === 'ERR_EVENT_LATE' || (code === 'ERR_EVENT_CONFLICT' && !conflicts.has(id));
      if (isNews) log(logger, 'error', `${code}: ${[id, message].filter(Boolean).join(': ')}`);
      if (code === 'ERR_EVENT_CONFLICT') conflicts.add(id);
    }
    for (const gap of report.gapsClosed) tell('warn', gap, describeGap(gap));
    for (const gap of report.gapsOpened) {
      // The diagnosis is about one of them.
      const isOnly = report.gapsOpened.length === 1;
      tell(
        'error',
        gap,
        isOnly ? `${describeSpan(gap)} can be missing. ${report.diagnosis}` : describeGap(gap),
      );
    }
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
    // A tenth more or less: processes that start together must not keep polling at the same time.
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

  return {
    pollOnce,
    start,
    stop,
    [Symbol.asyncDispose]: stop,
    get inbox() {
      return settings.receiver().inbox;
    },
  };
}

interface PollOnceOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Whether a problem keeps polls from making progress: the list was not read, the watermark stands still, or due events of
 * the inbox do not run.
 */
function preventsProgress({ code, id }: PollProblem, isRead: boolean): boolean {
  // The receiver logs the failures of single events.
  if (isRead) return code === 'ERR_CLOCK_BEHIND' || (code === 'ERR_INBOX_FAILED' && id === undefined);
  return code !== 'ERR_POLL_BUSY' && code !== 'ERR_POLL_STOPPED';
}
