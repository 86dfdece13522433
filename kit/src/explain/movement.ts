import { createdAtMs, type InboxOperations, type InboxRecord, type UnknownEvent } from 'stablehooks';
import { type ProvenSpan, provenSpan, readPollState } from 'stablehooks/catch-up';
import { recordPages } from 'stablehooks/reconcile';
import { isText } from '../io/event-filter.js';
import { isObject } from '../io/settings.js';

export interface Movement {
  readonly found: readonly MovementRecord[];
  /** Events whose text is pruned, imported or unreadable cannot be searched. */
  readonly unread: number;
  readonly proven: ProvenSpan | null;
  readonly proof: string;
}

export type MovementRecord = InboxRecord & { readonly event: UnknownEvent };

const PAGE = 500;

/** @param key - the id of an event, an ordering key, or a value in the payload, such as the id of a transfer. */
export async function findMovement(
  inbox: Pick<InboxOperations, 'list'> & Parameters<typeof readPollState>[0],
  key: string,
  signal?: AbortSignal,
): Promise<Movement> {
  // The state is read first, because a later state could prove something about events that were not read.
  const state = await readPollState(inbox);
  const found: MovementRecord[] = [];
  const unread: InboxRecord[] = [];
  for await (const page of recordPages(inbox, { limit: PAGE })) {
    signal?.throwIfAborted();
    for (const record of page) {
      const { event } = record;
      if (event === null) unread.push(record);
      else if (record.id === key || record.key === key || holds(event.payload, key))
        found.push({ ...record, event });
    }
  }
  found.sort((a, b) => createdAtMs(a.event) - createdAtMs(b.event));
  const last = found.at(-1);
  const from = last === undefined ? Number.NEGATIVE_INFINITY : createdAtMs(last.event);
  // An event whose text is gone could be a later event of the movement.
  const isSearched = unread.every(({ receivedAt }) => receivedAt < from);
  const proven = isSearched ? provenSpan(state, { from }) : null;
  return { found, unread: unread.length, proven, proof: describeProof(proven, found.length) };
}

function holds(value: unknown, text: string): boolean {
  if (isObject(value) || Array.isArray(value)) return Object.values(value).some((each) => holds(each, text));
  return isText(value, text);
}

function describeProof(proven: ProvenSpan | null, found: number): string {
  if (proven === null)
    return 'It is not proven that every later event is in the inbox, so an event may be missing. See `stablehooks gaps list`.';
  return found === 0
    ? `The service's event list is proven complete from ${proven.from} until ${proven.until}, and contains no event for this key.`
    : `The service's event list is proven complete until ${proven.until}, and contains no later event for this key.`;
}
