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
   * The webhook secret: a string or bytes, an array of them during a rotation, or a function that returns any of these.
   *
   * The function is called with the path, query and headers of each delivery that has a well-formed signature and a
   * complete body. If it returns `null`, the delivery is `rejected` with `ERR_SECRET_UNKNOWN`, and the response is the same
   * as for a signature that doesn't match. If it throws, the outcome is `unavailable` with `ERR_SECRET_UNAVAILABLE`.
   */
  readonly secret: ReceiverSecret;
  /**
   * Claims and remembers events. Use one inbox for all processes and jobs of an app.
   *
   * @default memoryInbox(), which loses its events on restart
   */
  readonly inbox?: Inbox<Tx> | undefined;
  /** One handler for each event type that your app uses. Leave out all other types: the value `undefined` is rejected. */
  readonly handlers: Handlers<Tx>;
  /** The signature header and its format. @default X-SERVICE-Signature, hex or base64, without a prefix */
  readonly signature?: SignatureOptions | undefined;
  /** The queue to which `accept` passes events for workers. @default none: handlers run before the response */
  readonly queue?: Queue | undefined;
  /**
   * When the receiver responds to a delivery.
   *
   * - `handled`: with 200, after the handler has ended.
   * - `recorded`: with 202, once the event is durably in the inbox. The handler then runs in this process. If the process
   *   dies first, `start`, `redrive` or the poller of any process runs the event after `leaseMs`. This needs a durable
   *   inbox and no queue. `onOutcome` is called twice: first with `queued`, then with the handler's result.
   *
   * @default 'handled'
   */
  readonly answer?: 'handled' | 'recorded' | undefined;
  /**
   * Returns the ordering key of an event. At most one event per key runs at a time, across all processes that share the
   * inbox. If an event must wait, it is stored, and its delivery gets a 503 (202 with `answer: 'recorded'`). `start`,
   * `redrive` or the poller runs the waiting events in the order in which they were created.
   *
   * All receivers that share the inbox need the same function. No schema has checked the payload at this point. A key must
   * have 1 to 512 UTF-8 bytes and no control characters. If the function throws, the attempt at the event fails.
   *
   * A key doesn't sort events: an event may arrive after one that was created later, and it runs immediately unless
   * another event with its key is running.
   *
   * @default none: events are independent of each other
   */
  readonly orderingKey?: OrderingKey | undefined;
  /**
   * How many handlers can run at the same time in this process. Further deliveries get a 503 and aren't stored. With
   * `answer: 'recorded'`, further deliveries are stored, get a 202, and run when a slot is free. `redrive`, the poller and
   * workers wait for a free slot. With a transactional inbox, set this to at most the pool size minus 1.
   *
   * @default no limit
   */
  readonly maxConcurrency?: number | undefined;
  /** Called once for each event of an unknown type, when the event is first parked. @default none */
  readonly onUnknown?: ((event: UnknownEvent) => unknown) | undefined;
  /**
   * Receives log lines that say what failed and how to fix it.
   *
   * @default the request's logger in Fastify, otherwise console
   */
  readonly logger?: Logger | undefined;
  /**
   * Called with the outcome of each delivery and each stored event that runs. If a handler takes longer than
   * `handlerTimeoutMs` or runs after the response, `onOutcome` is called again with the handler's result. Errors that
   * `onOutcome` throws are logged and ignored. Outcomes with an error are also sent to `logger`.
   *
   * @default none
   */
  readonly onOutcome?: ((outcome: Outcome) => unknown) | undefined;
  /**
   * Layers around the receiver, such as `openTelemetry()` from `stablehooks/opentelemetry`, outermost first.
   *
   * @default none
   */
  readonly use?: readonly Layer[] | undefined;
  /** The maximum size of a body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How long to wait for a body, in ms. @default 10_000 */
  readonly bodyTimeoutMs?: number | undefined;
  /** How long to wait for the `secret` function, in ms. @default 10_000 */
  readonly secretTimeoutMs?: number | undefined;
  /**
   * How long to wait for each call to the inbox, in ms. In a transaction, the limit applies to BEGIN and COMMIT
   * separately. After that, the call fails with `ERR_INBOX_FAILED`. Without this limit, drivers wait for an unresponsive
   * server until TCP gives up, which takes minutes. With `pg`, Neon, `mysql2` and `ioredis`, more than 30 s doesn't help,
   * because the inbox closes a connection that has been silent for 30 s.
   *
   * @default 10_000
   */
  readonly inboxTimeoutMs?: number | undefined;
  /** How long a claim is valid, in ms. Must be greater than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number | undefined;
  /**
   * How long the response waits for a handler, in ms. With `answer: 'recorded'`, how long a handler may run before its
   * attempt counts as failed. A handler that takes longer keeps its event claimed until it ends or `leaseMs` has passed, so
   * no second run starts meanwhile. If the handler succeeds within the lease, the event is done.
   *
   * @default 10_000
   */
  readonly handlerTimeoutMs?: number | undefined;
  /** The number of failed attempts after which a durable inbox dead-letters an event. @default 25 */
  readonly maxAttempts?: number | undefined;
  /**
   * How long a handler can postpone an event with `RetryLater`, in ms since the event was first received, by the inbox's
   * clock. After that, the event is dead-lettered with the reason. @default 259_200_000, which is 3 days
   */
  readonly maxLaterMs?: number | undefined;
  /** Time, timers and randomness, for tests. @default the platform's */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Transactional handlers need an inbox with transactions: without one, `ctx.tx` is undefined. */
export type NeededInbox<Tx> = undefined extends Tx ? unknown : { readonly inbox: Inbox<Tx> };

/** Returns the ordering key of an event, or `undefined` or `null` if the event has none. */
export type OrderingKey = (event: WebhookEvent) => string | null | undefined;

/** The signature header and its format, as in `verifySignature`. */
export interface SignatureOptions extends SignatureFormat {
  /** The name of the header. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** The handlers by type, once the compiler has checked each against its own event. */
export type HandlerTable = { readonly [Type in EventType]?: Handler<EventType, unknown> | undefined };

/** Options of `receiver.start`. */
export interface StartOptions {
  /** The time between two checks for due events, in ms, plus or minus 20 %. @default 1_000 */
  readonly intervalMs?: number | undefined;
  /** Stops the checks for due events. To wait for running handlers, call `close()`. @default none: `close()` stops them */
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
    handlers: required(rule('an object that maps event types to functions', isTable)),
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
      `createReceiver: \`leaseMs\` (${read.leaseMs}) must be greater than \`handlerTimeoutMs\` (${read.handlerTimeoutMs}).`,
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
      "createReceiver: with a `queue`, the receiver already responds as soon as a delivery is enqueued. Remove `answer: 'recorded'` or the queue.",
    );
  }
  return {
    ...read,
    inbox,
    runtime,
    signature: readOptions('createReceiver `signature`', read.signature, {
      header: rule('a header name', isHeaderName, SIGNATURE_HEADER),
      encoding: oneOf(SIGNATURE_ENCODINGS),
      prefix: rule('a string', (value) => typeof value === 'string', ''),
    }),
    secret: readSecret(secret, { runtime, timeoutMs: secretTimeoutMs }),
    handlers: readHandlers(handlers, inbox),
  };
}

/** With a non-durable inbox, an event could take effect twice, because the queue delivers it again after a restart. */
export function queueInboxError(where: string): ConfigError {
  return new ConfigError(
    `${where}: a \`queue\` needs a durable \`inbox\` that receivers and workers share: sqliteInbox with a file, postgresInbox, mysqlInbox or redisInbox.`,
  );
}

/** A listed type must have a handler: `undefined` comes from a misspelt import, and its events would be ignored. */
function readHandlers<Tx>(handlers: Handlers<Tx>, { synchronous }: Inbox<unknown>): HandlerTable {
  const rules = EVENT_TYPES.map((type) => {
    const isMissing = type in handlers && handlers[type] === undefined;
    const found = isMissing ? ', but is undefined: check its import, or leave the type out' : '';
    const isHandler = rule(`a function${found}`, (value) => typeof value === 'function');
    return [type, { ...isHandler, required: type in handlers }];
  });
  const read = readOptions('createReceiver `handlers`', handlers, Object.fromEntries(rules)) as HandlerTable;
  const type = EVENT_TYPES.find((each) => isAsync(read[each] ?? readHandlers));
  if (!synchronous || type === undefined) return read;
  throw new ConfigError(
    `createReceiver: the handler for ${type} is async, so its transaction would end before the handler does. ${SYNCHRONOUS_FIX}`,
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
