/** Telling somebody how deliveries ended, without letting that change how they end. */
import type { Outcome } from './outcome.js';

/** The default of `onOutcome`: every outcome with an error in it, on the console. */
export function logOutcome({ kind, source, event, error }: Outcome): void {
  if (error === undefined) return;
  const about = event === undefined ? '' : ` ${event.type} ${event.id}`;
  const line = `stablehooks: ${kind}${about} (${source}) ${error.code}: ${error.message}`;
  if (kind === 'rejected' || kind === 'busy') console.warn(line);
  else console.error(line, ...(error.cause === undefined ? [] : [error.cause]));
}

/** Calls one of the user's observers; what it throws or rejects is logged and goes no further. */
export function notify<Value>(observer: (value: Value) => void | Promise<void>, value: Value): void {
  try {
    const pending: unknown = observer(value);
    if (pending !== undefined) Promise.resolve(pending).catch(logFault);
  } catch (fault) {
    logFault(fault);
  }
}

function logFault(fault: unknown): void {
  console.error('stablehooks: onOutcome or onUnknown failed; the outcome stands.', fault);
}
