import type { ContractCase } from './contract.js';
import { raceCases, textCases, timeCases } from './inbox/bulk.js';
import { type ClockedInbox, clockLeaseCases, clockNoteCases, forceCases } from './inbox/clock.js';
import { filterCases } from './inbox/filters.js';
import type { InboxUnderTest } from './inbox/given.js';
import { keyCases } from './inbox/keys.js';
import { operationCases } from './inbox/operations.js';
import { noteCases } from './inbox/polling.js';
import { stateCases, transactionCases } from './inbox/states.js';
import { stepCases } from './inbox/steps.js';

/**
 * The rules of an inbox: every guarantee of `Inbox` and `InboxOperations`, apart from `transaction`.
 *
 * Covers claims, leases, recording, ignoring, due events, the poll lease and state, and the operations, including
 * simultaneous calls. Each case needs an empty inbox.
 *
 * @example
 * ```ts
 * for (const { name, run } of inboxContract) {
 *   test(name, async () => {
 *     const [first, second] = await connectTwiceToAnEmptyDatabase();
 *     await run({ inbox: myInbox(first), second: myInbox(second) });
 *   });
 * }
 * ```
 */
export const inboxContract: readonly ContractCase<InboxUnderTest>[] = [
  ...stateCases,
  ...raceCases,
  ...timeCases,
  ...textCases,
  ...keyCases,
  ...noteCases,
  ...operationCases,
  ...filterCases,
  ...stepCases,
  ...forceCases,
];

/** The rules of leases that a clock wrote which was ahead, for inboxes that processes share. */
export const inboxClockContract: readonly ContractCase<ClockedInbox>[] = [
  ...clockNoteCases,
  ...clockLeaseCases,
];

/** Of these, the rules for an inbox in one process. */
export const inboxClockNoteContract: readonly ContractCase<ClockedInbox>[] = clockNoteCases;

/**
 * The rules of `Inbox.transaction`, for inboxes that have it. Run it in addition to {@link inboxContract}, in the same way.
 *
 * It cannot check that the writes of an effect are rolled back: {@link transactionContract} does.
 */
export const inboxTransactionContract: readonly ContractCase<InboxUnderTest>[] = transactionCases;
