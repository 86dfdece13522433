/** Reads only lists of limited length, and gets its counts from an index. */
import { readPollState } from '../catch-up/state.js';
import { messageOf } from '../core/errors.js';
import {
  INBOX_STATES,
  type InboxCount,
  type InboxFilter,
  type InboxRecord,
  type InboxState,
} from '../core/ports.js';
import { HOUR_MS, readTally } from '../receiver/tally.js';
import { readOwed } from '../reconcile/owed-note.js';
import type { HealthInbox, HealthSettings } from './options.js';

const SAMPLE = 100;

/** Payloads can be large, and reading a hundred of them would block the event loop of a process that uses SQLite. */
const LEAN = { withEvents: false } as const;

/** How many events must fail before the share of failed events matters. */
const MANY_FAILED = 3;

export type HealthFacts = Awaited<ReturnType<typeof readFacts>>;

export async function readFacts(inbox: HealthInbox, { dueMs }: Pick<HealthSettings, 'dueMs'>, now: number) {
  // Plus 1, because an event is overdue once `dueMs` has passed, and a filter excludes its end.
  const dueUntil = Math.max(0, Math.floor(now - dueMs) + 1);
  // The queries run one after another, so that a health check never takes several connections from a pool.
  const overdue = async (state: InboxState) => countIn(await inbox.count({ state, dueUntil }), state);
  // Done events are not counted, because counting them would read a whole index.
  const counts: InboxCount[] = [];
  for (const state of INBOX_STATES) {
    if (state !== 'done') counts.push({ state, ...countIn(await inbox.count({ state }), state) });
  }
  const isUnused = (await inbox.list({ ...LEAN, state: 'done', limit: 1 })).length === 0;
  const received = await overdue('received');
  const isBusy = countIn(counts, 'leased').count > 0;
  return {
    now,
    counts,
    isUnused,
    isEmpty: isUnused && counts.every(({ count }) => count === 0),
    state: await readPollState(inbox),
    tally: await readTally(inbox),
    owed: await readOwed(inbox),
    unwritable: await findUnwritable(inbox),
    /** Received events that have waited for at least `dueMs` without an attempt. */
    unrun: received.count > 0 ? [] : await findUnrun(inbox, dueUntil, isBusy),
    overdue: { received, failed: await overdue('failed'), leased: await overdue('leased') },
    failing: await readFailing(inbox, counts, now),
    lastDead: (await inbox.list({ ...LEAN, state: 'dead', limit: 1, order: 'newest' }))[0],
    newest: await inbox.list({ ...LEAN, limit: SAMPLE, order: 'newest' }),
  };
}

export function countIn(counts: readonly InboxCount[], state: InboxState) {
  const { count = 0, oldest = null } = counts.find((each) => each.state === state) ?? {};
  return { count, oldest };
}

/** Writes nothing, because nothing has leased this note. */
async function findUnwritable(inbox: HealthInbox): Promise<string | undefined> {
  try {
    await inbox.writeNote('health', '', { holder: 'health' });
    return undefined;
  } catch (error) {
    // It is not a problem if only this role, such as a dashboard's role, lacks the privilege to write.
    const cause = unwritableCause(error);
    return cause === undefined ? undefined : (messageOf(cause) ?? 'read-only');
  }
}

/** The codes with which Postgres, MySQL and SQLite report read-only databases and full disks. */
const UNWRITABLE: ReadonlySet<unknown> = new Set(['25006', 1290, 1792, 1836, '53100', 1021, 1114]);
const SQLITE_UNWRITABLE: ReadonlySet<number> = new Set([8, 13]);

/** Data layers and commands wrap the driver's error in other errors. */
function unwritableCause(error: unknown): unknown {
  const { code, errno, errcode, cause } = Object(error) as Readonly<Record<string, unknown>>;
  const inner = cause === undefined ? undefined : unwritableCause(cause);
  if (inner !== undefined) return inner;
  const isSqlite =
    /^SQLITE_(?:READONLY|FULL)/.test(String(code)) || SQLITE_UNWRITABLE.has(Number(errcode) % 256);
  return isSqlite || UNWRITABLE.has(code) || UNWRITABLE.has(errno) ? error : undefined;
}

/** Leaves out events that are postponed or wait for their key. */
async function findUnrun(
  inbox: HealthInbox,
  until: number,
  isBusy: boolean,
): Promise<readonly InboxRecord[]> {
  const isUnrun = ({ lastError, key }: InboxRecord) => !isPostponed(lastError) && (key === null || !isBusy);
  const filter = { state: 'received', updatedUntil: until } as const;
  const count = async (error?: string) =>
    countIn(await inbox.count(error === undefined ? filter : { ...filter, error }), 'received').count;
  for (let after: string | undefined; ; ) {
    const page = await inbox.list({ ...LEAN, ...filter, limit: SAMPLE, after });
    const unrun = page.filter(isUnrun);
    if (unrun.length > 0 || page.length < SAMPLE) return unrun;
    // There can be any number of postponed events, and reading many events takes seconds.
    if (after === undefined && (await count(POSTPONED)) === (await count())) return [];
    after = page.at(-1)?.id;
  }
}

const POSTPONED = 'ERR_HANDLER_LATER';

const isPostponed = (error: string | null) => error?.startsWith(POSTPONED) === true;

/** Includes events that failed before and are running again now. */
async function readFailing(inbox: HealthInbox, counts: readonly InboxCount[], now: number) {
  const hourAgo = Math.max(0, Math.floor(now - HOUR_MS));
  const leased = await inbox.list({ ...LEAN, state: 'leased', error: 'ERR_', limit: SAMPLE });
  const again = leased.filter(({ attempts, lastError }) => attempts > 1 && !isPostponed(lastError));
  const newest = await inbox.list({ ...LEAN, state: 'failed', limit: SAMPLE, order: 'newest' });
  const oldest = await inbox.list({ ...LEAN, state: 'failed', receivedUntil: hourAgo, limit: SAMPLE });
  const dead = countIn(await inbox.count({ state: 'dead', updatedSince: hourAgo }), 'dead').count;
  const count = countIn(counts, 'failed').count + again.length;
  return {
    count,
    sample: [...newest, ...again].toSorted((a, b) => b.updatedAt - a.updatedAt),
    /** Events that have been failing for at least an hour. */
    long: [...oldest, ...again].filter((record) => failingSince(record) <= hourAgo),
    share: count + dead < MANY_FAILED ? undefined : await readShare(inbox, count + dead, hourAgo),
  };
}

function failingSince({ history, attempts, state, updatedAt }: InboxRecord): number {
  const ended = history.slice(-Math.max(1, state === 'leased' ? attempts - 1 : attempts));
  return ended.find(({ result }) => result === 'failed')?.startedAt ?? updatedAt;
}

/** Returns `undefined` unless more than a tenth of the events that arrived or ran after `since` failed. */
async function readShare(inbox: HealthInbox, failed: number, since: number) {
  const others = async (filter: InboxFilter) =>
    (await inbox.count(filter))
      .filter(({ state }) => state !== 'failed' && state !== 'dead')
      .reduce((sum, { count }) => sum + count, 0);
  let total = failed + (await others({ receivedSince: since }));
  // Older events that ran again, as they do after an outage.
  const older = {
    state: 'done',
    receivedSince: Math.max(0, since - 24 * HOUR_MS),
    receivedUntil: since,
  } as const;
  if (failed * 10 > total) total += await others({ ...older, updatedSince: since });
  return failed * 10 > total ? { failed, total } : undefined;
}
