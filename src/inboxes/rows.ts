/** The rows of stores, as their statements and scripts return them. */
import type { UnknownEvent } from '../core/events.js';
import type { InboxAttempt, InboxRecord, InboxStep, StoredEvent } from '../core/ports.js';

/** The value of a text in JSON; `undefined` if it is not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The first 1,000 characters of a text for operators, without those that some store cannot keep. */
export const toStorable = (text: string) => text.slice(0, 1_000).replaceAll(/\0|\p{Cs}/gu, '\ufffd');

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

export type DueRow = Omit<Stored, 'state'>;

/** The due events. Damaged ones are left out and named. */
export function toStored(
  due: readonly DueRow[],
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
  readonly json: string | null;
  readonly history: string | null;
}

/** Drivers can be told to read NULL as `undefined` and numbers as text. */
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
    dueAt: (row.due ?? null) === null ? null : Number(row.due),
    lastError: row.error ?? null,
    history: Array.isArray(history) ? (history as readonly InboxAttempt[]) : [],
    ...readStored(row),
  };
}

/** A step as a store has it. Drivers can be told to read NULL as `undefined` and numbers as text. */
export interface StepRow {
  /** None in the row of an event without steps. */
  readonly name: string | null;
  readonly attempt: number | string | null;
  readonly at: number | string | null;
  readonly result: string | null;
}

export function toSteps(rows: readonly StepRow[]): readonly InboxStep[] {
  return rows.flatMap(({ name, attempt, at, result }) =>
    name ? { name, attempt: Number(attempt), at: Number(at), result: result ?? null } : [],
  );
}

export interface NoteRow {
  /** None in a note that is leased and not written. */
  readonly text: string | null;
}

export const toNote = ([row]: readonly NoteRow[]) => row?.text ?? null;
