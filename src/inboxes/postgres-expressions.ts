/** The names of the tables, and the expressions from which the inbox's statements are built. */

export type Tables = ReturnType<typeof quoteTables>;

/** Returns the quoted names of a schema and its tables. The schema must have been checked. */
export function quoteTables(schema: string) {
  const quote = (table: string) => `"${schema}"."${table}"`;
  return {
    schema: `"${schema}"`,
    events: quote('events'),
    notes: quote('notes'),
    steps: quote('steps'),
  };
}

// Not now(), which returns a time before the statement waited for the lock of another claim.
export const CLOCK = 'clock_timestamp()';
export const span = (parameter: string) => `(${parameter}::double precision * interval '1 millisecond')`;
/** Converts epoch ms to a timestamp. */
export const fromMs = (parameter: string) => `(to_timestamp(0) + ${span(parameter)})`;
export const later = (parameter: string) => `(${CLOCK} + ${span(parameter)})`;
export const ms = (time: string) => `floor((extract(epoch FROM ${time}) * 1000))::double precision`;

/** The number of the advisory lock on an id or a key. `kind` makes the numbers of an id and an equal key different. */
export const lockNumber = ({ schema }: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `hashtextextended('stablehooks ${schema} ${kind} ' || ${name}, 0)`;

/** Takes the advisory lock on an id or a key, but only if that lock is free. */
export const tryLock = (tables: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `pg_try_advisory_xact_lock(${lockNumber(tables, name, kind)})`;

/** Turns off sequential scans, so that cached plans use the indexes even if they were made while a table was small. */
export const FUNCTION = 'LANGUAGE plpgsql SET enable_seqscan = off';

/** Whether a row is leased. With a plain condition on the state, the planner might read all recently leased rows. */
export const isLeased = (row: string) => `${row}.state || '' = 'leased'`;

/** The condition for events that still have to run. The index on due events uses the same condition. */
export const isOpen = (row: string) => `(${row}.due_at IS NOT NULL OR ${row}.state = 'parked')`;
/** When an event is due. Parked events are always due. */
export const dueOf = (row: string) => `coalesce(${row}.due_at, '-infinity')`;

/**
 * The history of the row `e`, shortened to at most 9 attempts. Of 10 attempts, the oldest is dropped, or the second oldest
 * if the lease of the oldest attempt expired, because the effect of that attempt may have happened.
 */
export const LAST_9 = `(coalesce(e.history, '[]') - CASE WHEN e.history #>> '{-10,result}' = 'lapsed' THEN -9 ELSE -10 END)`;

/**
 * The history of the row `e`, including the attempt that ends now. That attempt began when the event was leased. The
 * history has at most 10 attempts.
 */
export const history = (result: string, endedAt: string, error: string) =>
  `${LAST_9} || jsonb_build_object(
    'attempt', e.attempts, 'startedAt', ${ms('e.updated_at')}, 'endedAt', ${ms(endedAt)},
    'result', ${result}, 'error', ${error})`;
export const LAPSED = history("'lapsed'", 'greatest(e.due_at, e.updated_at)', 'NULL::text');

const TYPES: Readonly<Record<string, string>> = { token: 'uuid', early: 'boolean' };

const typeOf = (name: string) => TYPES[name] ?? (name.endsWith('Ms') ? 'double precision' : 'text');

/** Declares values as the parameters of a function. */
export const parameters = (names: readonly string[]) =>
  names.map((name) => `:${name} ${typeOf(name)}`).join(', ');

/** The arguments of a call to a function. */
export const passedTo = (names: readonly string[]) =>
  names.map((name) => `:${name}::${typeOf(name)}`).join(', ');

/**
 * Turns `synchronous_commit` on for the current transaction if it is off, so that COMMIT returns only after the data is on
 * disk.
 */
export const FLUSHED = `CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`;

/**
 * Limits the time of an event's transaction, in case its process freezes. A limit that the app has set stays. PGlite gets
 * no limit, because it runs in the same process and would freeze too.
 */
function limits(set: (name: string) => string): string {
  const limit = (name: string, condition: string) =>
    `CASE WHEN ${condition} AND current_setting('${name}', true) = '0' AND version() NOT LIKE '%emcc%' THEN ${set(name)} END`;
  const isOld = "current_setting('transaction_timeout', true) IS NULL";
  return `${limit('transaction_timeout', 'true')},
  ${limit('statement_timeout', isOld)},
  ${limit('idle_in_transaction_session_timeout', isOld)}`;
}

/** The settings that the first statement makes for its transaction. */
export const settings = (limitMs: string) =>
  `concat(${FLUSHED},\n  ${limits((name) => `set_config('${name}', ${limitMs}::text, true)`)}) AS set`;

/** The placeholder for the time limit, in ms. */
export const LIMIT = '<limit>';

/** Asks a connection once for the statements that set the time limit. Sending them costs less than calling `set_config`. */
export const SETTINGS = `SELECT concat(${limits((name) => `'SET LOCAL ${name} = ${LIMIT};'`)}) AS set`;
