/** Event types as people type them. */
import { EVENT_TYPES, type EventType, isEventType } from 'stablehooks';
import { usageError } from './failure.js';
import { nearestName } from './nearest-name.js';
import type { Printer } from './printer.js';
import { toPlain } from './table.js';

/** Remarks on a type that this release does not know: it may be newer, or mistyped. */
export function remarkOnType(typed: string, { printer }: { readonly printer: Printer }): void {
  if (!isEventType(typed))
    printer.note(`This release knows no event type ${toPlain(typed)}. ${hintAt(typed)}`);
}

/**
 * Checks that a type is one of the five.
 *
 * @throws {CommandError} exit 2, with the nearest type.
 */
export function readEventType(typed: string): EventType {
  if (isEventType(typed)) return typed;
  throw usageError(`There is no event type ${toPlain(typed)}. ${hintAt(typed)}`);
}

function hintAt(typed: string): string {
  const near = nearestName(typed, EVENT_TYPES);
  return near === undefined ? `The types are ${EVENT_TYPES.join(', ')}.` : `Did you mean ${near}?`;
}
