/** The events of a forwarding inbox that have reached neither a handler nor a queue of the endpoint. */
import type { InboxOperations, InboxState } from 'stablehooks';
import { findEvents } from './event-filter.js';
import { countAlike, countOf, toPlain } from './output.js';
import { isWithoutHandler } from './without-handler.js';

export interface Undelivered {
  readonly type: string;
  readonly state: InboxState;
  /** Whether the endpoint accepted it without running a handler. */
  readonly ignored: boolean;
}

/** In the order in which events change their state, so that an event that changes in between is not left out. */
const UNDELIVERED = ['parked', 'dead', 'failed', 'received', 'leased'] satisfies readonly InboxState[];

/**
 * Lists the undelivered events, and lists events of other types as `leftOut`. Without types, also lists events of types
 * that this release does not know.
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

/** Such as `3 events of transfer.failed, redeem.failed`. */
export function describeTypes(events: readonly Undelivered[]): string {
  const types = countAlike(events.map(({ type }) => type)).map(([type]) => type);
  return `${countOf(events.length, 'event')} of ${toPlain(types.join(', '))}`;
}
