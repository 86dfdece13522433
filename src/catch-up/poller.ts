/** The poller: polls once, or again and again, and never twice at a time. */
import { notify } from '../receiver/outcome.js';
import { moveWatermark } from './move-watermark.js';
import { type PollerOptions, readOptions } from './options.js';
import { poll } from './poll.js';
import type { PollReport } from './report.js';

/** Catches up with what push missed. */
export interface Poller {
  /**
   * Polls once; joins the poll that is under way, if one is. Never rejects: what failed is in the report.
   * Its signal ends the poll early: what runs is waited for, and what was found is kept.
   */
  pollOnce(options?: { readonly signal?: AbortSignal | undefined }): Promise<PollReport>;
  /** Polls now and every `intervalMs` from now on. The timer does not keep the process alive. */
  start(): void;
  /** Polls no more: ends the poll under way early and resolves when it has ended. */
  stop(): Promise<void>;
  /**
   * Takes everything created up to `until` as accounted for, as when you have compared the books yourself: the
   * watermark moves there unproven, never back, and at most to `lagMs` before now.
   *
   * @returns the watermark as it is then, ISO; `null`, and nothing changed, while another process polls.
   * @throws {UnavailableError} `ERR_INBOX_FAILED`.
   * @throws {ConfigError} `ERR_CONFIG_INVALID` when `until` is no valid date.
   */
  acknowledgeGap(until: Date): Promise<string | null>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes a poller.
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
  const rules = readOptions(options);
  const holder = crypto.randomUUID();
  let stopping = new AbortController();
  let current: Promise<PollReport> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = false;

  function pollOnce({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<PollReport> {
    const signals = signal === undefined ? [stopping.signal] : [stopping.signal, signal];
    current ??= poll(rules, { holder, signal: AbortSignal.any(signals) })
      .finally(() => {
        current = undefined;
      })
      .then(tell);
    return current;
  }

  function tell(report: PollReport): PollReport {
    notify('onReport', rules.onReport, report);
    for (const gap of report.gaps) notify('onGap', rules.onGap, gap);
    return report;
  }

  async function loop(): Promise<void> {
    const startedAt = performance.now();
    await pollOnce();
    if (!running) return;
    // A tenth either way, so that many processes that started together do not ask together for ever.
    const intervalMs = rules.intervalMs * (0.9 + Math.random() / 5);
    timer = setTimeout(loop, Math.max(0, intervalMs - (performance.now() - startedAt)));
    // Where timers are numbers there is no process that they could keep alive.
    if (typeof timer === 'object') timer.unref();
  }

  function start(): void {
    if (running) return;
    running = true;
    loop();
  }

  async function stop(): Promise<void> {
    running = false;
    clearTimeout(timer);
    stopping.abort();
    stopping = new AbortController();
    await current;
  }

  async function acknowledgeGap(until: Date): Promise<string | null> {
    await current;
    return moveWatermark(rules, { holder: `${holder} closing a gap`, until });
  }

  return { pollOnce, start, stop, acknowledgeGap, [Symbol.asyncDispose]: stop };
}
