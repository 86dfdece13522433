/** The options of a receiver: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import { EVENT_TYPES, type UnknownEvent } from '../core/events.js';
import type { Inbox } from '../core/inbox.js';
import { assertNames, readNumbers } from '../core/options.js';
import type { Queue } from '../core/queue.js';
import { SIGNATURE_HEADER } from '../core/signature.js';
import { SIGNATURE_ENCODINGS, type SignatureEncoding } from '../core/signature-encoding.js';
import { memoryInbox } from '../inboxes/memory.js';
import type { Handlers, HandlerTable, PayloadSchemas } from './handlers.js';
import { createKeyring, type Keyring, type SecretSource } from './keyring.js';
import type { Outcome } from './outcome.js';
import { logOutcome } from './report.js';
import type { WebhookRequestRules } from './request.js';

/** Options of {@link createReceiver}. */
export interface ReceiverOptions<Schemas = Record<never, never>, Tx = undefined> {
  /** The webhook secret: text, bytes, several of these while they rotate, or a function that gives them. */
  readonly secret: SecretSource;
  /** One handler for each type that the app cares about. */
  readonly handlers: Handlers<Schemas, Tx>;
  /** A Standard Schema for each payload to check and narrow. @default none: payloads are `unknown` objects */
  readonly payloads?: {
    readonly [Type in keyof Schemas]: Type extends keyof PayloadSchemas ? Schemas[Type] : never;
  };
  /** Where events are claimed and remembered. @default memoryInbox(), which forgets at a restart */
  readonly inbox?: Inbox<Tx>;
  /** Where `accept` puts events for workers. @default none: handlers run before the reply */
  readonly queue?: Queue;
  /** Told once of each event of a type that is newer than this release, when it is first parked. */
  readonly onUnknown?: (event: UnknownEvent) => void | Promise<void>;
  /** Told how each delivery ended; its own failure changes nothing. @default logs every error to the console */
  readonly onOutcome?: (outcome: Outcome) => void | Promise<void>;
  /** The header that carries the signature. @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string;
  /** Pins how the signature is written. @default hex, base64 or base64url, told apart by their lengths */
  readonly encoding?: SignatureEncoding;
  /** Text before the signature's digits, such as `sha256=`. @default '' */
  readonly signaturePrefix?: string;
  /** The largest body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number;
  /** How long one process may hold an event, in ms; more than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number;
  /** How long a handler may run, in ms. @default 10_000 */
  readonly handlerTimeoutMs?: number;
  /** After how many failed attempts a durable inbox gives an event up. @default 25 */
  readonly maxAttempts?: number;
}

/** The options, checked and with their defaults. */
export interface ReceiverRules<Tx> {
  readonly keyring: Keyring;
  readonly request: WebhookRequestRules;
  readonly handlers: HandlerTable<Tx>;
  readonly payloads: PayloadSchemas;
  readonly inbox: Inbox<Tx>;
  readonly queue: Queue | undefined;
  readonly onUnknown: (event: UnknownEvent) => void | Promise<void>;
  readonly onOutcome: (outcome: Outcome) => void | Promise<void>;
  readonly leaseMs: number;
  readonly handlerTimeoutMs: number;
  readonly maxAttempts: number;
}

const NUMBERS = {
  maxBodyBytes: { default: 1_048_576 },
  leaseMs: { default: 60_000 },
  handlerTimeoutMs: { default: 10_000 },
  maxAttempts: { default: 25 },
};

/** Every option, so that a misspelt one is an error in JavaScript too; the compiler keeps it complete. */
const OPTIONS: Readonly<Record<keyof ReceiverOptions, true>> = {
  secret: true,
  handlers: true,
  payloads: true,
  inbox: true,
  queue: true,
  onUnknown: true,
  onOutcome: true,
  signatureHeader: true,
  encoding: true,
  signaturePrefix: true,
  maxBodyBytes: true,
  leaseMs: true,
  handlerTimeoutMs: true,
  maxAttempts: true,
};

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions<Schemas, Tx>(options: ReceiverOptions<Schemas, Tx>): ReceiverRules<Tx> {
  assertNames(options, { where: 'createReceiver', names: Object.keys(OPTIONS) });
  assertNames(options.handlers, { where: '`handlers`', names: EVENT_TYPES });
  assertNames(options.payloads ?? {}, { where: '`payloads`', names: EVENT_TYPES });
  for (const [type, handler] of Object.entries(options.handlers)) {
    if (handler !== undefined && typeof handler !== 'function') {
      throw new ConfigError(`The handler of ${type} is not a function.`);
    }
  }
  if (options.encoding !== undefined && !SIGNATURE_ENCODINGS.includes(options.encoding)) {
    throw new ConfigError(`encoding must be one of ${SIGNATURE_ENCODINGS.join(', ')}.`);
  }
  const limits = readNumbers(options, NUMBERS);
  if (limits.leaseMs <= limits.handlerTimeoutMs) {
    throw new ConfigError(
      `leaseMs (${limits.leaseMs}) must be more than handlerTimeoutMs (${limits.handlerTimeoutMs}), or a second process takes the event while the first still runs it.`,
    );
  }
  const inbox = options.inbox ?? memoryInbox();
  if (options.queue !== undefined && !inbox.durable) {
    throw new ConfigError(
      'A queue needs a durable inbox that receivers and workers share, or an event can take effect twice. Pass `inbox`.',
    );
  }
  return {
    ...limits,
    keyring: createKeyring(options.secret),
    request: {
      header: options.signatureHeader ?? SIGNATURE_HEADER,
      encoding: options.encoding,
      prefix: options.signaturePrefix,
      maxBodyBytes: limits.maxBodyBytes,
    },
    // The compiler has checked each entry against its own event; from here on the table is looked up by type.
    handlers: options.handlers as HandlerTable<Tx>,
    payloads: (options.payloads ?? {}) as PayloadSchemas,
    inbox,
    queue: options.queue,
    onUnknown: options.onUnknown ?? (() => undefined),
    onOutcome: options.onOutcome ?? logOutcome,
  };
}
