import type { Inbox, InboxOperations } from 'stablehooks';
import { withMark } from '../src/io/inbox-owner.js';

/** Leaves an inbox as one that `catch-up` has polled with. */
export async function leaveToCatchUp(inbox: Inbox & InboxOperations): Promise<void> {
  await withMark(inbox).acquirePoll({ holder: 'a run', leaseMs: 0 });
}
