import { INBOX_STATES, type InboxCount, type InboxState } from '../core/ports.js';
import type { DueRow, EventRow, PollRow, StepRow } from './rows.js';
import {
  type Limited,
  type PageQuery,
  type Selection,
  type Statement,
  selectionWriter,
} from './selection.js';
import { DUE, OPEN, type SqliteLike } from './sqlite-tables.js';

const RECORD = `id, type, state, attempts, source, key, traceparent, last_error AS error, event AS json, history,
  received_at AS received, updated_at AS updated, due_at AS due`;

/** A row that decides on a claim: the event itself, or another event that has the lease of its key. */
interface ContenderRow {
  readonly role: 'own' | 'holder';
  readonly rowid: number;
  readonly state: InboxState;
  readonly received_at: number;
  readonly due_at: number | null;
}

/** Room for one more attempt in the history. A damaged one is replaced: it must keep no event from running. */
const LAST_9 = `CASE WHEN json_valid(history) IS NOT 1 THEN '[]'
      WHEN json_array_length(history) >= 10 THEN json_remove(history, '$[0]') ELSE history END`;

/**
 * The SQL of the history with one more attempt, and of that at most the last 10. While an event is leased,
 * `updated_at` is the time of its claim, or later than now if the clock was set back; `due_at` is the end of its lease.
 */
const historyWith = (endedAt: string, result: string, error: string) =>
  `json_insert(${LAST_9}, '$[#]', json_object('attempt', attempts, 'startedAt', min(updated_at, CAST(${endedAt} AS INTEGER)),
      'endedAt', CAST(${endedAt} AS INTEGER), 'result', ${result}, 'error', ${error}))`;

/** The end of a lease that has lapsed. */
const HISTORY_WITH_LAPSED = `CASE state WHEN 'leased' THEN ${historyWith('due_at', "'lapsed'", 'NULL')} ELSE history END`;

/**
 * Prepares every statement of the inbox.
 *
 * The drivers differ in named parameters and in row counts: parameters are therefore `?` in the order of the
 * SQL, and statements that change rows return them.
 */
export function prepareStatements(db: SqliteLike, prefix: string) {
  const selections = selectionWriter({
    events: `${prefix}_events`,
    record: RECORD,
    conditions: {
      known: `id NOT IN (SELECT event_id FROM ${prefix}_steps WHERE result IS NULL)`,
      ids: 'id IN (SELECT value FROM json_each(?))',
      key: 'key = ?',
      error: 'instr(last_error, ?) > 0',
      damaged:
        "state <> 'done' AND CASE WHEN json_valid(event) THEN json_extract(event, '$.id') END IS NOT id",
    },
  });
  const own = `SELECT 'own' AS role, rowid, state, received_at, due_at FROM ${prefix}_events WHERE id = ?`;
  function rows<Row>(sql: string) {
    const statement = db.prepare(sql);
    return (...values: (string | number | null)[]) => statement.all(...values) as readonly Row[];
  }
  /** Sends a statement that depends on a selection. */
  function selected<Row>({ text, values }: Statement, ...first: (string | number)[]) {
    const bound = values.map((value) => (typeof value === 'object' ? JSON.stringify(value) : value));
    return db.prepare(text).all(...first, ...bound) as readonly Row[];
  }
  /** Changes the selected events that were received first, and returns how many. */
  function update(set: string, which: Limited, ...first: (string | number)[]): number {
    const { text, values } = selections.first('rowid', which);
    const changing = `UPDATE ${prefix}_events SET ${set} WHERE rowid IN (${text}) RETURNING id`;
    return selected({ text: changing, values }, ...first).length;
  }
  return {
    own: rows<ContenderRow>(own),
    /** The event of an id, and another event that has the lease of a key, even a lapsed one; none has that of `NULL`. */
    contenders: rows<ContenderRow>(
      `${own} UNION ALL SELECT 'holder', rowid, state, received_at, due_at FROM ${prefix}_events
      WHERE key = ? AND state = 'leased' AND id <> ?`,
    ),
    /** Leases an event, or makes it wait for the lease of its key; ends the lease that it has, if any. */
    claim: rows<Pick<EventRow, 'attempts' | 'traceparent'>>(
      `INSERT INTO ${prefix}_events (id, type, source, traceparent, event, received_at, updated_at, due_at, key,
        created_at, token, state, waiting, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, attempts = attempts + excluded.attempts,
        updated_at = excluded.updated_at, due_at = excluded.due_at, token = excluded.token, key = excluded.key,
        created_at = excluded.created_at, waiting = excluded.waiting, history = ${HISTORY_WITH_LAPSED}
      RETURNING attempts, traceparent`,
    ),
    /** Ends an attempt, if the token is that of the lease. */
    finish: rows<Pick<EventRow, 'key'>>(
      `UPDATE ${prefix}_events SET history = ${historyWith('?', '?', '?')},
        updated_at = ?, state = ?, last_error = ?, due_at = ?, token = NULL, attempts = attempts - (? = 'later')
      WHERE id = ? AND state = 'leased' AND token = ?
      RETURNING key`,
    ),
    /** Makes the event due that waits for a key and was created first. */
    releaseKey: rows(
      `UPDATE ${prefix}_events SET waiting = 0, due_at = ?, updated_at = ? WHERE rowid = (
        SELECT rowid FROM ${prefix}_events WHERE key = ? AND state = 'received' AND waiting = 1
        ORDER BY created_at, rowid LIMIT 1) RETURNING id`,
    ),
    record: rows(
      `INSERT INTO ${prefix}_events
        (id, type, source, traceparent, event, received_at, updated_at, due_at, key, created_at, state, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    ),
    /** Makes a commit wait for earlier ones: a commit without a change does not wait. */
    flush: rows(`UPDATE ${prefix}_flushes SET count = count + 1 RETURNING count`),
    /**
     * The events of some types that are due: the types, the time, how many, twice. Each type is read from the index on its
     * own, so the events of other types are not read.
     */
    due: rows<Pick<ContenderRow, 'rowid'>>(
      `SELECT e.rowid FROM json_each(?) AS types JOIN ${prefix}_events AS e ON e.rowid IN (
        SELECT rowid FROM ${prefix}_events INDEXED BY ${prefix}_due
        WHERE type = types.value AND ${OPEN} AND ${DUE} <= ? ORDER BY ${DUE}, rowid LIMIT ?)
      ORDER BY coalesce(e.due_at, 0), e.rowid LIMIT ?`,
    ),
    /** Makes an event received, and ends the lease that it has, if any. */
    receive: rows<DueRow>(
      `UPDATE ${prefix}_events SET due_at = ?, updated_at = CASE state WHEN 'received' THEN updated_at ELSE ? END,
        waiting = ?, state = 'received', token = NULL,
        history = ${HISTORY_WITH_LAPSED} WHERE rowid = ? RETURNING id, event AS json`,
    ),
    acquirePoll: rows<PollRow>(
      `INSERT INTO ${prefix}_poll (one, holder, lease_until) VALUES (1, ?, ?)
      ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
      WHERE holder = excluded.holder OR lease_until <= ?
      RETURNING state`,
    ),
    savePoll: rows(`UPDATE ${prefix}_poll SET state = ?, lease_until = ? WHERE holder = ? RETURNING one`),
    poll: rows<PollRow>(`SELECT state FROM ${prefix}_poll`),
    find: rows<EventRow>(`SELECT ${RECORD} FROM ${prefix}_events WHERE id = ?`),
    // Most events are done. To count all rows, and to look up the least of an index, takes a fraction of the time that
    // reading the done ones takes.
    countAll: rows<InboxCount>(
      `WITH open AS MATERIALIZED (
        SELECT state, count(*) AS count, min(updated_at) AS oldest FROM ${prefix}_events
        WHERE state IN (${INBOX_STATES.filter((state) => state !== 'done').map((state) => `'${state}'`)}) GROUP BY state)
      SELECT state, count, oldest FROM open UNION ALL
      SELECT 'done', (SELECT count(*) FROM ${prefix}_events) - (SELECT coalesce(sum(count), 0) FROM open),
        (SELECT min(oldest) FROM (
          SELECT min(updated_at) AS oldest FROM ${prefix}_events INDEXED BY ${prefix}_prunable
          WHERE state = 'done' AND event IS NOT NULL UNION ALL
          SELECT min(updated_at) FROM ${prefix}_events INDEXED BY ${prefix}_pruned
          WHERE state = 'done' AND event IS NULL))`,
    ),
    list: (query: PageQuery) => selected<EventRow>(selections.list(query)),
    count: (selection: Selection) => selected<InboxCount>(selections.count(selection)),
    /** The steps of an event, which must have the lease of the token if there is one; one row without a name for none. */
    steps: rows<StepRow>(
      `SELECT s.name, s.attempt, s.at, s.result FROM ${prefix}_events AS e
      LEFT JOIN ${prefix}_steps AS s ON s.event_id = e.id
      WHERE e.id = ? AND e.token IS coalesce(?, e.token) ORDER BY s.rowid`,
    ),
    /** Stores a step, unless it has a result, or it has begun and has no result now. */
    saveStep: rows(
      `INSERT INTO ${prefix}_steps (event_id, name, attempt, at, result)
      SELECT id, ?, attempts, ?, ? FROM ${prefix}_events WHERE id = ? AND state = 'leased' AND token = ?
      ON CONFLICT (event_id, name) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, result = excluded.result
        WHERE result IS NULL AND excluded.result IS NOT NULL
      RETURNING name`,
    ),
    /** Forgets that a step has begun. */
    forgetStep: rows(
      `DELETE FROM ${prefix}_steps WHERE event_id = ? AND name = ? AND result IS NULL AND event_id IN (
        SELECT id FROM ${prefix}_events WHERE id = ? AND state = 'leased' AND token = ?) RETURNING name`,
    ),
    /** @param done - the names of the steps that are done, as JSON, as `again` of those to forget. */
    stateSteps(id: string, done: string, again: string) {
      const unknown = `event_id IN (SELECT id FROM ${prefix}_events WHERE id = ? AND state IN ('failed', 'dead'))
        AND result IS NULL AND name IN (SELECT value FROM json_each(?))`;
      db.prepare(`UPDATE ${prefix}_steps SET result = '' WHERE ${unknown} RETURNING name`).all(id, done);
      db.prepare(`DELETE FROM ${prefix}_steps WHERE ${unknown} RETURNING name`).all(id, again);
    },
    forgetSteps: rows(
      `DELETE FROM ${prefix}_steps WHERE event_id IN (SELECT value FROM json_each(?)) RETURNING name`,
    ),
    requeue: (which: Limited, at: number) =>
      update("state = 'received', attempts = 0, due_at = ?, updated_at = ?", which, at, at),
    discard: (which: Limited, at: number, { by, reason }: { readonly by: string; readonly reason: string }) =>
      update(
        `history = json_insert(${LAST_9}, '$[#]', json_object('attempt', attempts, 'startedAt', CAST(? AS INTEGER),
          'endedAt', CAST(? AS INTEGER), 'result', 'discarded', 'error', NULL, 'by', ?, 'reason', ?)),
        updated_at = ?, state = 'done', due_at = NULL, last_error = NULL, waiting = 0`,
        which,
        ...[at, at, by, reason, at],
      ),
    importDone: rows(
      `INSERT INTO ${prefix}_events (id, type, source, received_at, updated_at, state, attempts)
      SELECT value, '', 'import', ?, ?, 'done', 0 FROM json_each(?) WHERE true
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    ),
    // Without the index's name SQLite reads all done rows.
    prune: rows<Pick<EventRow, 'id'>>(
      `UPDATE ${prefix}_events SET event = NULL, history = NULL WHERE rowid IN (
        SELECT rowid FROM ${prefix}_events INDEXED BY ${prefix}_prunable
        WHERE state = 'done' AND event IS NOT NULL AND updated_at <= ? LIMIT ?)
      RETURNING id`,
    ),
  };
}
