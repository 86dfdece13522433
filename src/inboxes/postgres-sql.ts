import { readOptions, rule } from '../core/options.js';
import type { readListOptions, Selection } from './operation-options.js';
import { type PgLike, QUERIES_RULE } from './postgres-client.js';
import {
  CLOCK,
  dueOf,
  fromMs,
  isOpen,
  LAPSED,
  later,
  ms,
  quoteTables,
  span,
  type Tables,
} from './postgres-expressions.js';
import { writeFunctions } from './postgres-procedures.js';
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
${writeFunctions(tables)}
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
  const { schema, events, poll } = tables;
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
  RETURNING id
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

  return {
    /**
     * id, type, source, leaseMs, token, event, early, key or null, when the event was created in epoch ms or null, traceparent
     * or null, whether the claim need not wait for the disk. A claim that does not win writes nothing.
     */
    claim: `CALL ${schema}.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL, NULL, NULL, NULL)`,

    /** id, token, key or null, the new state, retryAfterMs or null, error or null */
    finish: `CALL ${schema}.finish($1, $2, $3, $4, $5, $6, NULL)`,

    /**
     * ids, types, events, the state of new events, dueInMs or null, source, keys, created, traceparent or null: the function
     * record_events describes them.
     */
    record: `CALL ${schema}.record($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL)`,

    /** A statement with \`$1\`, \`$2\` … and its values: commits it, and answers with its rows as JSON. */
    run: `CALL ${schema}.run($1, $2, NULL)`,

    /** id, token. The first statement of a transaction. */
    begin: `CALL ${schema}.begin_transaction($1, $2)`,

    /** id, token, key or null. The last statement of a transaction. */
    complete: `CALL ${schema}.complete_transaction($1, $2, $3)`,

    /** id */
    isDone: `SELECT id FROM ${events} WHERE id = $1::text AND state = 'done'`,

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
  WHERE e.id = ANY (ARRAY (SELECT id FROM found)) RETURNING e.id, e.event
)
SELECT taken.id, taken.event AS json FROM found JOIN taken ON found.id = taken.id ORDER BY found.at, found.received_at`,

    /** holder, leaseMs */
    acquirePoll: `INSERT INTO ${poll} AS p (holder, lease_until)
VALUES ($1::text, ${later('$2')})
ON CONFLICT (only_row) DO UPDATE SET holder = excluded.holder, lease_until = ${later('$2')}
WHERE p.holder = excluded.holder OR p.lease_until <= ${CLOCK}
RETURNING ${pollState}`,

    /** holder, leaseMs, since or null, watermark or null, gaps, limit, oldest or null */
    savePoll: `UPDATE ${poll} SET lease_until = ${later('$2')}, since = $3::bigint, watermark = $4::bigint,
  gaps = $5::text, list_limit = $6::int, oldest = $7::text
WHERE holder = $1::text RETURNING holder`,

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
  ON CONFLICT (id) DO NOTHING RETURNING id
) SELECT count(*)::double precision AS count FROM added`,

    /** olderThanMs, limit */
    prune: `WITH pruned AS (
  UPDATE ${events} SET event = NULL, history = NULL WHERE id = ANY (ARRAY (
    SELECT id FROM ${events} WHERE state = 'done' AND event IS NOT NULL
      AND updated_at <= (now() - ${span('$1')})
    ORDER BY updated_at LIMIT $2::int FOR UPDATE SKIP LOCKED))
  RETURNING id
) SELECT count(*)::double precision AS pruned FROM pruned`,
  } as const;
}
