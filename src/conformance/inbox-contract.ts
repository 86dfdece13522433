/** The contract that every inbox keeps, as data, so that no test runner is needed to hold one to it. */
import type { InboxCase } from './inbox-case.js';
import { inboxClaimCases } from './inbox-claim-cases.js';
import { inboxDueCases } from './inbox-due-cases.js';
import { inboxOperationCases } from './inbox-operation-cases.js';
import { inboxPollCases } from './inbox-poll-cases.js';
import { inboxRecordCases } from './inbox-record-cases.js';

/**
 * Every rule of the `Inbox` and `InboxOperations` ports, racing claimers included. Each case wants an empty
 * inbox of its own, seen through two connections, and rejects when the rule is broken.
 *
 * @example
 * ```ts
 * for (const { name, run } of inboxContract) test(name, () => run({ inbox: memory, second: memory }));
 * ```
 */
export const inboxContract: readonly InboxCase[] = [
  ...inboxClaimCases,
  ...inboxRecordCases,
  ...inboxDueCases,
  ...inboxPollCases,
  ...inboxOperationCases,
];
