export { adapterContract } from './adapter.js';
export type { AdapterUnderTest } from './adapter-client.js';
export { contractReceiverOptions, createContractReceiver } from './adapter-receiver.js';
export type { ContractCase } from './contract.js';
export type { InboxUnderTest } from './inbox/given.js';
export {
  inboxClockContract,
  inboxClockNoteContract,
  inboxContract,
  inboxTransactionContract,
} from './inbox.js';
export { type QueueUnderTest, queueContract } from './queue.js';
export {
  mysqlTransactionContract,
  type OpenTransactions,
  type TransactionsUnderTest,
  transactionContract,
} from './transaction.js';
export { type SynchronousTransactionsUnderTest, synchronousTransactionContract } from './transaction-sync.js';
