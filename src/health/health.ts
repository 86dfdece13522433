import { exceptIn, toIso } from '../catch-up/gap-text.js';
import { orUnavailable } from '../core/errors.js';
import type { InboxCount } from '../core/ports.js';
import { toRuntime } from '../core/runtime.js';
import { CHECKS, type Check, HEALTH_CHECKS, type HealthCheckName, type HealthTone } from './checks.js';
import { type HealthFacts, readFacts } from './facts.js';
import { assertInbox, type HealthInbox, type HealthLimits, readLimits } from './options.js';

/** The result of one check, as plain data. */
export interface HealthCheck {
  /**
   * - `due`, `leases`: overdue events that no process is running.
   * - `dead`: events that don't run again until you requeue them.
   * - `failing`: handlers that keep failing.
   * - `refused`: signed deliveries that were rejected, or a database that rejects writes.
   * - `ignored`: events without a handler, and events of unknown types.
   * - `poll`: whether polls can read the service's event list.
   * - `coverage`: whether the event list proves that nothing is missing.
   * - `gaps`: open gaps.
   * - `owed`: overdue movements of your app. Present only if `findOwed` has run.
   */
  readonly name: HealthCheckName;
  readonly tone: HealthTone;
  readonly healthy: boolean;
  /** What the check found, and what to do about it. The text can contain a handler's error. Times are in ISO 8601 format. */
  readonly message: string;
  /** The number of affected gaps, events or deliveries; `null` if there is nothing to count. */
  readonly count: number | null;
}

/** The result of {@link health}. */
export interface Health {
  /** Whether every check is healthy. */
  readonly healthy: boolean;
  /** The worst tone of all checks. Until the first event is done, the tone is never better than `neutral`. */
  readonly tone: HealthTone;
  /** A summary that names the checks that need your attention. */
  readonly verdict: string;
  readonly checks: readonly HealthCheck[];
  /** The number of events in each state except `done`. */
  readonly counts: readonly InboxCount[];
}

/**
 * Checks the health of an inbox: whether due events run, whether deliveries are accepted, and whether the event list proves
 * that nothing is missing. It reads only a limited part of the inbox, however large the inbox is, and changes nothing.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox cannot be read.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` is not an inbox, or a limit is unknown or invalid.
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
  if (neutral !== '')
    return { tone: 'neutral', verdict: `Nothing is overdue. Not verified yet: ${neutral}.` };
  const proven = `The event list proves that nothing is missing up to ${toIso(state.watermark ?? 0)}${exceptIn(state.gaps)}.`;
  return { tone: 'ok', verdict: `All is well. Nothing is overdue. ${proven}` };
}
