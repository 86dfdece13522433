import type { InboxOperations, InboxState } from 'stablehooks';
import { findEvents } from './event-filter.js';
import { countAlike, countOf, toPlain } from './output.js';
import { isWithoutHandler } from './without-handler.js';

export interface Undelivered {
  readonly type: string;
  readonly state: InboxState;
  /** Whether the endpoint accepted the event without running a handler. */
  readonly ignored: boolean;
}

/** The states are read in this order, so that an event whose state changes in the meantime is not missed. */
const UNDELIVERED = ['parked', 'dead', 'failed', 'received', 'leased'] satisfies readonly InboxState[];

/** Without `types`, even events of types that this release does not know count as undelivered. */
export async function listUndelivered(
  inbox: Pick<InboxOperations, 'list' | 'find'>,
  types: readonly string[] | undefined,
) {
  const undelivered: Undelivered[] = [];
  const leftOut: Undelivered[] = [];
  for (const state of UNDELIVERED) {
    for await (const { type, lastError } of findEvents(inbox, { state })) {
      const list = (types?.includes(type) ?? true) ? undelivered : leftOut;
      list.push({ type, state, ignored: isWithoutHandler(lastError) });
    }
  }
  return { undelivered, leftOut };
}

/** Returns a text such as `3 events of transfer.failed, redeem.failed`. */
export function describeTypes(events: readonly Undelivered[]): string {
  const types = countAlike(events.map(({ type }) => type)).map(([type]) => type);
  return `${countOf(events.length, 'event')} of ${toPlain(types.join(', '))}`;
}
