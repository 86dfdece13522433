import { readOptions } from '../core/options.js';
import { nameRule } from './name-rule.js';
import type { Person } from './operations.js';
import { type PgLike, QUERIES_RULE } from './postgres-client.js';
import {
  CLOCK,
  dueOf,
  FLUSHED,
  fromMs,
  history,
  isLeased,
  isOpen,
  LAPSED,
  LAST_9,
  later,
  lockNumber,
  ms,
  passedTo,
  quoteTables,
  settings,
  span,
  type Tables,
  tryLock,
} from './postgres-expressions.js';
import { writeFunctions } from './postgres-functions.js';
import { AHEAD_MS, type Limited, type PageQuery, type Selection, selectionWriter } from './selection.js';
import { VALUES, VERSION } from './server-inbox.js';
import { placeNumbered, type Template } from './statements.js';

/** Options that tell a function where the inbox's tables are. */
export interface PostgresSchemaOptions {
  /**
   * The schema that contains the inbox's tables. The name of the schema can contain up to 63 letters, digits and
   * underscores, and must not start with a digit.
   *
   * @default 'stablehooks'
   */
  readonly schema?: string | undefined;
}

export const SCHEMA_RULE = nameRule(63);

/**
 * Returns the SQL that creates the tables, one statement per element. Use this function if your app runs its own migrations.
 *
 * Rerunning a statement has no effect, and later releases only append statements to the list. At each deployment, run either
 * all statements or only the new ones.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or invalid.
 */
export function postgresMigrations(options: PostgresSchemaOptions = {}): readonly string[] {
  const { schema } = readOptions('postgresMigrations', options, { schema: SCHEMA_RULE });
  return writeMigrations(quoteTables(schema));
}

/**
 * Each migration is one atomic block, which first looks for the object that it creates last, so a migration that has already
 * run locks nothing. The column `event` is text, because jsonb rejects \u0000 and json would parse the event again. Of the
 * secondary indexes, only the index on states contains done events.
 */
function writeMigrations(tables: Tables): readonly string[] {
  const { schema, events, notes, steps } = tables;
  return [
    // CREATE SCHEMA IF NOT EXISTS needs the privilege to create a schema even if the schema already exists.
    `DO $schema$ BEGIN
IF getdatabaseencoding() NOT IN ('UTF8', 'SQL_ASCII') THEN
  RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
    MESSAGE = 'The encoding of this database is ' || getdatabaseencoding() || ', which cannot store every event. Use a database with the encoding UTF8.';
END IF;
IF to_regnamespace('${schema}') IS NULL THEN CREATE SCHEMA ${schema}; END IF;
END $schema$`,
    `DO $version1$ BEGIN
IF to_regprocedure('${schema}.run(text, text[], text)') IS NULL THEN
  CREATE TABLE ${events} (
    id text COLLATE "C" PRIMARY KEY,
    received_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    due_at timestamp with time zone,
    created_at timestamp with time zone,
    attempts integer NOT NULL DEFAULT 0,
    waiting boolean,
    pruned smallint NOT NULL DEFAULT 0,
    state text COLLATE "C" NOT NULL
      CHECK (state = ANY ('{received,leased,failed,done,dead,parked}')),
    source text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    token uuid,
    last_error text,
    event text,
    history jsonb
  );
  CREATE INDEX events_state ON ${events} (state, pruned, received_at) INCLUDE (updated_at);
  CREATE INDEX events_due ON ${events} (type, ${dueOf('events')}, received_at) WHERE ${isOpen('events')};
  CREATE UNIQUE INDEX events_leased_key ON ${events} (key) WHERE state = 'leased' AND key IS NOT NULL;
  CREATE INDEX events_waiting ON ${events} (key, created_at, received_at) WHERE waiting;
  CREATE TABLE ${steps} (
    event_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    attempt integer NOT NULL,
    stored_at timestamp with time zone NOT NULL,
    result text,
    PRIMARY KEY (event_id, name)
  );
  CREATE INDEX steps_unknown ON ${steps} (event_id) WHERE result IS NULL;
  CREATE INDEX steps_owned ON ${steps} (stored_at) WHERE name = '';
  CREATE TABLE ${notes} (
    name text COLLATE "C" PRIMARY KEY,
    text text,
    holder text,
    lease_until timestamp with time zone NOT NULL DEFAULT '-infinity',
    leased_at timestamp with time zone NOT NULL DEFAULT '-infinity'
  );
  COMMENT ON TABLE ${events} IS 'stablehooks, version ${VERSION}';
${writeFunctions(tables)}
END IF;
END $version1$`,
  ];
}

/**
 * Creates the inbox's tables, or migrates them to this release. Call this function whenever a process starts. An advisory
 * lock serializes the calls, and each call is one transaction and one round trip.
 *
 * The database role needs the privilege to create the schema or, if the schema exists, to create tables in it. Once the
 * tables exist, the role needs neither privilege. The encoding of the database must be UTF8.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `pool` or an option is invalid. Rejects with the driver's error if the
 * statement fails, for example because the role lacks a privilege.
 */
export async function migratePostgres(pool: PgLike, options: PostgresSchemaOptions = {}): Promise<void> {
  readOptions('migratePostgres', { pool }, { pool: QUERIES_RULE });
  const tables = quoteTables(readOptions('migratePostgres', options, { schema: SCHEMA_RULE }).schema);
  // This is a single DO block, because some drivers can't send several statements together or stay on one connection.
  await pool.query(`DO $migration$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('stablehooks ${tables.schema}', 0));
${writeMigrations(tables).join(';\n')};
END $migration$`);
}

/** Selects leases that start in the future, except the leases that this process holds. */
const AHEAD = `(updated_at > ${later(`${AHEAD_MS}`)} AND token::text <> ALL (:held::text[]))`;

export interface PgTemplate extends Template {
  /** Whether the procedure `run` runs the statement, commits and returns the rows. */
  readonly isRun?: true;
}

/** This form is for reads, parts of a handler's transaction, and calls of procedures. */
const sent = (sql: string): PgTemplate => placeNumbered(sql, (position) => `$${position}`);
const committed = (sql: string): PgTemplate => ({
  ...placeNumbered(sql, (position) => `($1)[${position}]`),
  isRun: true,
});

/** The result is in ms, and is at least one second. */
const leftMs = (row: string) =>
  `greatest(1000, ceil(extract(epoch FROM ${row}.due_at - ${CLOCK}) * 1000))::bigint`;

/** The schema must already have been checked. Each statement is atomic at READ COMMITTED and uses the server's clock. */
export function writeStatements(name: string) {
  const tables = quoteTables(name);
  const { schema, events, notes, steps } = tables;
  /** Makes a first attempt the owner of its event's steps until the event is stored. */
  const owned = `${steps} WHERE event_id = :id::text AND name = '' AND result = :token::text
    AND NOT EXISTS (SELECT 1 FROM ${events} WHERE id = :id::text)`;
  const record = `id, type, state, attempts, source, key, last_error AS error, event AS json,
  history::text AS history,
  ${ms('received_at')} AS received, ${ms('updated_at')} AS updated, ${ms('due_at')} AS due`;
  /** The server can keep the statement's plan under the name, which must be unique and can have up to 63 characters. */
  const kept = (own: string, sql: string): PgTemplate =>
    name.length > 50 ? sent(sql) : { ...sent(sql), name: `${name}.${own}` };
  const take = `INSERT INTO ${events} (id, type, state, attempts, source, received_at, updated_at, token, event)
SELECT :id::text, :type::text, 'done', 1, :origin::text, at, at, :token::uuid, :json::text
FROM (SELECT ${CLOCK} AS at) AS now WHERE ${tryLock(tables, ':id::text')} AND pg_current_xact_id_if_assigned() IS NULL
  AND current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII')
ON CONFLICT (id) DO NOTHING`;
  const selections = selectionWriter({
    events,
    record,
    hasPruned: true,
    oldest: ms('min(updated_at)'),
    time: fromMs,
    conditions: {
      known: `NOT EXISTS (SELECT 1 FROM ${steps} AS s WHERE s.event_id = events.id AND s.result IS NULL)`,
      ids: 'id = ANY (:ids::text[])',
      key: 'key = :key',
      error: 'position(:error::text IN last_error) > 0',
      ahead: AHEAD,
      expired: `(due_at <= ${CLOCK} OR ${AHEAD})`,
    },
  });
  const historyWithPerson = (result: string) =>
    `history = ${LAST_9} || jsonb_build_object('attempt', e.attempts, 'startedAt', ${ms(CLOCK)},
      'endedAt', ${ms(CLOCK)}, 'result', '${result}', 'error', NULL, 'by', :by::text, 'reason', :reason::text)`;
  const update = (set: string, which: Limited) =>
    committed(`WITH changed AS (
  UPDATE ${events} AS e SET ${set} WHERE id = ANY (ARRAY (${selections.first('id', which)} FOR UPDATE))
  RETURNING id
) SELECT count(*) AS count FROM changed`);
  const due = `FROM ${events} AS e
    WHERE e.type = of_type.type COLLATE "C" AND ${isOpen('e')} AND ${dueOf('e')} <= now()
    ORDER BY ${dueOf('e')}, e.received_at`;

  return {
    list: (query: PageQuery) => sent(selections.list(query)),

    count: (selection: Selection) => sent(selections.count(selection)),

    claim: committed(`SELECT * FROM ${schema}.claim_event(${passedTo(VALUES.claim)})`),

    finish: committed(`SELECT ${schema}.end_attempt(${passedTo(VALUES.finish)}) AS ended`),

    /**
     * Inserts the rows in the order of their ids, but sets the `received_at` of events with a key in the order of the page.
     * The result is `running` if the event's id is locked, or if another call stores the event at the same time.
     */
    record: committed(`WITH page AS (
  SELECT * FROM ROWS FROM (unnest(:ids::text[]), unnest(:types::text[]), unnest(:texts::text[]), unnest(:keys::text[]),
    unnest(:created::text[]))
    WITH ORDINALITY AS one (id, type, event, key, created, position)
), known AS (
  SELECT id, state FROM ${events} WHERE id = ANY (:ids::text[])
), free AS MATERIALIZED (
  SELECT * FROM page WHERE id NOT IN (SELECT id FROM known) AND ${tryLock(tables, 'id')}
), recorded AS (
  INSERT INTO ${events} (id, type, state, source, due_at, event, key, created_at, received_at)
  SELECT id, type, :state::text, :origin::text, ${later(':dueInMs')}, event, key,
    CASE WHEN key IS NOT NULL THEN ${fromMs('created')} END,
    CASE WHEN key IS NULL THEN ${CLOCK} ELSE now() + ${span('position * 0.001')} END
  FROM free ORDER BY id COLLATE "C", position
  ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT id, CASE WHEN recorded.id IS NOT NULL THEN 'new' ELSE coalesce(known.state, 'running') END AS result
FROM page LEFT JOIN known USING (id) LEFT JOIN recorded USING (id)`),

    run: kept('run', `CALL ${schema}.run(:statement, :parameters, NULL)`),

    /** Returns no row if the event is already stored or running, or if the app left the connection in a wrong state. */
    take: sent(`${take} RETURNING ${settings(':leaseMs::bigint')}`),

    /** This statement is like `take`, but it is prepared, and its transaction must already have a time limit. */
    takePrepared: kept('take', `${take} RETURNING ${FLUSHED}`),

    /** If the handler ended its transaction itself, the event is already stored. */
    failFirst:
      committed(`INSERT INTO ${events} AS e (id, type, state, attempts, source, received_at, updated_at, due_at, last_error,
  event, history)
SELECT :id::text, :type::text, CASE :result WHEN 'later' THEN 'received' ELSE :result END,
  CASE :result WHEN 'later' THEN 0 ELSE 1 END, :origin::text, at, at, at + ${span(':retryAfterMs')}, :error::text, :json::text,
  jsonb_build_array(jsonb_build_object('attempt', 1, 'startedAt', ${ms('at')}, 'endedAt', ${ms('at')},
    'result', :result::text, 'error', :error::text))
FROM (SELECT ${CLOCK} AS at) AS now WHERE ${tryLock(tables, ':id::text')}
ON CONFLICT (id) DO UPDATE SET state = excluded.state, due_at = NULL, token = NULL, last_error = excluded.last_error,
  updated_at = excluded.updated_at, history = excluded.history
  WHERE e.token = :token::uuid AND excluded.state = 'dead'
RETURNING :result AS ended`),

    /** Takes the advisory lock on the id, so that other calls skip the event instead of waiting for its row. */
    mark: sent(`UPDATE ${events} AS e SET state = 'done', due_at = NULL, last_error = NULL, updated_at = ${CLOCK},
  history = ${history("'done'", CLOCK, 'NULL::text')}
FROM (SELECT due_at FROM ${events} WHERE id = :id::text) AS leased
WHERE e.id = :id::text AND e.token = :token::uuid AND ${isLeased('e')}
  AND pg_advisory_xact_lock(${lockNumber(tables, ':id::text')}) IS NOT NULL
RETURNING ${settings(leftMs('leased'))}`),

    /** Begins the transaction of an event with a key. Only the last statement, `complete`, marks the event as done. */
    hold: sent(`SELECT ${settings(leftMs('e'))} FROM ${events} AS e
WHERE id = :id::text AND token = :token::uuid`),

    complete: sent(`SELECT ${schema}.end_attempt(:id, :token, :key, 'done', NULL, NULL, NULL) AS ended`),

    /** Looks the tables up by oid, because names are not found without a privilege on the schema. */
    lacking: sent(`SELECT string_agg(lacking, ', ') AS answer FROM (
  SELECT 'USAGE on schema ' || nspname FROM pg_namespace
  WHERE nspname = '${name}' AND NOT has_schema_privilege(oid, 'USAGE')
  UNION ALL SELECT string_agg(privilege, ', ') || ' on ' || relnamespace::regnamespace || '.' || relname
  FROM pg_class CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS privilege
  WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = '${name}') AND relkind = 'r'
    AND NOT has_table_privilege(pg_class.oid, privilege) GROUP BY relnamespace, relname
) AS missing (lacking)`),

    /** Returns no row if there are no tables. */
    version:
      sent(`SELECT coalesce(substring(obj_description(c.oid, 'pg_class') FROM '[0-9]+$'), '0') AS version
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = '${name}' AND relname = 'events'`),

    isDone: sent(`SELECT id FROM ${events} WHERE id = :id::text AND state = 'done'`),

    /** Reads each type separately from the index, so that due events of other types are not read. Skips locked events. */
    takeDue: committed(`WITH wanted AS MATERIALIZED (
  SELECT type, count(*) AS size FROM (
    SELECT first.type FROM unnest(:types::text[]) AS of_type (type) CROSS JOIN LATERAL (
      SELECT e.type, ${dueOf('e')} AS at, e.received_at ${due} LIMIT :limit::int
    ) AS first ORDER BY first.at, first.received_at LIMIT :limit::int
  ) AS first GROUP BY type
), found AS MATERIALIZED (
  SELECT each.id, each.at, each.received_at FROM wanted AS of_type CROSS JOIN LATERAL (
    SELECT e.id, ${dueOf('e')} AS at, e.received_at ${due} LIMIT of_type.size FOR UPDATE SKIP LOCKED
  ) AS each
), taken AS (
  UPDATE ${events} AS e SET state = 'received', due_at = ${later(':visibilityTimeoutMs')}, token = NULL, waiting = NULL,
    updated_at = CASE WHEN e.state = 'received' THEN e.updated_at ELSE ${CLOCK} END,
    history = CASE WHEN e.state = 'leased' THEN ${LAPSED} ELSE e.history END
  WHERE e.id = ANY (ARRAY (SELECT id FROM found)) RETURNING e.id, e.event
)
SELECT taken.id, taken.event AS json FROM found JOIN taken ON found.id = taken.id ORDER BY found.at, found.received_at`),

    readNote: sent(`SELECT text FROM ${notes} WHERE name = :name::text`),

    /** If a holder is given, only updates the note, because the lease has already inserted the row. */
    writeNote: committed(`INSERT INTO ${notes} AS n (name, text)
SELECT :name::text, :note::text WHERE :holder::text IS NULL OR EXISTS (SELECT FROM ${notes} WHERE name = :name::text)
ON CONFLICT (name) DO UPDATE SET text = excluded.text WHERE :holder::text IS NULL OR n.holder = :holder::text
RETURNING name`),

    leaseNote: committed(`INSERT INTO ${notes} AS n (name, holder, lease_until, leased_at)
VALUES (:name::text, :holder::text, ${later(':leaseMs')}, ${CLOCK})
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, lease_until = ${later(':leaseMs')}, leased_at = ${CLOCK}
WHERE n.holder = excluded.holder OR n.lease_until <= ${CLOCK} OR n.leased_at > ${later(`${AHEAD_MS}`)}
RETURNING name`),

    find: sent(`SELECT ${record} FROM ${events} WHERE id = :id::text`),

    requeue: (which: Limited, who: Person | undefined) =>
      update(
        `state = 'received', attempts = 0, due_at = ${CLOCK}, updated_at = ${CLOCK}${who ? `, ${historyWithPerson('requeued')}` : ''}`,
        which,
      ),

    discard: (which: Limited) =>
      update(
        `state = 'done', due_at = NULL, last_error = NULL, waiting = NULL, updated_at = ${CLOCK},
    ${historyWithPerson('discarded')}`,
        which,
      ),

    endLeases: (which: Limited) =>
      committed(`UPDATE ${events} AS e SET state = 'failed', due_at = ${CLOCK}, updated_at = ${CLOCK}, token = NULL,
  history = ${history("'lapsed'", `greatest(least(${CLOCK}, e.due_at), e.updated_at)`, 'NULL::text')}
WHERE id = ANY (ARRAY (${selections.first('id', which)} FOR UPDATE SKIP LOCKED)) RETURNING id`),

    importDone: committed(`WITH added AS (
  INSERT INTO ${events} (id, type, source, state, pruned)
  SELECT id, '', 'import', 'done', 1 FROM unnest(:ids::text[]) AS imported (id) ORDER BY id COLLATE "C"
  ON CONFLICT (id) DO NOTHING RETURNING id
) SELECT count(*) AS count FROM added`),

    /** Keeps steps without a stored event for 30 days, because the first attempt may be repeated if its process died. */
    prune: committed(`WITH pruned AS (
  UPDATE ${events} SET event = NULL, history = NULL, pruned = 1 WHERE id = ANY (ARRAY (
    SELECT id FROM ${events} WHERE state = 'done' AND pruned = 0
      AND received_at <= (now() - ${span(':olderThanMs')}) AND updated_at <= (now() - ${span(':olderThanMs')})
    ORDER BY received_at LIMIT :limit::int FOR UPDATE SKIP LOCKED))
  RETURNING id
), forgotten AS (
  DELETE FROM ${steps} WHERE event_id = ANY (ARRAY (SELECT id FROM pruned)) OR event_id = ANY (ARRAY (
    SELECT event_id FROM ${steps} AS s WHERE name = ''
      AND stored_at <= (now() - greatest(${span(':olderThanMs')}, interval '30 days'))
      AND NOT EXISTS (SELECT 1 FROM ${events} AS e WHERE e.id = s.event_id) LIMIT :limit::int))
) SELECT count(*) AS count FROM pruned`),

    /** The event is not stored yet, so a row in the table of steps keeps the attempt's token. */
    ownSteps: committed(`INSERT INTO ${steps} AS s (event_id, name, attempt, stored_at, result)
VALUES (:id::text, '', 1, ${CLOCK}, :token::text)
ON CONFLICT (event_id, name) DO UPDATE SET stored_at = excluded.stored_at, result = excluded.result
RETURNING name`),

    /** Returns one row without a name if the event has no steps. */
    steps: sent(`SELECT s.name, s.attempt, ${ms('s.stored_at')} AS at, s.result
FROM (SELECT id FROM ${events} WHERE id = :id::text AND (:token::uuid IS NULL OR token = :token::uuid)
  UNION ALL SELECT event_id FROM ${owned}) AS e LEFT JOIN ${steps} AS s ON s.event_id = e.id
ORDER BY s.number`),

    /** Takes no lock, because the handler may have locked the event. The primary key lets only one process begin a step. */
    saveStep: committed(`WITH leased AS (
  SELECT id, attempts FROM ${events} WHERE id = :id::text AND token = :token::uuid
  UNION ALL SELECT * FROM (SELECT event_id, 1 FROM ${owned} FOR SHARE) AS owned
), forgotten AS (
  DELETE FROM ${steps} USING leased WHERE event_id = id AND name = :name::text AND result IS NULL AND :what::text = 'forgets'
  RETURNING name
), saved AS (
  INSERT INTO ${steps} AS s (event_id, name, attempt, stored_at, result)
  SELECT id, :name::text, attempts, ${CLOCK}, CASE :what::text WHEN 'ends' THEN :value::text END FROM leased
  WHERE :what::text <> 'forgets'
  ON CONFLICT (event_id, name) DO UPDATE
    SET attempt = excluded.attempt, stored_at = excluded.stored_at, result = excluded.result
    WHERE s.result IS NULL AND excluded.result IS NOT NULL
  RETURNING name
) SELECT name FROM forgotten UNION ALL SELECT name FROM saved`),

    stateSteps: committed(`WITH unknown AS (
  SELECT s.name FROM ${steps} AS s JOIN ${events} AS e ON e.id = s.event_id
  WHERE e.id = :id::text AND e.state IN ('failed', 'dead') AND s.result IS NULL
), done AS (
  UPDATE ${steps} SET result = '' WHERE event_id = :id::text AND name IN (SELECT name FROM unknown) AND name = ANY (:done::text[])
)
DELETE FROM ${steps} WHERE event_id = :id::text AND name IN (SELECT name FROM unknown) AND name = ANY (:again::text[])
RETURNING name`),
  } as const;
}
