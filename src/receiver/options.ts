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

/** Options for {@link createReceiver}. */
export interface ReceiverOptions<Tx = undefined> {
  /**
   * The webhook secret: a string or bytes, an array of them during a rotation, or a function that returns any of these.
   *
   * The function is called with the path, query and headers of each request with a well-formed signature and a complete
   * body. If it returns `null`, the delivery is `rejected` with `ERR_SECRET_UNKNOWN`, and the response is the same as for a
   * signature that doesn't match. If it throws, the outcome is `unavailable` with `ERR_SECRET_UNAVAILABLE`.
   */
  readonly secret: ReceiverSecret;
  /**
   * Stores events, and lets only one process run an event at a time. All processes and jobs of an app must share it.
   * @default memoryInbox(), which loses its events when the process restarts
   */
  readonly inbox?: Inbox<Tx> | undefined;
  /** One handler for each event type that your app uses. Omit all other types. Setting a type to `undefined` is an error. */
  readonly handlers: Handlers<Tx>;
  /** The signature header and its format. @default X-SERVICE-Signature, hex or base64, without a prefix */
  readonly signature?: SignatureOptions | undefined;
  /** The queue that passes events to your workers. @default none: handlers run before the response */
  readonly queue?: Queue | undefined;
  /**
   * When the receiver responds to a delivery.
   *
   * - `handled`: after the handler has ended. If the handler succeeded, the response is 200.
   * - `recorded`: as soon as the event is durably stored in the inbox. The response is 202, and the handler then runs in
   *   this process. If the process dies before the handler has ended, `start`, `redrive` or the poller of any process runs
   *   the event after `leaseMs`. This requires a durable inbox and can't be combined with a queue. `onOutcome` is called
   *   twice: first with `queued`, then with the handler's result. @default 'handled'
   */
  readonly answer?: 'handled' | 'recorded' | undefined;
  /**
   * Returns the ordering key of an event. Of all events with the same key, only one runs at a time, even if several
   * processes share the inbox. An event that must wait is stored, and its delivery gets a 503, or a 202 if `answer` is
   * `recorded`. Later, `start`, `redrive` or the poller runs the waiting events in order of creation.
   *
   * All receivers that share the inbox need the same function. The function receives the payload before any schema has
   * checked it. The key must be 1 to 512 bytes long when encoded as UTF-8 and must not contain control characters. If the
   * function throws, the attempt at the event fails.
   *
   * A key doesn't guarantee that events run in order of creation. If no other event with the same key is running, an event
   * runs as soon as it arrives, even if an event that was created earlier has not arrived yet.
   * @default none: events are independent of each other
   */
  readonly orderingKey?: OrderingKey | undefined;
  /**
   * The maximum number of handlers that run at the same time in this process. When the maximum is reached, further
   * deliveries get a 503 and aren't stored. If `answer` is `recorded`, they are stored, get a 202, and run as soon as a
   * handler has ended. `redrive`, the poller and workers wait until a handler has ended. With a transactional inbox, choose
   * a number that is smaller than the size of the connection pool. @default no limit
   */
  readonly maxConcurrency?: number | undefined;
  /** Called once for each event of an unknown type, when the event is first parked. @default none */
  readonly onUnknown?: ((event: UnknownEvent) => unknown) | undefined;
  /** Receives lines that say what failed and how to fix it. @default the request's logger in Fastify, otherwise console */
  readonly logger?: Logger | undefined;
  /**
   * Called with the outcome of each delivery, and with the outcome of each stored event that runs. If a handler takes
   * longer than `handlerTimeoutMs` or runs after the response, `onOutcome` is called again with the handler's result.
   * Errors that `onOutcome` throws are logged and ignored. Outcomes with an error are also sent to `logger`. @default none
   */
  readonly onOutcome?: ((outcome: Outcome) => unknown) | undefined;
  /**
   * Layers that wrap the receiver, such as `openTelemetry()` from `stablehooks/opentelemetry`. The first one is outermost.
   * @default none
   */
  readonly use?: readonly Layer[] | undefined;
  /** The maximum size of a body, in bytes. @default 1_048_576 */
  readonly maxBodyBytes?: number | undefined;
  /** How long to wait for the body of a request, in ms. @default 10_000 */
  readonly bodyTimeoutMs?: number | undefined;
  /** How long to wait for the `secret` function, in ms. @default 10_000 */
  readonly secretTimeoutMs?: number | undefined;
  /**
   * The maximum time that each call to the inbox can take, in ms. A call that takes longer fails with `ERR_INBOX_FAILED`.
   * In a transaction, the limit applies to BEGIN and COMMIT separately. Without this limit, a driver would wait for an
   * unresponsive server until TCP gives up, which takes minutes. With `pg`, Neon, `mysql2` and `ioredis`, a limit above
   * 30,000 has no effect, because the inbox closes a connection that has been silent for 30 s. @default 10_000
   */
  readonly inboxTimeoutMs?: number | undefined;
  /** How long a process can keep an event claimed, in ms. Must be greater than `handlerTimeoutMs`. @default 60_000 */
  readonly leaseMs?: number | undefined;
  /**
   * How long the response waits for a handler, in ms. If `answer` is `recorded`, how long a handler can run before it is
   * reported as failed. If a handler takes longer, its event stays claimed until the handler ends or `leaseMs` has passed,
   * so the event isn't run again in the meantime. If the handler succeeds before `leaseMs` has passed, the event is done.
   * @default 10_000
   */
  readonly handlerTimeoutMs?: number | undefined;
  /** The number of failed attempts after which a durable inbox dead-letters an event. @default 25 */
  readonly maxAttempts?: number | undefined;
  /**
   * How long a handler can postpone an event with `RetryLater`, in ms. The time starts when the event is first received,
   * and is measured by the inbox's clock. After that, the event is dead-lettered with the handler's reason.
   * @default 259_200_000, which is 3 days
   */
  readonly maxLaterMs?: number | undefined;
  /** Replaces the clock, the timers and the random numbers in tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/** Requires an inbox with transactions if the handlers use `ctx.tx`, because `ctx.tx` would otherwise be undefined. */
export type NeededInbox<Tx> = undefined extends Tx ? unknown : { readonly inbox: Inbox<Tx> };

/** Returns the ordering key of an event, or `undefined` or `null` if the event has none. */
export type OrderingKey = (event: WebhookEvent) => string | null | undefined;

/** The name of the signature header, and the same format options as in `verifySignature`. */
export interface SignatureOptions extends SignatureFormat {
  /** The name of the header. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** The compiler has already checked each handler against its own event type. */
export type HandlerTable = { readonly [Type in EventType]?: Handler<EventType, unknown> | undefined };

/** Options for `receiver.start`. */
export interface StartOptions {
  /** The interval between checks for due events, in ms. It varies at random by up to 20 %. @default 1_000 */
  readonly intervalMs?: number | undefined;
  /** Stops the checks for due events when aborted. To wait for running handlers, call `close()`. @default none */
  readonly signal?: AbortSignal | undefined;
}

const INBOX_METHODS = [
  ...['claim', 'ignore', 'complete', 'fail', 'record', 'takeDue'],
  ...['readNote', 'writeNote', 'leaseNote'],
];

export type ReceiverSettings = ReturnType<typeof readReceiverOptions>;

export function readReceiverOptions<Tx>(options: ReceiverOptions<Tx>) {
  const { secret, secretTimeoutMs, handlers, ...read } = readOptions('createReceiver', options, {
    // This rule checks only that a secret is given; `readSecret` checks its value.
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
  // Otherwise, a second process could run the event while the first process is still running it.
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
    // Without a durable inbox, an event could be lost after its sender got a 202.
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

/** A queue redelivers events after a restart, so without a durable inbox, an event could take effect twice. */
export function queueInboxError(where: string): ConfigError {
  return new ConfigError(
    `${where}: a \`queue\` needs a durable \`inbox\` that receivers and workers share: sqliteInbox with a file, postgresInbox, mysqlInbox or redisInbox.`,
  );
}

/** Rejects a handler that is `undefined`, because the receiver would silently ignore the events of its type. */
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

/** A lookup of any other name would always fail. */
function isHeaderName(value: unknown): boolean {
  return typeof value === 'string' && /^[\w.-]+$/.test(value);
}

function isTable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return !(Symbol.iterator in value) && !('then' in value);
}
