/** `stablehooks/testing`: what an app tests its receiver with, and the contracts of adapters and inboxes. */
export { adapterContract } from './adapter-contract.js';
export {
  CONTRACT_MARKER,
  CONTRACT_MAX_BODY_BYTES,
  CONTRACT_SECRETS,
  createContractReceiver,
} from './contract-receiver.js';
export type { ContractCase, Target } from './contract-sender.js';
export { exampleEvent } from './example-event.js';
export type { InboxCase, InboxUnderTest } from './inbox-case.js';
export { inboxContract } from './inbox-contract.js';
export { inboxTransactionContract } from './inbox-transaction-cases.js';
export { type SignedRequest, type SignedRequestOptions, signedRequest } from './signed-request.js';
