/** Which events an operation is about, in SQL and in this process. */
import type { InboxRecord } from '../core/ports.js';
import type { readListOptions, Selection } from './operation-options.js';

type Condition = Exclude<keyof Selection, 'states'>;

/** The SQL of each condition, with `?` for its value. */
export type ConditionSql = Readonly<Record<Condition, string>>;

/** A part of a statement, and its values in the order of their `?`. */
export interface SqlPart {
  readonly text: string;
  readonly values: readonly (string | number | readonly string[])[];
}

/** The condition of a selection. */
export function toWhere({ states, ...selection }: Selection, sql: ConditionSql): SqlPart {
  const names = (Object.keys(sql) as Condition[]).filter((name) => selection[name] !== undefined);
  // The names of states are checked.
  const ofStates = states.length === 0 ? '1 = 0' : `state IN (${states.map((each) => `'${each}'`).join()})`;
  return {
    text: [ofStates, ...names.map((name) => sql[name])].join(' AND '),
    values: names.flatMap((name) => {
      const value = selection[name];
      return value === undefined || value === true ? [] : [value];
    }),
  };
}

/** The statement that lists events. Each state is read from the index of the states on its own. */
export function writeList(
  { selection, limit, after, order }: ReturnType<typeof readListOptions>,
  { columns, events, sql }: { readonly columns: string; readonly events: string; readonly sql: ConditionSql },
): SqlPart {
  const [isAfter, direction] = order === 'oldest' ? ['>', 'ASC'] : ['<', 'DESC'];
  const place = `(received_at, id) ${isAfter} ((SELECT received_at FROM ${events} WHERE id = ?), ?)`;
  const end = `ORDER BY received_at ${direction}, id ${direction} LIMIT ${limit}`;
  const lists = selection.states.map((state): SqlPart => {
    const { text, values } = toWhere({ ...selection, states: [state] }, sql);
    const from = `SELECT ${columns}, received_at FROM ${events} WHERE ${text}`;
    if (after === undefined) return { text: `${from} ${end}`, values };
    return { text: `${from} AND ${place} ${end}`, values: [...values, after, after] };
  });
  const union = (parts: readonly string[]) =>
    parts.map((text) => `SELECT * FROM (${text}) AS part`).join(' UNION ALL ');
  const texts = lists.map(({ text }) => text);
  // Two levels: Durable Objects allow five terms, and there are six states.
  const all = union(
    [texts.slice(0, 3), texts.slice(3)].flatMap((part) => (part.length > 0 ? union(part) : [])),
  );
  return {
    text: `SELECT * FROM (${all}) AS listed ${end}`,
    values: lists.flatMap(({ values }) => values),
  };
}

/** Whether an event is part of a selection. */
export function isSelected(
  record: Omit<InboxRecord, 'history' | 'event' | 'origin'>,
  selection: Selection,
): boolean {
  const { ids, states, type, key, error, receivedSince = 0, updatedSince = 0 } = selection;
  const { receivedUntil = Infinity, updatedUntil = Infinity } = selection;
  const { receivedAt, updatedAt } = record;
  return (
    states.includes(record.state) &&
    (ids === undefined || ids.includes(record.id)) &&
    (type === undefined || record.type === type) &&
    (key === undefined || record.key === key) &&
    (error === undefined || record.lastError?.includes(error) === true) &&
    (selection.damaged === undefined || (record.damaged === true && record.state !== 'done')) &&
    receivedSince <= receivedAt &&
    receivedAt < receivedUntil &&
    updatedSince <= updatedAt &&
    updatedAt < updatedUntil
  );
}

/** The order of lists: by when they were received, then by id. */
export function byAge(a: Age, b: Age): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

type Age = Pick<InboxRecord, 'id' | 'receivedAt'>;
