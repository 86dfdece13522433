/** The statements of the Postgres inbox: each step is one, atomic at READ COMMITTED, by the server's clock. */
import type { PostgresTables } from './postgres-schema.js';

// clock_timestamp(), as now() is when the statement began: before it waited for another claim's lock.
const CLOCK = 'clock_timestamp()';
const later = (parameter: string) => `${CLOCK} + ${parameter}::float8 * interval '1 millisecond'`;
// One time for all columns: the row's own default, from just before any wait for another claim's lock.
const CLAIMABLE =
  "(e.state IN ('received', 'failed', 'parked') OR e.state = 'leased' AND e.due_at <= excluded.updated_at)";
const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::float8`;

/** Writes every statement for these tables. */
export function writePostgresStatements({ events, poll }: PostgresTables) {
  const record = `id, type, state, attempts, source, last_error, event,
  ${ms('received_at')} AS received_ms, ${ms('updated_at')} AS updated_ms, ${ms('due_at')} AS due_ms`;

  return {
    /**
     * id, type, source, leaseMs, token, event. Always answers the row: a claim that comes too late writes it
     * as it was, as a statement that only looks sees nothing of a claim that was faster by a hair.
     */
    claim: `INSERT INTO ${events} AS e (id, type, state, attempts, source, due_at, token, event)
VALUES ($1::text, $2::text, 'leased', 1, $3::text, ${later('$4')}, $5::uuid, $6::text)
ON CONFLICT (id) DO UPDATE SET
  state = CASE WHEN ${CLAIMABLE} THEN 'leased' ELSE e.state END,
  attempts = CASE WHEN ${CLAIMABLE} THEN e.attempts + 1 ELSE e.attempts END,
  due_at = CASE WHEN ${CLAIMABLE} THEN excluded.due_at ELSE e.due_at END,
  token = CASE WHEN ${CLAIMABLE} THEN excluded.token ELSE e.token END,
  updated_at = CASE WHEN ${CLAIMABLE} THEN excluded.updated_at ELSE e.updated_at END
RETURNING state, attempts, token = $5::uuid AS won,
  ceil(extract(epoch FROM due_at - ${CLOCK}) * 1000)::float8 AS left_ms`,

    /**
     * id, token, which only a leased event has. To ask for the state as well would tempt the planner to look
     * through all that were leased lately.
     */
    complete: `UPDATE ${events} SET state = 'done', due_at = NULL, token = NULL, last_error = NULL, updated_at = ${CLOCK}
WHERE id = $1::text AND token = $2::uuid RETURNING 1 AS settled`,

    /** id, token, retryAfterMs or null, error */
    fail: `UPDATE ${events} SET state = CASE WHEN $3::float8 IS NULL THEN 'dead' ELSE 'failed' END,
  due_at = ${later('$3')}, token = NULL, last_error = $4::text, updated_at = ${CLOCK}
WHERE id = $1::text AND token = $2::uuid RETURNING 1 AS settled`,

    /**
     * id, token. Nobody holds a lock while a handler runs, or a second delivery would wait instead of being
     * answered; but the server ends a transaction whose process stopped, once its lease has lapsed.
     */
    fence: `SELECT set_config('idle_in_transaction_session_timeout',
  greatest(1000, ceil(extract(epoch FROM due_at - ${CLOCK}) * 1000))::bigint::text, true)
FROM ${events} WHERE id = $1::text AND token = $2::uuid`,

    /** ids, types, events, dueInMs or null, source. Sorted, so that two pages never wait for each other. */
    record: `WITH page AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS page (id, type, event)
), recorded AS (
  INSERT INTO ${events} (id, type, state, source, due_at, event)
  SELECT id, type, CASE WHEN $4::float8 IS NULL THEN 'parked' ELSE 'received' END, $5::text, ${later('$4')}, event
  FROM page ORDER BY id COLLATE "C"
  ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT id, 'new' AS state FROM recorded UNION ALL
SELECT id, state FROM ${events} WHERE id = ANY ($1::text[])`,

    /**
     * limit, visibilityTimeoutMs, types. What is parked is looked up type by type and from the index alone: the planner would
     * else read all of it, and what no release knows yet stays parked.
     */
    takeDue: `WITH parked AS MATERIALIZED (
  SELECT id, received_at AS at FROM ${events} WHERE state = 'parked' AND id = ANY (ARRAY (
    SELECT oldest.id FROM unnest($3::text[]) AS known (type) CROSS JOIN LATERAL (
      SELECT id FROM ${events} WHERE state = 'parked' AND type = known.type COLLATE "C"
      ORDER BY received_at LIMIT $1::int
    ) AS oldest
  )) ORDER BY received_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
  SELECT id, due_at AS at FROM ${events} WHERE due_at <= now()
  ORDER BY due_at LIMIT $1::int - (SELECT count(*) FROM parked) FOR UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
  SELECT id, at, 1 AS rank FROM parked UNION ALL SELECT id, at, 2 FROM due
), hidden AS (
  UPDATE ${events} SET due_at = ${later('$2')}, token = NULL, updated_at = ${CLOCK},
    state = CASE state WHEN 'leased' THEN 'failed' WHEN 'parked' THEN 'received' ELSE state END
  WHERE id = ANY (ARRAY (SELECT id FROM taken)) RETURNING id, event
)
SELECT hidden.event FROM hidden JOIN taken USING (id) ORDER BY taken.rank, taken.at`,

    /** holder, leaseMs */
    acquirePoll: `INSERT INTO ${poll} AS p (holder, lease_until, largest) VALUES ($1::text, ${later('$2')}, 0)
ON CONFLICT (only_row) DO UPDATE SET holder = excluded.holder, lease_until = ${later('$2')}
WHERE p.holder = excluded.holder OR p.lease_until <= ${CLOCK}
RETURNING horizon::float8 AS watermark, largest`,

    /** holder, leaseMs, horizon or null, largest */
    savePoll: `UPDATE ${poll} SET lease_until = ${later('$2')}, horizon = $3::bigint, largest = $4::int
WHERE holder = $1::text RETURNING 1 AS saved`,

    /** id */
    find: `SELECT ${record} FROM ${events} WHERE id = $1::text`,

    /** state, limit, the last id seen or null */
    list: `SELECT ${record} FROM ${events} WHERE state = $1::text AND ($3::text IS NULL
  OR (received_at, id) > (SELECT received_at, id FROM ${events} WHERE id = $3::text))
ORDER BY received_at, id LIMIT $2::int`,

    count: `SELECT state, count(*)::float8 AS count, ${ms('min(updated_at)')} AS oldest FROM ${events} GROUP BY state`,

    /** id */
    requeue: `UPDATE ${events} SET state = 'received', attempts = 0, due_at = ${CLOCK}, updated_at = ${CLOCK}
WHERE id = $1::text AND state = 'dead' RETURNING 1 AS requeued`,

    /** olderThanMs, limit */
    prune: `WITH pruned AS (
  UPDATE ${events} SET event = NULL WHERE id = ANY (ARRAY (
    SELECT id FROM ${events} WHERE state = 'done' AND event IS NOT NULL
      AND updated_at <= now() - $1::float8 * interval '1 millisecond'
    ORDER BY updated_at LIMIT $2::int FOR UPDATE SKIP LOCKED))
  RETURNING 1
) SELECT count(*)::float8 AS pruned FROM pruned`,
  } as const;
}

export type PostgresStatements = ReturnType<typeof writePostgresStatements>;
