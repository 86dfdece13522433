/** Samples the listed events. The next list must contain the same events again. Pure. */

import type { EventKey } from './answer.js';
import type { KnownEvent } from './state.js';

/** How many settled events the sample can contain, and also how many newer events. */
const MAX_KNOWN = 20;

/**
 * Returns the newest settled events, the oldest event, and some newer events. Another replica of the service may not
 * list those newer events yet.
 */
export function toKnown(
  shown: Iterable<readonly [EventKey, ...unknown[]]>,
  last: readonly KnownEvent[],
  { settledAt, until }: { readonly settledAt: number; readonly until: number },
): readonly KnownEvent[] {
  const settled: KnownEvent[] = [];
  const young: KnownEvent[] = [];
  let oldest: KnownEvent | undefined;
  for (const [{ id, type, at }] of shown) {
    if (!(at <= until && Number.isFinite(at))) continue;
    const known = { id, type, at };
    if (oldest === undefined || at < oldest.at) oldest = known;
    insert(at <= settledAt ? settled : young, known);
  }
  const waiting = last.filter(({ at }) => at > settledAt);
  const known = [...settled, ...[...waiting, ...young].slice(0, MAX_KNOWN), ...(oldest ? [oldest] : [])];
  return [...new Map(known.map((event) => [event.id, event])).values()];
}

/** Keeps the newest events, newest first. Sorting a whole long list would take too long. */
function insert(newest: KnownEvent[], event: KnownEvent): void {
  if (event.at <= (newest[MAX_KNOWN - 1]?.at ?? Number.NEGATIVE_INFINITY)) return;
  const place = newest.findIndex(({ at }) => event.at > at);
  newest.splice(place === -1 ? newest.length : place, 0, event);
  newest.splice(MAX_KNOWN);
}
