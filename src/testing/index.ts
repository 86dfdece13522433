/** `stablehooks/testing`: what users test their own code with, and the contracts of adapters and inboxes. */
export type { InboxCase, InboxUnderTest } from './inbox-case.js';
export { inboxContract } from './inbox-contract.js';
