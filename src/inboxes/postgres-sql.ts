import { readOptions, rule } from '../core/options.js';
import { type PgLike, POOL_RULE } from './postgres-client.js';

/** Options of everything that needs to know where the tables are. */
export interface PostgresSchemaOptions {
  /**
   * The schema that holds the two tables of the inbox: letters, digits and underscores, at most 63 characters,
   * no digit first.
   *
   * @default 'stablehooks'
   */
  readonly schema?: string | undefined;
}

/** The rule of {@link PostgresSchemaOptions.schema}. */
export const SCHEMA_RULE = rule<string>(
  'letters, digits and underscores, at most 63 characters, and must not start with a digit',
  (value) => typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(value),
  'stablehooks',
);

interface Tables {
  readonly schema: string;
  readonly events: string;
  readonly poll: string;
}

/** The quoted names; the schema must be checked. */
function quoteTables(schema: string): Tables {
  return { schema: `"${schema}"`, events: `"${schema}"."events"`, poll: `"${schema}"."poll"` };
}

/**
 * Returns the SQL that creates the tables, one statement per element, for apps that run migrations themselves.
 *
 * Each statement can run again without an effect, and later releases only append to the list: run all of them
 * at each deployment, or the new ones.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or wrong.
 */
export function postgresMigrations(options: PostgresSchemaOptions = {}): readonly string[] {
  const { schema } = readOptions('postgresMigrations', options, { schema: SCHEMA_RULE });
  return writeMigrations(quoteTables(schema));
}

function writeMigrations({ schema, events, poll }: Tables): readonly string[] {
  return [
    `CREATE SCHEMA IF NOT EXISTS ${schema}`,
    // `event` is text: jsonb refuses \u0000, and json would parse the event once more.
    `CREATE TABLE IF NOT EXISTS ${events} (
  id text COLLATE "C" PRIMARY KEY,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  due_at timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  state text COLLATE "C" NOT NULL
    CHECK (state IN ('received', 'leased', 'failed', 'done', 'dead', 'parked')),
  source text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  token uuid,
  last_error text,
  event text
)`,
    // The first index grows with the table; the others hold only rows that are due or not pruned.
    `CREATE INDEX IF NOT EXISTS events_state ON ${events} (state, received_at) INCLUDE (updated_at)`,
    `CREATE INDEX IF NOT EXISTS events_due ON ${events} (due_at) WHERE due_at IS NOT NULL`,
    `CREATE INDEX IF NOT EXISTS events_whole ON ${events} (updated_at) WHERE state = 'done' AND event IS NOT NULL`,
    // Each takeDue searches parked rows by type, and rows of unknown types can stay parked for long.
    `CREATE INDEX IF NOT EXISTS events_parked ON ${events} (type, received_at) INCLUDE (id) WHERE state = 'parked'`,
    `CREATE TABLE IF NOT EXISTS ${poll} (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  holder text NOT NULL,
  lease_until timestamptz NOT NULL,
  horizon bigint,
  largest integer NOT NULL
)`,
  ];
}

/**
 * Creates the tables or migrates them to this release. Every process can call it at each start: an advisory
 * lock serializes the calls, and each is one transaction and one round trip.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `pool` or an option is wrong. Rejects with the error of the
 * driver, for example if the role is not allowed to create a schema.
 *
 * @example
 * ```ts
 * await migratePostgres(pool);
 * const inbox = postgresInbox(pool);
 * ```
 */
export async function migratePostgres(pool: PgLike, options: PostgresSchemaOptions = {}): Promise<void> {
  readOptions('migratePostgres', { pool }, { pool: POOL_RULE });
  const tables = quoteTables(readOptions('migratePostgres', options, { schema: SCHEMA_RULE }).schema);
  // One DO block: not every driver can send several statements at once or keep to one connection.
  await pool.query(`DO $migration$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('stablehooks ${tables.schema}', 0));
${writeMigrations(tables).join(';\n')};
END $migration$`);
}

// Not now(): that is the start of the statement, before it waited for the lock of another claim.
const CLOCK = 'clock_timestamp()';
const later = (parameter: string) => `${CLOCK} + ${parameter}::float8 * interval '1 millisecond'`;
// `excluded.updated_at` is the default of the new row: one time for all columns, before any wait for a lock.
const CLAIMABLE =
  "(e.state IN ('received', 'failed', 'parked') OR e.state = 'leased' AND e.due_at <= excluded.updated_at)";
const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::float8`;

/** Returns every statement of the inbox for a checked schema; each is atomic at READ COMMITTED and uses the server's clock. */
export function writeStatements(schema: string) {
  const { events, poll } = quoteTables(schema);
  const record = `id, type, state, attempts, source, last_error, event,
  ${ms('received_at')} AS received_ms, ${ms('updated_at')} AS updated_ms, ${ms('due_at')} AS due_ms`;

  return {
    /**
     * id, type, source, leaseMs, token, event. Always returns the row: a claim that is not allowed writes the
     * row unchanged, because a SELECT would not see the row of a concurrent claim.
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
     * id, token. Only a leased event has a token. With a condition on the state as well, the planner can choose
     * to read all rows that were leased recently.
     */
    complete: `UPDATE ${events} SET state = 'done', due_at = NULL, token = NULL, last_error = NULL, updated_at = ${CLOCK}
WHERE id = $1::text AND token = $2::uuid RETURNING 1 AS settled`,

    /** id, token, retryAfterMs or null, error */
    fail: `UPDATE ${events} SET state = CASE WHEN $3::float8 IS NULL THEN 'dead' ELSE 'failed' END,
  due_at = ${later('$3')}, token = NULL, last_error = $4::text, updated_at = ${CLOCK}
WHERE id = $1::text AND token = $2::uuid RETURNING 1 AS settled`,

    /**
     * id, token. Takes no lock: a second delivery would wait for the handler instead of being answered. The
     * server ends the transaction of a stopped process when its lease has lapsed.
     */
    fence: `SELECT set_config('idle_in_transaction_session_timeout',
  greatest(1000, ceil(extract(epoch FROM due_at - ${CLOCK}) * 1000))::bigint::text, true)
FROM ${events} WHERE id = $1::text AND token = $2::uuid`,

    /** ids, types, events, dueInMs or null, source. Sorted, so that two pages cannot deadlock. */
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
     * limit, visibilityTimeoutMs, types. Parked rows are searched per type and in the index only; otherwise the
     * planner reads all of them, and rows of unknown types stay parked.
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

    /** state, limit, id to continue after or null */
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
