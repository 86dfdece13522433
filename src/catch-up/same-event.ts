/** Tells whether two events with the same id are the same event. */
import { createdAtMs, type UnknownEvent } from '../core/events.js';

/**
 * Returns whether two elements of the list are copies of the same event. `delivered` is ignored, because the service
 * changes it when a delivery succeeds. The order of fields is ignored as well, and deeply nested values don't make this
 * function throw.
 */
export function isSameElement(a: UnknownEvent, b: UnknownEvent): boolean {
  return isSameValue({ ...a, delivered: undefined }, { ...b, delivered: undefined });
}

/**
 * Returns whether a listed event and a stored event have the same type, time and payload. Other fields are ignored,
 * because a delivery may lack them. The two times may be written differently.
 */
export function saysTheSame(a: UnknownEvent, b: UnknownEvent): boolean {
  return a.type === b.type && createdAtMs(a) === createdAtMs(b) && isSameValue(a.payload, b.payload);
}

/** Compares values from JSON without recursion, so that deep nesting cannot overflow the stack. */
function isSameValue(a: unknown, b: unknown): boolean {
  const pairs: [unknown, unknown][] = [[a, b]];
  // The array grows while the loop reads it.
  for (const [left, right] of pairs) {
    if (!isNested(left) || !isNested(right)) {
      if (left !== right) return false;
      continue;
    }
    const names = Object.keys(left);
    const hasSameNames = names.length === Object.keys(right).length;
    if (Array.isArray(left) !== Array.isArray(right) || !hasSameNames) return false;
    for (const name of names) {
      if (!Object.hasOwn(right, name)) return false;
      pairs.push([left[name], right[name]]);
    }
  }
  return true;
}

function isNested(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
