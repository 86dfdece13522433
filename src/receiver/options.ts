/** The options of a receiver: what each means, its default, and the check that it makes sense. */
import { ConfigError } from '../core/errors.js';
import { EVENT_TYPES, type EventType, type UnknownEvent } from '../core/events.js';
import type { Inbox } from '../core/inbox.js';
import {
  readOptions as checkOptions,
  func,
  integer,
  type OptionRule,
  oneOf,
  required,
  rule,
  string,
  withMethods,
} from '../core/options.js';
import type { Queue } from '../core/queue.js';
import { SIGNATURE_HEADER } from '../core/signature.js';
import { SIGNATURE_ENCODINGS, type SignatureEncoding } from '../core/signature-encoding.js';
import type { StandardSchema } from '../core/standard-schema.js';
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
  readonly payloads?:
    | {
        readonly [Type in keyof Schemas]: Type extends keyof PayloadSchemas ? Schemas[Type] : never;
      }
    | undefined;
  /** Where events are claimed and remembered. @default memoryInbox(), which forgets at a restart */
  readonly inbox?: Inbox<Tx> | undefined;
  /** Where `accept` puts events for workers. @default none: handlers run before the reply */
  readonly queue?: Queue | undefined;
  /** Told once of each event of a type that is newer than this release, when it is first parked. */
  readonly onUnknown?: ((event: UnknownEvent) => void | Promise<void>) | undefined;
  /** Told how each delivery ended; its own failure changes nothing. @default logs every error to the console */
  readonly onOutcome?: ((outcome: Outcome) => void | Promise<void>) | undefined;
  /** The header that carries the signature. @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string | undefined;
  /** Pins how the signature is written. @default hex, base64 or base64url, told apart by their lengths */
  readonly encoding?: SignatureEncoding | undefined;
  /** Text before the signature's digits, such as `sha256=`. @default '' */
  readonly signaturePrefix?: string | undefined;
  /** The largest body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How long one process may hold an event, in ms; more than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number | undefined;
  /** How long a handler may run, in ms. @default 10_000 */
  readonly handlerTimeoutMs?: number | undefined;
  /** After how many failed attempts a durable inbox gives an event up. @default 25 */
  readonly maxAttempts?: number | undefined;
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

/** One rule for all event types. */
const perType = (each: OptionRule<undefined>) =>
  Object.fromEntries(EVENT_TYPES.map((type) => [type, each])) as Readonly<
    Record<EventType, OptionRule<undefined>>
  >;

const isTable = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readOptions<Schemas, Tx>(options: ReceiverOptions<Schemas, Tx>): ReceiverRules<Tx> {
  const read = checkOptions('createReceiver', options, {
    // Checked, and never shown, by the keyring.
    secret: rule('given', () => true),
    handlers: required(rule('an object with a function for each event type', isTable)),
    payloads: rule('an object with a Standard Schema for each event type', isTable),
    inbox: withMethods('an inbox, such as memoryInbox() or sqliteInbox(path)', INBOX_METHODS),
    queue: withMethods('a queue, such as pgBossQueue(boss) or bullmqQueue(queue)', ['enqueue']),
    onUnknown: func((): void => undefined),
    onOutcome: func(logOutcome),
    signatureHeader: string(SIGNATURE_HEADER),
    encoding: oneOf(SIGNATURE_ENCODINGS),
    signaturePrefix: rule('a string', (value) => typeof value === 'string', ''),
    maxBodyBytes: integer({ default: 1_048_576 }),
    leaseMs: integer({ default: 60_000 }),
    handlerTimeoutMs: integer({ default: 10_000 }),
    maxAttempts: integer({ default: 25 }),
  });
  const handlers = checkOptions(
    'createReceiver `handlers`',
    read.handlers as HandlerTable<Tx>,
    perType(func()),
  );
  const payloads = checkOptions(
    'createReceiver `payloads`',
    (read.payloads ?? {}) as PayloadSchemas,
    perType(rule('a Standard Schema, such as one of zod, valibot or arktype', isStandardSchema)),
  );
  if (read.leaseMs <= read.handlerTimeoutMs) {
    throw new ConfigError(
      `createReceiver: \`leaseMs\` (${read.leaseMs}) must be more than handlerTimeoutMs (${read.handlerTimeoutMs}), or a second process runs the event while the first still does.`,
    );
  }
  const inbox = read.inbox ?? memoryInbox();
  if (read.queue !== undefined && !inbox.durable) {
    throw new ConfigError(
      'createReceiver: `queue` needs a durable `inbox` that receivers and workers share, or an event can take effect twice.',
    );
  }
  return {
    ...read,
    keyring: createKeyring(options.secret),
    request: {
      header: read.signatureHeader,
      encoding: read.encoding,
      prefix: read.signaturePrefix,
      maxBodyBytes: read.maxBodyBytes,
    },
    handlers,
    payloads,
    inbox,
  };
}

const INBOX_METHODS = ['claim', 'complete', 'fail', 'record', 'takeDue', 'acquirePoll', 'savePoll'];

function isStandardSchema(value: unknown): boolean {
  const standard = (value as StandardSchema | null)?.['~standard'];
  return typeof standard?.validate === 'function';
}
