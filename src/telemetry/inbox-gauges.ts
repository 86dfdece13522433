/** The gauges of the inbox, read at each collection of metrics. */
import type { Attributes, BatchObservableResult, Observable } from '@opentelemetry/api';
import { INBOX_STATES, type Inbox, type InboxCount, type InboxOperations } from '../core/ports.js';
import { type Runtime, timeLimit } from '../core/runtime.js';

/** How long to wait for an inbox, in ms. Exporters wait for metrics without a limit. */
const READ_TIMEOUT_MS = 5_000;

export class Inboxes {
  readonly #common: Attributes;
  readonly #runtime: Runtime;
  /** Those of the receivers that are not closed. */
  readonly open = new Set<Inbox<unknown>>();

  constructor(common: Attributes, runtime: Runtime) {
    this.#common = common;
    this.#runtime = runtime;
  }

  /** Reads the inboxes, and exports the worst of the values of those that answer. */
  async observe(
    result: BatchObservableResult,
    { events, oldest }: { readonly events: Observable; readonly oldest: Observable },
  ): Promise<void> {
    const reads = await Promise.allSettled([...this.open].map((inbox) => this.#read(inbox)));
    const counts = reads.flatMap((read) => (read.status === 'fulfilled' ? read.value : []));
    if (counts.length === 0) return;
    const now = this.#runtime.now();
    for (const state of INBOX_STATES.filter((each) => each !== 'done')) {
      const found = counts.filter((each) => each.state === state);
      const attributes = { 'stablehooks.inbox.state': state, ...this.#common };
      result.observe(events, Math.max(0, ...found.map(({ count }) => count)), attributes);
      // Without an event the age is 0, so an alert on it ends.
      const ages = found.map((each) => (now - (each.oldest ?? now)) / 1_000);
      result.observe(oldest, Math.max(0, ...ages), attributes);
    }
  }

  async #read(inbox: Inbox<unknown> & Partial<InboxOperations>): Promise<readonly InboxCount[]> {
    // An inbox of the app's own may have no operations.
    if (inbox.count === undefined) return [];
    const onTimeUp = () => {
      throw new Error('The inbox did not answer.');
    };
    return timeLimit(inbox.count(), READ_TIMEOUT_MS, onTimeUp, this.#runtime);
  }
}
