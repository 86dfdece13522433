import { toIso } from '../catch-up/gaps.js';
import type { ListedEvent, PollerClient } from '../catch-up/list.js';
import { saysTheSame } from '../catch-up/same-event.js';
import { ConfigError, orUnavailable } from '../core/errors.js';
import {
  createdAtMs,
  EVENT_TYPES,
  type EventType,
  isDateTime,
  isEventType,
  type UnknownEvent,
} from '../core/events.js';
import {
  abortSignal,
  boolean,
  date,
  func,
  integer,
  readOptions,
  required,
  rule,
  withMethods,
} from '../core/options.js';
import type { Inbox, InboxOperations, InboxRecord, InboxState } from '../core/ports.js';
import { RUNTIME, type Runtime, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { type BookLine, type Books, createBooks } from './books.js';
import { type Amounts, createDailyTotals, type DailyTotals } from './daily.js';
import { findUnproven, type ListProof, type Span } from './proof.js';
import { type ReadList, readList } from './read-list.js';
import { recordPages } from './record-pages.js';
import {
  createFindingLog,
  describeResult,
  type Finding,
  type FindingKind,
  type FindingLog,
  type ReconcileResult,
} from './report.js';

/** An entry of the app's own ledger. `compare` receives its other fields. */
export interface LedgerEntry {
  /** The id of the event that the entry was written for. */
  readonly id: string;
  /**
   * When that event was created, as an RFC 3339 date-time with its offset from UTC, if the ledger has it. It decides
   * about an entry whose event neither the list nor the inbox has: outside the span it is left out, inside it is `extra`.
   */
  readonly createdAt?: string | undefined;
}

/** The part of an inbox that `reconcile` uses. */
export type ReconcileInbox = Pick<Inbox<unknown>, 'record'> &
  Pick<InboxOperations, 'find' | 'list' | 'count' | 'pollState'>;

/** The progress of a run. */
export interface ReconcileProgress {
  /** The books are read in this order, then suspicious ids are looked up again. */
  readonly step: 'list' | 'inbox' | 'ledger' | 'findings';
  /** Requests, events, entries or ids so far. */
  readonly done: number;
  /** How many in all, if that is known. */
  readonly total: number | undefined;
}

/** Options of {@link reconcile}. */
export interface ReconcileOptions<Entry extends LedgerEntry = LedgerEntry> {
  /** Reads the list: a client of `stablehooks/client`. */
  readonly client: PollerClient;
  /** The inbox that the receivers of the app use. */
  readonly inbox: ReconcileInbox;
  /**
   * The entries of the ledger, in any order, read once. It must contain all entries of events of the span; others are
   * left out. Start the query when the first entry is requested, not before: the inbox is read first.
   */
  readonly ledger: AsyncIterable<Entry> | Iterable<Entry>;
  /**
   * When the ledger was copied, if `ledger` is a copy, such as an exported file. Events that were done later are not
   * judged by it, and `until` is at most this time by default. @default `ledger` is read from the ledger itself
   */
  readonly copiedAt?: Date | undefined;
  /** Events created before this time or before the poller's start date are left out. */
  readonly since: Date;
  /** Events created at this time or later are left out. @default `lagMs` before now: later events can still be listed */
  readonly until?: Date | undefined;
  /**
   * Compares an entry with its event; returns the differences in words, or nothing. Compare amounts with
   * `sameAmount`, never as numbers. @default nothing is compared
   */
  readonly compare?:
    | ((entry: Entry, event: UnknownEvent) => string | readonly string[] | undefined)
    | undefined;
  /** The types that have a ledger entry once they are done. @default all five */
  readonly ledgerTypes?: readonly EventType[] | undefined;
  /** Whether to add up events and entries per day and type. @default false */
  readonly daily?: boolean | undefined;
  /** Where the amounts are, for the sums of `daily`. @default no sums */
  readonly amounts?: Amounts<Entry> | undefined;
  /**
   * Changes nothing. Otherwise listed events that neither the inbox nor the ledger has are recorded in the inbox, due
   * now, so that the app's redrive or poller runs each once. @default false
   */
  readonly dryRun?: boolean | undefined;
  /** The limit of the first query. @default 50 */
  readonly limit?: number | undefined;
  /** The highest limit of a query. @default 1_000 */
  readonly maxLimit?: number | undefined;
  /** How late an event can be listed after its `created_at`, in ms. Use the poller's. @default 300_000 */
  readonly lagMs?: number | undefined;
  /** By how much neighbours of the list can be out of order, in ms. Use the poller's. @default 1_000 */
  readonly disorderMs?: number | undefined;
  /** Ends the run early: it rejects with the reason. Events that were recorded stay. */
  readonly signal?: AbortSignal | undefined;
  /** Called with every finding, and awaited. Its rejection ends the run. @default none */
  readonly onFinding?: ((finding: Finding) => void | Promise<void>) | undefined;
  /** Called after each page. @default none */
  readonly onProgress?: ((progress: ReconcileProgress) => void) | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Compares three books: what the service lists, what the inbox did, and the app's own ledger. Runs no handler.
 *
 * The app can receive events meanwhile: the books are read in an order in which an effect and its event are always
 * found together, and suspicious ids are looked up again before they are reported. Ids that still cannot be told apart
 * from an error are counted as `unjudged`. Memory holds only the ids of events and entries.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or wrong, when the span ends before the
 * poller's start date, or when the `id` or `createdAt` of an entry is malformed.
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws the client's error when the service answers none of the requests; errors of `ledger`, `compare` and
 * `onFinding`; the reason of `signal`.
 *
 * @example
 * ```ts
 * const result = await reconcile({ client, inbox, ledger, since: new Date('2026-01-01'), dryRun: true });
 * if (!result.agree) console.error(result.diagnosis, result.findings);
 * ```
 */
export async function reconcile<Entry extends LedgerEntry>(
  options: ReconcileOptions<Entry>,
): Promise<ReconcileResult> {
  const settings = toSettings(options);
  const { inbox, dryRun, signal } = settings;
  // Before the list: the inbox still has the events that the state is about.
  const state = await orUnavailable('ERR_INBOX_FAILED', () => inbox.pollState());
  const since = Math.max(settings.since.getTime(), state.since ?? Number.NEGATIVE_INFINITY);
  const list = await readList({ ...settings, since, state, startedAt: settings.runtime.now() });
  const copiedAt = settings.copiedAt?.getTime() ?? Number.POSITIVE_INFINITY;
  const until = settings.until?.getTime() ?? Math.min(list.settledAt, copiedAt);
  if (until <= since) {
    throw new ConfigError(
      `reconcile: the span is empty. It begins at ${toIso(since)} (\`since\`, or the poller's start date) and ends at ${toIso(until)} (\`until\`, or \`lagMs\` before now, or \`copiedAt\`).`,
    );
  }
  const run = createRun(settings, { span: { from: since - 1, until: until - 1 }, list });
  run.addListed();
  await run.readInbox();
  await run.readLedger();
  await run.judge();

  const unproven = findUnproven(run.span, {
    state: { ...state, watermark: state.watermark && Math.min(state.watermark, list.settledAt) },
    list: run.proof(),
    polledFrom: run.polledFrom(),
  }).map((part) => ({ ...part, from: toIso(part.from), until: toIso(part.until) }));
  const summary = {
    findings: run.log.counts(),
    totals: run.totals,
    unproven,
    since: toIso(since),
    until: toIso(until),
    dryRun,
  };
  signal.throwIfAborted();
  return {
    agree: run.log.total() === 0 && unproven.length === 0 && run.totals.unjudged === 0,
    complete: unproven.length === 0,
    diagnosis: describeResult(summary),
    ...summary,
    daily: run.daily?.list() ?? null,
    problems: list.problems,
    requests: list.requests,
  };
}

const NEVER = new AbortController().signal;

function toSettings<Entry extends LedgerEntry>(options: ReconcileOptions<Entry>) {
  const settings = readOptions('reconcile', options, {
    client: required(
      rule(
        'a client, such as createClient of stablehooks/client returns',
        (client) =>
          typeof (client as PollerClient | null | undefined)?.events?.listWithProblems === 'function',
      ),
    ),
    inbox: required(
      withMethods('an inbox, such as sqliteInbox(db)', ['record', 'find', 'list', 'count', 'pollState']),
    ),
    ledger: required(rule('an iterable of entries, such as an array or an async generator', isIterable)),
    copiedAt: date(),
    since: required(date()),
    until: date(),
    compare: func(),
    ledgerTypes: rule(
      `an array of event types (${EVENT_TYPES.join(', ')})`,
      (types) => Array.isArray(types) && types.every(isEventType),
      EVENT_TYPES,
    ),
    daily: boolean(false),
    amounts: withMethods('an object with the functions `event` and `entry`', ['event', 'entry']),
    dryRun: boolean(false),
    limit: integer({ default: 50 }),
    maxLimit: integer({ default: 1_000 }),
    lagMs: integer({ default: 300_000, min: 0 }),
    disorderMs: integer({ default: 1_000, min: 0 }),
    signal: abortSignal(NEVER),
    onFinding: func((): void => undefined),
    onProgress: func((): void => undefined),
    runtime: RUNTIME,
  });
  if (settings.limit > settings.maxLimit) {
    throw new ConfigError(
      `reconcile: \`limit\` (${settings.limit}) must not be more than \`maxLimit\` (${settings.maxLimit}).`,
    );
  }
  return { ...settings, runtime: toRuntime(settings.runtime) };
}

function isIterable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Symbol.asyncIterator in value || Symbol.iterator in value;
}

type Settings<Entry extends LedgerEntry> = ReturnType<typeof toSettings<Entry>>;

/** How many records or entries are read at a time: small pages are garbage before they reach the old generation. */
const PAGE_SIZE = 500;

/** How many lookups run at a time. */
const LOOKUPS = 16;

/**
 * An event that changes its state meanwhile is read again later: an attempt ends in a state that is read after the one
 * that it began in, and events that are taken to run again become `received`.
 */
const READING_ORDER: readonly InboxState[] = [
  'parked',
  'dead',
  'received',
  'leased',
  'failed',
  'received',
  'leased',
  'failed',
  'done',
  'dead',
];

/** One comparison. Its steps run in the order in which they are declared. */
interface Run<Entry> {
  readonly span: Span;
  readonly totals: ReconcileResult['totals'];
  readonly log: FindingLog;
  readonly daily: DailyTotals<Entry> | undefined;
  addListed(): void;
  readInbox(): Promise<void>;
  readLedger(): Promise<void>;
  judge(): Promise<void>;
  /** The proof of the list, after the inbox has been read. */
  proof(): ListProof;
  /** Where the polls can have proven anything, after the inbox has been read. */
  polledFrom(): number;
}

function createRun<Entry extends LedgerEntry>(
  settings: Settings<Entry>,
  { span, list }: { readonly span: Span; readonly list: ReadList },
): Run<Entry> {
  const { inbox, compare, lagMs, dryRun, signal, onProgress, runtime } = settings;
  const ledgerTypes: ReadonlySet<string> = new Set(settings.ledgerTypes);
  const books: Books = createBooks();
  const log = createFindingLog(settings.onFinding);
  const daily = settings.daily ? createDailyTotals(settings.amounts) : undefined;
  const totals = {
    listed: 0,
    inbox: 0,
    entries: 0,
    outside: 0,
    compared: 0,
    parked: 0,
    recorded: 0,
    unjudged: 0,
  };
  /** Listed events that the inbox and the ledger do not have. No more than the list showed. */
  const unseen: ListedEvent[] = [];

  /** Whether the inbox shows that the service removes events from its list. */
  let removed = false;
  /** When the inbox received its first event, epoch ms. */
  let firstAt = Number.POSITIVE_INFINITY;

  const find = (id: string) => orUnavailable('ERR_INBOX_FAILED', () => inbox.find(id));
  const copiedAt = settings.copiedAt?.getTime() ?? Number.POSITIVE_INFINITY;
  const isIn = (at: number) => at > span.from && at <= span.until;
  const eventOf = (id: string, record?: InboxRecord) =>
    list.events.get(id)?.event ?? record?.event ?? undefined;

  function addListed(): void {
    for (const [id, { event, at }] of list.events) {
      const times = [at, ...(list.conflicts.get(id) ?? []).map((other) => other.at)];
      if (!times.some(isIn)) continue;
      totals.listed += 1;
      books.set(id, { listed: true, booked: ledgerTypes.has(event.type) });
      daily?.addEvent(event);
    }
  }

  /** Adds a record of the inbox to the books; `false` when its event is not of the span. */
  function addRecord(record: InboxRecord): boolean {
    const { id, type, state } = record;
    firstAt = Math.min(firstAt, record.receivedAt);
    const isGone = isRemoved(record);
    if (isGone) removed = true;
    const isFuture = isAhead(record);
    const known = books.get(id);
    if (known === undefined && !isRecordIn(record, { isFuture })) return false;
    const event = eventOf(id, record);
    if (known === undefined || known.state === null) {
      totals.inbox += 1;
      if (known?.listed !== true && event !== undefined) daily?.addEvent(event);
    }
    const mustBeListed = isProvenByList(record, { isFuture });
    if (isFuture && !mustBeListed && !isGone && known?.state == null) totals.unjudged += 1;
    books.set(id, {
      state,
      booked: ledgerTypes.has(type),
      undated: event === undefined,
      mustBeListed,
      differs: known?.differs === true || isOther(record),
    });
    return true;
  }

  /** Whether the record or the list says that its event is of the span: they can differ. */
  function isRecordIn(
    { id, event, receivedAt }: InboxRecord,
    { isFuture }: { readonly isFuture: boolean },
  ): boolean {
    const events = [list.events.get(id)?.event, event].filter((one) => one != null);
    // By its own time alone, an event that is dated in the future would be compared in years, or never.
    if (isFuture && isIn(receivedAt)) return true;
    if (events.length > 0) return events.some((one) => isIn(createdAtMs(one)));
    // A pruned event that the list does not show: it was created before it was received.
    return receivedAt + lagMs > span.from;
  }

  /** Whether the inbox has another event with this id than the list. Pruned events are not compared. */
  function isOther({ id, event }: InboxRecord): boolean {
    const listed = list.events.get(id)?.event;
    return listed !== undefined && event !== null && !saysTheSame(listed, event);
  }

  /** Whether the list does not have it, and it is dated so long after its receipt that no clock explains it. */
  function isAhead({ id, type, event, receivedAt }: InboxRecord): boolean {
    if (event === null || !isEventType(type) || list.events.has(id)) return false;
    return createdAtMs(event) > receivedAt + lagMs;
  }

  /** Whether the list does not have an event of the inbox that it must have. */
  function isProvenByList(
    { id, event, receivedAt }: InboxRecord,
    { isFuture }: { readonly isFuture: boolean },
  ): boolean {
    if (event === null || list.events.has(id) || !isEventType(event.type)) return false;
    const { from, until } = list.proof[event.type];
    const times = [createdAtMs(event), ...(isFuture ? [receivedAt] : [])];
    return times.some((at) => at > from && at <= until && at > list.shownFrom);
  }

  /** Whether a complete list lacks the event because it is older than all that the list shows, in the span or before it. */
  function isRemoved({ id, type, event, receivedAt }: InboxRecord): boolean {
    const known = event?.type ?? type;
    if (list.events.has(id) || !isEventType(known)) return false;
    const { from, until } = list.proof[known];
    if (event !== null) {
      const at = createdAtMs(event);
      return at > from && at <= Math.min(until, list.shownFrom);
    }
    // It was created before it was received, so a list that has everything would show it, whenever that was.
    return from === Number.NEGATIVE_INFINITY && receivedAt <= until;
  }

  function proof(): ListProof {
    if (!removed) return list.proof;
    const limited = EVENT_TYPES.map((type) => {
      const { from, ...rest } = list.proof[type];
      const isLimited = from < list.shownFrom;
      return [type, isLimited ? { ...rest, from: list.shownFrom, reason: 'removed' } : { ...rest, from }];
    });
    return Object.fromEntries(limited) as ListProof;
  }

  function polledFrom(): number {
    return removed ? Math.min(list.shownFrom, firstAt) : Number.NEGATIVE_INFINITY;
  }

  async function readInbox(): Promise<void> {
    const counts = await orUnavailable('ERR_INBOX_FAILED', () => inbox.count());
    const total = counts.reduce((sum, { count }) => sum + count, 0);
    const list: InboxOperations['list'] = async (options) => {
      signal.throwIfAborted();
      return await orUnavailable('ERR_INBOX_FAILED', () => inbox.list(options));
    };
    let done = 0;
    for (const state of READING_ORDER) {
      for await (const records of recordPages({ list }, { state, limit: PAGE_SIZE })) {
        signal.throwIfAborted();
        for (const record of records) addRecord(record);
        done += records.length;
        onProgress({ step: 'inbox', done, total: Math.max(done, total) });
        await takeTurn(runtime);
      }
    }
  }

  async function readLedger(): Promise<void> {
    let done = 0;
    for await (const page of inPages(settings.ledger, runtime)) {
      signal.throwIfAborted();
      for (const entry of page) checkEntry(entry);
      await inParallel(page, addEntry);
      done += page.length;
      onProgress({ step: 'ledger', done, total: undefined });
    }
  }

  async function addEntry(entry: Entry): Promise<void> {
    const { id } = entry;
    let record: InboxRecord | undefined;
    if (books.get(id) === undefined) {
      record = await find(id);
      const isOutside = record === undefined ? isEntryOutside(entry) : !addRecord(record);
      // An event outside of the span that only the list has.
      if (isOutside || (record === undefined && list.events.has(id))) {
        totals.outside += 1;
        return;
      }
    }
    books.addEntry(id);
    totals.entries += 1;
    if (compare === undefined && daily === undefined) return;
    const line = books.get(id);
    // The ledger alone has it.
    if (line === undefined || (line.state === null && !line.listed)) return;
    const event = eventOf(id) ?? record?.event ?? (await find(id))?.event ?? undefined;
    if (event === undefined) {
      totals.unjudged += 1;
      return;
    }
    daily?.addEntry(entry, event);
    if (compare !== undefined) await compareWith(event, entry);
  }

  function isEntryOutside({ createdAt }: LedgerEntry): boolean {
    return createdAt !== undefined && !isIn(createdAtMs({ created_at: createdAt }));
  }

  async function compareWith(event: UnknownEvent, entry: Entry): Promise<void> {
    totals.compared += 1;
    const differences = compare?.(entry, event) ?? [];
    for (const detail of [differences].flat()) {
      const { id, type, created_at: createdAt } = event;
      const { state, entries } = books.get(id) ?? { state: null, entries: 1 };
      await log.add({ kind: 'mismatched', id, type, createdAt, state, entries, detail });
    }
  }

  async function judge(): Promise<void> {
    let done = 0;
    const total = books.size;
    for await (const page of inPages(books, runtime)) {
      signal.throwIfAborted();
      await inParallel(page, ([id, line]) => judgeLine(id, line));
      done += page.length;
      onProgress({ step: 'findings', done, total });
    }
    await judgeUnseen();
  }

  async function judgeLine(id: string, line: BookLine): Promise<void> {
    const { entries, booked } = line;
    const isUnlisted = line.mustBeListed && !line.listed;
    const isListedTwice = list.conflicts.has(id);
    const isWrong = isUnlisted || isListedTwice || line.differs;
    if (line.state === 'done' && entries === (booked ? 1 : 0) && !isWrong) return;
    if (line.state === null && !line.listed) {
      return log.add({ ...NOWHERE, id, entries, kind: 'extra', detail: DETAILS.extra });
    }
    // Again: its state can have changed since the inbox was read.
    const record = await find(id);
    const event = eventOf(id, record);
    const state = record?.state ?? null;
    const report = (kind: FindingKind, detail: string) =>
      log.add({
        kind,
        id,
        type: event?.type ?? record?.type ?? null,
        createdAt: event?.created_at ?? null,
        state,
        entries,
        detail,
      });
    if (isListedTwice) await report('conflicting', DETAILS.listedTwice);
    const listed = list.events.get(id);
    if (record === undefined && entries === 0 && listed !== undefined) {
      unseen.push(listed);
      return;
    }
    if (line.differs || (record !== undefined && isOther(record)))
      await report('conflicting', DETAILS.conflicting);
    if (isUnlisted) {
      const isFuture = record !== undefined && isAhead(record);
      await report('unlisted', isFuture ? DETAILS.unlistedFuture : DETAILS.unlisted);
    }
    if (entries > 1 && booked) await report('doubled', `The ledger has ${entries} entries of it.`);
    if (entries > 0 && !booked) await report('extra', DETAILS.unbooked);
    if (state === null) return report('unseen', DETAILS.unseenWithEntry);
    if (state === 'dead') return report('dead', entries > 0 ? DETAILS.deadWithEntry : DETAILS.dead);
    if (state === 'parked' && !isEventType(record?.type ?? '')) {
      totals.parked += 1;
    } else if (state !== 'done') {
      return report('waiting', entries > 0 ? DETAILS.waitingWithEntry : DETAILS.waiting);
    } else if (entries === 0 && booked) {
      // It ended after the inbox or the ledger was read, so its entry can be newer than that; or it is pruned.
      const isSettled = line.state === 'done' && (record?.updatedAt ?? 0) < copiedAt;
      if (isSettled && !line.undated) return report('missing', DETAILS.missing);
      totals.unjudged += 1;
    }
  }

  /** Records what is unseen, unless this is a dry run, and reports it. */
  async function judgeUnseen(): Promise<void> {
    for await (const page of inPages(unseen, runtime)) {
      signal.throwIfAborted();
      const results = dryRun ? page.map(() => 'new' as const) : await record(page);
      for (const [index, { event }] of page.entries()) {
        // Its push arrived just now.
        if (results[index] !== 'new') {
          totals.unjudged += 1;
          continue;
        }
        if (!dryRun) totals.recorded += 1;
        const { id, type, created_at: createdAt } = event;
        const state = dryRun ? null : isEventType(type) ? 'received' : 'parked';
        const detail = dryRun ? DETAILS.unseen : DETAILS.recorded;
        await log.add({ kind: 'unseen', id, type, createdAt, state, entries: 0, detail });
      }
    }
  }

  /** Events of unknown types are parked, as the poller parks them. */
  async function record(listed: readonly ListedEvent[]): Promise<readonly (string | undefined)[]> {
    const results = new Map<string, string>();
    for (const known of [true, false]) {
      const some = listed.filter(({ event }) => isEventType(event.type) === known);
      if (some.length === 0) continue;
      const json = some.map((each) => each.json);
      const options = { dueInMs: known ? 0 : null, origin: 'pull', json } as const;
      const events = some.map(({ event }) => event);
      const recorded = await orUnavailable('ERR_INBOX_FAILED', () => inbox.record(events, options));
      for (const [index, { id }] of events.entries()) results.set(id, recorded[index] ?? 'new');
    }
    return listed.map(({ event }) => results.get(event.id));
  }

  return { span, totals, log, daily, addListed, readInbox, readLedger, judge, proof, polledFrom };
}

/** Rows of a database are rarely typed, and a time that cannot be read would silently count as outside the span. */
function checkEntry({ id, createdAt }: LedgerEntry): void {
  if (typeof id !== 'string' || id === '') {
    throw new ConfigError('reconcile: an entry of `ledger` has no `id`: it must be the id of an event.');
  }
  if (createdAt === undefined || isDateTime(createdAt)) return;
  throw new ConfigError(
    'reconcile: the `createdAt` of an entry of `ledger` must be an RFC 3339 date-time with its offset from UTC, such as 2026-01-31T12:00:00Z: of a Date, its toISOString(). Leave it out if the ledger does not have it.',
  );
}

/** The fields of a finding about an id that only the ledger has. */
const NOWHERE = { type: null, createdAt: null, state: null } as const;

const DETAILS = {
  extra:
    'The ledger has an entry of it, and neither the list nor the inbox has the event. Find out who wrote it.',
  unbooked: 'The ledger has an entry of it, and events of its type have none. Find out who wrote it.',
  unseen: 'The service lists it, and the inbox does not have it. Run without a dry run to record it.',
  recorded:
    "The service lists it, and the inbox did not have it. It is recorded; the app's redrive or poller runs it.",
  unseenWithEntry:
    'The service lists it and the ledger has an entry of it, but the inbox does not have it. It is not recorded, because to run it could double its effect. Find out who wrote the entry.',
  missing: 'It is done, and the ledger has no entry of it. Check its handler, and write the entry.',
  waiting:
    'It is in the inbox, and no attempt has succeeded. See its last error, and let the redrive or the poller run it.',
  waitingWithEntry:
    'The ledger has an entry of it, but it is not done: another attempt can double its effect. Its handler must write the entry in the transaction of the inbox, or check for it.',
  dead: 'It is dead-lettered. See its last error; requeue it when the cause is fixed.',
  deadWithEntry:
    'It is dead-lettered, but the ledger has an entry of it: to requeue it can double its effect.',
  unlisted:
    'The inbox has it, and the service does not list it, although the list was complete for its time. Ask the service whether it sent it; if not, change the webhook secret.',
  unlistedFuture:
    'The inbox has it, and the service does not list it, although the list was complete when it was received. It is dated in the future of its receipt. Ask the service whether it sent it; if not, change the webhook secret.',
  conflicting:
    'The inbox has another event with this id than the service lists: the type, the time or the payload differs, and a handler may have run for the wrong one. Compare the two and correct its effect. If the service sent only the listed one, change the webhook secret.',
  listedTwice:
    'The service lists two different events with this id, and the first one counts. Ask the service which one is right.',
} as const;

/** Groups items into pages: their lookups run in parallel. */
async function* inPages<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  runtime: Runtime,
): AsyncGenerator<readonly Item[], void, undefined> {
  let page: Item[] = [];
  for await (const item of items) {
    page.push(item);
    if (page.length < PAGE_SIZE) continue;
    yield page;
    await takeTurn(runtime);
    page = [];
  }
  if (page.length > 0) yield page;
}

async function inParallel<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: LOOKUPS }, async () => {
      for (const item of queue) await work(item);
    }),
  );
}

/**
 * Lets the rest of the process run between two pages. A database in this process answers synchronously, so requests,
 * timers and Ctrl-C would wait for the end.
 */
function takeTurn(runtime: Runtime): Promise<void> {
  return new Promise<void>((resolve) => runtime.setTimeout(resolve, 0));
}
