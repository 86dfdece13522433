import { describeReason, describeUnconfirmed, exceptIn, toGap, toIso } from '../catch-up/gap-text.js';
import { countOf } from '../core/count.js';
import type { InboxRecord } from '../core/ports.js';
import { HOUR_MS, MANY, type TallyNote } from '../receiver/tally.js';
import { countIn, type HealthFacts } from './facts.js';
import type { HealthSettings } from './options.js';

/** The level of a check's result. `neutral` means that there is nothing to check yet. Only `failing` is unhealthy. */
export type HealthTone = 'failing' | 'warning' | 'neutral' | 'ok';

interface Finding {
  readonly tone: HealthTone;
  readonly message: string;
  readonly count?: number;
}

export type Check = (facts: HealthFacts, settings: HealthSettings) => Finding;

export const CHECKS = {
  due(facts) {
    const { overdue, unrun } = facts;
    const count = overdue.received.count + overdue.failed.count + unrun.length;
    if (count === 0) return none(facts, 'No event is overdue.');
    const since = [
      overdue.received.oldest,
      overdue.failed.oldest,
      ...unrun.map(({ updatedAt }) => updatedAt),
    ];
    const oldest = toIso(Math.min(...since.map((at) => at ?? Infinity)));
    const message = `${countOf(count, 'event is', 'events are')} overdue, the oldest stored at ${oldest}. Call receiver.start() in a process that has the handlers, start the queue's workers, or start more processes.`;
    return { tone: 'failing', message, count };
  },

  leases(facts) {
    const { count, oldest } = facts.overdue.leased;
    if (count === 0) return none(facts, 'No event is stuck with an expired lease.');
    const message = `${countOf(count, 'event is', 'events are')} stuck with an expired lease, the oldest claimed at ${toIso(oldest ?? 0)}. A process ended while its handler was running, and no other process took over. Call receiver.start() in a running process.`;
    return { tone: 'failing', message, count };
  },

  dead(facts, { maxDead }) {
    const { count, oldest } = countIn(facts.counts, 'dead');
    if (count === 0) return none(facts, 'No event is dead.');
    const message = `${countOf(count, 'event is', 'events are')} dead, the first since ${toIso(oldest ?? 0)}. The latest error is ${errorOf(facts.lastDead)}. Fix the cause, check your ledger for the event's effect, then run \`stablehooks inbox requeue\` with the event's id.`;
    return { tone: count > maxDead ? 'failing' : 'warning', message, count };
  },

  failing(facts) {
    const { count, sample, long, share } = facts.failing;
    const shown = sample.length > 0 ? sample : facts.lastDead ? [facts.lastDead] : [];
    const codes = nameCounts(
      shown.map(({ lastError }) => [/^ERR_\w+/.exec(lastError ?? '')?.[0] ?? 'unknown', 1]),
    );
    const newest = `${codes}. The latest error is ${errorOf(shown[0])}.`;
    const state = sample.length > 0 ? 'failed' : 'dead';
    const fix = `Fix the handler, or the service that it calls. \`stablehooks inbox list --state ${state}\` shows each event.`;
    if (share !== undefined) {
      const message = `${share.failed} of ${countOf(share.total, 'event')} from the last hour failed and have not succeeded since: ${newest} ${fix}`;
      return { tone: 'failing', message, count: share.failed };
    }
    if (long.length > 0) {
      const received = toIso(Math.min(...long.map(({ receivedAt }) => receivedAt)));
      const message = `${countOf(long.length, 'event has', 'events have')} been failing for more than an hour, the first received at ${received}: ${newest} ${fix}`;
      return { tone: 'failing', message, count: long.length };
    }
    if (count === 0) return none(facts, 'No event is failing.');
    return {
      tone: 'warning',
      message: `${countOf(count, 'event')} failed and will run again: ${newest}`,
      count,
    };
  },

  refused({ now, unwritable, newest, tally }, { requirePush }) {
    if (unwritable !== undefined) {
      const fix =
        'Free disk space, make the database writable, or connect to the primary. Until then, every delivery gets a 503.';
      return {
        tone: 'failing',
        message: `The inbox's database rejects writes: ${unwritable.replace(/\.$/, '')}. ${fix}`,
      };
    }
    const pushedAt = newest.findIndex(({ origin }) => origin === 'push');
    const pushed = newest[pushedAt]?.receivedAt;
    const genuineAt = Math.max(tally.genuineAt, pushed ?? 0);
    const isBroken = tally.refusedAt.filter((at) => at > genuineAt).length >= MANY;
    const recent = countedSince(tally.refused, now - 2 * HOUR_MS);
    const count = sumOf(recent);
    if (isBroken || count > 0) {
      const since = genuineAt === 0 ? '' : ` since ${toIso(genuineAt)}`;
      const what = isBroken
        ? `The last ${MANY} signed deliveries were refused, and none has been accepted${since}`
        : `${countOf(count, 'signed delivery was', 'signed deliveries were')} refused in this hour and the previous one`;
      const causes = Object.entries(REFUSALS).filter(([code]) => recent.some(([name]) => name === code));
      const fixes = [
        ...causes.map(([code, fix]) => `${code}: ${fix}`),
        'Your log says why each one was refused.',
      ];
      const message = `${what}${count > 0 ? ` (${nameCounts(recent)})` : ''}. ${fixes.join(' ')} \`stablehooks doctor\` tests the endpoint.`;
      return { tone: isBroken ? 'failing' : 'warning', message, count };
    }
    const fix = 'Use `stablehooks doctor` to test the URL that you gave the service.';
    if (pushed === undefined && tally.genuineAt === 0) {
      const what =
        newest.length === 0
          ? 'no event has arrived'
          : `the last ${countOf(newest.length, 'event')} did not arrive by push`;
      const message = `Not verified yet: ${what}. ${fix}`;
      return { tone: requirePush ? 'failing' : 'neutral', message };
    }
    const last = `the last push arrived at ${toIso(genuineAt)}.`;
    const polled = pushed === undefined ? newest.length : pushedAt;
    if (polled < MANY) return { tone: 'ok', message: `Deliveries are accepted; ${last}`, count: 0 };
    const message = `Only polls found the last ${polled} events; ${last} ${fix}`;
    return { tone: requirePush ? 'failing' : 'warning', message, count: polled };
  },

  ignored(facts) {
    const { count: parked, oldest } = countIn(facts.counts, 'parked');
    const since = facts.now - 48 * HOUR_MS;
    const counted = countedSince(facts.tally.ignored, since);
    // If a process was killed, its last deliveries are missing from the tally.
    const seen = facts.newest.filter((record) => record.ignored && record.receivedAt > since);
    const countSeen = (type: string) => [type, seen.filter((each) => each.type === type).length] as const;
    const types = counted.length > 0 ? counted : [...new Set(seen.map(({ type }) => type))].map(countSeen);
    const ignored = sumOf(types);
    if (ignored + parked === 0) return none(facts, 'Every event had a handler.');
    const without = `${countOf(ignored, 'event has', 'events have')} been ignored since yesterday because no handler is registered: ${nameCounts(types)}. Add a handler, even one that does nothing. If another process should have run them, use \`stablehooks inbox requeue --ignored\`.`;
    const unknown = `${countOf(parked, 'event of an unknown type is', 'events of unknown types are')} parked, the first since ${toIso(oldest ?? 0)}. Upgrade stablehooks, and add a handler.`;
    const message = [...(ignored > 0 ? [without] : []), ...(parked > 0 ? [unknown] : [])].join(' ');
    return { tone: 'warning', message, count: ignored + parked };
  },

  poll({ now, state }, { dueMs, provenMs, requirePoll }) {
    const { lastAttempt, watermark } = state;
    if (lastAttempt === undefined) {
      if (watermark !== null) return { tone: 'ok', message: 'Polls have run.' };
      const message = 'Not verified yet: no poll has run. Start a poller (createPoller) with this inbox.';
      return { tone: requirePoll ? 'failing' : 'neutral', message };
    }
    const { at, error } = lastAttempt;
    if (at > now + CLOCK_MS) {
      const message = `The last poll ran at ${toIso(at)}, which is in the future. The poller's clock or this machine's clock is wrong. Check both clocks.`;
      return { tone: 'failing', message };
    }
    if (error !== undefined) {
      const since = lastAttempt.failingSince ?? at;
      const message = `Polls have failed to read the event list since ${toIso(since)}. ${error}: ${lastAttempt.message ?? "the poller's log says why."}`;
      return { tone: now - since >= dueMs ? 'failing' : 'warning', message };
    }
    if (now - at <= provenMs)
      return { tone: 'ok', message: `The last poll read the event list at ${toIso(at)}.` };
    const message = `The last poll ran at ${toIso(at)}. Check that the poller's process is running.`;
    return { tone: 'failing', message };
  },

  coverage: checkCoverage,

  gaps({ state }) {
    const open = state.gaps.filter((gap) => toGap(gap).state === 'open');
    const newest = open.at(-1);
    if (newest !== undefined) {
      const first = toIso(Math.min(...open.map(({ from }) => from)));
      const message = `${countOf(open.length, 'gap is', 'gaps are')} open, the first from ${first}, so events may be missing. ${describeReason(newest.reason)} \`stablehooks gaps list\` shows what to do.`;
      return { tone: 'failing', message, count: open.length };
    }
    if (state.watermark === null)
      return { tone: 'neutral', message: 'Not verified yet: no poll has read the event list.' };
    return { tone: 'ok', message: 'No gap is open.', count: 0 };
  },

  owed({ owed, now }) {
    if (owed === undefined) return { tone: 'neutral', message: 'Not verified yet: findOwed has not run.' };
    const { at, counts } = owed;
    const when = `findOwed last ran at ${toIso(at)}`;
    if (now - at > OWED_MS) return { tone: 'warning', message: `${when}. Check the job that runs it.` };
    const { pending, owed: missing, 'arrived-not-booked': arrived } = counts;
    const verdicts = (['owed', 'arrived-not-booked', 'listed-not-received', 'not-proven'] as const)
      .filter((verdict) => counts[verdict] > 0)
      .map((verdict) => `${counts[verdict]} ${verdict}`);
    const count = missing + arrived;
    const found = `Of ${countOf(pending, 'pending movement')}: ${verdicts.join(', ') || 'none is overdue'}`;
    const message = `${found}. ${when}${verdicts.length > 0 ? ', and its result shows each movement' : ''}.`;
    return { tone: count > 0 ? 'failing' : verdicts.length > 0 ? 'warning' : 'ok', message, count };
  },
} satisfies Readonly<Record<string, Check>>;

/** How far the clocks of two machines can differ before the check fails, in ms. */
const CLOCK_MS = 60_000;

/** In ms. An older result of `findOwed` means that a nightly job has missed a night. */
const OWED_MS = 26 * HOUR_MS;

const REFUSALS: Readonly<Record<string, string>> = {
  ERR_SIGNATURE_MISMATCH: 'the secret is wrong or was rotated, or a proxy modifies the body.',
  ERR_SIGNATURE_MALFORMED: 'set `signature` to the encoding and prefix that the service sends.',
  ERR_BODY_TOO_LARGE: 'raise maxBodyBytes.',
  ERR_BODY_UNAVAILABLE: 'a body parser runs first; mount the receiver above it.',
  ERR_INBOX_FAILED: 'the database is unreachable or overloaded.',
  ERR_SECRET_UNAVAILABLE: 'your `secret` function fails.',
};

/** The name of a health check. */
export type HealthCheckName = keyof typeof CHECKS;

/** The names of all checks, in the order in which they are reported. */
export const HEALTH_CHECKS = Object.keys(CHECKS) as readonly HealthCheckName[];

function checkCoverage(
  { state, newest, now }: HealthFacts,
  { provenMs, requirePoll }: HealthSettings,
): Finding {
  const { since, watermark, unconfirmed, doubts = [] } = state;
  const last = newest[0]?.receivedAt;
  const doubt = `the last poll reported ${doubts.join(', ')}. The poller's log says why.`;
  if (watermark === null || watermark === since) {
    if (doubts.length > 0) return { tone: 'failing', message: `Nothing is proven yet, and ${doubt}` };
    const fix = state.lastAttempt
      ? 'The poller must read the event list for lagMs before it can prove anything. The `poll` check says whether the poller can read the list.'
      : 'Start a poller (createPoller) with this inbox, and let it run for lagMs.';
    const message = `Not verified yet: no poll has proven that every event arrived. ${fix}`;
    return { tone: requirePoll && state.lastAttempt === undefined ? 'failing' : 'neutral', message };
  }
  if (now - watermark > provenMs) {
    const silent =
      last === undefined ? 'No event has been received yet' : `The last event arrived at ${toIso(last)}`;
    const message = `${silent}, and no poll has proven anything since ${toIso(watermark)}. Check that the poller is running, that it can read the event list, and that the clocks are right. A poll's report says which of these fails.`;
    return { tone: 'failing', message };
  }
  const quiet =
    last === undefined ? 'No event has been received yet' : `The last event arrived at ${toIso(last)}`;
  const proven = `${quiet}. The event list proves that nothing is missing up to ${toIso(watermark)}${exceptIn(state.gaps)}.`;
  if (doubts.length > 0) {
    return { tone: 'failing', message: `${proven} But ${doubt}` };
  }
  return unconfirmed
    ? { tone: 'neutral', message: `${proven} ${describeUnconfirmed(unconfirmed.size)}` }
    : { tone: 'ok', message: proven };
}

function none({ isEmpty }: HealthFacts, message: string): Finding {
  return isEmpty
    ? { tone: 'neutral', message: 'Not verified yet: no event has arrived.' }
    : { tone: 'ok', message, count: 0 };
}

function errorOf(record: InboxRecord | undefined): string {
  return (record?.lastError ?? 'unknown').replace(/\.$/, '');
}

function nameCounts(counts: readonly (readonly [name: string, count: number])[]): string {
  const sums = new Map<string, number>();
  for (const [name, count] of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return [...sums].map(([name, count]) => `${name} ${count}`).join(', ');
}

/** Each key of `counts` is a time in epoch ms, a space, and a code or an event type. */
const countedSince = (counts: TallyNote['refused'], since: number) =>
  Object.entries(counts)
    .filter(([key]) => Number.parseInt(key, 10) > since)
    .map(([key, count]) => [key.slice(key.indexOf(' ') + 1), count] as const);

const sumOf = (counts: readonly (readonly [name: string, count: number])[]) =>
  counts.reduce((sum, [, count]) => sum + count, 0);
