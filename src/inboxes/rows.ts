/** The rows of stores, as their statements and scripts return them. */
import type { UnknownEvent } from '../core/events.js';
import {
  INBOX_STATES,
  type InboxAttempt,
  type InboxCount,
  type InboxRecord,
  type OldestListed,
  type PollState,
  type StoredGap,
} from '../core/ports.js';

/** An {@link InboxRecord}. Names have one word: data layers can be told to rename others, as to camel case. */
export interface EventRow
  extends Pick<InboxRecord, 'id' | 'type' | 'state' | 'attempts' | 'key' | 'traceparent'> {
  readonly source: InboxRecord['origin'];
  /** Epoch ms, as the others. */
  readonly received: number;
  readonly updated: number;
  readonly due: number | null;
  readonly error: string | null;
  /** JSON. */
  readonly event: string | null;
  /** JSON. */
  readonly history: string | null;
}

export function toRecord(row: EventRow): InboxRecord {
  return {
    id: row.id,
    type: row.type,
    state: row.state,
    attempts: row.attempts,
    origin: row.source,
    key: row.key,
    traceparent: row.traceparent,
    receivedAt: row.received,
    updatedAt: row.updated,
    dueAt: row.due,
    lastError: row.error,
    history: row.history === null ? [] : (JSON.parse(row.history) as readonly InboxAttempt[]),
    event: row.event === null ? null : (JSON.parse(row.event) as UnknownEvent),
  };
}

/** A {@link PollState}. */
export interface PollRow extends Omit<PollState, 'gaps' | 'oldest'> {
  /** JSON. */
  readonly gaps: string;
  /** JSON. */
  readonly oldest: string | null;
}

export function toPollState({ since, watermark, gaps, limit, oldest }: PollRow): PollState {
  return {
    since,
    watermark,
    gaps: JSON.parse(gaps) as readonly StoredGap[],
    limit,
    oldest: oldest === null ? null : (JSON.parse(oldest) as OldestListed),
  };
}

/** An entry for each state, from the rows of those that have events. */
export function toCounts(rows: readonly InboxCount[]): readonly InboxCount[] {
  return INBOX_STATES.map((state) => {
    const { count, oldest } = rows.find((row) => row.state === state) ?? { count: 0, oldest: null };
    return { state, count, oldest };
  });
}
