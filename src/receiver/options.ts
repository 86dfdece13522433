/** The options of a receiver: their meaning, defaults and checks, and the types of handlers. */
import { isAsync } from '../core/awaitable.js';
import { ConfigError, SYNCHRONOUS_FIX } from '../core/errors.js';
import {
  EVENT_TYPES,
  type EventType,
  isKnownEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import { func, integer, oneOf, readOptions, required, rule, withMethods } from '../core/options.js';
import type { Inbox, Logger, Queue } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime, toStoreRuntime } from '../core/runtime.js';
import { SIGNATURE_ENCODINGS, SIGNATURE_HEADER, type SignatureFormat } from '../core/signature.js';
import { CAPACITY, EventStore, memoryOps } from '../inboxes/memory-ops.js';
import type { Handler, Handlers } from './handler.js';
import type { Layer } from './layers.js';
import type { Outcome } from './outcome.js';
import { type ReceiverSecret, readSecret } from './secret.js';

/** Options of {@link createReceiver}. */
export interface ReceiverOptions<Tx = undefined> {
  /**
   * The webhook secret: a string, bytes, several of these during a rotation, or a function that returns them.
   *
   * The function is called with the path, query and headers of each delivery that has a well-formed signature and a
   * complete body. If it returns `null`, the delivery is `rejected` with `ERR_SECRET_UNKNOWN`, and answered like a
   * signature that does not match. If it throws, the delivery is `unavailable` with `ERR_SECRET_UNAVAILABLE`.
   */
  readonly secret: ReceiverSecret;
  /**
   * Where events are claimed and remembered: one inbox for all processes and jobs of an app.
   *
   * @default memoryInbox(), which loses its events at a restart
   */
  readonly inbox?: Inbox<Tx> | undefined;
  /** One handler for each event type that the app uses. Leave other types out: a value of `undefined` is refused. */
  readonly handlers: Handlers<Tx>;
  /** The header of the signature and how it is written. @default X-SERVICE-Signature, hex or base64, without a prefix */
  readonly signature?: SignatureOptions | undefined;
  /** Where `accept` puts events for workers. @default none: handlers run before the response */
  readonly queue?: Queue | undefined;
  /**
   * When a delivery is answered.
   *
   * - `handled`: after its handler has ended; 200.
   * - `recorded`: once it is durably in the inbox; 202. Its handler then runs in this process. If the process ends first,
   *   `start`, `redrive` or the poller of any process runs it after `leaseMs`. Needs a durable inbox and no queue.
   *   `onOutcome` is called twice: with `queued`, and with the handler's result.
   *
   * @default 'handled'
   */
  readonly answer?: 'handled' | 'recorded' | undefined;
  /**
   * Returns the ordering key of an event. At most one event per key runs at a time, in all processes that share the
   * inbox. A delivery that must wait is stored and gets a 503 (202 under `answer: 'recorded'`). `start`, `redrive` or
   * the poller runs waiting events, the first-created one first.
   *
   * All receivers of the inbox need the same function. The payload is not narrowed by its schema. A key has 1 to 512
   * bytes of UTF-8 and no control characters. If the function throws, the attempt at the event fails.
   *
   * A key does not order events: an event may arrive after one that was created later, and while no event of a key runs,
   * the first one that a process claims runs.
   *
   * @default none: events are independent of each other
   */
  readonly orderingKey?: OrderingKey | undefined;
  /**
   * How many handlers run at the same time in this process. Further deliveries get a 503 and are not stored; under
   * `answer: 'recorded'` they are stored, get a 202 and run in turn. `redrive`, the poller and workers wait for a free
   * slot. With a transactional inbox, use at most the size of the pool minus 1.
   *
   * @default no limit
   */
  readonly maxConcurrency?: number | undefined;
  /** Called once for each event of an unknown type, when it is first parked. @default none */
  readonly onUnknown?: ((event: UnknownEvent) => unknown) | undefined;
  /** Receives the lines that say what failed and how to fix it. @default the request's logger in Fastify, else console */
  readonly logger?: Logger | undefined;
  /**
   * Called with each delivery's outcome, and again with the result of a handler that outlived `handlerTimeoutMs` or
   * ran after the answer. Its errors are ignored. Outcomes with an error are also logged by `logger`.
   *
   * @default none
   */
  readonly onOutcome?: ((outcome: Outcome) => unknown) | undefined;
  /** Layers around the receiver, such as `openTelemetry()` of `stablehooks/opentelemetry`; the first is outermost. @default none */
  readonly use?: readonly Layer[] | undefined;
  /** The largest body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How long to wait for a body, in ms. @default 10_000 */
  readonly bodyTimeoutMs?: number | undefined;
  /** How long to wait for the function given as `secret`, in ms. @default 10_000 */
  readonly secretTimeoutMs?: number | undefined;
  /**
   * How long to wait for each call of the inbox, in ms, and in a transaction for its begin and its commit; after that the
   * call has failed (`ERR_INBOX_FAILED`). Drivers wait for a server that is silent until TCP gives up, which takes minutes.
   * Over `pg`, Neon, `mysql2` and `ioredis` more than 30 s has no effect: the inbox closes a connection that is silent so long.
   *
   * @default 10_000
   */
  readonly inboxTimeoutMs?: number | undefined;
  /** How long a claim is valid, in ms. Must be more than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number | undefined;
  /**
   * How long the answer waits for a handler, in ms; under `answer: 'recorded'`, how long a handler may run before its
   * attempt counts as failed. A longer handler keeps its event claimed until it ends or `leaseMs` is over, so no second
   * run starts beside it. If it ends well within the lease, its event is done.
   *
   * @default 10_000
   */
  readonly handlerTimeoutMs?: number | undefined;
  /** After how many failed attempts a durable inbox dead-letters an event. @default 25 */
  readonly maxAttempts?: number | undefined;
  /**
   * How long after an event was first received its handler can ask for a later attempt with `RetryLater`, in ms by the
   * inbox's clock. After that the event is dead-lettered with the reason. @default 259_200_000, which is 3 days
   */
  readonly maxLaterMs?: number | undefined;
  /** Time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Transactional handlers need an inbox with transactions: without one, `ctx.tx` is undefined. */
export type NeededInbox<Tx> = undefined extends Tx ? unknown : { readonly inbox: Inbox<Tx> };

/** Returns the ordering key of an event; `undefined` or `null` for an event without one. */
export type OrderingKey = (event: WebhookEvent) => string | null | undefined;

/** The header of the signature and how it is written, as in `verifySignature`. */
export interface SignatureOptions extends SignatureFormat {
  /** The name of the header. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** The handlers by type, once the compiler has checked each against its own event. */
export type HandlerTable = { readonly [Type in EventType]?: Handler<EventType, unknown> | undefined };

/** Options of `receiver.start`. */
export interface StartOptions {
  /** How long to wait between two looks for due events, in ms, plus or minus a fifth. @default 1_000 */
  readonly intervalMs?: number | undefined;
  /** Stops looking for due events; `close()` waits for running handlers. @default none: `close()` stops it */
  readonly signal?: AbortSignal | undefined;
}

const INBOX_METHODS = [
  ...['claim', 'ignore', 'complete', 'fail', 'record', 'takeDue'],
  ...['readNote', 'writeNote', 'leaseNote'],
];

export type ReceiverSettings = ReturnType<typeof readReceiverOptions>;

export function readReceiverOptions<Tx>(options: ReceiverOptions<Tx>) {
  const { secret, secretTimeoutMs, handlers, ...read } = readOptions('createReceiver', options, {
    // Checks only presence; `readSecret` checks the value.
    secret: required(rule('given: check the environment variable that it comes from', () => true)),
    handlers: required(rule('an object of functions by event type', isTable)),
    inbox: rule('an inbox, such as memoryInbox()', isInbox),
    signature: rule('an object with header, encoding or prefix', isTable, {}),
    queue: withMethods('a queue, such as bullmqQueue(queue)', ['enqueue']),
    answer: oneOf(['handled', 'recorded'], 'handled'),
    orderingKey: func(),
    maxConcurrency: integer(),
    onUnknown: func(),
    logger: withMethods('a logger, such as console or pino()', ['warn', 'error']),
    onOutcome: func(),
    use: rule('a list of layers, such as [openTelemetry()]', Array.isArray, []),
    maxBodyBytes: integer({ default: 1_048_576 }),
    bodyTimeoutMs: integer({ default: 10_000 }),
    secretTimeoutMs: integer({ default: 10_000 }),
    inboxTimeoutMs: integer({ default: 10_000 }),
    leaseMs: integer({ default: 60_000 }),
    handlerTimeoutMs: integer({ default: 10_000 }),
    maxAttempts: integer({ default: 25 }),
    maxLaterMs: integer({ default: 3 * 86_400_000 }),
    runtime: RUNTIME,
  });
  // Otherwise a second process could run the event while the first still runs it.
  if (read.leaseMs <= read.handlerTimeoutMs) {
    throw new ConfigError(
      `createReceiver: \`leaseMs\` (${read.leaseMs}) must be more than \`handlerTimeoutMs\` (${read.handlerTimeoutMs}).`,
    );
  }
  const runtime = toRuntime(read.runtime);
  const store = { capacity: CAPACITY, runtime: toStoreRuntime(read.runtime), keepsDone: false };
  const inbox: Inbox<unknown> = read.inbox ?? memoryOps(new EventStore(store));
  if (read.queue !== undefined && !inbox.durable) throw queueInboxError('createReceiver');
  if (read.answer === 'recorded' && !inbox.durable) {
    // An event that got a 202 could be lost.
    throw new ConfigError(
      "createReceiver: `answer: 'recorded'` needs a durable `inbox`: sqliteInbox with a file, postgresInbox, mysqlInbox, redisInbox or durableObjectInbox.",
    );
  }
  if (read.answer === 'recorded' && read.queue !== undefined) {
    throw new ConfigError(
      "createReceiver: with a `queue`, a delivery is answered once it is enqueued. Remove `answer: 'recorded'`, or the queue.",
    );
  }
  return {
    ...read,
    inbox,
    runtime,
    signature: readOptions('createReceiver `signature`', read.signature, {
      header: rule('the name of a header', isHeaderName, SIGNATURE_HEADER),
      encoding: oneOf(SIGNATURE_ENCODINGS),
      prefix: rule('a string', (value) => typeof value === 'string', ''),
    }),
    secret: readSecret(secret, { runtime, timeoutMs: secretTimeoutMs }),
    handlers: readHandlers(handlers, inbox),
  };
}

/** With a non-durable inbox an event could take effect twice: the queue delivers it again after a restart. */
export function queueInboxError(where: string): ConfigError {
  return new ConfigError(
    `${where}: a \`queue\` needs a durable \`inbox\` that receivers and workers share: sqliteInbox with a file, postgresInbox, mysqlInbox or redisInbox.`,
  );
}

/** A listed type must have a handler: `undefined` comes from a misspelt import, and its events would be ignored. */
function readHandlers<Tx>(handlers: Handlers<Tx>, { synchronous }: Inbox<unknown>): HandlerTable {
  const rules = EVENT_TYPES.map((type) => {
    const isMissing = type in handlers && handlers[type] === undefined;
    const found = isMissing ? ', and is undefined: check its import, or leave the type out' : '';
    const isHandler = rule(`a function${found}`, (value) => typeof value === 'function');
    return [type, { ...isHandler, required: type in handlers }];
  });
  const read = readOptions('createReceiver `handlers`', handlers, Object.fromEntries(rules)) as HandlerTable;
  const type = EVENT_TYPES.find((each) => isAsync(read[each] ?? readHandlers));
  if (!synchronous || type === undefined) return read;
  throw new ConfigError(
    `createReceiver: the handler of ${type} is async, and its transaction would end before it. ${SYNCHRONOUS_FIX}`,
  );
}

export function hasHandler({ handlers }: Pick<ReceiverSettings, 'handlers'>, event: UnknownEvent): boolean {
  return isKnownEvent(event) && handlers[event.type] !== undefined;
}

function isInbox(value: unknown): boolean {
  const inbox = Object(value);
  return (
    INBOX_METHODS.every((name) => typeof inbox[name] === 'function') && typeof inbox.durable === 'boolean'
  );
}

/** With other characters, every lookup of the header would fail. */
function isHeaderName(value: unknown): boolean {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}

/** Whether a value is a plain object, and not a map, an array or a promise. */
function isTable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return !(Symbol.iterator in value) && !('then' in value);
}
