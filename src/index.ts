/**
 * `stablehooks`: the receiver, the memory inbox, the types of inboxes and queues, and functions to verify and parse events.
 */
export {
  ConfigError,
  PermanentError,
  type ReceiverError,
  RetryLater,
  SignatureError,
  StablehooksError,
} from './core/errors.js';
export {
  createdAtMs,
  EVENT_TYPES,
  type EventEnvelope,
  type EventType,
  encodeEvent,
  isDateTime,
  isEventType,
  isKnownEvent,
  type ParsedEvent,
  parseEvent,
  type StandardSchema,
  type UnknownEvent,
  type UnknownPayload,
  type WebhookEvent,
} from './core/events.js';
export {
  type Claim,
  type ClaimOptions,
  type FailOptions,
  INBOX_STATES,
  type Inbox,
  type InboxCount,
  type InboxFilter,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type InboxStep,
  type Lease,
  type Logger,
  type Origin,
  type Queue,
  type RecordResult,
  type StoredEvent,
  type StoreOptions,
  type Synchronous,
} from './core/ports.js';
export type { Runtime, RuntimeOptions } from './core/runtime.js';
export {
  type Secret,
  type Secrets,
  SIGNATURE_ENCODINGS,
  SIGNATURE_HEADER,
  type SignatureEncoding,
  type SignatureFormat,
  sign,
  type Verified,
  verifySignature,
} from './core/signature.js';
export { memoryInbox } from './inboxes/memory.js';
export type {
  EventContext,
  Handler,
  HandlerContext,
  Handlers,
  StepContext,
  StepOptions,
} from './receiver/handler.js';
export type { Layer, PollSummary } from './receiver/layers.js';
export type { ReceiverOptions } from './receiver/options.js';
export {
  type Outcome,
  type OutcomeCounts,
  type OutcomeKind,
  toWebhookResponse,
  type WebhookResponse,
} from './receiver/outcome.js';
export { createReceiver, type Receiver } from './receiver/receiver.js';
export type { Rehearsal, RehearseOptions } from './receiver/rehearse.js';
export { logOutcome } from './receiver/report.js';
export type { WebhookRequest } from './receiver/request.js';
export type { SecretRequest } from './receiver/secret.js';
export { withPayload } from './receiver/with-payload.js';
