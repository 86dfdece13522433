/** Where the tables are, and the expressions that make up the inbox's statements. */

export type Tables = ReturnType<typeof quoteTables>;

/** The quoted names for a checked schema. */
export function quoteTables(schema: string) {
  const quote = (table: string) => `"${schema}"."${table}"`;
  return {
    schema: `"${schema}"`,
    events: quote('events'),
    notes: quote('notes'),
    steps: quote('steps'),
  };
}

// Not now(): that is the statement's start, before it waited for another claim's lock.
export const CLOCK = 'clock_timestamp()';
export const span = (parameter: string) => `(${parameter}::double precision * interval '1 millisecond')`;
/** The time this many ms after the epoch. */
export const fromMs = (parameter: string) => `(to_timestamp(0) + ${span(parameter)})`;
export const later = (parameter: string) => `(${CLOCK} + ${span(parameter)})`;
export const ms = (time: string) => `floor((extract(epoch FROM ${time}) * 1000))::double precision`;

/** The lock number of an id or a key, which may be equal texts. The lock is held until the transaction ends. */
export const lockNumber = ({ schema }: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `hashtextextended('stablehooks ${schema} ${kind} ' || ${name}, 0)`;

/** Takes the lock of an id or a key if it is free. */
export const tryLock = (tables: Tables, name: string, kind: 'id' | 'key' = 'id') =>
  `pg_try_advisory_xact_lock(${lockNumber(tables, name, kind)})`;

/** Cached plans must use the indexes, even if they were made while a table was small. */
export const FUNCTION = 'LANGUAGE plpgsql SET enable_seqscan = off';

/** Not a plain condition on the state, because the planner might then read all rows that were leased recently. */
export const isLeased = (row: string) => `${row}.state || '' = 'leased'`;

/** The condition of events that still have to run. The indexes of due events use it as well. */
export const isOpen = (row: string) => `(${row}.due_at IS NOT NULL OR ${row}.state = 'parked')`;
/** When an event is due. Parked events are due whatever the time. */
export const dueOf = (row: string) => `coalesce(${row}.due_at, '-infinity')`;

/** The last 9 attempts of the row `e`. The first one stays if its lease expired, because its effect may have happened. */
export const LAST_9 = `(coalesce(e.history, '[]') - CASE WHEN e.history #>> '{-10,result}' = 'lapsed' THEN -9 ELSE -10 END)`;

/**
 * The history of the row `e` with the end of its present attempt, which started when it was leased. Keeps the last 10
 * attempts.
 */
export const history = (result: string, endedAt: string, error: string) =>
  `${LAST_9} || jsonb_build_object(
    'attempt', e.attempts, 'startedAt', ${ms('e.updated_at')}, 'endedAt', ${ms(endedAt)},
    'result', ${result}, 'error', ${error})`;
export const LAPSED = history("'lapsed'", 'greatest(e.due_at, e.updated_at)', 'NULL::text');

const TYPES: Readonly<Record<string, string>> = { token: 'uuid', early: 'boolean' };

const typeOf = (name: string) => TYPES[name] ?? (name.endsWith('Ms') ? 'double precision' : 'text');

/** The declaration of values as parameters of a function. */
export const parameters = (names: readonly string[]) =>
  names.map((name) => `:${name} ${typeOf(name)}`).join(', ');

/** The values of a call of the function. */
export const passedTo = (names: readonly string[]) =>
  names.map((name) => `:${name}::${typeOf(name)}`).join(', ');

/** Makes the response to the commit of its transaction wait for the disk. */
export const FLUSHED = `CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`;

/**
 * The time limit of the transaction of an event, for a process that froze. One that the app has set stays. PGlite would
 * freeze with the handler that it waits for.
 */
function limits(set: (name: string) => string): string {
  const limit = (name: string, condition: string) =>
    `CASE WHEN ${condition} AND current_setting('${name}', true) = '0' AND version() NOT LIKE '%emcc%' THEN ${set(name)} END`;
  const isOld = "current_setting('transaction_timeout', true) IS NULL";
  return `${limit('transaction_timeout', 'true')},
  ${limit('statement_timeout', isOld)},
  ${limit('idle_in_transaction_session_timeout', isOld)}`;
}

/** What the first statement of a transaction sets for it. */
export const settings = (limitMs: string) =>
  `concat(${FLUSHED},\n  ${limits((name) => `set_config('${name}', ${limitMs}::text, true)`)}) AS set`;

/** The placeholder for the time limit, in ms. */
export const LIMIT = '<limit>';

/** Asks a connection once for the statements that set its limit, which cost less than the functions. */
export const SETTINGS = `SELECT concat(${limits((name) => `'SET LOCAL ${name} = ${LIMIT};'`)}) AS set`;
