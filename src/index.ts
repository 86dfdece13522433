/** `stablehooks`: the receiver, and what stands on its own of verifying and parsing. */
export {
  BusyError,
  ConfigError,
  EventError,
  HandlerError,
  PermanentError,
  type ReceiverError,
  RequestError,
  SignatureError,
  StablehooksError,
  UnavailableError,
} from './core/errors.js';
export {
  EVENT_TYPES,
  type EventEnvelope,
  type EventType,
  isEventType,
  isKnownEvent,
  type ParsedEvent,
  parseEvent,
  type UnknownEvent,
  type UnknownPayload,
  type WebhookEvent,
} from './core/events.js';
export {
  type Claim,
  type ClaimOptions,
  INBOX_STATES,
  type Inbox,
  type InboxCount,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Lease,
  type Origin,
  type PollState,
  type RecordResult,
} from './core/inbox.js';
export type { Queue } from './core/queue.js';
export type { Secret, Secrets } from './core/secrets.js';
export {
  SIGNATURE_HEADER,
  type SignOptions,
  sign,
  type VerifyOptions,
  verifySignature,
} from './core/signature.js';
export {
  SIGNATURE_ENCODINGS,
  type SignatureEncoding,
  type SignatureFormat,
} from './core/signature-encoding.js';
export { type MemoryInboxOptions, memoryInbox } from './inboxes/memory.js';
export type { Handler, HandlerContext, Handlers, PayloadOf, PayloadSchemas } from './receiver/handlers.js';
export type { SecretSource } from './receiver/keyring.js';
export type { ReceiverOptions } from './receiver/options.js';
export type { Outcome, OutcomeCounts, OutcomeKind } from './receiver/outcome.js';
export { createReceiver, type From, type Receiver } from './receiver/receiver.js';
export type { Recording } from './receiver/record.js';
export { toWebhookResponse, type WebhookResponse } from './receiver/reply.js';
export type { WebhookRequest } from './receiver/request.js';
