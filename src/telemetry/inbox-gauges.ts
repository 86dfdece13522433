/** The gauges of the inbox and of catch-up, read at each collection of metrics. */
import type { Attributes, BatchObservableResult, Meter, ObservableGauge } from '@opentelemetry/api';
import type { Inbox, InboxOperations, InboxState } from '../core/ports.js';
import { orTimeout, type Runtime } from '../core/runtime.js';

export interface Gauges {
  readonly events: ObservableGauge;
  readonly oldest: ObservableGauge;
  readonly readable: ObservableGauge;
  readonly watermarkLag: ObservableGauge;
  readonly gaps: ObservableGauge;
}

export function createGauges(meter: Meter): Gauges {
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  return {
    events: gauge('stablehooks.inbox.events', '{event}', 'Events in the inbox that are not done, by state.'),
    oldest: gauge('stablehooks.inbox.oldest', 's', 'How long the oldest event has been in its state.'),
    readable: meter.createObservableGauge('stablehooks.inbox.readable', {
      description: '1 if the inbox could be read; 0 if not, when the other gauges are stale.',
    }),
    watermarkLag: gauge('stablehooks.poll.watermark_lag', 's', 'How far the watermark is behind now.'),
    gaps: gauge('stablehooks.poll.gaps', '{gap}', 'Gaps that are open and not acknowledged.'),
  };
}

/** The values of the gauges; the worst of each for several inboxes with the same attributes. */
interface InboxSummary {
  /** Whether every inbox could be read. */
  readonly readable: boolean;
  readonly states: ReadonlyMap<InboxState, { readonly count: number; readonly oldestMs: number }>;
  /** `undefined` before the first answer to a poll. */
  readonly watermarkLagMs: number | undefined;
  readonly gaps: number | undefined;
}

/** How long to wait for an inbox, in ms. Exporters wait for metrics without a limit. */
const READ_TIMEOUT_MS = 5_000;

/** The inboxes in use. */
export class Inboxes {
  readonly #runtime: Runtime;
  readonly #users = new Map<InboxOperations, number>();
  readonly #reads = new Map<InboxOperations, ReturnType<typeof readInbox>>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(inbox: Inbox<unknown>): void {
    if (hasOperations(inbox)) this.#users.set(inbox, (this.#users.get(inbox) ?? 0) + 1);
  }

  remove(inbox: Inbox<unknown>): void {
    if (!hasOperations(inbox)) return;
    const left = (this.#users.get(inbox) ?? 0) - 1;
    if (left > 0) this.#users.set(inbox, left);
    else this.#users.delete(inbox);
  }

  /**
   * Reads the inboxes. While an inbox cannot be read, `readable` is 0, and a reader of cumulative values exports the last
   * values again.
   */
  async observe(result: BatchObservableResult, gauges: Gauges, common: Attributes): Promise<void> {
    const all = await Promise.allSettled([...this.#users.keys()].map((inbox) => this.#read(inbox)));
    if (all.length === 0) return;
    const { readable, states, watermarkLagMs, gaps } = summarize(all, this.#runtime.now());
    result.observe(gauges.readable, readable ? 1 : 0, common);
    for (const [state, { count, oldestMs }] of states) {
      const attributes = { ...common, 'stablehooks.inbox.state': state };
      result.observe(gauges.events, count, attributes);
      result.observe(gauges.oldest, oldestMs / 1_000, attributes);
    }
    // No process polls, or no poll has been answered yet.
    if (watermarkLagMs !== undefined) result.observe(gauges.watermarkLag, watermarkLagMs / 1_000, common);
    if (gaps !== undefined) result.observe(gauges.gaps, gaps, common);
  }

  /** Joins a running read, because the reads of a hanging inbox must not use up its connections. */
  #read(inbox: InboxOperations): ReturnType<typeof readInbox> {
    let running = this.#reads.get(inbox);
    if (running === undefined) {
      running = readInbox(inbox).finally(() => this.#reads.delete(inbox));
      running.catch(() => undefined);
      this.#reads.set(inbox, running);
    }
    return orTimeout(running, {
      runtime: this.#runtime,
      ms: READ_TIMEOUT_MS,
      toError: () => new Error('The inbox did not answer.'),
    });
  }
}

const readInbox = (inbox: InboxOperations) => Promise.all([inbox.count(), inbox.pollState()]);

function summarize(
  all: readonly PromiseSettledResult<Awaited<ReturnType<typeof readInbox>>>[],
  now: number,
): InboxSummary {
  const states = new Map<InboxState, { readonly count: number; readonly oldestMs: number }>();
  const lags: number[] = [];
  const gapCounts: number[] = [];
  for (const read of all) {
    if (read.status === 'rejected') continue;
    const [counts, { watermark, gaps }] = read.value;
    for (const { state, count, oldest } of counts) {
      if (state === 'done') continue;
      const { count: most = 0, oldestMs: longest = 0 } = states.get(state) ?? {};
      // Without an event the age is 0, so an alert on it ends.
      const oldestMs = oldest === null ? 0 : Math.max(0, now - oldest);
      states.set(state, { count: Math.max(most, count), oldestMs: Math.max(longest, oldestMs) });
    }
    if (watermark === null) continue;
    lags.push(now - watermark);
    gapCounts.push(gaps.filter(({ acknowledged }) => acknowledged === null).length);
  }
  return {
    readable: all.every(({ status }) => status === 'fulfilled'),
    states,
    watermarkLagMs: lags.length === 0 ? undefined : Math.max(...lags),
    gaps: lags.length === 0 ? undefined : Math.max(...gapCounts),
  };
}

function hasOperations(
  inbox: Inbox<unknown> & Partial<InboxOperations>,
): inbox is Inbox<unknown> & InboxOperations {
  return typeof inbox.count === 'function' && typeof inbox.pollState === 'function';
}
