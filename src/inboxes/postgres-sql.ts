import { readOptions, rule } from '../core/options.js';
import { type PgLike, QUERIES_RULE } from './postgres-client.js';
import { COMMIT_REFUSED } from './postgres-errors.js';
import {
  ADD,
  CLOCK,
  DURABLY,
  EQ,
  epochMs,
  fromMs,
  history,
  LAPSED,
  LE,
  later,
  ms,
  msUntil,
  operator,
  quoteTables,
  SUBTRACT,
  span,
  type Tables,
  TIMES,
  TRACED,
  UNTRACED,
} from './postgres-expressions.js';
import { writeClaimKeyed, writeKeyFunctions } from './postgres-keys.js';

/** Options of everything that needs to know where the tables are. */
export interface PostgresSchemaOptions {
  /**
   * The schema that holds the tables of the inbox: letters, digits and underscores, at most 63 characters,
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

/** The function that claims an event without a key; what it sets so that the event has none, and what it does then. */
const writeClaim = (
  { schema, events }: Tables,
  { forgetsKey = '', andThen = '', trace = UNTRACED } = {},
) => `  CREATE OR REPLACE FUNCTION ${schema}.claim(
    event_id pg_catalog.text, event_type pg_catalog.text, origin pg_catalog.text, lease_ms double precision,
    new_token pg_catalog.uuid, event_json pg_catalog.text, early boolean${trace.parameter},
    OUT state pg_catalog.text, OUT attempts integer, OUT won boolean, OUT left_ms double precision${trace.out}
  ) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $claim$
DECLARE
  claimed_at timestamptz := clock_timestamp();
  lease_end timestamptz := claimed_at + lease_ms * interval '1 millisecond';
  e ${events};
BEGIN
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, token, event${trace.column})
  VALUES (event_id, event_type, 'leased', 1, origin, claimed_at, claimed_at, lease_end, new_token, event_json${trace.value})
  ON CONFLICT (id) DO NOTHING;
  won := FOUND;
  state := 'leased';
  attempts := 1;${trace.ofNew}
  IF won THEN RETURN; END IF;
  SELECT * INTO e FROM ${events} AS found WHERE found.id = event_id FOR UPDATE;${trace.ofStored('e')}
  -- The SELECT can have waited for another claim.
  claimed_at := clock_timestamp();
  lease_end := claimed_at + lease_ms * interval '1 millisecond';
  -- Only received, leased and failed events have a due time.
  won := coalesce(e.state IN ('received', 'parked') OR e.due_at <= claimed_at OR e.state = 'failed' AND early, false);
  IF won THEN
    attempts := e.attempts + 1;
    UPDATE ${events} AS found SET state = 'leased', attempts = e.attempts + 1, due_at = lease_end,
      token = new_token, updated_at = claimed_at,
      history = CASE WHEN e.state = 'leased' THEN ${LAPSED} ELSE e.history END${forgetsKey}
    WHERE found.id = event_id;${andThen}
  ELSE
    state := e.state;
    left_ms := ceil(extract(epoch FROM e.due_at - clock_timestamp()) * 1000);
  END IF;
END $claim$;
`;

function writeMigrations(tables: Tables): readonly string[] {
  const { schema, events, poll, fences } = tables;
  const leavingKey = {
    forgetsKey: ', key = NULL, created_at = NULL, waiting = NULL',
    andThen: `
    IF e.key IS NOT NULL THEN PERFORM ${schema}.due_next(e.key); END IF;`,
  };
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
    // A transaction inserts its token and can commit only after it has deleted it, together with marking its event
    // done. The table is empty for every other transaction, so it need not be logged. It is created last in its block
    // and checked first: most starts lock nothing.
    `DO $fences$ BEGIN
IF pg_catalog.to_regclass('${fences}') IS NULL THEN
  ALTER TABLE ${events} ADD COLUMN IF NOT EXISTS history pg_catalog.jsonb;
  ALTER TABLE ${poll} ADD COLUMN IF NOT EXISTS since bigint;
  CREATE OR REPLACE FUNCTION ${schema}.refuse_commit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $refuse$
BEGIN
  IF EXISTS (SELECT FROM ${fences} WHERE token = NEW.token) THEN
    RAISE EXCEPTION USING ERRCODE = '${COMMIT_REFUSED}',
      MESSAGE = 'The handler ended the transaction of its event, and the server rolled it back. Do not send COMMIT, END or PREPARE TRANSACTION in a handler: return to commit, and use a savepoint or a nested transaction for a part.',
      HINT = 'SET CONSTRAINTS ALL IMMEDIATE raises this, too: name your own constraints.';
  END IF;
  RETURN NULL;
END $refuse$;
${writeClaim(tables)}  CREATE UNLOGGED TABLE ${fences} (token pg_catalog.uuid PRIMARY KEY);
  CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON ${fences} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse_commit();
  ALTER TABLE ${fences} ENABLE ALWAYS TRIGGER refuse_commit;
END IF;
END $fences$`,
    // The first statement reads nothing and fails if the column is not there. Unlike a query of the catalog it sees
    // what another process has just migrated, at every isolation level.
    `DO $gaps$ BEGIN
PERFORM gaps FROM ${poll} WHERE false;
EXCEPTION WHEN undefined_column THEN
  ALTER TABLE ${poll} RENAME COLUMN horizon TO watermark;
  ALTER TABLE ${poll} DROP COLUMN largest,
    ADD COLUMN gaps pg_catalog.text NOT NULL DEFAULT '[]',
    ADD COLUMN list_limit integer NOT NULL DEFAULT 0,
    ADD COLUMN oldest pg_catalog.text;
END $gaps$`,
    // Grows when events are pruned, and not at a delivery.
    `CREATE INDEX IF NOT EXISTS events_pruned ON ${events} (updated_at) WHERE state = 'done' AND event IS NULL`,
    // Columns without a default rewrite no row, and the indexes hold only events with a key. The last index is checked
    // first: most starts lock nothing.
    `DO $keys$ BEGIN
IF pg_catalog.to_regclass('${schema}.events_waiting') IS NULL THEN
  ALTER TABLE ${events} ADD COLUMN IF NOT EXISTS key pg_catalog.text COLLATE pg_catalog."C",
    ADD COLUMN IF NOT EXISTS created_at timestamp with time zone,
    ADD COLUMN IF NOT EXISTS waiting boolean;
${writeClaim(tables, leavingKey)}${writeKeyFunctions(tables)}
  CREATE UNIQUE INDEX IF NOT EXISTS events_leased_key ON ${events} (key) WHERE state = 'leased' AND key IS NOT NULL;
  CREATE INDEX IF NOT EXISTS events_due_key ON ${events} (key, due_at) WHERE key IS NOT NULL AND due_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS events_waiting ON ${events} (key, created_at, received_at) WHERE waiting;
END IF;
END $keys$`,
    // The functions of the release before stay beside those with one parameter more, for its processes. The column is
    // without a default and rewrites no row; it is checked as in the migration of the gaps.
    `DO $traces$ BEGIN
PERFORM traceparent FROM ${events} WHERE false;
EXCEPTION WHEN undefined_column THEN
  ALTER TABLE ${events} ADD COLUMN IF NOT EXISTS traceparent pg_catalog.text;
${writeClaim(tables, { ...leavingKey, trace: TRACED })}${writeClaimKeyed(tables, TRACED)}
END $traces$`,
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
  readOptions('migratePostgres', { pool }, { pool: QUERIES_RULE });
  const tables = quoteTables(readOptions('migratePostgres', options, { schema: SCHEMA_RULE }).schema);
  // One DO block: not every driver can send several statements at once or keep to one connection.
  await pool.query(`DO $migration$ DECLARE
path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);
PERFORM pg_advisory_xact_lock(hashtextextended('stablehooks ${tables.schema}', 0));
${lockIfChanged(tables)}
${writeMigrations(tables).join(';\n')};
PERFORM set_config('search_path', path, true);
END $migration$`);
}

/**
 * Locks the events before anything else does, if their table is going to be changed: after the weaker lock of CREATE
 * INDEX, a handler in a transaction could wait for this migration, and the migration for the handler.
 */
const lockIfChanged = ({ events }: Tables) => `BEGIN
  PERFORM traceparent FROM ${events} WHERE false;
EXCEPTION
  WHEN undefined_column THEN LOCK TABLE ${events} IN ACCESS EXCLUSIVE MODE;
  WHEN undefined_table OR invalid_schema_name THEN NULL;
END;`;

/** Returns every statement of the inbox for a checked schema; each is atomic at READ COMMITTED and uses the server's clock. */
export function writeStatements(name: string) {
  const tables = quoteTables(name);
  const { schema, events, poll, fences } = tables;
  // What is returned has names of one word: data layers can be told to rename others, as to camel case.
  const record = `id, type, state, attempts, source, key, traceparent, last_error AS error, event,
  history::pg_catalog.text AS history,
  ${ms('received_at')} AS received, ${ms('updated_at')} AS updated, ${ms('due_at')} AS due`;
  const pollState = `since::double precision AS since, watermark::double precision AS watermark, gaps,
  list_limit AS "limit", oldest`;
  // With a condition that also allows no id, or the row as one subquery, the planner reads every row before it.
  const list = (isAfter: '>' | '<', direction: 'ASC' | 'DESC') => {
    const write = (rest: string) =>
      `${rest} ORDER BY received_at ${direction}, id ${direction} LIMIT $2::int`;
    const first = `SELECT ${record} FROM ${events} WHERE state ${EQ} $1::pg_catalog.text`;
    return {
      first: write(first),
      after: write(`WITH last AS MATERIALIZED (
  SELECT received_at, id FROM ${events} WHERE id ${EQ} $3::pg_catalog.text
)
${first} AND (received_at, id) ${operator(isAfter)} ((SELECT received_at FROM last), (SELECT id FROM last))`),
    };
  };
  /** A value of the done events that are not pruned, and of those that are: each is read from an index of its own. */
  const doneRows = (value: string) =>
    ['IS NOT NULL', 'IS NULL'].map(
      (has) => `(SELECT ${value} FROM ${events} WHERE state ${EQ} 'done' AND event ${has})`,
    );
  // Takes the events without a key; of the others it returns the ids and keys. Parked rows are searched per type and in
  // the index only; otherwise the planner reads all of them, and rows of unknown types stay parked.
  const takeDue = (until: string) => `WITH parked AS MATERIALIZED (
  SELECT id, key, received_at AS at FROM ${events} WHERE state ${EQ} 'parked' AND id ${EQ} ANY (ARRAY (
    SELECT oldest.id FROM pg_catalog.unnest($3::pg_catalog.text[]) AS known (type) CROSS JOIN LATERAL (
      SELECT id FROM ${events} WHERE state ${EQ} 'parked' AND type ${EQ} known.type COLLATE pg_catalog."C"
      ORDER BY received_at LIMIT $1::int
    ) AS oldest
  )) ORDER BY received_at LIMIT $1::int FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
  SELECT id, key, due_at AS at FROM ${events} WHERE due_at ${LE} ${until}
  ORDER BY due_at LIMIT $1::int ${SUBTRACT} (SELECT pg_catalog.count(*) FROM parked) FOR UPDATE SKIP LOCKED
), found AS MATERIALIZED (
  SELECT id, key, at FROM parked UNION ALL SELECT id, key, at FROM due
), taken AS (
  UPDATE ${events} AS e SET state = 'received', due_at = ${later('$2')}, token = NULL, updated_at = ${CLOCK},
    history = CASE WHEN e.state ${EQ} 'leased' THEN ${LAPSED} ELSE e.history END
  WHERE e.id ${EQ} ANY (ARRAY (SELECT id FROM found WHERE key IS NULL)) RETURNING e.id, e.event, ${DURABLY}
)
SELECT found.id, found.key, taken.event FROM found LEFT JOIN taken ON found.id ${EQ} taken.id ORDER BY found.at`;

  const markDone = `UPDATE ${events} AS e SET state = 'done', due_at = NULL, token = NULL, last_error = NULL,
  updated_at = ${CLOCK}, history = ${history("'done'", CLOCK, 'NULL::pg_catalog.text')}
WHERE e.id ${EQ} $1::pg_catalog.text AND e.token ${EQ} $2::pg_catalog.uuid`;
  const markFailed = `UPDATE ${events} AS e SET state = CASE WHEN $3::double precision IS NULL THEN 'dead' ELSE 'failed' END,
  due_at = ${later('$3')}, token = NULL, last_error = $4::pg_catalog.text, updated_at = ${CLOCK},
  history = ${history("CASE WHEN $3::double precision IS NULL THEN 'dead' ELSE 'failed' END", CLOCK, '$4::pg_catalog.text')}
WHERE e.id ${EQ} $1::pg_catalog.text AND e.token ${EQ} $2::pg_catalog.uuid`;

  return {
    /**
     * id, type, source, leaseMs, token, event, early, traceparent or null. A function, which keeps its plan: planning
     * this as one statement takes longer than running it. A claim that does not win writes nothing.
     */
    claim: `SELECT state, attempts, won, left_ms AS wait, traceparent, ${DURABLY}
FROM ${schema}.claim($1, $2, $3, $4, $5, $6, $7, $8)`,

    /** The same up to early, then the key, when the event was created in epoch ms, and traceparent or null. */
    claimKeyed: `SELECT state, attempts, won, left_ms AS wait, traceparent, ${DURABLY}
FROM ${schema}.claim_keyed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,

    /**
     * id, token. Only a leased event has a token. With a condition on the state as well, the planner can choose
     * to read all rows that were leased recently.
     */
    complete: `${markDone} RETURNING e.id, ${DURABLY}`,

    /** id, token, key */
    completeKeyed: `SELECT ended, ${DURABLY} FROM ${schema}.end_keyed($1, $2, $3, 'done', NULL, NULL) AS ended WHERE ended`,

    /** id, token, retryAfterMs or null, error */
    fail: `${markFailed} RETURNING e.id, ${DURABLY}`,

    /** id, token, retryAfterMs or null, error, key */
    failKeyed: `SELECT ended, ${DURABLY} FROM ${schema}.end_keyed($1, $2, $5,
  CASE WHEN $3::double precision IS NULL THEN 'dead' ELSE 'failed' END, $3, $4) AS ended WHERE ended`,

    /**
     * id, token. The first statement of a transaction: inserts the row that makes COMMIT fail. Takes no lock on the
     * event: a second delivery would wait for the handler instead of being answered. The server ends a statement, and
     * the transaction of a stopped process, after the time that the lease has left; a shorter statement_timeout stays.
     * Both times begin anew with each statement. Postgres 17 and later also end the transaction a second after the lease,
     * so that a statement that has run since then fails first, and keeps its connection; a transaction_timeout that is
     * set stays.
     */
    fence: `WITH leased AS MATERIALIZED (
  SELECT greatest(1000, ${msUntil('due_at')})::bigint AS left_ms
  FROM ${events} WHERE id ${EQ} $1::pg_catalog.text AND token ${EQ} $2::pg_catalog.uuid
), fenced AS (
  INSERT INTO ${fences} (token) SELECT $2::pg_catalog.uuid FROM leased
), configured AS MATERIALIZED (
  SELECT pg_catalog.current_setting('statement_timeout')::interval AS statement_timeout,
    pg_catalog.current_setting('transaction_timeout', true) AS transaction_timeout
)
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', left_ms::pg_catalog.text, true),
  pg_catalog.set_config('statement_timeout', least(left_ms,
    CASE WHEN statement_timeout ${operator('>')} interval '0' THEN ${epochMs('statement_timeout')}::bigint END
  )::pg_catalog.text, true),
  CASE WHEN transaction_timeout ${EQ} '0' THEN
    pg_catalog.set_config('transaction_timeout', least(left_ms ${ADD} 1000, 2147483647)::pg_catalog.text, true) END
FROM leased CROSS JOIN configured`,

    /** token. Whether this is still the transaction that {@link fence} began. */
    isFenced: `SELECT token FROM ${fences} WHERE token ${EQ} $1::pg_catalog.uuid`,

    /** id */
    isDone: `SELECT id FROM ${events} WHERE id ${EQ} $1::pg_catalog.text AND state ${EQ} 'done'`,

    /** id, token. The last statement of a transaction: deletes the row that makes COMMIT fail. */
    completeFenced: `WITH fenced AS (
  DELETE FROM ${fences} WHERE token ${EQ} $2::pg_catalog.uuid RETURNING token
), done AS (
  ${markDone} AND EXISTS (SELECT FROM fenced) RETURNING e.id
)
SELECT EXISTS (SELECT FROM fenced) AS fenced, EXISTS (SELECT FROM done) AS settled, ${DURABLY}`,

    /** id, token, key */
    completeFencedKeyed: `WITH fenced AS (
  DELETE FROM ${fences} WHERE token ${EQ} $2::pg_catalog.uuid RETURNING token
)
SELECT EXISTS (SELECT FROM fenced) AS fenced,
  (SELECT ${schema}.end_keyed($1, $2, $3, 'done', NULL, NULL) FROM fenced) IS TRUE AS settled, ${DURABLY}`,

    /**
     * ids, types, events, dueInMs or null, source; keys ('' for none) and when the events were created in epoch ms, or
     * two empty arrays; traceparent or null. Inserted in the order of the ids, so that two pages cannot deadlock; events
     * of a key are received in the order of the page nevertheless.
     */
    record: `WITH page AS (
  SELECT id, type, event, CASE WHEN key ${operator('<>')} '' THEN key END AS key, created_ms, position FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]),
    pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($6::pg_catalog.text[]),
    pg_catalog.unnest($7::pg_catalog.text[])) WITH ORDINALITY AS one (id, type, event, key, created_ms, position)
), recorded AS (
  INSERT INTO ${events} (id, type, state, source, due_at, event, traceparent, key, created_at, received_at)
  SELECT id, type, CASE WHEN $4::double precision IS NULL THEN 'parked' ELSE 'received' END,
    $5::pg_catalog.text, ${later('$4')}, event, $8::pg_catalog.text,
    key, CASE WHEN key IS NOT NULL THEN ${fromMs('created_ms')} END,
    CASE WHEN key IS NULL THEN ${CLOCK}
      ELSE pg_catalog.now() ${ADD} (position::double precision ${TIMES} interval '1 microsecond') END
  FROM page ORDER BY id COLLATE pg_catalog."C"
  ON CONFLICT (id) DO NOTHING RETURNING id, ${DURABLY}
)
SELECT id, 'new' AS state FROM recorded UNION ALL
SELECT id, state FROM ${events} WHERE id ${EQ} ANY ($1::pg_catalog.text[])`,

    /** limit, visibilityTimeoutMs, types; what was due at a time also that time in epoch ms */
    takeDue: takeDue('pg_catalog.now()'),
    takeDueAsOf: takeDue(fromMs('$4')),

    /** ids, visibilityTimeoutMs, the time in epoch ms or null (now). Takes the first due event of the key of each id. */
    takeKeyed: `SELECT event_key AS key, event_json AS event, passed, taken_ms AS taken, ${DURABLY}
FROM ${schema}.take_keyed($1::pg_catalog.text[], $2, $3::double precision)`,

    /** holder, leaseMs */
    acquirePoll: `INSERT INTO ${poll} AS p (holder, lease_until)
VALUES ($1::pg_catalog.text, ${later('$2')})
ON CONFLICT (only_row) DO UPDATE SET holder = excluded.holder, lease_until = ${later('$2')}
WHERE p.holder ${EQ} excluded.holder OR p.lease_until ${LE} ${CLOCK}
RETURNING ${pollState}, ${DURABLY}`,

    /** holder, leaseMs, since or null, watermark or null, gaps, limit, oldest or null */
    savePoll: `UPDATE ${poll} SET lease_until = ${later('$2')}, since = $3::bigint, watermark = $4::bigint,
  gaps = $5::pg_catalog.text, list_limit = $6::int, oldest = $7::pg_catalog.text
WHERE holder ${EQ} $1::pg_catalog.text RETURNING holder, ${DURABLY}`,

    pollState: `SELECT ${pollState} FROM ${poll}`,

    lastPoller: `SELECT holder FROM ${poll}`,

    /** id */
    find: `SELECT ${record} FROM ${events} WHERE id ${EQ} $1::pg_catalog.text`,

    /** id */
    has: `SELECT id FROM ${events} WHERE id ${EQ} $1::pg_catalog.text`,

    /** state, limit; `after` also the id to continue after */
    list: { oldest: list('>', 'ASC'), newest: list('<', 'DESC') },

    // Most events are done. To count the entries of a small index, and to look up its least, takes a part of the time
    // that grouping all rows takes.
    count: `SELECT state, count::double precision AS count, ${ms('oldest')} AS oldest FROM (
  SELECT state, pg_catalog.count(*) AS count, pg_catalog.min(updated_at) AS oldest FROM ${events}
  WHERE state ${EQ} ANY ('{received,leased,failed,dead,parked}') GROUP BY state
  UNION ALL SELECT 'done', ${doneRows('pg_catalog.count(*)').join(` ${ADD} `)},
    least(${doneRows('pg_catalog.min(updated_at)')})
) AS counted`,

    /** id */
    requeue: `UPDATE ${events} SET state = 'received', attempts = 0, due_at = ${CLOCK}, updated_at = ${CLOCK}
WHERE id ${EQ} $1::pg_catalog.text AND state ${EQ} ANY ('{dead,failed}') RETURNING id, ${DURABLY}`,

    /** olderThanMs, limit */
    prune: `WITH pruned AS (
  UPDATE ${events} SET event = NULL, history = NULL WHERE id ${EQ} ANY (ARRAY (
    SELECT id FROM ${events} WHERE state ${EQ} 'done' AND event IS NOT NULL
      AND updated_at ${LE} (pg_catalog.now() ${SUBTRACT} ${span('$1')})
    ORDER BY updated_at LIMIT $2::int FOR UPDATE SKIP LOCKED))
  RETURNING id, ${DURABLY}
) SELECT pg_catalog.count(*)::double precision AS pruned FROM pruned`,
  } as const;
}
