/** The one judge of an inbox. `/healthz`, `status`, the inspector, the metrics and the alerts repeat what it says. */
import { exceptIn, toIso } from '../catch-up/gap-text.js';
import { orUnavailable } from '../core/errors.js';
import type { InboxCount } from '../core/ports.js';
import { toRuntime } from '../core/runtime.js';
import { CHECKS, type Check, HEALTH_CHECKS, type HealthCheckName, type HealthTone } from './checks.js';
import { type HealthFacts, readFacts } from './facts.js';
import { assertInbox, type HealthInbox, type HealthLimits, readLimits } from './options.js';

/** One part of {@link Health}. Plain data. */
export interface HealthCheck {
  /**
   * - `due`, `leases`: events that no process runs.
   * - `dead`: events that never run again by themselves.
   * - `failing`: handlers that keep failing.
   * - `refused`: signed deliveries that were refused, and a database that cannot be written.
   * - `ignored`: events without a handler, and of unknown types.
   * - `poll`: whether polls can read the list.
   * - `coverage`: whether the list proves that nothing is missing.
   * - `gaps`: open gaps.
   * - `owed`: movements of the app that are overdue; only where `findOwed` has run.
   */
  readonly name: HealthCheckName;
  readonly tone: HealthTone;
  readonly healthy: boolean;
  /** The finding, and what to do. It may contain the message of a handler's error. Times are ISO. */
  readonly message: string;
  /** The number of gaps, events or deliveries concerned; `null` if there is nothing to count. */
  readonly count: number | null;
}

/** The result of {@link health}. */
export interface Health {
  /** Whether no check is failing. */
  readonly healthy: boolean;
  /** The worst of all checks; `neutral` before the first event is done. */
  readonly tone: HealthTone;
  /** One sentence, which names the checks that need a person. */
  readonly verdict: string;
  readonly checks: readonly HealthCheck[];
  /** How many events are in each state but `done`. */
  readonly counts: readonly InboxCount[];
}

/**
 * Judges an inbox: whether everything that is due runs, whether deliveries are accepted, and whether the list proves that
 * nothing is missing. Reads a bounded part of the inbox, whatever its size, and changes nothing.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` is not an inbox, or a limit is unknown or makes no sense.
 *
 * @example
 * ```ts
 * const { healthy, checks } = await health(inbox);
 * for (const { message } of checks.filter((check) => !check.healthy)) console.error(message);
 * ```
 */
export async function health(inbox: HealthInbox, limits: HealthLimits = {}): Promise<Health> {
  assertInbox('health', inbox);
  const { runtime, ...settings } = readLimits('health', limits);
  const now = toRuntime(runtime).now();
  const facts = await orUnavailable('ERR_INBOX_FAILED', () => readFacts(inbox, settings, now));
  const names = HEALTH_CHECKS.filter((name) => name !== 'owed' || facts.owed !== undefined);
  const checks = names.map((name): HealthCheck => {
    const check: Check = CHECKS[name];
    const { tone, message, count = null } = check(facts, settings);
    return { name, tone, healthy: tone !== 'failing', message, count };
  });
  return {
    healthy: checks.every(({ healthy }) => healthy),
    ...toVerdict(checks, facts),
    checks,
    counts: facts.counts,
  };
}

function toVerdict(
  checks: readonly HealthCheck[],
  { state, isUnused }: HealthFacts,
): Pick<Health, 'tone' | 'verdict'> {
  const named = (tone: HealthTone) =>
    checks
      .filter((check) => check.tone === tone)
      .map(({ name, count }) => (count ? `${name} (${count})` : name))
      .join(', ');
  const [failing, warning, neutral] = [named('failing'), named('warning'), named('neutral')];
  if (failing !== '') return { tone: 'failing', verdict: `Needs you: ${failing}.` };
  if (warning !== '') return { tone: 'warning', verdict: `Nothing is failing. Look at: ${warning}.` };
  if (isUnused) return { tone: 'neutral', verdict: 'Nothing to judge: no event has been processed yet.' };
  if (neutral !== '') return { tone: 'neutral', verdict: `Nothing is overdue. Not shown yet: ${neutral}.` };
  const proven = `The list proves that nothing is missing until ${toIso(state.watermark ?? 0)}${exceptIn(state.gaps)}.`;
  return { tone: 'ok', verdict: `All is well. Nothing is overdue. ${proven}` };
}
