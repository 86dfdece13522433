/** Runs the handler of a claimed event, and completes the event or records its failure under the lease. */
import { backoffMs } from '../core/backoff.js';
import { BusyError, EventError, HandlerError, orUnavailable, PermanentError } from '../core/errors.js';
import type { StandardSchema, WebhookEvent } from '../core/events.js';
import type { Lease, Origin } from '../core/ports.js';
import type { HandlerContext, ReceiverSettings } from './options.js';
import type { OutcomeResult } from './outcome.js';

/** The wait after a failed attempt: 1 s, 2 s, 4 s, … up to an hour, minus a random part of up to a half. */
const RETRY = { baseMs: 1_000, maxMs: 3_600_000 } as const;

/**
 * Makes one attempt at a claimed event.
 *
 * @throws {BusyError} `ERR_LEASE_LOST` when another process claimed the event meanwhile.
 * @throws {UnavailableError} `ERR_INBOX_FAILED`; the lease then lapses, and the event runs again.
 */
export async function runHandler<Tx>(
  event: WebhookEvent,
  lease: Lease,
  { origin, settings }: { readonly origin: Origin; readonly settings: ReceiverSettings<Tx> },
): Promise<OutcomeResult> {
  const { inbox } = settings;
  // No earlier attempt recorded a result, so the event may crash the process.
  if (inbox.durable && lease.attempt > settings.maxAttempts)
    return fail(lease, unfinished(event, lease), settings);
  const run = (tx: Tx) => callHandler(event, new Context(tx, lease.attempt, origin), settings);
  let handled = false;
  try {
    let completed: boolean;
    if (inbox.transaction) {
      const effect = async (tx: Tx) => {
        handled = await run(tx);
      };
      completed = await orUnavailable('ERR_INBOX_FAILED', inbox.transaction(lease, effect));
    } else {
      handled = await run(undefined as Tx);
      completed = await orUnavailable('ERR_INBOX_FAILED', inbox.complete(lease));
    }
    if (!completed) throw leaseLost(lease);
    return { kind: handled ? 'handled' : 'ignored', attempt: lease.attempt };
  } catch (error) {
    if (isHandlerFault(error)) return fail(lease, error, settings);
    throw error;
  }
}

/** The errors of an attempt, as opposed to those of the inbox around it. */
type HandlerFault = HandlerError | PermanentError | EventError;

function isHandlerFault(error: unknown): error is HandlerFault {
  return error instanceof HandlerError || error instanceof PermanentError || error instanceof EventError;
}

class Context<Tx> implements HandlerContext<Tx> {
  /**
   * An own property, so that `{ ...context }` contains it. The signal is created on first use: that takes as long as
   * parsing a delivery, and few handlers use it. A shared descriptor takes a fifth of the time of a getter per object.
   */
  static readonly #signal = {
    enumerable: true,
    get(this: Context<unknown>) {
      return this.#abortable().signal;
    },
  };

  readonly tx: Tx;
  readonly attempt: number;
  readonly origin: Origin;
  declare readonly signal: AbortSignal;
  #controller: AbortController | undefined;

  constructor(tx: Tx, attempt: number, origin: Origin) {
    this.tx = tx;
    this.attempt = attempt;
    this.origin = origin;
    Object.defineProperty(this, 'signal', Context.#signal);
  }

  abort(reason: HandlerError): void {
    this.#abortable().abort(reason);
  }

  #abortable(): AbortController {
    this.#controller ??= new AbortController();
    return this.#controller;
  }
}

/** Calls the handler, within the time limit; answers whether there is one. */
async function callHandler<Tx>(
  event: WebhookEvent,
  context: Context<Tx>,
  { handlers, payloads, handlerTimeoutMs }: ReceiverSettings<Tx>,
): Promise<boolean> {
  const handler = handlers[event.type];
  if (handler === undefined) return false;

  const schema = payloads[event.type];
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const running =
      schema === undefined
        ? handler(event, context)
        : narrow(event, schema).then((narrowed) => handler(narrowed, context));
    // A handler that returns nothing has finished: there is nothing to wait for, and no time to limit.
    if (running === undefined) return true;
    // A handler that rejects after its time limit is caught here, too, so it is no unhandled rejection.
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => {
        const error = new HandlerError(
          'ERR_HANDLER_TIMEOUT',
          `The handler of ${event.type} did not finish within ${handlerTimeoutMs} ms. Raise handlerTimeoutMs, or use a queue.`,
        );
        reject(error);
        context.abort(error);
      }, handlerTimeoutMs);
      Promise.resolve(running).then(resolve, reject);
    });
    return true;
  } catch (thrown) {
    throw toHandlerFault(event, thrown);
  } finally {
    clearTimeout(timer);
  }
}

/** The event with the output of its payload's schema. */
async function narrow(event: WebhookEvent, schema: StandardSchema): Promise<WebhookEvent> {
  const result = await schema['~standard'].validate(event.payload);
  if (result.issues === undefined) return { ...event, payload: result.value } as WebhookEvent;
  const paths = result.issues.map(({ path = [] }) =>
    ['payload', ...path.map((part) => toName(typeof part === 'object' ? part.key : part))].join('.'),
  );
  const fields = [...new Set(paths)];
  throw new EventError(
    'ERR_PAYLOAD_INVALID',
    `The payload of ${event.type} does not match its schema at ${fields.join(', ')}. Correct the schema; the event runs again.`,
    { cause: result.issues, fields },
  );
}

/** The name of a path part that is safe in a message: the keys of a payload that is a map are content. */
function toName(key: PropertyKey): string {
  return /^(?:[A-Za-z_]\w{0,40}|\d{1,6})$/.test(String(key)) ? String(key) : '*';
}

function toHandlerFault(event: WebhookEvent, thrown: unknown): HandlerFault {
  if (thrown instanceof PermanentError || thrown instanceof HandlerError) return thrown;
  // Other errors of this package that a handler throws say nothing about this event.
  if (thrown instanceof EventError && thrown.code === 'ERR_PAYLOAD_INVALID') return thrown;
  // By code, too: the handler may have imported the class from another copy of this package.
  if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_HANDLER_PERMANENT') {
    return new PermanentError(thrown.message, { cause: thrown });
  }
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `The handler of ${event.type} threw; see the cause. The event runs again.`,
    { cause: thrown },
  );
}

/** Records the failure before it is answered: a 200 for `dead` must not be the only record of the event. */
async function fail<Tx>(
  lease: Lease,
  error: HandlerFault,
  settings: ReceiverSettings<Tx>,
): Promise<OutcomeResult> {
  const { inbox, maxAttempts } = settings;
  const dead = error.code === 'ERR_HANDLER_PERMANENT' || (inbox.durable && lease.attempt >= maxAttempts);
  const retryAfterMs = dead ? null : backoffMs(lease.attempt, { ...RETRY, random: Math.random() });
  const recorded = inbox.fail(lease, { retryAfterMs, error: toLastError(error) });
  if (!(await orUnavailable('ERR_INBOX_FAILED', recorded))) throw leaseLost(lease);
  return { kind: dead ? 'dead' : 'failed', attempt: lease.attempt, error };
}

/** What the inbox keeps for operators: the code, and the message of what the handler threw. */
function toLastError(error: HandlerFault): string {
  const { cause } = error;
  const message =
    error.code === 'ERR_HANDLER_FAILED' && cause instanceof Error ? cause.message : error.message;
  return `${error.code}: ${message}`;
}

function unfinished(event: WebhookEvent, lease: Lease): HandlerError {
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `${lease.attempt - 1} attempts at ${event.type} started and none finished. Find what ends the process, then requeue the event.`,
  );
}

function leaseLost(lease: Lease): BusyError {
  return new BusyError(
    'ERR_LEASE_LOST',
    `Attempt ${lease.attempt} took longer than its lease, and another process may run the event. Raise leaseMs.`,
    { retryAfterMs: 1_000 },
  );
}
