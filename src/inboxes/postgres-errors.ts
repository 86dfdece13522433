/** Errors of Postgres, and of handlers that end their transaction or leave it broken. */
import { type HandlerError, StablehooksError } from '../core/errors.js';
import { endedByHandler } from './lend.js';

/** The SQLSTATE of an error. Node has other codes (EPIPE), as has Prisma (P2010). */
function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return /^(?=.*\d)(?!P[12]\d)[0-9A-Z]{5}$/.test(String(code)) ? String(code) : undefined;
}

const hasState =
  (...states: readonly string[]) =>
  (error: unknown) =>
    states.includes(sqlState(error) ?? '');

const READ_ONLY = '25006';

/**
 * Whether a statement of the inbox must be sent again, because another call has stored its event or because of a
 * deadlock.
 */
export const isConflict = hasState('40001', '40P01');
/** Whether a table, a schema or a function of the inbox does not exist. */
export const isNotMigrated = hasState('42P01', '3F000', '42883');
export const isForbidden = hasState('42501');
/** Whether a server may have refused to write: it has become a standby, or was set to read-only. */
export const isReadOnly = hasState(READ_ONLY, '0A000');
/** Whether a statement was refused because an earlier statement in its transaction had failed. */
export const isAborted = hasState('25P02');
/**
 * Whether the transaction is no longer the one that began: it doesn't have the savepoint, or there is no transaction.
 */
export const isEnded = hasState('3B001', '25P01');
/** Whether a pooler in transaction mode has handed the connection to another client, which loses prepared statements. */
export const isPoolerError = hasState('26000', '42P05');
/** Whether the connection of a statement had an open transaction. */
export const isLeftOpen = hasState('2D000', '25001', '25P02');

/** Classes that say nothing about the handler: connection, transaction state, resources, operator, system, internal. */
const INBOX_CLASSES = ['08', '25', '53', '57', '58', 'XX'];

export function preparedLost(cause: unknown): Error {
  const what = 'A prepared statement was lost, as happens behind a pooler in transaction mode.';
  return new Error(`${what} Turn off prepared statements (postgres.js: \`prepare: false\`).`, { cause });
}

/**
 * The error for a COMMIT that Postgres turned into a ROLLBACK without an error, because an earlier statement had
 * failed.
 */
export function rolledBackAtCommit(): HandlerError {
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    'A statement failed after the handler had returned, so Postgres rolled back everything that the handler wrote. Await every statement. Behind a pooler in transaction mode, turn off prepared statements (postgres.js: `prepare: false`). The event will run again.',
  );
}

/** An event with a key is completed after its handler, in the same transaction. */
const SET_BACK =
  'If the handler set another role, end the handler with `SET LOCAL ROLE NONE`, because with an ordering key the inbox writes after the handler. ';

/**
 * Rethrows the error of the statement or COMMIT that ends a transaction, as the handler's error if the handler caused
 * it.
 */
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
