import type { UnknownEvent } from 'stablehooks';
import { countOf } from './output.js';

/** The service's default limit. Its own cap, which is not specified, cannot be lower. */
const LEAST_CAP = 50;

/**
 * Why an answer of the list may have left out events; `undefined` if no limit can have cut it, because it is smaller than
 * the requested limit and than any cap of the service.
 *
 * @param size - the number of elements in the answer.
 * @param what - the noun for one element in messages.
 */
export function describeCut(size: number, limit: number, what = 'event'): string | undefined {
  if (size < Math.min(limit, LEAST_CAP)) return undefined;
  const listed = `The service listed ${countOf(size, what)}`;
  return size >= limit
    ? `${listed}, which is the limit. There may be more: raise --limit.`
    : `${listed}. There may be more: it can cut answers of ${LEAST_CAP} or more at a limit of its own.`;
}

/** The first element of each event, because a list can contain an event twice. */
export function withoutCopies(listed: readonly UnknownEvent[]): readonly UnknownEvent[] {
  const events = new Map<string, UnknownEvent>();
  for (const event of listed) if (!events.has(event.id)) events.set(event.id, event);
  return [...events.values()];
}
