/** Every statement that the SQLite inbox runs, prepared once, and the row that an event is. */
import type { UnknownEvent } from '../core/events.js';
import type { InboxRecord, InboxState, PollState } from '../core/inbox.js';
import type { SqliteLike } from './sqlite-connection.js';

/** An event's row. */
export interface EventRow {
  readonly id: string;
  readonly type: string;
  readonly state: InboxState;
  readonly attempts: number;
  readonly source: InboxRecord['origin'];
  readonly received_at: number;
  readonly updated_at: number;
  readonly due_at: number | null;
  readonly last_error: string | null;
  readonly event: string | null;
}

/**
 * Prepares them. Parameters are plain `?` in the order of the text, as the drivers do not agree on others;
 * what changes rows returns them, as the drivers do not agree on counts either.
 */
export function prepareStatements(db: SqliteLike) {
  function rows<Row>(sql: string) {
    const statement = db.prepare(sql);
    return (...values: (string | number | null)[]) => statement.all(...values) as readonly Row[];
  }
  return {
    standing: rows<Pick<EventRow, 'state' | 'due_at'>>(
      'SELECT state, due_at FROM stablehooks_events WHERE id = ?',
    ),
    lease: rows<Pick<EventRow, 'attempts'>>(
      `INSERT INTO stablehooks_events
        (id, type, source, event, received_at, updated_at, due_at, token, state, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'leased', 1)
      ON CONFLICT (id) DO UPDATE SET state = 'leased', attempts = attempts + 1,
        updated_at = excluded.updated_at, due_at = excluded.due_at, token = excluded.token
      RETURNING attempts`,
    ),
    settle: rows<Pick<EventRow, 'id'>>(
      `UPDATE stablehooks_events SET state = ?, due_at = ?, last_error = ?, updated_at = ?, token = NULL
      WHERE id = ? AND state = 'leased' AND token = ? RETURNING id`,
    ),
    record: rows<Pick<EventRow, 'id'>>(
      `INSERT INTO stablehooks_events
        (id, type, source, event, received_at, updated_at, due_at, state, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    ),
    due: rows<Pick<EventRow, 'id' | 'event'>>(
      'SELECT id, event FROM stablehooks_events WHERE due_at <= ? ORDER BY due_at LIMIT ?',
    ),
    // The index is named, or SQLite reads all that is parked. Rows are numbered in the order they came.
    parked: rows<Pick<EventRow, 'id' | 'event'>>(
      `SELECT id, event FROM stablehooks_events INDEXED BY stablehooks_parked
      WHERE state = 'parked' AND type IN (SELECT value FROM json_each(?)) ORDER BY rowid LIMIT ?`,
    ),
    hide: rows<Pick<EventRow, 'id'>>(
      `UPDATE stablehooks_events SET due_at = ?, updated_at = ?, token = NULL,
        state = CASE state WHEN 'leased' THEN 'failed' WHEN 'parked' THEN 'received' ELSE state END
      WHERE id = ? RETURNING id`,
    ),
    acquirePoll: rows<PollState>(
      `INSERT INTO stablehooks_poll (one, holder, lease_until, largest) VALUES (1, ?, ?, 0)
      ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
      WHERE holder = excluded.holder OR lease_until <= ? RETURNING horizon AS watermark, largest`,
    ),
    savePoll: rows<PollState>(
      `UPDATE stablehooks_poll SET horizon = ?, largest = ?, lease_until = ?
      WHERE one = 1 AND holder = ? RETURNING horizon AS watermark, largest`,
    ),
    find: rows<EventRow>('SELECT * FROM stablehooks_events WHERE id = ?'),
    list: rows<EventRow>(
      `SELECT * FROM stablehooks_events WHERE state = ? AND (received_at, id) > (?, ?)
      ORDER BY received_at, id LIMIT ?`,
    ),
    count: rows<{ readonly state: InboxState; readonly count: number; readonly oldest: number }>(
      'SELECT state, count(*) AS count, min(updated_at) AS oldest FROM stablehooks_events GROUP BY state',
    ),
    requeue: rows<Pick<EventRow, 'id'>>(
      `UPDATE stablehooks_events SET state = 'received', attempts = 0, due_at = ?, updated_at = ?
      WHERE id = ? AND state = 'dead' RETURNING id`,
    ),
    // The index is named, or SQLite reads all that was ever done.
    prune: rows<Pick<EventRow, 'id'>>(
      `UPDATE stablehooks_events SET event = NULL WHERE rowid IN (
        SELECT rowid FROM stablehooks_events INDEXED BY stablehooks_prunable
        WHERE state = 'done' AND event IS NOT NULL AND updated_at <= ? LIMIT ?)
      RETURNING id`,
    ),
  };
}

/** The event that an inbox wrote; `null` once pruned. */
export function decodeEvent({ event }: Pick<EventRow, 'event'>): UnknownEvent | null {
  return event === null ? null : (JSON.parse(event) as UnknownEvent);
}

export function toRecord(row: EventRow): InboxRecord {
  const { id, type, state, attempts, source: origin } = row;
  return {
    id,
    type,
    state,
    attempts,
    origin,
    receivedAt: row.received_at,
    updatedAt: row.updated_at,
    dueAt: row.due_at,
    lastError: row.last_error === null ? null : (JSON.parse(row.last_error) as string),
    event: decodeEvent(row),
  };
}
