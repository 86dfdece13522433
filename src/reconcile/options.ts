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
export type ReconcileInbox = Pick<Inbox<unknown>, 'record' | 'readNote'> &
  Pick<InboxOperations, 'find' | 'list' | 'count'>;

/** The progress of a run. */
export interface ReconcileProgress {
  /** The inbox and the ledger are read in this order, then suspicious ids are looked up again. */
  readonly step: 'inbox' | 'ledger' | 'findings';
  /** Events, entries or ids so far. */
  readonly done: number;
  /** How many in all, if that is known. */
  readonly total: number | undefined;
}

/** Options of {@link reconcile}. Use the `lagMs`, `disorderMs` and `listMax` of the poller. */
export interface ReconcileOptions<Entry extends LedgerEntry = LedgerEntry>
  extends Pick<
    PollerOptions,
    'client' | 'limit' | 'maxLimit' | 'listMax' | 'lagMs' | 'disorderMs' | 'runtime'
  > {
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
  /** Events created at this time or later are left out. @default `lagMs` before now: later events may still be listed */
  readonly until?: Date | undefined;
  /**
   * Compares an entry with its event; returns the differences in words, or nothing. Compare amounts with
   * `sameAmount`, never as numbers. @default nothing is compared
   */
  readonly compare?:
    | ((entry: Entry, event: UnknownEvent) => string | readonly string[] | undefined)
    | undefined;
  /**
   * The key of the movement that an event is about, such as `event.payload.transfer_id`. Two events of one type and key
   * are reported as `duplicate-movement`. @default movements are not compared
   */
  readonly keyOf?: ((event: UnknownEvent) => unknown) | undefined;
  /** The types that have a ledger entry once they are done. @default all five */
  readonly ledgerTypes?: readonly EventType[] | undefined;
  /** Whether to add up events and entries per day and type. @default false */
  readonly daily?: boolean | undefined;
  /** Where the amounts are, for the sums of `daily`. @default no sums */
  readonly amounts?: Amounts<Entry> | undefined;
  /**
   * Changes nothing. Otherwise listed events that neither the inbox nor the ledger has are recorded in the inbox, due
   * now, so the app's redrive or poller runs each once. @default false
   */
  readonly dryRun?: boolean | undefined;
  /** Ends the run early: it rejects with the reason. Events that were recorded stay. */
  readonly signal?: AbortSignal | undefined;
  /** Called with every finding, and awaited. Its rejection ends the run. @default none */
  readonly onFinding?: ((finding: Finding) => void | Promise<void>) | undefined;
  /** Called after each page. @default none */
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

/** The inbox, whose errors become `ERR_INBOX_FAILED`. */
export function orInboxFailed<Part extends object>(inbox: Part): Part {
  const methods = inbox as Readonly<Record<PropertyKey, (...args: readonly unknown[]) => unknown>>;
  const get =
    (_: object, name: PropertyKey) =>
    async (...args: readonly unknown[]) =>
      orUnavailable('ERR_INBOX_FAILED', () => methods[name]?.(...args));
  // Not over the inbox itself, which may be frozen.
  return new Proxy({}, { get }) as Part;
}
