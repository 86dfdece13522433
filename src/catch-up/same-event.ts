import { createdAtMs, type UnknownEvent } from '../core/events.js';

/**
 * Tells whether two elements of the service's event list are copies of the same event. The order of fields doesn't
 * matter, nor does `delivered`, which the service changes when a delivery succeeds. Deeply nested values don't overflow
 * the stack.
 */
export function isSameElement(a: UnknownEvent, b: UnknownEvent): boolean {
  return isSameValue({ ...a, delivered: undefined }, { ...b, delivered: undefined });
}

/** Ignores other fields, because a delivery may lack them. The two times may be written differently. */
export function saysTheSame(a: UnknownEvent, b: UnknownEvent): boolean {
  return a.type === b.type && createdAtMs(a) === createdAtMs(b) && isSameValue(a.payload, b.payload);
}

/** Not recursive, because deep nesting would overflow the stack. */
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
