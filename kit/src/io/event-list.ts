import type { UnknownEvent } from 'stablehooks';
import { isSameElement } from 'stablehooks/catch-up';
import { countOf, nameSome } from './output.js';

/** The service's default limit. An undocumented cap of the service cannot be lower than this. */
const LEAST_CAP = 50;

/** Returns `undefined` if the response is smaller than both the limit and any possible cap of the service. */
export function describeCut(size: number, limit: number): string | undefined {
  if (size < Math.min(limit, LEAST_CAP)) return undefined;
  const listed = `The service listed ${countOf(size, 'event')}`;
  return size >= limit
    ? `${listed}, which is the limit. There may be more: raise --limit.`
    : `${listed}. There may be more: the service may truncate responses of ${LEAST_CAP} or more events at its own limit.`;
}

/** Copies differ at most in `delivered`. `others` contains events that contradict another event with the same id. */
export function withoutCopies(listed: readonly UnknownEvent[]) {
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

export function describeConflicts(ids: readonly string[]): string {
  return `The list contains different events with the same id: ${nameSome(ids)}. Ask the service which one is correct.`;
}
