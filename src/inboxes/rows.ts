/** The rows of stores, as their statements and scripts return them. */
import { decodeEvent, parseJson } from '../core/events.js';
import type { InboxAttempt, InboxRecord, InboxStep } from '../core/ports.js';

/**
 * Returns the first 1,000 characters of a text for operators, with replacements for characters that some store cannot
 * keep.
 */
export const toStorable = (text: string) => text.slice(0, 1_000).replaceAll(/\0|\p{Cs}/gu, '\ufffd');

/**
 * The row of an {@link InboxRecord}. Column names have one word, because data layers may rename longer names, for
 * example to camel case.
 */
export interface EventRow extends Pick<InboxRecord, 'id' | 'type' | 'state' | 'attempts' | 'key'> {
  readonly source: InboxRecord['origin'];
  /** Epoch ms, like the other times. */
  readonly received: number;
  readonly updated: number;
  readonly due: number | null;
  readonly error: string | null;
  readonly json: string | null;
  readonly history: string | null;
}

/** Drivers may be configured to return NULL as `undefined` and numbers as text. */
export function toRecord(row: EventRow): InboxRecord {
  const isFirst = row.state === 'done' && Number(row.attempts) === 1 && (row.json ?? null) !== null;
  const history = parseJson(row.history ?? (isFirst ? firstAttempt(row) : ''));
  return {
    id: row.id,
    type: row.type,
    state: row.state,
    attempts: Number(row.attempts),
    origin: row.source,
    key: row.key ?? null,
    receivedAt: Number(row.received),
    updatedAt: Number(row.updated),
    dueAt: (row.due ?? null) === null ? null : Number(row.due),
    lastError: row.error ?? null,
    ignored: isIgnored(row),
    history: Array.isArray(history) ? (history as readonly InboxAttempt[]) : [],
    event: decodeEvent(row.id, row.json),
  };
}

/** Like `IGNORED` in SQL; in Redis, the history is empty. */
const isIgnored = ({ state, attempts, json, history }: EventRow) =>
  state === 'done' && Number(attempts) === 0 && (json ?? null) !== null && (history ?? '[]') === '[]';

/** The history of a first attempt that succeeded in a transaction, which is stored when it begins. */
function firstAttempt({ received, updated }: EventRow): string {
  const attempt = { attempt: 1, startedAt: Number(received), endedAt: Number(updated) };
  return JSON.stringify([{ ...attempt, result: 'done', error: null }]);
}

/** A step as a store returns it. Drivers may be configured to return NULL as `undefined` and numbers as text. */
export interface StepRow {
  /** `null` in the row of an event without steps. */
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
  /** `null` in a note that has been leased but not written. */
  readonly text: string | null;
}

export const toNote = ([row]: readonly NoteRow[]) => row?.text ?? null;
