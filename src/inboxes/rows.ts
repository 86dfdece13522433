import { decodeEvent, parseJson } from '../core/events.js';
import type { InboxAttempt, InboxRecord, InboxStep } from '../core/ports.js';

/** Keeps the first 1,000 characters, and replaces each character that some store can't keep. */
export const toStorable = (text: string) => text.slice(0, 1_000).replaceAll(/\0|\p{Cs}/gu, '\ufffd');

/** Column names are single words, because some data layers rename longer names, for example to camel case. */
export interface EventRow extends Pick<InboxRecord, 'id' | 'type' | 'state' | 'attempts' | 'key'> {
  readonly source: InboxRecord['origin'];
  /** All times in this row are in epoch ms. */
  readonly received: number;
  readonly updated: number;
  readonly due: number | null;
  readonly error: string | null;
  readonly json: string | null;
  readonly history: string | null;
}

/** A driver can be configured to return NULL as `undefined` and numbers as text. */
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

/** The condition is the same as `IGNORED` in SQL, but Redis returns an empty history instead of NULL. */
const isIgnored = ({ state, attempts, json, history }: EventRow) =>
  state === 'done' && Number(attempts) === 0 && (json ?? null) !== null && (history ?? '[]') === '[]';

/** An event whose first attempt succeeded in a transaction was stored when that transaction began, so it has no history. */
function firstAttempt({ received, updated }: EventRow): string {
  const attempt = { attempt: 1, startedAt: Number(received), endedAt: Number(updated) };
  return JSON.stringify([{ ...attempt, result: 'done', error: null }]);
}

export interface StepRow {
  /** The name is `null` if the event has no steps. */
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
  /** The text is `null` if the note has been leased but never written. */
  readonly text: string | null;
}

export const toNote = ([row]: readonly NoteRow[]) => row?.text ?? null;
