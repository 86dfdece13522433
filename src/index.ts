/** `stablehooks`: the receiver, the memory inbox, and verifying and parsing on their own. */

export { decorateInbox } from './core/decorate-inbox.js';
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
  createdAtMs,
  EVENT_TYPES,
  type EventEnvelope,
  type EventType,
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
export { forwardOnly } from './core/forward-only.js';
export {
  type GapReason,
  INBOX_STATES,
  type InboxAttempt,
  type InboxCount,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Logger,
  type OldestListed,
  type Origin,
  type PollState,
  type StoredGap,
} from './core/ports.js';
export type { Runtime, RuntimeOptions } from './core/runtime.js';
export {
  type Secret,
  type SecretFunction,
  type SecretSource,
  type Secrets,
  SIGNATURE_ENCODINGS,
  SIGNATURE_HEADER,
  type SignatureEncoding,
  type SignatureFormat,
  type SignOptions,
  sign,
  type Verified,
  type VerifyOptions,
  verifySignature,
} from './core/signature.js';
export { type MemoryInboxOptions, memoryInbox } from './inboxes/memory.js';
export { type CachedSecretOptions, cachedSecret, type KeyedSecretOptions } from './receiver/cached-secret.js';
export type {
  Handler,
  HandlerContext,
  Handlers,
  PayloadOf,
  PayloadSchemas,
  ReceiverOptions,
} from './receiver/options.js';
export {
  logOutcome,
  type Outcome,
  type OutcomeCounts,
  type OutcomeKind,
  toWebhookResponse,
  type WebhookResponse,
} from './receiver/outcome.js';
export {
  type AcceptOptions,
  createReceiver,
  type Receiver,
  type RecordOptions,
  type WebhookRequest,
} from './receiver/receiver.js';
export type { RunOptions } from './receiver/runner.js';
export type { ReceiverSecret, SecretRequest } from './receiver/secret.js';
export type { CallHandler, Conclude, Enqueue, Layer, Pass, PollSummary, Redrive } from './receiver/work.js';
