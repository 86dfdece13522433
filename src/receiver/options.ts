/** The options of a receiver: their meaning, defaults and checks, and the types of handlers. */
import { ConfigError } from '../core/errors.js';
import {
  EVENT_TYPES,
  type EventType,
  type StandardSchema,
  type UnknownEvent,
  type UnknownPayload,
  type WebhookEvent,
} from '../core/events.js';
import {
  defineLazy,
  func,
  integer,
  type Lazy,
  lazyRule,
  type OptionRule,
  oneOf,
  readOptions,
  required,
  rule,
  withMethods,
} from '../core/options.js';
import type { Inbox, Logger, Origin, Queue } from '../core/ports.js';
import { RUNTIME, type Runtime, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import {
  SIGNATURE_ENCODINGS,
  SIGNATURE_HEADER,
  type SignatureEncoding,
  type VerifyOptions,
} from '../core/signature.js';
import { memoryInbox } from '../inboxes/memory.js';
import { NO_TELEMETRY, type Outcome, type Telemetry } from './outcome.js';
import { type ReceiverSecret, readSecret, type SecretOfRequest } from './secret.js';

/** Options of {@link createReceiver}. */
export interface ReceiverOptions<Schemas = Record<never, never>, Tx = undefined> {
  /**
   * The webhook secret: a string, bytes, several of these while they rotate, or a function that gives them. The
   * function is called at each delivery that has a well-formed signature and a complete body, with the path, query and
   * headers of its request. If it gives `null`, the delivery is `rejected` with `ERR_SECRET_UNKNOWN`, and answered
   * as one whose signature does not match; if it throws, it is `unavailable` with `ERR_SECRET_UNAVAILABLE`.
   */
  readonly secret: ReceiverSecret;
  /** One handler for each event type that the app uses. A type whose value is `undefined` is refused: leave it out. */
  readonly handlers: Handlers<Schemas, Tx>;
  /** A Standard Schema for each payload to check and narrow. @default none: payloads are objects of unknown content */
  readonly payloads?:
    | { readonly [Type in keyof Schemas]: Type extends keyof PayloadSchemas ? Schemas[Type] : never }
    | undefined;
  /**
   * Where events are claimed and remembered: one for all processes and jobs of an app. A function is called at the
   * first event.
   *
   * @default memoryInbox(), which forgets at a restart
   */
  readonly inbox?: Lazy<Inbox<Tx>> | undefined;
  /**
   * Where `accept` puts events for workers. A function is called at the first event.
   *
   * @default none: handlers run before the response
   */
  readonly queue?: Lazy<Queue> | undefined;
  /**
   * When a delivery is answered.
   *
   * - `handled`: after its handler has ended; 200.
   * - `recorded`: once it is durably in the inbox; 202. Its handler then runs in this process. If the process ends
   *   before, `redrive`, `run` or the poller of any process runs it after `leaseMs`. Needs a durable inbox, and no
   *   queue. `onOutcome` is called twice: with `queued`, and with the end of the handler.
   *
   * @default 'handled'
   */
  readonly acknowledge?: 'handled' | 'recorded' | undefined;
  /**
   * Returns the ordering key of an event: of the events of one key, at most one runs at a time in all processes that
   * share the inbox. The others wait: a delivery is stored and answered 503 (202 under `acknowledge: 'recorded'`), and
   * `redrive`, `run` or the poller runs those that wait, the one that was created first before the others. All
   * receivers of the inbox need the same function. The payload is not narrowed by its schema. A key has 1 to 512 bytes
   * of UTF-8 and no control characters. If the function throws, the event fails as if its handler had.
   *
   * Events can arrive in another order than they were created in: a key does not sort what has not arrived yet.
   *
   * @default none: events are independent of each other
   */
  readonly orderingKey?: ((event: WebhookEvent) => string | null | undefined) | undefined;
  /**
   * How many handlers run at the same time in this process. Deliveries above it are answered 503, and not
   * stored; under `acknowledge: 'recorded'` they are stored, answered 202 and run in turn. `redrive`, the poller and
   * workers wait. With a transactional inbox, at most the size of the pool minus 2.
   *
   * @default no limit
   */
  readonly maxConcurrency?: number | undefined;
  /** Called once for each event of an unknown type, when it is first parked. @default none */
  readonly onUnknown?: ((event: UnknownEvent) => void | Promise<void>) | undefined;
  /** Takes the lines that say what failed and how to fix it. @default the request's logger in Fastify, else console */
  readonly logger?: Logger | undefined;
  /**
   * Called with the outcome of each delivery, and again with the end of a handler that outlived `handlerTimeoutMs` or
   * ran after the answer. Its failure changes nothing. Outcomes with an error are also logged by `logger`.
   *
   * @default none
   */
  readonly onOutcome?: ((outcome: Outcome) => void | Promise<void>) | undefined;
  /**
   * Observes each step of this receiver and of the poller that uses it, such as `openTelemetry()` of
   * `stablehooks/opentelemetry`. It gets no payload, body, signature or secret but for the events themselves.
   *
   * @default none
   */
  readonly telemetry?: Telemetry | undefined;
  /** The header that carries the signature. @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string | undefined;
  /** Pins the encoding of the signature. @default hex, base64 or base64url, recognized by length */
  readonly encoding?: SignatureEncoding | undefined;
  /** What precedes the digits of the signature, such as `sha256=`. @default '' */
  readonly signaturePrefix?: string | undefined;
  /** The largest body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How long to wait for a body, in ms. @default 10_000 */
  readonly bodyTimeoutMs?: number | undefined;
  /** How long to wait for a function that gives the secret, in ms. @default 10_000 */
  readonly secretTimeoutMs?: number | undefined;
  /** How long a claim is valid, in ms; more than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number | undefined;
  /**
   * How long the answer waits for a handler, in ms; under `acknowledge: 'recorded'`, how long a handler may run before
   * its attempt counts as failed. A handler that runs longer keeps its event claimed until it ends
   * or `leaseMs` is over, so that it is not started beside itself; a transaction is rolled back at this limit.
   *
   * @default 10_000
   */
  readonly handlerTimeoutMs?: number | undefined;
  /** After how many failed attempts a durable inbox dead-letters an event. @default 25 */
  readonly maxAttempts?: number | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Schemas of payloads by event type. */
export type PayloadSchemas = { readonly [Type in EventType]?: StandardSchema | undefined };

/** The payload of an event type: the output of its schema, or an object of unknown content. */
export type PayloadOf<Schemas, Type extends EventType> = Type extends keyof Schemas
  ? Schemas[Type] extends StandardSchema<infer Output>
    ? Output
    : UnknownPayload
  : UnknownPayload;

/** What a handler gets beside the event. */
export interface HandlerContext<Tx = undefined> {
  /** The open transaction in which the event is marked done, in a transactional inbox; otherwise `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`. Pass it on: after `leaseMs` another process can run the event. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
}

/** Runs the effect of one event. Throw for a retry; throw {@link PermanentError} when a retry cannot help. */
export type Handler<Type extends EventType, Payload = UnknownPayload, Tx = undefined> = (
  event: WebhookEvent<Type, Payload>,
  context: HandlerContext<Tx>,
) => void | Promise<void>;

/**
 * One handler per type. A new event of a type without one is answered 200 and recorded as done: all receivers of an inbox
 * need the same handlers.
 */
export type Handlers<Schemas = Record<never, never>, Tx = undefined> = {
  readonly [Type in EventType]?: Handler<Type, PayloadOf<Schemas, Type>, Tx>;
};

/** The handlers by type, once the compiler has checked each against its own event. */
type HandlerTable<Tx> = {
  readonly [Type in EventType]?:
    | ((event: WebhookEvent, context: HandlerContext<Tx>) => void | Promise<void>)
    | undefined;
};

/** The options after the check, with their defaults. */
export interface ReceiverSettings<Tx> {
  readonly signature: Omit<VerifyOptions, 'secret'> & { readonly header: string };
  readonly secret: SecretOfRequest;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly handlers: HandlerTable<Tx>;
  readonly payloads: PayloadSchemas;
  /** Resolved at the first use, as `queue` is. @throws {ConfigError} */
  readonly inbox: Inbox<Tx>;
  readonly queue: Queue | undefined;
  readonly acknowledge: 'handled' | 'recorded';
  readonly orderingKey: ((event: WebhookEvent) => string | null | undefined) | undefined;
  readonly maxConcurrency: number | undefined;
  readonly logger: Logger | undefined;
  readonly onUnknown: (event: UnknownEvent) => void | Promise<void>;
  readonly onOutcome: (outcome: Outcome) => void | Promise<void>;
  readonly telemetry: Telemetry;
  readonly leaseMs: number;
  readonly handlerTimeoutMs: number;
  readonly maxAttempts: number;
  readonly runtime: Runtime;
}

const TELEMETRY_METHODS = Object.keys(NO_TELEMETRY) as (keyof Telemetry)[];

/** Only whether there is one: `toSecrets` checks it. */
export const SECRET_GIVEN: OptionRule<undefined> = {
  expected: 'given: check the environment variable that it comes from',
  accepts: () => true,
  default: undefined,
  required: true,
};

const INBOX_METHODS = ['claim', 'complete', 'fail', 'record', 'takeDue', 'acquirePoll', 'savePoll'];

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readReceiverOptions<Schemas, Tx>(
  options: ReceiverOptions<Schemas, Tx>,
): ReceiverSettings<Tx> {
  const inboxRule = rule('an inbox, such as memoryInbox()', isInbox);
  const queueRule = withMethods('a queue, such as bullmqQueue(queue)', ['enqueue']);
  const { secret, signatureHeader, encoding, signaturePrefix, secretTimeoutMs, ...read } = readOptions(
    'createReceiver',
    options,
    {
      secret: SECRET_GIVEN,
      handlers: required(rule('an object of functions by event type', isTable)),
      payloads: rule('an object of schemas by event type', isTable),
      inbox: lazyRule(inboxRule),
      queue: lazyRule(queueRule),
      acknowledge: oneOf(['handled', 'recorded'], 'handled'),
      orderingKey: func(),
      maxConcurrency: integer(),
      onUnknown: func((): void => undefined),
      logger: withMethods('a logger, such as console or pino()', ['warn', 'error']),
      onOutcome: func((): void => undefined),
      telemetry: withMethods<Telemetry>(
        'telemetry, such as openTelemetry()',
        TELEMETRY_METHODS,
        NO_TELEMETRY,
      ),
      signatureHeader: rule('the name of a header', isHeaderName, SIGNATURE_HEADER),
      encoding: oneOf(SIGNATURE_ENCODINGS),
      signaturePrefix: rule('a string', (value) => typeof value === 'string', ''),
      maxBodyBytes: integer({ default: 1_048_576 }),
      bodyTimeoutMs: integer({ default: 10_000 }),
      secretTimeoutMs: integer({ default: 10_000 }),
      leaseMs: integer({ default: 60_000 }),
      handlerTimeoutMs: integer({ default: 10_000 }),
      maxAttempts: integer({ default: 25 }),
      runtime: RUNTIME,
    },
  );
  // Otherwise a second process could run the event while the first still does.
  if (read.leaseMs <= read.handlerTimeoutMs) {
    throw new ConfigError(
      `createReceiver: \`leaseMs\` (${read.leaseMs}) must be more than \`handlerTimeoutMs\` (${read.handlerTimeoutMs}).`,
    );
  }
  const inbox = read.inbox ?? memoryInbox({ runtime: read.runtime });
  const isKnownToForget = typeof inbox !== 'function' && !inbox.durable;
  if (read.queue !== undefined && isKnownToForget) throw queueNeedsDurable('createReceiver');
  if (read.acknowledge === 'recorded') {
    if (isKnownToForget) throw recordedNeedsDurable();
    if (read.queue !== undefined) {
      throw new ConfigError(
        "createReceiver: with a `queue`, a delivery is answered once it is enqueued. Remove `acknowledge: 'recorded'`, or the queue.",
      );
    }
  }
  const runtime = toRuntime(read.runtime);
  const settings = {
    ...read,
    inbox,
    runtime,
    signature: { header: signatureHeader, encoding, prefix: signaturePrefix },
    secret: readSecret(secret, { runtime, timeoutMs: secretTimeoutMs }),
    handlers: readTable('handlers', read.handlers as HandlerTable<Tx>, {
      expected: 'a function',
      accepts: (value) => typeof value === 'function',
    }),
    payloads: readTable('payloads', (read.payloads ?? {}) as PayloadSchemas, {
      expected: 'a Standard Schema',
      accepts: isStandardSchema,
    }),
  };
  return defineLazy('createReceiver', settings, { inbox: inboxRule, queue: queueRule });
}

/** Otherwise an event could take effect twice: the queue brings it again when the process has forgotten it. */
export function queueNeedsDurable(where: string): ConfigError {
  return new ConfigError(
    `${where}: a \`queue\` needs a durable \`inbox\` that receivers and workers share: sqliteInbox with a file, postgresInbox or redisInbox.`,
  );
}

/** Otherwise an event that was answered 202 could be lost. */
export function recordedNeedsDurable(): ConfigError {
  return new ConfigError(
    "createReceiver: `acknowledge: 'recorded'` needs a durable `inbox`: sqliteInbox with a file, postgresInbox, redisInbox or durableObjectInbox.",
  );
}

/** A type that is there must have a value: `undefined` comes from a misspelt import, and its events would be ignored. */
function readTable<Table extends HandlerTable<never> | PayloadSchemas>(
  name: string,
  table: Table,
  { expected, accepts }: Pick<OptionRule, 'expected' | 'accepts'>,
): Table {
  const rules = EVENT_TYPES.map((type) => {
    const isMissing = type in table && table[type] === undefined;
    const found = isMissing ? ', and is undefined: check its import, or leave the type out' : '';
    return [type, { ...rule(`${expected}${found}`, accepts), required: type in table }];
  });
  return readOptions(`createReceiver \`${name}\``, table, Object.fromEntries(rules));
}

function isInbox(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const members = value as Readonly<Record<string, unknown>>;
  const hasMethods = INBOX_METHODS.every((name) => typeof members[name] === 'function');
  return hasMethods && typeof members['durable'] === 'boolean';
}

/** A name with other characters makes every lookup of the header fail. */
function isHeaderName(value: unknown): boolean {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}

/** An object with a property for each type. A map, an array or a promise has none. */
function isTable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return !(Symbol.iterator in value) && !('then' in value);
}

export function isStandardSchema(value: unknown): boolean {
  return typeof (value as StandardSchema | null)?.['~standard']?.validate === 'function';
}
