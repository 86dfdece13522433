/** Error messages say what happened and what to do, and contain no secrets, tokens or payloads. */
import { isPromise } from './awaitable.js';

/** The base class of all errors in this package. Their `code` is stable, so use it to tell errors apart. */
export class StablehooksError<Code extends string = string> extends Error {
  override readonly name: string = 'StablehooksError';
  declare readonly code: Code;
  /** The missing or invalid fields of an event, such as `created_at` or `payload.amount`. */
  declare readonly fields?: readonly string[] | undefined;
  /** How long to wait before retrying, in ms. */
  declare readonly retryAfterMs?: number | undefined;

  constructor(
    code: Code,
    message: string,
    { cause, ...details }: ErrorOptions & Pick<StablehooksError, 'fields' | 'retryAfterMs'> = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    // Not writable, because the receiver uses the code in its response to a delivery.
    Object.defineProperty(this, 'code', { value: code, enumerable: true });
    Object.assign(this, details);
  }
}

/** The delivery can't be authenticated. Check the secret, the header name and the encoding. */
export class SignatureError extends StablehooksError<
  'ERR_SIGNATURE_MISSING' | 'ERR_SIGNATURE_MALFORMED' | 'ERR_SIGNATURE_MISMATCH' | 'ERR_SECRET_UNKNOWN'
> {
  override readonly name = 'SignatureError';
}

/** Throw this in a handler when retrying can't help. The receiver then dead-letters the event and responds with 200. */
export class PermanentError extends StablehooksError<'ERR_HANDLER_PERMANENT'> {
  override readonly name = 'PermanentError';

  constructor(message: string, options?: ErrorOptions) {
    super('ERR_HANDLER_PERMANENT', message, options);
  }
}

/**
 * Throw this in a handler that can't handle the event yet, for example because your database has no row for the payment yet.
 * The event runs again after `afterMs`, and this attempt doesn't count. The receiver responds with 202 if the inbox is
 * durable, and otherwise with 503 and a `Retry-After` header. If the event was first received at least `maxLaterMs` ago, it
 * is dead-lettered instead, with `reason` as its error.
 */
export class RetryLater extends StablehooksError<'ERR_HANDLER_LATER'> {
  override readonly name = 'RetryLater';
  declare readonly retryAfterMs: number;

  /** @param options - `afterMs` is at least 1. Operators see `reason`, so it must not contain payloads or secrets. */
  constructor({ afterMs, reason }: { readonly afterMs: number; readonly reason: string }) {
    if (!(afterMs >= 1)) throw new ConfigError('RetryLater: `afterMs` must be a number >= 1.');
    super('ERR_HANDLER_LATER', reason, { retryAfterMs: afterMs });
  }
}

/** An option or argument is invalid. Fix the code that calls this package. */
export class ConfigError extends StablehooksError<'ERR_CONFIG_INVALID'> {
  override readonly name = 'ConfigError';

  constructor(message: string, options?: ErrorOptions) {
    super('ERR_CONFIG_INVALID', message, options);
  }
}

/** The HTTP request isn't a delivery, or its body can't be read. Fix the sender, the proxy or the body parser. */
export type RequestError = StablehooksError<
  | 'ERR_METHOD_NOT_ALLOWED'
  | 'ERR_BODY_ENCODED'
  | 'ERR_BODY_TOO_LARGE'
  | 'ERR_BODY_INCOMPLETE'
  | 'ERR_BODY_TIMEOUT'
  | 'ERR_BODY_UNAVAILABLE'
>;

/** The signed body isn't an event, or the payload doesn't match the handler's schema. `fields` lists the invalid fields. */
export type EventError = StablehooksError<'ERR_EVENT_MALFORMED' | 'ERR_PAYLOAD_INVALID'>;

/** A handler timed out or threw an error. `cause` is the thrown value, if there is one. */
export type HandlerError = StablehooksError<'ERR_HANDLER_FAILED' | 'ERR_HANDLER_TIMEOUT'>;

/** The event can't run right now, or the receiver is at capacity or shutting down. Try again after `retryAfterMs`. */
export type BusyError = StablehooksError<
  | 'ERR_EVENT_BUSY'
  | 'ERR_EVENT_NOT_DUE'
  | 'ERR_KEY_BUSY'
  | 'ERR_HANDLER_LATER'
  | 'ERR_RECEIVER_BUSY'
  | 'ERR_RECEIVER_CLOSED'
  | 'ERR_LEASE_LOST'
>;

/** The inbox, the queue, or the function that returns a secret or token failed. `cause` is the original error, if any. */
export type UnavailableError = StablehooksError<
  'ERR_INBOX_FAILED' | 'ERR_QUEUE_FAILED' | 'ERR_SECRET_UNAVAILABLE'
>;

/** Any error that an {@link Outcome} can contain. Use `switch (error.code)` to narrow its type. */
export type ReceiverError =
  | SignatureError
  | RequestError
  | EventError
  | HandlerError
  | PermanentError
  | BusyError
  | UnavailableError
  | ConfigError;

export function hasCode<Code extends string>(
  error: unknown,
  ...codes: readonly Code[]
): error is StablehooksError<Code> {
  return error instanceof StablehooksError && (codes as readonly string[]).includes(error.code);
}

const DEPENDENCY = { ERR_INBOX_FAILED: 'inbox', ERR_QUEUE_FAILED: 'queue' } as const;

/** A driver's error becomes the `cause` of the thrown error, and errors from this package are thrown unchanged. */
export function orUnavailable<Value>(
  code: keyof typeof DEPENDENCY,
  ask: () => Value | Promise<Value>,
): Value | Promise<Value> {
  try {
    const answer = ask();
    // A driver may return a promise-like object that has no `catch` method.
    if (!isPromise(answer)) return answer;
    return Promise.resolve(answer).catch((cause) => Promise.reject(unavailable(code, cause)));
  } catch (cause) {
    throw unavailable(code, cause);
  }
}

function unavailable(code: keyof typeof DEPENDENCY, cause: unknown): StablehooksError {
  if (cause instanceof StablehooksError) return cause;
  const message = `The ${DEPENDENCY[code]} failed; see the cause. Check that it can be reached.`;
  return new StablehooksError(code, message, { cause });
}

/** Never throws, even if the error's message can't be read. */
export function describeThrown(thrown: unknown, depth = 3): string {
  try {
    const error = innerError(thrown);
    if (!(error instanceof Error)) return String(error);
    const { stack = '', cause, message } = error;
    const own = messageOf(error) ?? '';
    const text = own === message ? stack || String(error) : `${error.name}: ${own}`;
    return cause === undefined || depth === 0
      ? text
      : `${text}\ncaused by ${describeThrown(cause, depth - 1)}`;
  } catch {
    return 'a value that cannot be shown';
  }
}

export function messageOf(thrown: unknown): string | undefined {
  try {
    const error = innerError(thrown);
    if (!(error instanceof Error)) return undefined;
    const message = `${error.message}`;
    // Only the last line of a Prisma error is safe, because the lines before it quote the call's arguments.
    return error.name.startsWith('PrismaClient') ? message.slice(message.lastIndexOf('\n') + 1) : message;
  } catch {
    return undefined;
  }
}

/** The message of a Drizzle error quotes parameters, which can contain a payload, so its cause is used instead. */
function innerError(thrown: unknown): unknown {
  return thrown instanceof Error && 'params' in thrown && thrown.cause !== undefined ? thrown.cause : thrown;
}

export const SYNCHRONOUS_FIX =
  'With `transactional: true`, SQLite handlers must be synchronous. Remove `async` and `await` from the handler, or remove the option.';
