/** Where the tables are, and the expressions of which the statements of the inbox are made. */

/** The quoted names. */
export interface Tables {
  readonly schema: string;
  readonly events: string;
  readonly poll: string;
  readonly fences: string;
}

/** Quotes the names; the schema must be checked. */
export function quoteTables(schema: string): Tables {
  const quote = (table: string) => `"${schema}"."${table}"`;
  return {
    schema: `"${schema}"`,
    events: quote('events'),
    poll: quote('poll'),
    fences: quote('fences'),
  };
}

// Functions, types and the operators below are qualified: a schema that is before pg_catalog in the search_path can
// hold others of the same names. Keywords of SQL (greatest, extract, bigint, double precision, interval) cannot be
// replaced. IN, NULLIF, CASE x WHEN and USING look up `=` by its name, so they are not used.
export const operator = (name: string) => `OPERATOR(pg_catalog.${name})`;
export const EQ = operator('=');
export const LE = operator('<=');
export const ADD = operator('+');
export const SUBTRACT = operator('-');
export const TIMES = operator('*');

// Not now(): that is the start of the statement, before it waited for the lock of another claim.
export const CLOCK = 'pg_catalog.clock_timestamp()';
export const span = (parameter: string) =>
  `(${parameter}::double precision ${TIMES} interval '1 millisecond')`;
/** The time that is so many ms after the epoch. */
export const fromMs = (parameter: string) => `(pg_catalog.to_timestamp(0) ${ADD} ${span(parameter)})`;
export const later = (parameter: string) => `(${CLOCK} ${ADD} ${span(parameter)})`;
export const epochMs = (time: string) => `(extract(epoch FROM ${time}) ${TIMES} 1000)`;
export const ms = (time: string) => `pg_catalog.floor(${epochMs(time)})::double precision`;
export const msUntil = (time: string) => `pg_catalog.ceil(${epochMs(`(${time} ${SUBTRACT} ${CLOCK})`)})`;

/**
 * Returned by each statement that writes: its commit then waits for the disk, as by default, also where
 * `synchronous_commit` is off. A crash of the server would lose what was answered otherwise.
 */
export const DURABLY = `CASE WHEN pg_catalog.current_setting('synchronous_commit') ${EQ} 'off'
  THEN pg_catalog.set_config('synchronous_commit', 'on', true) END AS durably`;

/** The condition of events that still have to run, which the indexes of due events have. */
export const isOpen = (row: string) => `(${row}.due_at IS NOT NULL OR ${row}.state ${EQ} 'parked')`;
/** When an event is due. Parked events are due whatever the time. */
export const dueOf = (row: string) => `coalesce(${row}.due_at, '-infinity')`;

/** The history of the row `e` with the end of its present attempt, which started when it was leased; the last 10. */
export const history = (result: string, endedAt: string, error: string) =>
  `(coalesce(e.history, '[]') ${SUBTRACT} (-10)) ${operator('||')} pg_catalog.jsonb_build_object(
    'attempt', e.attempts, 'startedAt', ${ms('e.updated_at')}, 'endedAt', ${ms(endedAt)},
    'result', ${result}, 'error', ${error})`;
export const LAPSED = history("'lapsed'", 'greatest(e.due_at, e.updated_at)', 'NULL::pg_catalog.text');
