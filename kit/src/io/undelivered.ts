/** The events of an inbox that events are forwarded from, and that neither a handler nor a queue of the endpoint has. */
import type { InboxOperations, InboxState } from 'stablehooks';
import { countAlike } from './delivery.js';
import { recordsOf } from './inbox.js';
import { countOf, toPlain } from './output.js';
import { isWithoutHandler } from './without-handler.js';

/** Such an event, whether this or an earlier run found that out. */
export interface Undelivered {
  readonly type: string;
  readonly state: InboxState;
  /** Whether the endpoint took it without running a handler. */
  readonly ignored: boolean;
}

/** In the order in which events pass from one to the next, so that one that does so meanwhile is not left out. */
const UNDELIVERED = ['parked', 'dead', 'failed', 'received', 'leased'] satisfies readonly InboxState[];

/**
 * Lists them.
 *
 * @param types - those of `--type`; `undefined` for all, also types that this release does not know.
 */
export async function listUndelivered(
  inbox: Pick<InboxOperations, 'list'>,
  types: readonly string[] | undefined,
): Promise<{
  readonly undelivered: readonly Undelivered[];
  /** Those of other types. */
  readonly leftOut: readonly Undelivered[];
}> {
  const undelivered: Undelivered[] = [];
  const leftOut: Undelivered[] = [];
  for (const state of UNDELIVERED) {
    for await (const { type, lastError } of recordsOf(inbox, state)) {
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
