/** `stablehooks/conformance`: the ports, and the suites that every adapter, inbox and queue of one's own must pass. */
export type {
  Claim,
  ClaimOptions,
  Inbox,
  Lease,
  PollState,
  RecordResult,
} from '../core/inbox.js';
export type { Queue } from '../core/queue.js';
export { adapterContract } from './adapter-contract.js';
export {
  CONTRACT_MARKER,
  CONTRACT_MAX_BODY_BYTES,
  CONTRACT_SECRETS,
  createContractReceiver,
} from './contract-receiver.js';
export type { ContractCase, Target } from './contract-sender.js';
export type { InboxCase, InboxUnderTest } from './inbox-case.js';
export { inboxContract } from './inbox-contract.js';
export { inboxTransactionContract } from './inbox-transaction-cases.js';
