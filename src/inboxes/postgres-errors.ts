import { type HandlerError, StablehooksError } from '../core/errors.js';
import { endedByHandler } from './lend.js';

/** Ignores codes in other forms, such as EPIPE from Node or P2010 from Prisma. */
function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return /^(?=.*\d)(?!P[12]\d)[0-9A-Z]{5}$/.test(String(code)) ? String(code) : undefined;
}

const hasState =
  (...states: readonly string[]) =>
  (error: unknown) =>
    states.includes(sqlState(error) ?? '');

const READ_ONLY = '25006';

/** Another call has stored the same event, or there was a deadlock. */
export const isConflict = hasState('40001', '40P01');
/** A table, a schema or a function of the inbox is missing. */
export const isNotMigrated = hasState('42P01', '3F000', '42883');
export const isForbidden = hasState('42501');
/** The server may have become a standby, or may have been set to read-only. */
export const isReadOnly = hasState(READ_ONLY, '0A000');
/** A statement was rejected because an earlier statement in its transaction had failed. */
export const isAborted = hasState('25P02');
/** The inbox's savepoint doesn't exist, or no transaction is open. */
export const isEnded = hasState('3B001', '25P01');
/** A pooler in transaction mode gave the connection with the prepared statements to another client. */
export const isPoolerError = hasState('26000', '42P05');
/** The connection already had an open transaction before the inbox used it. */
export const isLeftOpen = hasState('2D000', '25001', '25P02');

/** The SQLSTATE classes of errors that handlers don't cause, such as a lost connection, a full disk or a shutdown. */
const INBOX_CLASSES = ['08', '25', '53', '57', '58', 'XX'];

export function preparedLost(cause: unknown): Error {
  const what = 'A prepared statement was lost. This happens behind a pooler in transaction mode.';
  return new Error(`${what} Turn off prepared statements (postgres.js: \`prepare: false\`).`, { cause });
}

/** If an earlier statement failed, Postgres silently turns a COMMIT into a ROLLBACK. */
export function rolledBackAtCommit(): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'A statement failed after the handler had returned, so Postgres rolled back everything that the handler wrote. Await every statement. Behind a pooler in transaction mode, turn off prepared statements (postgres.js: `prepare: false`). The event will run again.',
  );
}

/** The inbox completes an event with a key after the handler returns, in the same transaction and with the same role. */
const SET_BACK =
  'If the handler set another role, end the handler with `SET LOCAL ROLE NONE`, because the inbox writes after the handler if the event has an ordering key. ';

/** Rethrows an error from the end of a transaction, as the handler's error if the handler caused it. */
export function rethrowCommitError(error: unknown): never {
  const state = sqlState(error);
  if (isEnded(error)) throw endedByHandler(error);
  if (isAborted(error)) {
    throw new StablehooksError(
      'ERR_HANDLER_FAILED',
      'A statement failed and the handler caught its error, but Postgres has aborted the transaction. Rethrow the error, or use ON CONFLICT or a SAVEPOINT.',
      { cause: error },
    );
  }
  const isHandlers = state !== undefined && !INBOX_CLASSES.includes(state.slice(0, 2));
  if (!isHandlers && state !== READ_ONLY) throw error;
  throw new StablehooksError(
    'ERR_HANDLER_FAILED',
    `Postgres did not commit what the handler wrote (SQLSTATE ${state}); see the cause. ${isForbidden(error) ? SET_BACK : ''}The event will run again.`,
    { cause: error },
  );
}
