/** Telling somebody how deliveries ended, without letting that change how they end. */
import type { Outcome } from './outcome.js';

/** The default of `onOutcome`: every outcome with an error in it, on the console. */
export function logOutcome({ kind, origin, event, error }: Outcome): void {
  if (error === undefined) return;
  const about = event === undefined ? '' : ` ${event.type} ${event.id}`;
  const line = `stablehooks: ${kind}${about} (${origin}) ${error.code}: ${error.message}`;
  if (kind === 'rejected' || kind === 'busy') console.warn(line);
  else console.error(line, ...(error.cause === undefined ? [] : [error.cause]));
}
