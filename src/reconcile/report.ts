/** The result of a comparison. Plain data: it survives `JSON.stringify`. */
import { describeReason } from '../catch-up/gap-text.js';
import type { PollProblem } from '../catch-up/problems.js';
import type { GapReason } from '../catch-up/state.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import type { InboxState } from '../core/ports.js';
import type { DailyTotal } from './daily.js';

const KINDS = [
  'unseen',
  'missing',
  'doubled',
  'extra',
  'mismatched',
  'waiting',
  'dead',
  'unlisted',
  'conflicting',
  'duplicate-movement',
] as const;

/**
 * The kinds of findings about one event or one ledger entry.
 *
 * - `unseen`: the service lists the event, and the inbox does not have it.
 * - `missing`: the event is done, and the ledger has no entry for it.
 * - `doubled`: the ledger has several entries of the event.
 * - `extra`: the ledger has an entry of an event that neither the list nor the inbox has, or of a type without entries.
 * - `mismatched`: `compare` says that the entry and the event differ.
 * - `waiting`: the event is in the inbox, and no attempt at it has succeeded yet.
 * - `dead`: the event is dead-lettered.
 * - `unlisted`: the inbox has the event, and the service does not list it, although the list was complete for its time.
 * - `conflicting`: different events have its id: the inbox has another one than the list, or the list has two. Events
 *   differ if their type, time or payload does; of two in the list, any field but `delivered`.
 * - `duplicate-movement`: another event of its type has its `keyOf`: the service sent one movement under two ids.
 */
export type FindingKind = (typeof KINDS)[number];

/** One thing that is wrong. An event may have several findings, even of one kind. */
export interface Finding {
  readonly kind: FindingKind;
  /** The event's id. */
  readonly id: string;
  /** The event's type; `null` when only the ledger has the id. */
  readonly type: string | null;
  /** When the event was created, ISO; `null` when only the ledger has the id, or the event is pruned. */
  readonly createdAt: string | null;
  /** Its state in the inbox; `null` when the inbox does not have it. */
  readonly state: InboxState | null;
  /** How many entries the ledger has for it. */
  readonly entries: number;
  /** The finding and its fix: one or two sentences. */
  readonly detail: string;
}

/** How often something was found, and where. */
export interface FindingCount {
  readonly count: number;
  /** The ids, at most 1,000. */
  readonly ids: readonly string[];
}

/**
 * Why a span is not proven: as for a gap of the poller; `not-settled`: later events of it may still be listed;
 * `acknowledged`: a person acknowledged a gap without proof.
 */
export type UnprovenReason = GapReason | 'not-settled' | 'acknowledged';

/** A span of `created_at` in which events may be missing from both the list and the inbox. Times are ISO. */
export interface UnprovenPart {
  readonly types: readonly EventType[];
  /** Events created after this time may be missing. */
  readonly from: string;
  /** Events created after this time are not part of it. */
  readonly until: string;
  readonly reason: UnprovenReason;
}

/** The result of `reconcile`. */
export interface ReconcileResult {
  /**
   * Whether the list is complete, without findings and without anything unjudged. Also true if nothing was compared, for
   * example on a quiet day: see `totals` and `diagnosis`.
   */
  readonly agree: boolean;
  /**
   * Whether every event of the five types created in the span is in the list or the inbox: proven by the answers of the
   * list or by the polls before.
   */
  readonly complete: boolean;
  /** Where that is not proven; empty when it is `complete`. */
  readonly unproven: readonly UnprovenPart[];
  /** Whether the books agree, or why not: a few sentences for an operator. */
  readonly diagnosis: string;
  /** The span begins with this time of `created_at`, ISO: the option `since`, or the poller's start date if that is later. */
  readonly since: string;
  /** Events created at this time or later are not part of the span, ISO. */
  readonly until: string;
  readonly totals: {
    /** Events in the span that the list returned. */
    readonly listed: number;
    /** Events in the span that the inbox had when it was read. */
    readonly inbox: number;
    /** Ledger entries for events in the span, and for unknown events. */
    readonly entries: number;
    /** Ledger entries that are left out because their events are outside the span. */
    readonly outside: number;
    /** Ledger entries that were passed to `compare`. */
    readonly compared: number;
    /** Parked events of unknown types. They aren't findings: this release cannot run them. */
    readonly parked: number;
    /** The events of `unseen` that this run recorded. Always 0 in a dry run. */
    readonly recorded: number;
    /** Pruned events, and events that ended while the books were read. */
    readonly unjudged: number;
  };
  readonly findings: Readonly<Record<FindingKind, FindingCount>>;
  /** Totals per day, type and currency; `null` without the option `daily`. */
  readonly daily: readonly DailyTotal[] | null;
  /** Problems of the answers of the list. */
  readonly problems: readonly PollProblem[];
  /** Requests to the list; the client's own retries are not counted. */
  readonly requests: number;
  readonly dryRun: boolean;
}

export type Totals = { -readonly [Name in keyof ReconcileResult['totals']]: number };

const MAX_IDS = 1_000;

export class FindingLog {
  readonly found = Object.fromEntries(
    KINDS.map((kind) => [kind, { count: 0, ids: [] as string[] }]),
  ) as Record<FindingKind, { count: number; readonly ids: string[] }>;
  readonly #onFinding: (finding: Finding) => unknown;

  constructor(onFinding: (finding: Finding) => unknown) {
    this.#onFinding = onFinding;
  }

  async add(finding: Finding): Promise<void> {
    const found = this.found[finding.kind];
    found.count += 1;
    if (found.ids.length < MAX_IDS && !found.ids.includes(finding.id)) found.ids.push(finding.id);
    await this.#onFinding(finding);
  }

  isEmpty(): boolean {
    return Object.values(this.found).every(({ count }) => count === 0);
  }
}

export function describeResult({
  findings,
  totals,
  unproven,
  since,
  until,
  dryRun,
  notes,
}: Omit<ReconcileResult, 'agree' | 'complete' | 'diagnosis' | 'daily' | 'problems' | 'requests'> & {
  readonly notes: readonly string[];
}): string {
  const kinds = Object.entries(findings).filter(([, { count }]) => count > 0);
  const span = `created from ${since} and before ${until}`;
  const sentences = [describeFindings()];
  if (totals.recorded > 0) {
    sentences.push(
      `Recorded ${totals.recorded} unseen, which the app's redrive or poller runs. Reconcile again afterwards.`,
    );
  } else if (dryRun && findings.unseen.count > 0) sentences.push('This was a dry run: nothing was recorded.');
  const [first] = unproven;
  if (first !== undefined) {
    const more =
      unproven.length > 1 ? ` and ${unproven.length - 1} other span${unproven.length > 2 ? 's' : ''}` : '';
    sentences.push(
      `It is not proven that these are all events: ${first.types.length === EVENT_TYPES.length ? 'events' : `events of ${first.types.join(', ')}`} created after ${first.from} and up to ${first.until}${more} may be missing. ${describeUnproven(first.reason)}`,
    );
  }
  if (totals.unjudged > 0) {
    sentences.push(
      `${totals.unjudged} could not be judged, because they finished while the books were being read, or their payloads have been pruned. Reconcile again, and more often than you prune.`,
    );
  }
  return [...sentences, ...notes].join(' ');

  function describeFindings(): string {
    if (kinds.length > 0) {
      return `Of the events ${span}: ${kinds.map(([kind, { count }]) => `${count} ${kind}`).join(', ')}.`;
    }
    const { listed, inbox, entries, compared } = totals;
    if (entries > 0 && compared === 0) {
      return `Nothing is missing or doubled among the ${inbox} events ${span} and their ${entries} ledger entries. Amounts and other values were not compared.`;
    }
    if (listed + inbox + entries > 0) {
      return `Nothing is wrong with the ${inbox} events ${span} and their ${entries} ledger entries.`;
    }
    return `Nothing was compared: neither the list nor the inbox has an event ${span}, and the ledger has no entry of one.`;
  }
}

/** Other words where the advice of a gap, which is about the next poll, does not help. */
export function describeUnproven(reason: UnprovenReason): string {
  switch (reason) {
    case 'unconfirmed':
      return describeReason(reason);
    case 'not-reached':
      return 'The list does not show that it reaches back so far, and no poll has proven it. Ask the service for its records of that time, and let a poller run from now on.';
    case 'removed':
      return 'Events of the span may have left the list before a poll saw them. Ask the service for its records of that time, and poll more often.';
    case 'clock':
      return 'A clock was wrong then. Check the clocks, and ask the service for its records of that time.';
    case 'acknowledged':
      return 'A person acknowledged the gap there, which proves nothing: the list of gaps says who, when and why.';
    case 'not-settled':
      return 'They are so new that more of them may still be listed. Choose an earlier end, or reconcile again later.';
    default:
      return describeReason(reason);
  }
}
