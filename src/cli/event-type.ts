/** Event types as people type them. */
import { EVENT_TYPES, type EventType, isEventType } from '../core/events.js';
import { usageError } from './failure.js';
import { nearestName } from './nearest-name.js';
import { toPlain } from './table.js';

/**
 * Checks that a type is one of the five.
 *
 * @throws {CommandError} exit 2, with the nearest type.
 */
export function readEventType(typed: string): EventType {
  if (isEventType(typed)) return typed;
  const near = nearestName(typed, EVENT_TYPES);
  const hint = near === undefined ? `The types are ${EVENT_TYPES.join(', ')}.` : `Did you mean ${near}?`;
  throw usageError(`There is no event type ${toPlain(typed)}. ${hint}`);
}
