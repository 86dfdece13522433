/** The one judge of an inbox. `/healthz`, `status`, the inspector, the metrics and the alerts repeat what it says. */
import { exceptIn, toIso } from '../catch-up/gap-text.js';
import { orUnavailable } from '../core/errors.js';
import { boolean, integer, readOptions } from '../core/options.js';
import type { Inbox, InboxOperations } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { CHECKS } from './checks.js';
import { type Facts, readFacts } from './facts.js';

/** The part of an inbox that {@link health} reads. Every inbox of this package fits. */
export type HealthInbox = Pick<InboxOperations, 'count' | 'list'> & Pick<Inbox, 'readNote' | 'writeNote'>;

/** When something counts as unhealthy. Times are in ms. */
export interface HealthLimits {
  /** How long an event may be due, a lease expired, or polls failing. @default 300_000 */
  readonly dueMs?: number | undefined;
  /** How old the last poll and the last proof of the list may be. @default 3_600_000 */
  readonly provenMs?: number | undefined;
  /** How many events may be dead. @default 0 */
  readonly maxDead?: number | undefined;
  /** Whether it is unhealthy that no poll has proven anything: no poller, or one before its first proof. @default false */
  readonly requirePoll?: boolean | undefined;
  /** Whether it is unhealthy that no event came by push. @default false */
  readonly requirePush?: boolean | undefined;
  /** The clock, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * - `due`, `leases`: events that no process runs.
 * - `dead`: events that never run again by themselves.
 * - `failing`: handlers that keep failing.
 * - `refused`: deliveries that were refused although they were signed, and a database that cannot be written.
 * - `ignored`: events of types without a handler, and of unknown types.
 * - `poll`: whether polls run and can read the list.
 * - `coverage`: whether the list proves that nothing is missing.
 * - `gaps`: open gaps.
 */
export type HealthCheckName = (typeof HEALTH_CHECKS)[number];

/** The name of every check, in their order. */
export const HEALTH_CHECKS = [
  ...(['due', 'leases', 'dead', 'failing', 'refused', 'ignored', 'poll', 'coverage', 'gaps'] as const),
] as const;

/** `neutral`: not shown, because nothing has happened yet that could be judged. Only `failing` is unhealthy. */
export type HealthTone = 'failing' | 'warning' | 'neutral' | 'ok';

/** One part of {@link Health}. Plain data. */
export interface HealthCheck {
  readonly name: HealthCheckName;
  readonly tone: HealthTone;
  readonly healthy: boolean;
  /** The finding, and what to do. It can contain the message of a handler's error; times are ISO. */
  readonly message: string;
  /** How many gaps, events or deliveries it is about; `null` where there is nothing to count. */
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
}

/**
 * Judges an inbox: whether everything that is due runs, whether deliveries are accepted, and whether the list proves that
 * nothing is missing. Reads a bounded part of the inbox, whatever its size, and changes nothing.
 *
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when a limit is unknown or makes no sense.
 *
 * @example
 * ```ts
 * const { healthy, checks } = await health(inbox);
 * for (const { message } of checks.filter((check) => !check.healthy)) console.error(message);
 * ```
 */
export async function health(inbox: HealthInbox, limits: HealthLimits = {}): Promise<Health> {
  const { runtime, ...settings } = readLimits('health', limits);
  const now = toRuntime(runtime).now();
  const facts = await orUnavailable('ERR_INBOX_FAILED', () => readFacts(inbox, settings, now));
  const checks = HEALTH_CHECKS.map((name): HealthCheck => {
    const { tone, message, count = null } = CHECKS[name](facts, settings);
    return { name, tone, healthy: tone !== 'failing', message, count };
  });
  return { healthy: checks.every(({ healthy }) => healthy), ...toVerdict(checks, facts), checks };
}

/** @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the limit. */
export function readLimits(where: string, limits: HealthLimits) {
  return readOptions(where, limits, {
    dueMs: integer({ default: 300_000, min: 0 }),
    provenMs: integer({ default: 3_600_000, min: 0 }),
    maxDead: integer({ default: 0, min: 0 }),
    requirePoll: boolean(false),
    requirePush: boolean(false),
    runtime: RUNTIME,
  });
}

export type Settings = Omit<ReturnType<typeof readLimits>, 'runtime'>;

function toVerdict(
  checks: readonly HealthCheck[],
  { state, isUnused }: Facts,
): Pick<Health, 'tone' | 'verdict'> {
  const named = (tone: HealthTone) =>
    checks
      .filter((check) => check.tone === tone)
      .map(({ name, count }) => (count ? `${name} (${count})` : name))
      .join(', ');
  const [failing, warning, neutral] = [named('failing'), named('warning'), named('neutral')];
  if (failing !== '') return { tone: 'failing', verdict: `Needs you: ${failing}.` };
  if (warning !== '') return { tone: 'warning', verdict: `Nothing is failing. Look at: ${warning}.` };
  if (isUnused) return { tone: 'neutral', verdict: 'Nothing to judge: no event went through yet.' };
  if (neutral !== '') return { tone: 'neutral', verdict: `Everything due runs. Not shown yet: ${neutral}.` };
  const proven = `The list proves that nothing is missing until ${toIso(state.watermark ?? 0)}${exceptIn(state.gaps)}.`;
  return { tone: 'ok', verdict: `All is well. Everything due runs. ${proven}` };
}
