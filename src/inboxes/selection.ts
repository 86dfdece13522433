import type { InboxFilter, InboxRecord, InboxState } from '../core/ports.js';

export interface Selection extends Omit<InboxFilter, 'state'> {
  readonly states: readonly InboxState[];
  /** Selects only events in which every step has a result. */
  readonly known?: true | undefined;
  /** Selects only leases that start in the future because a clock was ahead, except leases with tokens in `held`. */
  readonly ahead?: true | undefined;
  /** Selects only leases that have expired, and the leases that `ahead` selects. */
  readonly expired?: true | undefined;
  readonly held?: readonly string[] | undefined;
}

/** A lease that starts more than this many ms in the future is valid only for its holder. */
export const AHEAD_MS = 60_000;

/** An operation changes at most `limit` of the selected events, oldest first. */
export interface Limited {
  readonly selection: Selection;
  readonly limit: number;
}

export interface PageQuery extends Limited {
  readonly after: string | undefined;
  readonly order: 'oldest' | 'newest';
  readonly withEvents: boolean;
}

type Condition = Exclude<keyof Selection, 'states' | 'held'>;

type ConditionSql = Readonly<Record<Condition, string>>;

interface Dialect {
  readonly events: string;
  readonly record: string;
  /** Whether the index on states starts with `state, pruned`. `pruned` is 1 for pruned and imported events. */
  readonly hasPruned?: boolean;
  /** The SQL for the earliest `updated_at`, in epoch ms. */
  readonly oldest?: string;
  readonly time?: (ms: string) => string;
  readonly conditions: Pick<ConditionSql, 'known' | 'ids' | 'key' | 'error' | 'ahead' | 'expired'>;
}

/** Discarded events have a history, and imported and pruned events have no JSON. */
export const IGNORED = 'attempts = 0 AND event IS NOT NULL AND history IS NULL';

/** The columns of a record. If events are left out, an empty text stands for an event, so pruned events still have none. */
export const columnsOf = (record: string, { withEvents }: Pick<PageQuery, 'withEvents'>) =>
  withEvents
    ? record
    : record.replace('event AS json', "CASE WHEN event IS NULL THEN NULL ELSE '' END AS json");

export function selectionWriter({
  events,
  record,
  hasPruned = false,
  oldest = 'min(updated_at)',
  time = (ms) => ms,
  conditions,
}: Dialect) {
  const sql: ConditionSql = {
    ...conditions,
    type: 'type = :type',
    receivedSince: `received_at >= ${time(':receivedSince')}`,
    receivedUntil: `received_at < ${time(':receivedUntil')}`,
    updatedSince: `updated_at >= ${time(':updatedSince')}`,
    updatedUntil: `updated_at < ${time(':updatedUntil')}`,
    dueUntil: `due_at < ${time(':dueUntil')}`,
    ignored: IGNORED,
  };

  function select(columns: string, { states, ...selection }: Selection, end: string, kinds = [0, 1]): string {
    const names = (Object.keys(sql) as Condition[]).filter((name) => selection[name] !== undefined);
    // The states are inserted as text, because their names have already been checked.
    const inStates = states.length === 0 ? '1 = 0' : `state IN (${states.map((each) => `'${each}'`).join()})`;
    const pruned = hasPruned ? [`pruned IN (${kinds.join()})`] : [];
    const where = [inStates, ...pruned, ...names.map((name) => sql[name])].join(' AND ');
    return `SELECT ${columns} FROM ${events} WHERE ${where} ${end}`;
  }

  return {
    /** Reads each state separately from the index on states. */
    list(query: PageQuery, columns = columnsOf(record, query)): string {
      const { selection, limit, after, order } = query;
      const [isAfter, direction] = order === 'oldest' ? ['>', 'ASC'] : ['<', 'DESC'];
      const received = `(SELECT received_at FROM ${events} WHERE id = :after)`;
      // MySQL uses only the first condition to find the place in the index.
      const place = `AND received_at ${isAfter}= ${received} AND (received_at, id) ${isAfter} (${received}, :after)`;
      const end = `ORDER BY received_at ${direction}, id ${direction} LIMIT ${limit}`;
      const lists = selection.states.flatMap((state) =>
        (hasPruned && state === 'done' ? [0, 1] : [0]).map((kind) =>
          select(
            `${columns}, received_at`,
            { ...selection, states: [state] },
            `${after === undefined ? '' : place} ${end}`,
            [kind],
          ),
        ),
      );
      const union = (texts: readonly string[]) =>
        texts.map((text) => `SELECT * FROM (${text}) AS part`).join(' UNION ALL ');
      // Two levels are needed, because Durable Objects allow only five terms in a UNION, and there can be seven lists.
      const all = union([union(lists.slice(0, 4)), union(lists.slice(4))].filter((each) => each !== ''));
      return `SELECT * FROM (${all}) AS listed ${end}`;
    },

    count: (selection: Selection) =>
      select(`state, count(*) AS count, ${oldest} AS oldest`, selection, 'GROUP BY state'),

    first: (columns: string, { selection, limit }: Limited) =>
      select(columns, selection, `ORDER BY received_at, id LIMIT ${limit}`),
  };
}

export function isSelected(
  record: Omit<InboxRecord, 'history' | 'event' | 'origin'>,
  selection: Selection,
): boolean {
  const { ids, states, type, key, error, ignored, receivedSince = 0, updatedSince = 0 } = selection;
  const { receivedUntil = Infinity, updatedUntil = Infinity, dueUntil } = selection;
  const { receivedAt, updatedAt, dueAt } = record;
  return (
    states.includes(record.state) &&
    (ids === undefined || ids.includes(record.id)) &&
    (type === undefined || record.type === type) &&
    (key === undefined || record.key === key) &&
    (error === undefined || record.lastError?.includes(error) === true) &&
    (ignored === undefined || record.ignored) &&
    receivedSince <= receivedAt &&
    receivedAt < receivedUntil &&
    updatedSince <= updatedAt &&
    updatedAt < updatedUntil &&
    (dueUntil === undefined || (dueAt !== null && dueAt < dueUntil))
  );
}

/** Returns the first `limit` records, or the first `limit` records after `last`. */
export function toPage<Listed extends Age>(
  records: readonly Listed[],
  { order, limit, last }: Pick<PageQuery, 'order' | 'limit'> & { readonly last?: Age | undefined },
): readonly Listed[] {
  const compare = (a: Age, b: Age) => (order === 'newest' ? byAge(b, a) : byAge(a, b));
  const after = last === undefined ? [...records] : records.filter((record) => compare(record, last) > 0);
  return after.sort(compare).slice(0, limit);
}

function byAge(a: Age, b: Age): number {
  return a.receivedAt - b.receivedAt || Number(a.id > b.id) - Number(a.id < b.id);
}

type Age = Pick<InboxRecord, 'id' | 'receivedAt'>;
