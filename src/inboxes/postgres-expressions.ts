export type Tables = ReturnType<typeof quoteTables>;

/** The schema must already have been checked. */
export function quoteTables(schema: string) {
  const quote = (table: string) => `"${schema}"."${table}"`;
  return {
    schema: `"${schema}"`,
    events: quote('events'),
    notes: quote('notes'),
    steps: quote('steps'),
  };
}

// `now()` would return a time from before the statement waited for the lock of another claim.
export const CLOCK = 'clock_timestamp()';
export const span = (parameter: string) => `(${parameter}::double precision * interval '1 millisecond')`;
export const fromMs = (parameter: string) => `(to_timestamp(0) + ${span(parameter)})`;
export const later = (parameter: string) => `(${CLOCK} + ${span(parameter)})`;
export const ms = (time: string) => `floor((extract(epoch FROM ${time}) * 1000))::double precision`;

/** `kind` makes the numbers of an id and an equal key different. */
export const lockNumber = ({ schema }: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `hashtextextended('stablehooks ${schema} ${kind} ' || ${name}, 0)`;

export const tryLock = (tables: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `pg_try_advisory_xact_lock(${lockNumber(tables, name, kind)})`;

/** Without sequential scans, cached plans use the indexes even if the plans were made while a table was small. */
export const FUNCTION = 'LANGUAGE plpgsql SET enable_seqscan = off';

/** With a plain condition on the state, the planner might read all recently leased rows. */
export const isLeased = (row: string) => `${row}.state || '' = 'leased'`;

/** The index on due events uses the same condition. */
export const isOpen = (row: string) => `(${row}.due_at IS NOT NULL OR ${row}.state = 'parked')`;
/** Parked events are always due. */
export const dueOf = (row: string) => `coalesce(${row}.due_at, '-infinity')`;

/** Drops the oldest of 10 attempts, or the second oldest if the lease of the oldest one expired. */
export const LAST_9 = `(coalesce(e.history, '[]') - CASE WHEN e.history #>> '{-10,result}' = 'lapsed' THEN -9 ELSE -10 END)`;

/** Adds the attempt that ends now, which began when the event was leased. */
export const history = (result: string, endedAt: string, error: string) =>
  `${LAST_9} || jsonb_build_object(
    'attempt', e.attempts, 'startedAt', ${ms('e.updated_at')}, 'endedAt', ${ms(endedAt)},
    'result', ${result}, 'error', ${error})`;
export const LAPSED = history("'lapsed'", 'greatest(e.due_at, e.updated_at)', 'NULL::text');

const TYPES: Readonly<Record<string, string>> = { token: 'uuid', early: 'boolean' };

const typeOf = (name: string) => TYPES[name] ?? (name.endsWith('Ms') ? 'double precision' : 'text');

export const parameters = (names: readonly string[]) =>
  names.map((name) => `:${name} ${typeOf(name)}`).join(', ');

export const passedTo = (names: readonly string[]) =>
  names.map((name) => `:${name}::${typeOf(name)}`).join(', ');

/** Makes COMMIT return only after the data is on disk. */
export const FLUSHED = `CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`;

/** Keeps a limit that the app has set. Sets no limit in PGlite, which would freeze together with its process. */
function limits(set: (name: string) => string): string {
  const limit = (name: string, condition: string) =>
    `CASE WHEN ${condition} AND current_setting('${name}', true) = '0' AND version() NOT LIKE '%emcc%' THEN ${set(name)} END`;
  const isOld = "current_setting('transaction_timeout', true) IS NULL";
  return `${limit('transaction_timeout', 'true')},
  ${limit('statement_timeout', isOld)},
  ${limit('idle_in_transaction_session_timeout', isOld)}`;
}

export const settings = (limitMs: string) =>
  `concat(${FLUSHED},\n  ${limits((name) => `set_config('${name}', ${limitMs}::text, true)`)}) AS set`;

/** This text stands for the time limit, in ms. */
export const LIMIT = '<limit>';

/** Sending these statements costs less than calling `set_config`. */
export const SETTINGS = `SELECT concat(${limits((name) => `'SET LOCAL ${name} = ${LIMIT};'`)}) AS set`;
