import { describeReason } from '../catch-up/gap-text.js';
import type { PollProblem } from '../catch-up/problems.js';
import type { GapReason } from '../catch-up/state.js';
import { countOf } from '../core/count.js';
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
 * The kind of a {@link Finding}. "The list" is the service's event list.
 *
 * - `unseen`: the service lists the event, but the inbox doesn't have it.
 * - `missing`: the event is done, but the ledger has no entry for it.
 * - `doubled`: the ledger has several entries for the event.
 * - `extra`: the ledger has an entry for an event that is in neither the list nor the inbox, or for an event whose type
 *   must not have entries.
 * - `mismatched`: `compare` found a difference between the entry and the event.
 * - `waiting`: the event is in the inbox, but no attempt to handle it has succeeded yet.
 * - `dead`: the event is dead-lettered.
 * - `unlisted`: the inbox has the event, but the service doesn't list it, although the list is complete for the time when
 *   the event was created.
 * - `conflicting`: two different events have this id: either one in the inbox and one in the list, or two in the list. An
 *   event in the inbox differs from a listed event if its type, time or payload is different. Two listed events differ if
 *   any field except `delivered` is different.
 * - `duplicate-movement`: `keyOf` returned the same key for another event of the same type, so the service sent one
 *   movement under two ids.
 */
export type FindingKind = (typeof KINDS)[number];

/** A problem with one event or ledger entry. An event can have several findings, even of the same kind. */
export interface Finding {
  readonly kind: FindingKind;
  /** The event's id. */
  readonly id: string;
  /** The event's type; `null` when only the ledger has the id. */
  readonly type: string | null;
  /** The time at which the event was created, in ISO 8601; `null` if only the ledger has the id or if the event was pruned. */
  readonly createdAt: string | null;
  /** The event's state in the inbox; `null` when the inbox doesn't have the event. */
  readonly state: InboxState | null;
  /** How many entries the ledger has for the event. */
  readonly entries: number;
  /** What is wrong and how to fix it, in a few sentences. */
  readonly detail: string;
}

/** How many findings of one kind there are, and which events they are about. */
export interface FindingCount {
  readonly count: number;
  /** The ids of up to 1,000 of these events. */
  readonly ids: readonly string[];
}

/**
 * Why it is not proven that every event in a span is known. Two reasons never apply to a poller's gap. `not-settled` means
 * that the span is so recent that more of its events may yet be listed. `acknowledged` means that someone acknowledged a
 * gap in this span, but that proves nothing.
 */
export type UnprovenReason = GapReason | 'not-settled' | 'acknowledged';

/** A span in which events may be missing from both the service's list and the inbox. Times are in ISO 8601. */
export interface UnprovenPart {
  readonly types: readonly EventType[];
  /** The start of the span, exclusive. */
  readonly from: string;
  /** The end of the span, inclusive. */
  readonly until: string;
  readonly reason: UnprovenReason;
}

/** The result of `reconcile`. */
export interface ReconcileResult {
  /**
   * Whether the books agree: there are no findings, every event could be judged, and `complete` is `true`. The books also
   * agree if there was nothing to compare, for example on a quiet day, so check `totals` and `diagnosis` as well.
   */
  readonly agree: boolean;
  /**
   * Whether it is proven that the service's list or the inbox has every event of the five types that was created in the
   * span. The proof comes from the service's responses or from earlier polls.
   */
  readonly complete: boolean;
  /** The parts of the span for which it is not proven that every event is known. Empty if `complete` is `true`. */
  readonly unproven: readonly UnprovenPart[];
  /** A few sentences that tell an operator whether the books agree and, if they don't, why. */
  readonly diagnosis: string;
  /** The start of the span, inclusive, in ISO 8601: `since` or the poller's start date, whichever is later. */
  readonly since: string;
  /** The end of the span, exclusive, in ISO 8601. */
  readonly until: string;
  readonly totals: {
    /** Events in the span that the service listed. */
    readonly listed: number;
    /** Events in the span that the inbox had when it was read. */
    readonly inbox: number;
    /** Ledger entries for events in the span, and for events that neither the service's list nor the inbox has. */
    readonly entries: number;
    /** Ledger entries that were skipped because their events are outside the span. */
    readonly outside: number;
    /** Ledger entries that were passed to `compare`. */
    readonly compared: number;
    /** Parked events of unknown types. They aren't findings, because this release cannot run them. */
    readonly parked: number;
    /** Unseen events that this run recorded. Always 0 in a dry run. */
    readonly recorded: number;
    /** Events that could not be judged, because they changed while the books were being read, or had been pruned. */
    readonly unjudged: number;
  };
  readonly findings: Readonly<Record<FindingKind, FindingCount>>;
  /** Totals for each day, type and currency; `null` if the option `daily` was not set. */
  readonly daily: readonly DailyTotal[] | null;
  /** Problems with the service's responses. */
  readonly problems: readonly PollProblem[];
  /** How many times the service's event list was requested. The client's own retries don't count. */
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
  const span = `the span from ${since} to ${until}`;
  const sentences = [describeFindings()];
  if (totals.recorded > 0) {
    sentences.push(
      `Recorded ${countOf(totals.recorded, 'unseen event')}. Reconcile again after your app's redrive or poller has run.`,
    );
  } else if (dryRun && findings.unseen.count > 0)
    sentences.push('This was a dry run, so nothing was recorded.');
  const [first] = unproven;
  if (first !== undefined) {
    const more =
      unproven.length > 1 ? ` The same is true of ${countOf(unproven.length - 1, 'other span')}.` : '';
    sentences.push(
      `It is not proven that no events are missing. ${first.types.length === EVENT_TYPES.length ? 'Events' : `Events of ${first.types.join(', ')}`} created after ${first.from} and up to ${first.until} may be missing.${more} ${describeUnproven(first.reason)}`,
    );
  }
  if (totals.unjudged > 0) {
    sentences.push(
      `${countOf(totals.unjudged, 'event')} could not be judged. An event cannot be judged if it changes while the books are being read, or once it has been pruned. Reconcile again, and more often than you prune.`,
    );
  }
  return [...sentences, ...notes].join(' ');

  function describeFindings(): string {
    if (kinds.length > 0) {
      return `Findings in ${span}: ${kinds.map(([kind, { count }]) => `${count} ${kind}`).join(', ')}.`;
    }
    const { listed, inbox, entries, compared } = totals;
    if (listed + inbox + entries > 0) {
      const onlyIds =
        entries > 0 && compared === 0 ? ' Only ids were compared, not amounts or other values.' : '';
      return `No problems were found in ${span} (${countOf(inbox, 'event')}, ${countOf(entries, 'ledger entry', 'ledger entries')}).${onlyIds}`;
    }
    return `Nothing was compared: the service's list and the inbox have no events in ${span}, and the ledger has no entries for such events.`;
  }
}

/** Says why a span is not proven. The advice for a poller's gap is replaced where the next poll can't help. */
export function describeUnproven(reason: UnprovenReason): string {
  switch (reason) {
    case 'unconfirmed':
      return describeReason(reason);
    case 'not-reached':
      return "The service's list may not reach back that far, and no poll has proven that no events from that period are missing. Ask the service for its records from that period, and keep a poller running from now on.";
    case 'removed':
      return 'The service may have removed events from the list before a poll saw them. Ask the service for its records from that period, and poll more often.';
    case 'clock':
      return 'A clock was wrong at that time. Check the clocks, and ask the service for its records from that period.';
    case 'acknowledged':
      return 'Someone acknowledged a gap in this span, but that proves nothing. The list of gaps shows who acknowledged it, when and why.';
    case 'not-settled':
      return 'The span is so recent that more of its events may yet appear in the list. Choose an earlier end, or reconcile again later.';
    default:
      return describeReason(reason);
  }
}
