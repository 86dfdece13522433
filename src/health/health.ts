/** One answer to "am I healthy?", from the inbox alone. */
import { describeReason, describeUnconfirmed, exceptIn, toGap, toIso } from '../catch-up/gap-text.js';
import { type PollState, readPollState } from '../catch-up/state.js';
import { countOf } from '../core/count.js';
import { orUnavailable } from '../core/errors.js';
import { boolean, integer, readOptions } from '../core/options.js';
import type { Inbox, InboxCount, InboxOperations, InboxRecord, InboxState } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';

/** The part of an inbox that {@link health} reads. Every inbox of this package fits. */
export type HealthInbox = Pick<InboxOperations, 'count' | 'list'> & Pick<Inbox, 'readNote'>;

/** When something counts as unhealthy. Times are in ms. */
export interface HealthLimits {
  /** How long an event may be due, or its lease lapsed, while no process runs it. @default 300_000 */
  readonly dueMs?: number | undefined;
  /** How old the last proof of the list may be. @default 3_600_000 */
  readonly provenMs?: number | undefined;
  /** How many events may be dead. @default 0 */
  readonly maxDead?: number | undefined;
  /** Whether it is unhealthy that no poll has proven anything: no poller, or one before its first proof. @default false */
  readonly requirePoll?: boolean | undefined;
  /** The clock, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/** One part of {@link Health}. Plain data. */
export interface HealthCheck {
  /**
   * - `coverage`: whether the list proves that nothing is missing.
   * - `gaps`: open gaps.
   * - `due`, `leases`: events that no process runs.
   * - `dead`: events that never run again by themselves.
   * - `failed`, `parked`, `push`, `pull`: notes, always healthy.
   */
  readonly name: 'coverage' | 'gaps' | 'due' | 'leases' | 'dead' | 'failed' | 'parked' | 'push' | 'pull';
  readonly healthy: boolean;
  /** `false` where nothing has happened yet that could be judged: no poll, no event of this channel. */
  readonly shown: boolean;
  /** The finding, and what to do. It can contain the message of a handler's error; times are ISO. */
  readonly message: string;
  /** How many gaps or events it is about; `null` where there is nothing to count. */
  readonly count: number | null;
}

/** The result of {@link health}. */
export interface Health {
  /** Whether every check is healthy. */
  readonly healthy: boolean;
  readonly checks: readonly HealthCheck[];
}

/** So many events are read to find the last pushed and the last pulled one. */
const NEWEST = 100;

/** So many received events are read at a time. */
const PAGE = 100;

/**
 * Judges an inbox: whether everything that is due runs, and whether the list proves that nothing is missing. Counts in the
 * inbox, whatever its size, and changes nothing.
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
  // At the limit itself an event is overdue, and the end of a filter is not included.
  const dueUntil = Math.max(0, Math.floor(now - settings.dueMs) + 1);
  const facts = await orUnavailable('ERR_INBOX_FAILED', () => readFacts(inbox, dueUntil));
  const checks = [
    checkCoverage(facts, settings, now),
    checkGaps(facts.state),
    checkDue(facts),
    checkLeases(facts),
    checkDead(facts, settings),
    noteFailed(facts),
    noteParked(facts),
    noteLast('push', facts.newest),
    noteLast('pull', facts.newest),
  ];
  return { healthy: checks.every(({ healthy }) => healthy), checks };
}

/** @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the limit. */
export function readLimits(where: string, limits: HealthLimits) {
  return readOptions(where, limits, {
    dueMs: integer({ default: 300_000, min: 0 }),
    provenMs: integer({ default: 3_600_000, min: 0 }),
    maxDead: integer({ default: 0, min: 0 }),
    requirePoll: boolean(false),
    runtime: RUNTIME,
  });
}

type Settings = Omit<ReturnType<typeof readLimits>, 'runtime'>;

type Facts = Awaited<ReturnType<typeof readFacts>>;

/** How many events, and since when the oldest has been in its state. */
type Counted = Pick<InboxCount, 'count' | 'oldest'>;

async function readFacts(inbox: HealthInbox, dueUntil: number) {
  // One after the other: a health check must not take several connections of a pool.
  const overdue = async (state: InboxState) => countIn(await inbox.count({ state, dueUntil }), state);
  const [lastFailed] = await inbox.list({ state: 'failed', limit: 1, order: 'newest' });
  const [lastDead] = await inbox.list({ state: 'dead', limit: 1, order: 'newest' });
  const counts = await inbox.count();
  const received = await overdue('received');
  return {
    state: await readPollState(inbox),
    counts,
    /** Received events without an attempt for as long as those that are overdue. */
    unrun: received.count > 0 ? [] : await findUnrun(inbox, dueUntil, countIn(counts, 'leased').count > 0),
    /** Events that no process runs in time, by state. */
    overdue: {
      received,
      failed: await overdue('failed'),
      leased: await overdue('leased'),
    },
    lastFailed,
    lastDead,
    newest: await inbox.list({ limit: NEWEST, order: 'newest' }),
  };
}

/**
 * Received events without an attempt since before `until`, in the first page that has any: behind a queue without workers
 * they are enqueued again before they are due for long. Others wait for the time that their handler named or, while a
 * handler runs, for an event of their key.
 */
async function findUnrun(
  inbox: HealthInbox,
  until: number,
  isBusy: boolean,
): Promise<readonly InboxRecord[]> {
  const isUnrun = ({ lastError, key }: InboxRecord) =>
    !lastError?.startsWith('ERR_HANDLER_LATER') && (key === null || !isBusy);
  for (let after: string | undefined; ; ) {
    const page = await inbox.list({ state: 'received', updatedUntil: until, limit: PAGE, after });
    const unrun = page.filter(isUnrun);
    if (unrun.length > 0 || page.length < PAGE) return unrun;
    after = page.at(-1)?.id;
  }
}

function checkCoverage(
  { state, newest }: Facts,
  { provenMs, requirePoll }: Settings,
  now: number,
): HealthCheck {
  const { since, watermark, unconfirmed, doubts = [] } = state;
  const last = newest[0]?.receivedAt;
  const check = (healthy: boolean, message: string, shown = true): HealthCheck => {
    return { name: 'coverage', healthy, shown, message, count: null };
  };
  if (watermark === null || watermark === since) {
    const fix =
      'Start a poller (createPoller) with this inbox, and wait until it has been running for lagMs.';
    return check(!requirePoll, `Not shown: no poll has proven yet that push loses nothing. ${fix}`, false);
  }
  if (now - watermark > provenMs) {
    const silent = last === undefined ? 'No event was received yet' : `Silent since ${toIso(last)}`;
    const fix =
      'Check that the poller runs, that the list answers, and the clocks; the report of a poll says which.';
    return check(false, `${silent}; not proven since ${toIso(watermark)}. ${fix}`);
  }
  const heard = last !== undefined && last > watermark ? 'The last event came at' : 'Quiet since';
  const quiet = last === undefined ? 'No event was received yet' : `${heard} ${toIso(last)}`;
  const proven = `${quiet}, proven until ${toIso(watermark)}${exceptIn(state.gaps)}.`;
  if (doubts.length > 0) {
    const codes = doubts.join(', ');
    return check(false, `${proven} But the last poll was doubtful: ${codes}. The poller's log says why.`);
  }
  return check(true, unconfirmed ? `${proven} ${describeUnconfirmed(unconfirmed.size)}` : proven);
}

function checkGaps({ gaps }: PollState): HealthCheck {
  const open = gaps.filter((gap) => toGap(gap).state === 'open');
  const first = Math.min(...open.map(({ from }) => from));
  const newest = open.at(-1);
  return toCheck('gaps', open.length, {
    none: 'No gap is open.',
    some: `${open.length} open gap${open.length === 1 ? '' : 's'}, the first from ${toIso(first)}: events can be missing. ${newest ? describeReason(newest.reason) : ''} \`stablehooks gaps list\` shows what to do.`,
  });
}

function checkDue({ overdue: { received, failed }, unrun }: Facts): HealthCheck {
  const count = received.count + failed.count + unrun.length;
  const since = [received.oldest, failed.oldest, ...unrun.map(({ updatedAt }) => updatedAt)];
  const oldest = Math.min(...since.map((at) => at ?? Infinity));
  return toCheck('due', count, {
    none: 'No event is due for long.',
    some: `${countOf(count, 'event')} due and not run, the oldest stored at ${toIso(oldest)}. Call receiver.start() in a process that has the handlers, start the workers of the queue, or start more processes.`,
  });
}

function checkLeases({ overdue: { leased } }: Facts): HealthCheck {
  return toCheck('leases', leased.count, {
    none: 'No lease has lapsed for long.',
    some: `${countOf(leased.count, 'event')} whose lease has lapsed, the oldest claimed at ${toIso(leased.oldest ?? 0)}: a process ended while the handler ran, and none took over. Call receiver.start() in a running process.`,
  });
}

function checkDead({ counts, lastDead }: Facts, { maxDead }: Settings): HealthCheck {
  const { count, oldest } = countIn(counts, 'dead');
  return toCheck('dead', count, {
    none: 'No event is dead.',
    some: `${countOf(count, 'event')} dead, the first since ${toIso(oldest ?? 0)}. The newest: ${errorOf(lastDead)}. Fix the cause, check in the ledger whether its effect has happened, then run \`stablehooks inbox requeue\` with its id.`,
    max: maxDead,
  });
}

function noteFailed({ counts, lastFailed }: Facts): HealthCheck {
  const { count } = countIn(counts, 'failed');
  return toCheck('failed', count, {
    none: 'No event waits for another attempt after a failure.',
    some: `${countOf(count, 'event')} failed and run again at their retry time. The newest: ${errorOf(lastFailed)}.`,
    max: Infinity,
  });
}

function noteParked({ counts }: Facts): HealthCheck {
  const { count, oldest } = countIn(counts, 'parked');
  return toCheck('parked', count, {
    none: 'No event has an unknown type.',
    some: `${countOf(count, 'event')} of unknown types, the first since ${toIso(oldest ?? 0)}. Upgrade stablehooks, and add their handlers.`,
    max: Infinity,
  });
}

/** When the last event came by push, or was found in the list only. */
function noteLast(origin: 'push' | 'pull', newest: readonly InboxRecord[]): HealthCheck {
  const last = newest.find((record) => record.origin === origin);
  const words = { push: 'pushed', pull: 'recovered by a poll' }[origin];
  const fix =
    origin === 'push' ? ' Check the URL at the service, and the log for deliveries that were refused.' : '';
  let message = `None of the last ${countOf(newest.length, 'event')} was ${words}.${fix}`;
  if (newest.length === 0) message = 'No event was received yet.';
  if (last !== undefined) message = `The last new event that was ${words}: ${toIso(last.receivedAt)}.`;
  return { name: origin, healthy: true, shown: last !== undefined, message, count: null };
}

/** A check that is healthy if there are at most `max` of something. */
function toCheck(
  name: HealthCheck['name'],
  count: number,
  { none, some, max = 0 }: { readonly none: string; readonly some: string; readonly max?: number },
): HealthCheck {
  return { name, healthy: count <= max, shown: true, message: count === 0 ? none : some, count };
}

/** The last error of an event, as the end of a sentence. */
function errorOf(record: InboxRecord | undefined): string {
  return (record?.lastError ?? 'no error is known').replace(/\.$/, '');
}

function countIn(counts: readonly InboxCount[], state: InboxState): Counted {
  return counts.find((each) => each.state === state) ?? { count: 0, oldest: null };
}
