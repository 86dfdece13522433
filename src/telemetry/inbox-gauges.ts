/** The gauges of the inbox, read at each collection of metrics. */
import type { Attributes, BatchObservableResult, Observable } from '@opentelemetry/api';
import { INBOX_STATES, type Inbox, type InboxCount, type InboxOperations } from '../core/ports.js';
import { type Runtime, timeLimit } from '../core/runtime.js';

/** How long to wait for an inbox, in ms. Exporters wait for metrics without a limit. */
const READ_TIMEOUT_MS = 5_000;

export class Inboxes {
  readonly #common: Attributes;
  readonly #runtime: Runtime;
  /** One for each receiver: several can share an inbox. */
  readonly #open: Inbox<unknown>[] = [];
  readonly #reads = new Map<Inbox<unknown>, Promise<readonly InboxCount[]>>();

  constructor(common: Attributes, runtime: Runtime) {
    this.#common = common;
    this.#runtime = runtime;
  }

  add(inbox: Inbox<unknown>): void {
    this.#open.push(inbox);
  }

  remove(inbox: Inbox<unknown>): void {
    const index = this.#open.indexOf(inbox);
    if (index !== -1) this.#open.splice(index, 1);
  }

  /** Reads the inboxes, and exports the worst of the values of those that answer. */
  async observe(
    result: BatchObservableResult,
    { events, oldest }: { readonly events: Observable; readonly oldest: Observable },
  ): Promise<void> {
    const reads = await Promise.allSettled([...new Set(this.#open)].map((inbox) => this.#read(inbox)));
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

  /** Joins a running read, because the reads of a hanging inbox must not use up its connections. */
  #read(inbox: Inbox<unknown> & Partial<InboxOperations>): Promise<readonly InboxCount[]> {
    let running = this.#reads.get(inbox);
    if (running === undefined) {
      // An inbox of the app's own may have no operations.
      const read = async () => (await inbox.count?.()) ?? [];
      running = read().finally(() => this.#reads.delete(inbox));
      running.catch(() => undefined);
      this.#reads.set(inbox, running);
    }
    const onTimeUp = () => {
      throw new Error('The inbox did not answer.');
    };
    return timeLimit(running, READ_TIMEOUT_MS, onTimeUp, this.#runtime);
  }
}
