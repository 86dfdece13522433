/** The rows of stores, as their statements and scripts return them. */
import type { UnknownEvent } from '../core/events.js';
import {
  INBOX_STATES,
  type InboxAttempt,
  type InboxCount,
  type InboxRecord,
  type OldestListed,
  type PollState,
  type StoredEvent,
  type StoredGap,
} from '../core/ports.js';

/** The value of a text in JSON; `undefined` if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The stored text of an event; `null` once it is pruned. */
interface Stored extends Pick<InboxRecord, 'id' | 'state'> {
  readonly json: string | null;
}

/** The event of a record; damaged if the text is not JSON, or not that of the event. */
export function readStored({ id, state, json }: Stored): Pick<InboxRecord, 'event' | 'damaged'> {
  if ((json ?? null) === null && state === 'done') return { event: null };
  const event = parseJson(json ?? '') as UnknownEvent | null | undefined;
  return event?.id === id ? { event } : { event: null, damaged: true };
}

/** The due events. Damaged ones are left out and named. */
export function toStored(
  due: readonly Omit<Stored, 'state'>[],
  onDamaged: ((id: string) => void) | undefined,
): readonly StoredEvent[] {
  return due.flatMap(({ id, json }) => {
    const { event } = readStored({ id, json, state: 'received' });
    if (event !== null && json !== null) return [{ event, json }];
    onDamaged?.(id);
    return [];
  });
}

/** An {@link InboxRecord}. Names have one word: data layers can be told to rename others, as to camel case. */
export interface EventRow
  extends Pick<InboxRecord, 'id' | 'type' | 'state' | 'attempts' | 'key' | 'traceparent'> {
  readonly source: InboxRecord['origin'];
  /** Epoch ms, as the others. */
  readonly received: number;
  readonly updated: number;
  readonly due: number | null;
  readonly error: string | null;
  /** The event. */
  readonly json: string | null;
  /** JSON. */
  readonly history: string | null;
}

/** Drivers can be told to read NULL as `undefined` and numbers as text. */
const numberOr = <None>(value: number | null | undefined, none: None) =>
  value === null || value === undefined ? none : Number(value);

export function toRecord(row: EventRow): InboxRecord {
  const history = parseJson(row.history ?? '');
  return {
    id: row.id,
    type: row.type,
    state: row.state,
    attempts: Number(row.attempts),
    origin: row.source,
    key: row.key ?? null,
    traceparent: row.traceparent ?? null,
    receivedAt: Number(row.received),
    updatedAt: Number(row.updated),
    dueAt: numberOr(row.due, null),
    lastError: row.error ?? null,
    history: Array.isArray(history) ? (history as readonly InboxAttempt[]) : [],
    ...readStored(row),
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
    since: numberOr(since, null),
    watermark: numberOr(watermark, null),
    gaps: JSON.parse(gaps) as readonly StoredGap[],
    limit: Number(limit),
    oldest: JSON.parse(oldest ?? 'null') as OldestListed | null,
  };
}

/** An entry for each state, from the rows of those that have events. */
export function toCounts(rows: readonly InboxCount[]): readonly InboxCount[] {
  return INBOX_STATES.map((state) => {
    const row = rows.find((each) => each.state === state);
    return { state, count: Number(row?.count ?? 0), oldest: numberOr(row?.oldest, null) };
  });
}
