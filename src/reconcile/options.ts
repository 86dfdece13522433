import { LIST_RULES, type PollerOptions } from '../catch-up/options.js';
import { orUnavailable } from '../core/errors.js';
import { EVENT_TYPES, type EventType, isEventType, type UnknownEvent } from '../core/events.js';
import {
  abortSignal,
  boolean,
  date,
  func,
  inboxWith,
  readOptions,
  required,
  rule,
  withMethods,
} from '../core/options.js';
import type { Inbox, InboxOperations } from '../core/ports.js';
import { toRuntime } from '../core/runtime.js';
import type { Amounts } from './daily.js';
import type { Finding } from './report.js';

/** An entry in your app's ledger. Any additional fields are also passed to `compare`. */
export interface LedgerEntry {
  /** The id of the event that the entry was written for. */
  readonly id: string;
  /**
   * When that event was created, as an RFC 3339 date-time with its UTC offset, if your ledger stores this time. It is used
   * only if neither the service's list nor the inbox has the event. In that case, the entry is reported as `extra` if this
   * time is in the span, and skipped otherwise.
   */
  readonly createdAt?: string | undefined;
}

/** The part of an inbox that `reconcile` uses. */
export type ReconcileInbox = Pick<Inbox<unknown>, 'record' | 'readNote'> &
  Pick<InboxOperations, 'find' | 'list' | 'count'>;

/** The progress of a run. */
export interface ReconcileProgress {
  /** The current step. The inbox is read first, then the ledger, and then suspicious ids are looked up again. */
  readonly step: 'inbox' | 'ledger' | 'findings';
  /** How many events, entries or ids have been processed so far. */
  readonly done: number;
  /** How many events, entries or ids there are in total, if that is known. */
  readonly total: number | undefined;
}

/** Options for {@link reconcile}. Use the same values for `lagMs`, `disorderMs` and `listMax` as in your poller. */
export interface ReconcileOptions<Entry extends LedgerEntry = LedgerEntry>
  extends Pick<
    PollerOptions,
    'client' | 'limit' | 'maxLimit' | 'listMax' | 'lagMs' | 'disorderMs' | 'runtime'
  > {
  /** The inbox that your app's receivers use. */
  readonly inbox: ReconcileInbox;
  /**
   * The entries in your ledger, in any order. They are read once. Include every entry whose event was created in the span;
   * others are skipped. Don't query the ledger until the first entry is requested, because the inbox must be read first.
   */
  readonly ledger: AsyncIterable<Entry> | Iterable<Entry>;
  /**
   * When the ledger was copied, if `ledger` is a copy such as an exported file. The copy need not contain entries for
   * events that were done after this time. By default, the span ends no later than this time.
   * @default `ledger` is not a copy
   */
  readonly copiedAt?: Date | undefined;
  /** The start of the span. Events created before this time, or before the poller's start date, are skipped. */
  readonly since: Date;
  /** The end of the span, exclusive. @default `lagMs` before now, because the service may not list newer events yet */
  readonly until?: Date | undefined;
  /**
   * Compares an entry with its event. Returns a description of each difference, or nothing if there is none. Compare
   * amounts with `sameAmount`, never as numbers. @default nothing is compared
   */
  readonly compare?:
    | ((entry: Entry, event: UnknownEvent) => string | readonly string[] | undefined)
    | undefined;
  /**
   * Returns the key of the movement that an event is about, such as `event.payload.transfer_id`. Two events with the
   * same type and key are reported as `duplicate-movement`. @default movements are not compared
   */
  readonly keyOf?: ((event: UnknownEvent) => unknown) | undefined;
  /** The event types that require a ledger entry for each event that is done. @default all five types */
  readonly ledgerTypes?: readonly EventType[] | undefined;
  /** Whether to count the events and entries for each day and type, and add up their amounts. @default false */
  readonly daily?: boolean | undefined;
  /** Functions that return the amounts that `daily` adds up. @default no sums */
  readonly amounts?: Amounts<Entry> | undefined;
  /**
   * Whether to only report, without changing anything. Otherwise, `reconcile` also records each listed event that is in
   * neither the inbox nor the ledger. A recorded event is due immediately, and your app's redrive or poller runs it once.
   * @default false
   */
  readonly dryRun?: boolean | undefined;
  /** Ends the run early when aborted. The promise rejects with the signal's reason. Recorded events stay in the inbox. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each finding and awaited. If the function throws or rejects, the run ends. @default none */
  readonly onFinding?: ((finding: Finding) => void | Promise<void>) | undefined;
  /** Called after each page of events, entries or ids. @default none */
  readonly onProgress?: ((progress: ReconcileProgress) => void) | undefined;
}

export type ReconcileSettings<Entry extends LedgerEntry> = ReturnType<typeof toReconcileSettings<Entry>>;

const NEVER = new AbortController().signal;

export function toReconcileSettings<Entry extends LedgerEntry>(options: ReconcileOptions<Entry>) {
  const settings = readOptions('reconcile', options, {
    ...LIST_RULES,
    inbox: inboxWith('record', 'find', 'list', 'count', 'readNote'),
    ledger: required(rule('an iterable of entries, such as an array or an async generator', isIterable)),
    copiedAt: date(),
    since: required(date()),
    until: date(),
    compare: func(),
    keyOf: func((): unknown => undefined),
    ledgerTypes: rule(
      `an array of event types (${EVENT_TYPES.join(', ')})`,
      (types) => Array.isArray(types) && types.every(isEventType),
      EVENT_TYPES,
    ),
    daily: boolean(false),
    amounts: withMethods('an object with the functions `event` and `entry`', ['event', 'entry']),
    dryRun: boolean(false),
    signal: abortSignal(NEVER),
    onFinding: func((): void => undefined),
    onProgress: func((): void => undefined),
  });
  return {
    ...settings,
    maxLimit: Math.max(settings.maxLimit, settings.listMax ?? 0),
    inbox: orInboxFailed(settings.inbox),
    ledgerTypes: new Set<string>(settings.ledgerTypes),
    copiedAt: settings.copiedAt?.getTime() ?? Number.POSITIVE_INFINITY,
    runtime: toRuntime(settings.runtime),
  };
}

function isIterable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const {
    [Symbol.asyncIterator]: many,
    [Symbol.iterator]: some,
  }: Partial<AsyncIterable<unknown> & Iterable<unknown>> = value;
  return typeof (many ?? some) === 'function';
}

export function orInboxFailed<Part extends object>(inbox: Part): Part {
  const methods = inbox as Readonly<Record<PropertyKey, (...args: readonly unknown[]) => unknown>>;
  const get =
    (_: object, name: PropertyKey) =>
    async (...args: readonly unknown[]) =>
      orUnavailable('ERR_INBOX_FAILED', () => methods[name]?.(...args));
  // The proxy does not wrap the inbox itself, because the inbox may be frozen.
  return new Proxy({}, { get }) as Part;
}
