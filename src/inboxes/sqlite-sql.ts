import { INBOX_STATES, type InboxCount, type InboxState, type StoredEvent } from '../core/ports.js';
import type { EventRow, NoteRow, StepRow } from './rows.js';
import { AHEAD_MS, type Limited, type PageQuery, type Selection, selectionWriter } from './selection.js';
import { DUE, OPEN, type SqliteLike } from './sqlite-tables.js';
import { place, type Values } from './statements.js';

const RECORD = `id, type, state, attempts, source, key, last_error AS error, event AS json, history,
  received_at AS received, updated_at AS updated, due_at AS due`;

/** This row is either the event itself, or another event that holds the lease on the same key. */
interface ContenderRow {
  readonly role: 'own' | 'holder';
  readonly rowid: number;
  readonly state: InboxState;
  readonly received_at: number;
  readonly due_at: number | null;
}

/** Drops one of 10 attempts. If the JSON is invalid, the history becomes empty, so that the event can still run. */
const LAST_9 = `CASE WHEN json_valid(history) IS NOT 1 THEN '[]'
      WHEN json_array_length(history) >= 10 THEN json_remove(history,
        CASE json_extract(history, '$[0].result') WHEN 'lapsed' THEN '$[1]' ELSE '$[0]' END) ELSE history END`;

/** While an event is leased, its `updated_at` is when it was claimed. */
const historyWith = (endedAt: string, result: string, error: string) =>
  `json_insert(${LAST_9}, '$[#]', json_object('attempt', attempts, 'startedAt', min(updated_at, CAST(${endedAt} AS INTEGER)),
      'endedAt', CAST(${endedAt} AS INTEGER), 'result', ${result}, 'error', ${error}))`;

const HISTORY_WITH_PERSON = (result: string) =>
  `history = json_insert(${LAST_9}, '$[#]', json_object('attempt', attempts, 'startedAt', CAST(:at AS INTEGER),
      'endedAt', CAST(:at AS INTEGER), 'result', '${result}', 'error', NULL, 'by', :by, 'reason', :reason))`;

/** If the event is leased, its lease has expired, so the attempt ends as lapsed. */
const HISTORY_WITH_LAPSED = `CASE state WHEN 'leased' THEN ${historyWith('due_at', "'lapsed'", 'NULL')} ELSE history END`;

/** Selects leases that start in the future, except the leases that this process holds. */
const AHEAD = `(updated_at > :at + ${AHEAD_MS} AND token NOT IN (SELECT value FROM json_each(:held)))`;

/** Uses the placeholder `?`, because the drivers treat named parameters differently. */
export function prepareStatements(db: SqliteLike, prefix: string) {
  const selections = selectionWriter({
    events: `${prefix}_events`,
    record: RECORD,
    hasPruned: true,
    conditions: {
      known: `id NOT IN (SELECT event_id FROM ${prefix}_steps WHERE result IS NULL)`,
      ids: 'id IN (SELECT value FROM json_each(:ids))',
      key: 'key = :key',
      error: 'instr(last_error, :error) > 0',
      ahead: AHEAD,
      expired: `(due_at <= :at OR ${AHEAD})`,
    },
  });
  const own = `SELECT 'own' AS role, rowid, state, received_at, due_at FROM ${prefix}_events WHERE id = :id`;
  function rows<Row>(sql: string) {
    const { text, names } = place(sql);
    const statement = db.prepare(text);
    return (values: Values = {}) =>
      statement.all(...names.map((name) => toBound(values[name]))) as readonly Row[];
  }
  function changes(sql: string) {
    const { text, names } = place(sql);
    const statement = db.prepare(text);
    return (values: Values) => Number(statement.run(...names.map((name) => values[name])).changes);
  }
  function update(set: string, which: Limited, values: Values) {
    const changing = `UPDATE ${prefix}_events SET ${set} WHERE rowid IN (${selections.first('rowid', which)}) RETURNING id`;
    return rows<Pick<EventRow, 'id'>>(changing)({ ...which.selection, ...values });
  }
  const unknownStep = `event_id IN (SELECT id FROM ${prefix}_events WHERE id = :id AND state IN ('failed', 'dead'))
    AND result IS NULL AND name IN (SELECT value FROM json_each(:names))`;
  return {
    own: rows<ContenderRow>(own),
    /** The holder's lease may have expired. If the key is `NULL`, there is no holder. */
    contenders: rows<ContenderRow>(
      `${own} UNION ALL SELECT 'holder', rowid, state, received_at, due_at FROM ${prefix}_events
      WHERE key = :key AND state = 'leased' AND id <> :id`,
    ),
    claim: rows<Pick<EventRow, 'attempts'>>(
      `INSERT INTO ${prefix}_events (id, type, source, event, received_at, updated_at, due_at, key,
        created_at, token, state, waiting, attempts)
      VALUES (:id, :type, :origin, :json, :at, :at, :until, :key, :createdMs, :token, :state, :waiting, :attempts)
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, attempts = attempts + excluded.attempts,
        updated_at = excluded.updated_at, due_at = excluded.due_at, token = excluded.token, key = excluded.key,
        created_at = excluded.created_at, waiting = excluded.waiting, history = ${HISTORY_WITH_LAPSED}
      RETURNING attempts`,
    ),
    /** Marks the event as done before the handler of the first attempt runs. */
    take: changes(
      `INSERT INTO ${prefix}_events (id, type, source, event, received_at, updated_at, token, state, attempts)
      VALUES (:id, :type, :origin, :json, :at, :at, :token, 'done', 1) ON CONFLICT (id) DO NOTHING`,
    ),
    /** If the handler ended its transaction itself, the event is already stored. */
    failFirst: rows(
      `INSERT INTO ${prefix}_events AS e (id, type, source, event, received_at, updated_at, due_at, state, attempts,
        last_error, history)
      VALUES (:id, :type, :origin, :json, :at, :at, :dueAt, :state, :attempts, :error,
        json_array(json_object('attempt', 1, 'startedAt', CAST(:at AS INTEGER), 'endedAt', CAST(:at AS INTEGER),
          'result', :ended, 'error', :error)))
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, due_at = NULL, token = NULL, updated_at = excluded.updated_at,
        last_error = excluded.last_error, history = excluded.history
        WHERE e.token = :token AND excluded.state = 'dead'
      RETURNING id`,
    ),
    /** The event keeps the token while its transaction is open. */
    finish: rows<Pick<EventRow, 'key'>>(
      `UPDATE ${prefix}_events SET history = ${historyWith(':at', ':ended', ':error')},
        updated_at = :at, state = :state, last_error = :error, due_at = :dueAt,
        token = CASE WHEN :isOpen THEN token END, attempts = attempts - (:ended = 'later')
      WHERE id = :id AND token = :token AND (state = 'leased' OR :state = 'dead')
      RETURNING key`,
    ),
    /** This statement runs after the clock has jumped. */
    shiftLeases: rows(
      `UPDATE ${prefix}_events SET due_at = due_at + :ms
      WHERE state = 'leased' AND pruned = 0 AND token IN (SELECT value FROM json_each(:held)) RETURNING id`,
    ),
    releaseKey: rows(
      `UPDATE ${prefix}_events SET waiting = 0, due_at = :at, updated_at = :at WHERE rowid = (
        SELECT rowid FROM ${prefix}_events WHERE key = :key AND state = 'received' AND waiting = 1
        ORDER BY created_at, rowid LIMIT 1) RETURNING id`,
    ),
    record: rows(
      `INSERT INTO ${prefix}_events
        (id, type, source, event, received_at, updated_at, due_at, key, created_at, state, attempts)
      VALUES (:id, :type, :origin, :json, :at, :at, :dueAt, :key, :createdMs, :state, 0)
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    ),
    /** Makes the commit wait until earlier commits are on disk. A commit without a change would not wait. */
    flush: rows(`UPDATE ${prefix}_flushes SET count = count + 1 RETURNING count`),
    /** Reads each type separately from the index, so that no other events are read. */
    due: rows<Pick<ContenderRow, 'rowid'>>(
      `SELECT e.rowid FROM json_each(:types) AS types JOIN ${prefix}_events AS e ON e.rowid IN (
        SELECT rowid FROM ${prefix}_events INDEXED BY ${prefix}_events_due
        WHERE type = types.value AND ${OPEN} AND ${DUE} <= :at ORDER BY ${DUE}, rowid LIMIT :limit)
      ORDER BY coalesce(e.due_at, 0), e.rowid LIMIT :limit`,
    ),
    receive: rows<StoredEvent>(
      `UPDATE ${prefix}_events SET due_at = :dueAt, updated_at = CASE state WHEN 'received' THEN updated_at ELSE :at END,
        waiting = :waiting, state = 'received', token = NULL,
        history = ${HISTORY_WITH_LAPSED} WHERE rowid = :rowid RETURNING id, event AS json`,
    ),
    readNote: rows<NoteRow>(`SELECT text FROM ${prefix}_notes WHERE name = :name`),
    writeNote: rows(
      `INSERT INTO ${prefix}_notes (name, text) VALUES (:name, :note)
      ON CONFLICT (name) DO UPDATE SET text = excluded.text RETURNING name`,
    ),
    writeLeased: rows(
      `UPDATE ${prefix}_notes SET text = :note WHERE name = :name AND holder = :holder RETURNING name`,
    ),
    leaseNote: rows(
      `INSERT INTO ${prefix}_notes (name, holder, lease_until, leased_at) VALUES (:name, :holder, :until, :at)
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until, leased_at = excluded.leased_at
      WHERE holder = excluded.holder OR lease_until <= :at OR leased_at > :at + ${AHEAD_MS}
      RETURNING name`,
    ),
    find: rows<EventRow>(`SELECT ${RECORD} FROM ${prefix}_events WHERE id = :id`),
    // Most events are done, and counting all rows is much faster than reading the rows of the done events.
    countAll: rows<InboxCount>(
      `WITH open AS MATERIALIZED (
        SELECT state, count(*) AS count, min(updated_at) AS oldest FROM ${prefix}_events
        WHERE state IN (${INBOX_STATES.filter((state) => state !== 'done').map((state) => `'${state}'`)}) GROUP BY state)
      SELECT state, count, oldest FROM open UNION ALL
      SELECT 'done', (SELECT count(*) FROM ${prefix}_events) - (SELECT coalesce(sum(count), 0) FROM open), NULL`,
    ),
    list: ({ after, ...query }: PageQuery) =>
      rows<EventRow>(selections.list({ after, ...query }))({ ...query.selection, after }),
    count: (selection: Selection) => rows<InboxCount>(selections.count(selection))({ ...selection }),
    /** Returns one row without a name if the event has no steps, and no row if the event's lease has another token. */
    steps: rows<StepRow>(
      `SELECT s.name, s.attempt, s.at, s.result FROM ${prefix}_events AS e
      LEFT JOIN ${prefix}_steps AS s ON s.event_id = e.id
      WHERE e.id = :id AND e.token IS coalesce(:token, e.token) ORDER BY s.rowid`,
    ),
    /** Leaves a step unchanged if it has a result, or if it has begun and no result is given. */
    saveStep: rows(
      `INSERT INTO ${prefix}_steps (event_id, name, attempt, at, result)
      SELECT id, :name, attempts, :at, :result FROM ${prefix}_events WHERE id = :id AND state = 'leased' AND token = :token
      ON CONFLICT (event_id, name) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, result = excluded.result
        WHERE result IS NULL AND excluded.result IS NOT NULL
      RETURNING name`,
    ),
    forgetStep: rows(
      `DELETE FROM ${prefix}_steps WHERE event_id = :id AND name = :name AND result IS NULL AND event_id IN (
        SELECT id FROM ${prefix}_events WHERE id = :id AND state = 'leased' AND token = :token) RETURNING name`,
    ),
    endSteps: rows(`UPDATE ${prefix}_steps SET result = '' WHERE ${unknownStep} RETURNING name`),
    forgetUnknownSteps: rows(`DELETE FROM ${prefix}_steps WHERE ${unknownStep} RETURNING name`),
    forgetSteps: rows(
      `DELETE FROM ${prefix}_steps WHERE event_id IN (SELECT value FROM json_each(:ids)) RETURNING name`,
    ),
    requeue: (which: Limited, values: Values) =>
      update(
        `${'by' in values ? `${HISTORY_WITH_PERSON('requeued')},` : ''}
        state = 'received', attempts = 0, due_at = :at, updated_at = :at`,
        which,
        values,
      ),
    discard: (which: Limited, values: Values) =>
      update(
        `${HISTORY_WITH_PERSON('discarded')},
        updated_at = :at, state = 'done', due_at = NULL, last_error = NULL, waiting = 0`,
        which,
        values,
      ),
    endLeases: (which: Limited, values: Values) =>
      update(
        `state = 'failed', due_at = :at, updated_at = :at, token = NULL, history = ${historyWith('min(:at, due_at)', "'lapsed'", 'NULL')}`,
        which,
        values,
      ),
    importDone: rows(
      `INSERT INTO ${prefix}_events (id, type, source, received_at, updated_at, state, attempts, pruned)
      SELECT value, '', 'import', :at, :at, 'done', 0, 1 FROM json_each(:ids) WHERE true
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    ),
    // Without the name of the index, SQLite would read the rows of all done events.
    prune: rows<Pick<EventRow, 'id'>>(
      `UPDATE ${prefix}_events SET event = NULL, history = NULL, pruned = 1 WHERE rowid IN (
        SELECT rowid FROM ${prefix}_events INDEXED BY ${prefix}_events_states
        WHERE state = 'done' AND pruned = 0 AND received_at <= :before AND updated_at <= :before LIMIT :limit)
      RETURNING id`,
    ),
  };
}

const toBound = (value: unknown) => (Array.isArray(value) ? JSON.stringify(value) : value);
