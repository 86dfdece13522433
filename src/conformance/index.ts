export type {
  Claim,
  ClaimOptions,
  GapReason,
  Inbox,
  Lease,
  OldestListed,
  PollState,
  Queue,
  RecordResult,
  StoredGap,
} from '../core/ports.js';
export { adapterContract } from './adapter.js';
export type { AdapterUnderTest } from './adapter-client.js';
export { contractReceiverOptions, createContractReceiver } from './adapter-receiver.js';
export type { ContractCase } from './contract.js';
export { type InboxUnderTest, inboxContract, inboxTransactionContract } from './inbox.js';
export { type QueueUnderTest, queueContract } from './queue.js';
export { type OpenTransactions, type TransactionsUnderTest, transactionContract } from './transaction.js';
