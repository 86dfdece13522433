import type { UnknownEvent } from 'stablehooks';
import { isSameElement } from 'stablehooks/catch-up';
import { countOf, toPlain } from './output.js';

/** The service's default limit. It states no cap of its own, and one below its default is not possible. */
const LEAST_CAP = 50;

/**
 * Why an answer of the list may have left out events; `undefined` if no limit can have cut it, because it is smaller
 * than the limit asked for and smaller than any cap of the service.
 *
 * @param size - how many elements the answer has.
 * @param what - what messages call one element.
 */
export function describeCut(size: number, limit: number, what = 'event'): string | undefined {
  if (size < Math.min(limit, LEAST_CAP)) return undefined;
  const listed = `The service listed ${countOf(size, what)}`;
  return size >= limit
    ? `${listed}, which is the limit. There may be more: raise --limit.`
    : `${listed}. There may be more: it can cut answers of ${LEAST_CAP} or more at a limit of its own.`;
}

/**
 * Leaves out the copies of an event: elements with one id that differ in `delivered` at most.
 *
 * @returns `events`, of each id the first, in the order of the list; `others`, those with the id of an earlier event that
 * differ from it: the list contradicts itself.
 */
export function withoutCopies(listed: readonly UnknownEvent[]): {
  readonly events: readonly UnknownEvent[];
  readonly others: readonly UnknownEvent[];
} {
  const events = new Map<string, UnknownEvent[]>();
  for (const event of listed) {
    const known = events.get(event.id);
    if (known === undefined) events.set(event.id, [event]);
    else if (!known.some((one) => isSameElement(one, event))) known.push(event);
  }
  const all = [...events.values()];
  return {
    events: all.flatMap((different) => different.slice(0, 1)),
    others: all.flatMap((different) => different.slice(1)),
  };
}

/** How many ids a message names. */
const MAX_NAMED = 10;

/** Says that a list has different events with these ids. */
export function describeConflicts(ids: readonly string[]): string {
  const more = ids.length > MAX_NAMED ? ` and ${ids.length - MAX_NAMED} more` : '';
  return `The list has different events with one id: ${toPlain(ids.slice(0, MAX_NAMED).join(', '))}${more}. Ask the service which one is right.`;
}
