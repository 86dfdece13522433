import { readOptions, rule } from '../core/options.js';
import type { readListOptions, Selection } from './operation-options.js';
import { type PgLike, QUERIES_RULE } from './postgres-client.js';
import {
  CLOCK,
  DURABLY,
  dueOf,
  epochMs,
  fromMs,
  history,
  isOpen,
  LAPSED,
  later,
  ms,
  msUntil,
  quoteTables,
  span,
  type Tables,
} from './postgres-expressions.js';
import { writeKeyFunctions } from './postgres-keys.js';
import { type ConditionSql, type SqlPart, toWhere, writeList } from './selection.js';

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

/** The function that claims an event without a key. */
const writeClaim = ({ schema, events }: Tables) => `  CREATE OR REPLACE FUNCTION ${schema}.claim(
    event_id text, event_type text, origin text, lease_ms double precision,
    new_token uuid, event_json text, early boolean, new_traceparent text,
    OUT state text, OUT attempts integer, OUT won boolean, OUT left_ms double precision,
    OUT traceparent text
  ) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $claim$
DECLARE
  claimed_at timestamptz := clock_timestamp();
  lease_end timestamptz := claimed_at + lease_ms * interval '1 millisecond';
  e ${events};
BEGIN
  INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, due_at, token, event, traceparent)
  VALUES (event_id, event_type, 'leased', 1, origin, claimed_at, claimed_at, lease_end, new_token, event_json,
    new_traceparent)
  ON CONFLICT (id) DO NOTHING;
  won := FOUND;
  state := 'leased';
  attempts := 1;
  traceparent := new_traceparent;
  IF won THEN RETURN; END IF;
  SELECT * INTO e FROM ${events} AS found WHERE found.id = event_id FOR UPDATE;
  traceparent := CASE WHEN e.id IS NULL THEN new_traceparent ELSE e.traceparent END;
  -- The SELECT can have waited for another claim.
  claimed_at := clock_timestamp();
  lease_end := claimed_at + lease_ms * interval '1 millisecond';
  -- Only received, leased and failed events have a due time.
  won := coalesce(e.state IN ('received', 'parked') OR e.due_at <= claimed_at OR e.state = 'failed' AND early, false);
  IF won THEN
    attempts := e.attempts + 1;
    UPDATE ${events} AS found SET state = 'leased', attempts = e.attempts + 1, due_at = lease_end,
      token = new_token, updated_at = claimed_at, key = NULL, created_at = NULL, waiting = NULL,
      history = CASE WHEN e.state = 'leased' THEN ${LAPSED} ELSE e.history END
    WHERE found.id = event_id;
  ELSE
    state := e.state;
    left_ms := ceil(extract(epoch FROM e.due_at - clock_timestamp()) * 1000);
  END IF;
END $claim$;
`;

/** The id that a stored text has; NULL if the text is not the JSON of an event. Only the id is decoded: a payload can have \u0000. */
const writeStoredId = ({ schema }: Tables) => `
  CREATE OR REPLACE FUNCTION ${schema}.stored_id(event_json text) RETURNS text
  LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $stored$
BEGIN
  RETURN (event_json::json -> 'id') #>> '{}';
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $stored$;`;

/** The SQLSTATE of a COMMIT that the server refused, because the event of the transaction was not marked done. */
const COMMIT_REFUSED = 'SH001';

/**
 * A transaction inserts its token into the fences and can commit only after it has deleted it, together with marking its
 * event done. The table is empty for every other transaction, so it need not be logged.
 */
const writeFences = ({ schema, fences }: Tables) => `
  CREATE OR REPLACE FUNCTION ${schema}.refuse_commit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $refuse$
BEGIN
  IF EXISTS (SELECT FROM ${fences} WHERE token = NEW.token) THEN
    RAISE EXCEPTION USING ERRCODE = '${COMMIT_REFUSED}',
      MESSAGE = 'The handler ended the transaction of its event, and the server rolled it back. Do not send COMMIT, END or PREPARE TRANSACTION in a handler: return to commit, and use a savepoint or a nested transaction for a part.',
      HINT = 'SET CONSTRAINTS ALL IMMEDIATE raises this as well: name your own constraints.';
  END IF;
  RETURN NULL;
END $refuse$;
  CREATE UNLOGGED TABLE ${fences} (token uuid PRIMARY KEY);
  CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON ${fences} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse_commit();
  ALTER TABLE ${fences} ENABLE ALWAYS TRIGGER refuse_commit;`;

/**
 * Each migration is one block, which is atomic, and which first looks for what it creates last: most starts lock nothing.
 *
 * `event` is text: jsonb refuses \u0000, and json would parse the event once more. The index of the states grows with the
 * table, and that of the pruned events when events are pruned; the others hold only events that are not done yet.
 */
function writeMigrations(tables: Tables): readonly string[] {
  const { schema, events, poll, fences } = tables;
  return [
    // CREATE SCHEMA IF NOT EXISTS needs the right to create one even where the schema exists.
    `DO $schema$ BEGIN
IF getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') THEN
  RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
    MESSAGE = 'The encoding of this database is ' || getdatabaseencoding() || ', which cannot store every event. Use a database with the encoding UTF8.';
END IF;
IF to_regnamespace('${schema}') IS NULL THEN CREATE SCHEMA ${schema}; END IF;
END $schema$`,
    `DO $version1$ BEGIN
IF to_regclass('${fences}') IS NULL THEN
  CREATE TABLE ${events} (
    id text COLLATE "C" PRIMARY KEY,
    received_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    due_at timestamp with time zone,
    created_at timestamp with time zone,
    attempts integer NOT NULL DEFAULT 0,
    waiting boolean,
    state text COLLATE "C" NOT NULL
      CHECK (state = ANY ('{received,leased,failed,done,dead,parked}')),
    source text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    token uuid,
    last_error text,
    traceparent text,
    event text,
    history jsonb
  );
  CREATE INDEX events_state ON ${events} (state, received_at) INCLUDE (updated_at);
  CREATE INDEX events_due ON ${events} (type, ${dueOf('events')}, received_at) WHERE ${isOpen('events')};
  CREATE INDEX events_whole ON ${events} (updated_at) WHERE state = 'done' AND event IS NOT NULL;
  CREATE INDEX events_pruned ON ${events} (updated_at) WHERE state = 'done' AND event IS NULL;
  CREATE UNIQUE INDEX events_leased_key ON ${events} (key) WHERE state = 'leased' AND key IS NOT NULL;
  CREATE INDEX events_waiting ON ${events} (key, created_at, received_at) WHERE waiting;
  CREATE TABLE ${poll} (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    holder text NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    since bigint,
    watermark bigint,
    gaps text NOT NULL DEFAULT '[]',
    list_limit integer NOT NULL DEFAULT 0,
    oldest text
  );
${writeKeyFunctions(tables)}
${writeClaim(tables)}${writeStoredId(tables)}${writeFences(tables)}
END IF;
END $version1$`,
  ];
}

/**
 * Creates the tables or migrates them to this release. Every process can call it at each start: an advisory
 * lock serializes the calls, and each is one transaction and one round trip.
 *
 * The role needs the right to create a schema, or, where the schema exists, to create tables in it; where the tables
 * exist, none. The encoding of the database must be UTF8.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `pool` or an option is wrong. Rejects with the error of the driver, for
 * example if the role lacks a right.
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
  // One DO block: not every driver can send several statements together or keep to one connection.
  await pool.query(`DO $migration$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('stablehooks ${tables.schema}', 0));
${writeMigrations(tables).join(';\n')};
END $migration$`);
}

interface Limited {
  readonly selection: Selection;
  readonly limit: number;
}

/** The part as a statement of Postgres, with `$1` for its first value. */
function numbered({ text, values }: SqlPart): SqlPart {
  let count = 0;
  return { text: text.replaceAll('?', () => `$${++count}`), values };
}

/** Returns every statement of the inbox for a checked schema; each is atomic at READ COMMITTED and uses the server's clock. */
export function writeStatements(name: string) {
  const tables = quoteTables(name);
  const { schema, events, poll, fences } = tables;
  // Returned columns have names of one word: data layers can be told to rename others, as to camel case.
  const record = `id, type, state, attempts, source, key, traceparent, last_error AS error, event AS json,
  history::text AS history,
  ${ms('received_at')} AS received, ${ms('updated_at')} AS updated, ${ms('due_at')} AS due`;
  const pollState = `since::double precision AS since, watermark::double precision AS watermark, gaps,
  list_limit AS "limit", oldest`;
  const conditions: ConditionSql = {
    ids: 'id = ANY (?::text[])',
    type: 'type = ?::text',
    key: 'key = ?::text',
    receivedSince: `received_at >= ${fromMs('?')}`,
    receivedUntil: `received_at < ${fromMs('?')}`,
    updatedSince: `updated_at >= ${fromMs('?')}`,
    updatedUntil: `updated_at < ${fromMs('?')}`,
    error: 'position(?::text IN last_error) > 0',
    damaged: `state <> 'done' AND ${schema}.stored_id(event) IS DISTINCT FROM id`,
  };
  /** Changes the selected events that were received first, and returns how many. */
  const update = (set: string, { selection, limit }: Limited, first: readonly string[] = []): SqlPart => {
    const { text, values } = toWhere(selection, conditions);
    return numbered({
      text: `WITH changed AS (
  UPDATE ${events} AS e SET ${set} WHERE id = ANY (ARRAY (
    SELECT id FROM ${events} WHERE ${text} ORDER BY received_at, id LIMIT ${limit} FOR UPDATE))
  RETURNING id, ${DURABLY}
) SELECT count(*)::double precision AS count FROM changed`,
      values: [...first, ...values],
    });
  };
  /** A value of the done events that are not pruned, and of those that are: each is read from an index of its own. */
  const doneRows = (value: string) =>
    ['IS NOT NULL', 'IS NULL'].map(
      (has) => `(SELECT ${value} FROM ${events} WHERE state = 'done' AND event ${has})`,
    );
  /** The due events of a type, the longest due first. */
  const due = `FROM ${events} AS e
    WHERE e.type = of_type.type COLLATE "C" AND ${isOpen('e')} AND ${dueOf('e')} <= now()
    ORDER BY ${dueOf('e')}, e.received_at`;

  // Not booleans: an app can have told its driver to leave them as text.
  const claimState = "CASE WHEN won THEN 'claimed' ELSE state END AS state";
  const fencedEnd = (isDone: string) =>
    `SELECT CASE WHEN NOT EXISTS (SELECT FROM fenced) THEN 'no fence' WHEN ${isDone} THEN 'done' ELSE 'lease lost' END AS ending, ${DURABLY}`;

  const markDone = `UPDATE ${events} AS e SET state = 'done', due_at = NULL, token = NULL, last_error = NULL,
  updated_at = ${CLOCK}, history = ${history("'done'", CLOCK, 'NULL::text')}
WHERE e.id = $1::text AND e.token = $2::uuid`;
  const markFailed = `UPDATE ${events} AS e SET state = CASE WHEN $3::double precision IS NULL THEN 'dead' ELSE 'failed' END,
  due_at = ${later('$3')}, token = NULL, last_error = $4::text, updated_at = ${CLOCK},
  history = ${history("CASE WHEN $3::double precision IS NULL THEN 'dead' ELSE 'failed' END", CLOCK, '$4::text')}
WHERE e.id = $1::text AND e.token = $2::uuid`;

  return {
    /**
     * id, type, source, leaseMs, token, event, early, traceparent or null. A function, which keeps its plan: planning
     * this as one statement takes longer than running it. A claim that does not win writes nothing.
     */
    claim: `SELECT ${claimState}, attempts, left_ms AS wait, traceparent, ${DURABLY}
FROM ${schema}.claim($1, $2, $3, $4, $5, $6, $7, $8)`,

    /** The same up to early, then the key, when the event was created in epoch ms, and traceparent or null. */
    claimKeyed: `SELECT ${claimState}, attempts, left_ms AS wait, traceparent, ${DURABLY}
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
     * Both times begin again with each statement. Postgres 17 and later also end the transaction a second after the lease:
     * a statement that has run since then fails first, and keeps its connection. A transaction_timeout that is set stays.
     */
    fence: `WITH leased AS MATERIALIZED (
  SELECT greatest(1000, ${msUntil('due_at')})::bigint AS left_ms
  FROM ${events} WHERE id = $1::text AND token = $2::uuid
), fenced AS (
  INSERT INTO ${fences} (token) SELECT $2::uuid FROM leased
), configured AS MATERIALIZED (
  SELECT current_setting('statement_timeout')::interval AS statement_timeout,
    current_setting('transaction_timeout', true) AS transaction_timeout
)
SELECT set_config('idle_in_transaction_session_timeout', left_ms::text, true),
  set_config('statement_timeout', least(left_ms,
    CASE WHEN statement_timeout > interval '0' THEN ${epochMs('statement_timeout')}::bigint END
  )::text, true),
  CASE WHEN transaction_timeout = '0' THEN
    set_config('transaction_timeout', least(left_ms + 1000, 2147483647)::text, true) END
FROM leased CROSS JOIN configured`,

    /** id */
    isDone: `SELECT id FROM ${events} WHERE id = $1::text AND state = 'done'`,

    /** id, token. The last statement of a transaction: deletes the row that makes COMMIT fail. */
    completeFenced: `WITH fenced AS (
  DELETE FROM ${fences} WHERE token = $2::uuid RETURNING token
), done AS (
  ${markDone} AND EXISTS (SELECT FROM fenced) RETURNING e.id
)
${fencedEnd('EXISTS (SELECT FROM done)')}`,

    /** id, token, key */
    completeFencedKeyed: `WITH fenced AS (
  DELETE FROM ${fences} WHERE token = $2::uuid RETURNING token
)
${fencedEnd(`(SELECT ${schema}.end_keyed($1, $2, $3, 'done', NULL, NULL) FROM fenced)`)}`,

    /**
     * ids, types, events, the state of new events, dueInMs or null, source; keys ('' for none) and when the events were
     * created in epoch ms, or two empty arrays; traceparent or null. Inserted in the order of the ids, so two pages cannot
     * deadlock; events of a key are received in the order of the page nevertheless.
     */
    record: `WITH page AS (
  SELECT id, type, event, CASE WHEN key <> '' THEN key END AS key, created_ms, position FROM ROWS FROM (unnest($1::text[]), unnest($2::text[]),
    unnest($3::text[]), unnest($7::text[]),
    unnest($8::text[])) WITH ORDINALITY AS one (id, type, event, key, created_ms, position)
), recorded AS (
  INSERT INTO ${events} (id, type, state, source, due_at, event, traceparent, key, created_at, received_at)
  SELECT id, type, $4::text, $6::text, ${later('$5')}, event, $9::text,
    key, CASE WHEN key IS NOT NULL THEN ${fromMs('created_ms')} END,
    CASE WHEN key IS NULL THEN ${CLOCK}
      ELSE now() + (position::double precision * interval '1 microsecond') END
  FROM page ORDER BY id COLLATE "C", position
  ON CONFLICT (id) DO NOTHING RETURNING id, ${DURABLY}
)
SELECT id, 'new' AS state FROM recorded UNION ALL
SELECT id, state FROM ${events} WHERE id = ANY ($1::text[])`,

    /**
     * limit, visibilityTimeoutMs, types. The first part counts how many of the longest due events each type has. The
     * second part locks that many of each type, past events that another call has locked. Each type is read from the
     * index on its own, so due events of other types are not read.
     */
    takeDue: `WITH wanted AS MATERIALIZED (
  SELECT type, count(*) AS size FROM (
    SELECT first.type FROM unnest($3::text[]) AS of_type (type) CROSS JOIN LATERAL (
      SELECT e.type, ${dueOf('e')} AS at, e.received_at ${due} LIMIT $1::int
    ) AS first ORDER BY first.at, first.received_at LIMIT $1::int
  ) AS first GROUP BY type
), found AS MATERIALIZED (
  SELECT each.id, each.at, each.received_at FROM wanted AS of_type CROSS JOIN LATERAL (
    SELECT e.id, ${dueOf('e')} AS at, e.received_at ${due} LIMIT of_type.size FOR UPDATE SKIP LOCKED
  ) AS each
), taken AS (
  UPDATE ${events} AS e SET state = 'received', due_at = ${later('$2')}, token = NULL, waiting = NULL,
    updated_at = ${CLOCK}, history = CASE WHEN e.state = 'leased' THEN ${LAPSED} ELSE e.history END
  WHERE e.id = ANY (ARRAY (SELECT id FROM found)) RETURNING e.id, e.event, ${DURABLY}
)
SELECT taken.id, taken.event AS json FROM found JOIN taken ON found.id = taken.id ORDER BY found.at, found.received_at`,

    /** holder, leaseMs */
    acquirePoll: `INSERT INTO ${poll} AS p (holder, lease_until)
VALUES ($1::text, ${later('$2')})
ON CONFLICT (only_row) DO UPDATE SET holder = excluded.holder, lease_until = ${later('$2')}
WHERE p.holder = excluded.holder OR p.lease_until <= ${CLOCK}
RETURNING ${pollState}, ${DURABLY}`,

    /** holder, leaseMs, since or null, watermark or null, gaps, limit, oldest or null */
    savePoll: `UPDATE ${poll} SET lease_until = ${later('$2')}, since = $3::bigint, watermark = $4::bigint,
  gaps = $5::text, list_limit = $6::int, oldest = $7::text
WHERE holder = $1::text RETURNING holder, ${DURABLY}`,

    pollState: `SELECT ${pollState} FROM ${poll}`,

    lastPoller: `SELECT holder FROM ${poll}`,

    /** id */
    find: `SELECT ${record} FROM ${events} WHERE id = $1::text`,

    /** id */
    has: `SELECT id FROM ${events} WHERE id = $1::text`,

    list: (options: ReturnType<typeof readListOptions>) =>
      numbered(writeList(options, { columns: record, events, sql: conditions })),

    countSelected(selection: Selection) {
      const { text, values } = toWhere(selection, conditions);
      return numbered({
        text: `SELECT state, count(*)::double precision AS count, ${ms('min(updated_at)')} AS oldest
FROM ${events} WHERE ${text} GROUP BY state`,
        values,
      });
    },

    // Most events are done. To count the entries of a small index, and to look up its least, takes a part of the time
    // that grouping all rows takes.
    count: `SELECT state, count::double precision AS count, ${ms('oldest')} AS oldest FROM (
  SELECT state, count(*) AS count, min(updated_at) AS oldest FROM ${events}
  WHERE state = ANY ('{received,leased,failed,dead,parked}') GROUP BY state
  UNION ALL SELECT 'done', ${doneRows('count(*)').join(` + `)},
    least(${doneRows('min(updated_at)')})
) AS counted`,

    requeue: (which: Limited) =>
      update(`state = 'received', attempts = 0, due_at = ${CLOCK}, updated_at = ${CLOCK}`, which),

    discard: (which: Limited, by: string, reason: string) =>
      update(
        `state = 'done', due_at = NULL, last_error = NULL, waiting = NULL, updated_at = ${CLOCK},
    history = (coalesce(e.history, '[]') - (-10)) || jsonb_build_object('attempt', e.attempts, 'startedAt', ${ms(CLOCK)},
      'endedAt', ${ms(CLOCK)}, 'result', 'discarded', 'error', NULL, 'by', ?::text, 'reason', ?::text)`,
        which,
        [by, reason],
      ),

    /** ids */
    importDone: `WITH added AS (
  INSERT INTO ${events} (id, type, source, state)
  SELECT id, '', 'import', 'done' FROM unnest($1::text[]) AS imported (id) ORDER BY id COLLATE "C"
  ON CONFLICT (id) DO NOTHING RETURNING id, ${DURABLY}
) SELECT count(*)::double precision AS count FROM added`,

    /** olderThanMs, limit */
    prune: `WITH pruned AS (
  UPDATE ${events} SET event = NULL, history = NULL WHERE id = ANY (ARRAY (
    SELECT id FROM ${events} WHERE state = 'done' AND event IS NOT NULL
      AND updated_at <= (now() - ${span('$1')})
    ORDER BY updated_at LIMIT $2::int FOR UPDATE SKIP LOCKED))
  RETURNING id, ${DURABLY}
) SELECT count(*)::double precision AS pruned FROM pruned`,
  } as const;
}
