import type { Attributes, BatchObservableResult, Observable } from '@opentelemetry/api';
import { INBOX_STATES, type Inbox, type InboxOperations } from '../core/ports.js';
import { type Runtime, timeLimit } from '../core/runtime.js';
import { HEALTH_CHECKS } from '../health/checks.js';
import { type Health, health } from '../health/health.js';
import type { HealthInbox, HealthLimits } from '../health/options.js';

/** In ms. Exporters wait for metrics indefinitely. */
const READ_TIMEOUT_MS = 5_000;

const LEVELS = { ok: 0, neutral: 0, warning: 1, failing: 2 } as const;

export class Inboxes {
  readonly #common: Attributes;
  readonly #runtime: Runtime;
  readonly #limits: HealthLimits;
  readonly open = new Set<Inbox<unknown>>();

  constructor(common: Attributes, runtime: Runtime, limits: HealthLimits) {
    this.#common = common;
    this.#runtime = runtime;
    this.#limits = limits;
  }

  /** Exports the worst value from the inboxes that respond in time. */
  async observe(
    result: BatchObservableResult,
    { events, oldest, level }: Readonly<Record<'events' | 'oldest' | 'level', Observable>>,
  ): Promise<void> {
    const reads = await Promise.allSettled([...this.open].map((inbox) => this.#read(inbox)));
    const found = reads.flatMap((read) => (read.status === 'fulfilled' && read.value ? [read.value] : []));
    if (found.length === 0) return;
    const now = this.#runtime.now();
    for (const state of INBOX_STATES.filter((each) => each !== 'done')) {
      const counts = found.flatMap((each) => each.counts.filter((count) => count.state === state));
      const attributes = { 'stablehooks.inbox.state': state, ...this.#common };
      result.observe(events, Math.max(0, ...counts.map(({ count }) => count)), attributes);
      // If no event is in a state, the age is 0, so that an alert on the age ends.
      const ages = counts.map((each) => (now - (each.oldest ?? now)) / 1_000);
      result.observe(oldest, Math.max(0, ...ages), attributes);
    }
    for (const name of HEALTH_CHECKS) {
      const tones = found.flatMap(({ checks }) => checks.filter((check) => check.name === name));
      const worst = Math.max(0, ...tones.map(({ tone }) => LEVELS[tone]));
      result.observe(level, worst, { 'stablehooks.health.check': name, ...this.#common });
    }
  }

  async #read(inbox: Inbox<unknown> & Partial<InboxOperations>): Promise<Health | undefined> {
    // A custom inbox may lack the methods of `InboxOperations`.
    if (inbox.count === undefined || inbox.list === undefined) return undefined;
    const onTimeUp = () => {
      throw new Error('The inbox did not answer.');
    };
    return timeLimit(health(inbox as HealthInbox, this.#limits), READ_TIMEOUT_MS, onTimeUp, this.#runtime);
  }
}
