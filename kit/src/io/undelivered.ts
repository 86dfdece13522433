/** Lists the events in a forwarding inbox that have reached neither a handler nor a queue of the endpoint. */
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

/**
 * The states are read in the order in which events reach them, so that an event that changes its state meanwhile is not
 * left out.
 */
const UNDELIVERED = ['parked', 'dead', 'failed', 'received', 'leased'] satisfies readonly InboxState[];

/**
 * Lists the undelivered events of the given types, and those of all other types as `leftOut`. Without `types`, lists
 * undelivered events of every type, even of types that this release does not know.
 */
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

/** Describes the events, such as `3 events of transfer.failed, redeem.failed`. */
export function describeTypes(events: readonly Undelivered[]): string {
  const types = countAlike(events.map(({ type }) => type)).map(([type]) => type);
  return `${countOf(events.length, 'event')} of ${toPlain(types.join(', '))}`;
}
