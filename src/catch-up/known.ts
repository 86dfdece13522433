/** Samples the listed events, because the next list must contain them again. */

import type { EventKey } from './answer.js';
import type { KnownEvent } from './state.js';

/** The maximum number of settled events in the sample, and also of newer events. */
const MAX_KNOWN = 20;

/** Newer events are counted separately, because another replica of the service may not list them yet. */
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

/** Inserts in order, newest first, because sorting a long list would take too long. */
function insert(newest: KnownEvent[], event: KnownEvent): void {
  if (event.at <= (newest[MAX_KNOWN - 1]?.at ?? Number.NEGATIVE_INFINITY)) return;
  const place = newest.findIndex(({ at }) => event.at > at);
  newest.splice(place === -1 ? newest.length : place, 0, event);
  newest.splice(MAX_KNOWN);
}
