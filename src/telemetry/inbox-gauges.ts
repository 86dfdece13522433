/** The gauges of the inbox and of catch-up, read at each collection of metrics. */
import type { Attributes, BatchObservableResult, Meter, ObservableGauge } from '@opentelemetry/api';
import { readPollState } from '../catch-up/state.js';
import { INBOX_STATES, type Inbox, type InboxOperations } from '../core/ports.js';
import { orTimeout, type Runtime } from '../core/runtime.js';

export type Gauges = ReturnType<typeof createGauges>;

export function createGauges(meter: Meter) {
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

/** How long to wait for an inbox, in ms. Exporters wait for metrics without a limit. */
const READ_TIMEOUT_MS = 5_000;

type ReadableInbox = Inbox<unknown> & InboxOperations;

export class Inboxes {
  readonly #runtime: Runtime;
  /** One for each receiver: several can share an inbox. */
  readonly #open: ReadableInbox[] = [];
  readonly #reads = new Map<ReadableInbox, ReturnType<typeof readInbox>>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(inbox: Inbox<unknown>): void {
    if (hasOperations(inbox)) this.#open.push(inbox);
  }

  remove(inbox: Inbox<unknown>): void {
    if (hasOperations(inbox)) this.#open.splice(this.#open.indexOf(inbox), 1);
  }

  /**
   * Reads the inboxes and exports the worst of their values. While an inbox cannot be read, `readable` is 0, and a reader
   * of cumulative values exports the last values again.
   */
  async observe(result: BatchObservableResult, gauges: Gauges, common: Attributes): Promise<void> {
    const inboxes = [...new Set(this.#open)];
    if (inboxes.length === 0) return;
    const reads = await Promise.allSettled(inboxes.map((inbox) => this.#read(inbox)));
    const answers = reads.flatMap((read) => (read.status === 'fulfilled' ? [read.value] : []));
    const now = this.#runtime.now();
    const observe = (gauge: ObservableGauge, values: readonly number[], attributes = common) => {
      if (values.length > 0) result.observe(gauge, Math.max(...values), attributes);
    };

    observe(gauges.readable, [answers.length === inboxes.length ? 1 : 0]);
    for (const state of INBOX_STATES.filter((each) => each !== 'done')) {
      const counts = answers.flatMap((answer) => answer.counts.filter((each) => each.state === state));
      const attributes = { ...common, 'stablehooks.inbox.state': state };
      const sizes = counts.map(({ count }) => count);
      observe(gauges.events, sizes, attributes);
      // Without an event the age is 0, so an alert on it ends.
      const ages = counts.map(({ oldest }) => Math.max(0, now - (oldest ?? now)) / 1_000);
      observe(gauges.oldest, ages, attributes);
    }
    // A watermark of `null`: no process polls, or no poll has been answered yet.
    const polls = answers.map(({ poll }) => poll).filter(({ watermark }) => watermark !== null);
    const lags = polls.map(({ watermark }) => (now - (watermark ?? now)) / 1_000);
    const open = polls.map(({ gaps }) => gaps.filter(({ acknowledged }) => acknowledged === null).length);
    observe(gauges.watermarkLag, lags);
    observe(gauges.gaps, open);
  }

  /** Joins a running read, because the reads of a hanging inbox must not use up its connections. */
  #read(inbox: ReadableInbox): ReturnType<typeof readInbox> {
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

async function readInbox(inbox: ReadableInbox) {
  const [counts, poll] = await Promise.all([inbox.count(), readPollState(inbox)]);
  return { counts, poll };
}

/** An inbox of the app's own may have no operations. */
function hasOperations(inbox: Inbox<unknown> & Partial<InboxOperations>): inbox is ReadableInbox {
  return inbox.count !== undefined;
}
