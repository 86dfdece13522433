/**
 * What can go wrong: few classes (what the reader does about it), many stable codes (what happened).
 *
 * Each message says the remedy, keeps the `cause`, and never holds a secret, a token or a payload.
 */

/** The base of every error of this package; `code` is stable and safe to branch on. */
export class StablehooksError<Code extends string = string> extends Error {
  override readonly name: string = 'StablehooksError';
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The sender did not prove that it knows the secret: check the secret, the header's name, the encoding. */
export class SignatureError extends StablehooksError<
  'ERR_SIGNATURE_MISSING' | 'ERR_SIGNATURE_MALFORMED' | 'ERR_SIGNATURE_MISMATCH'
> {
  override readonly name = 'SignatureError';
}

/** The HTTP request cannot carry a delivery: change what sends it, or what stands in front of the receiver. */
export class RequestError extends StablehooksError<
  | 'ERR_METHOD_NOT_ALLOWED'
  | 'ERR_BODY_ENCODED'
  | 'ERR_BODY_TOO_LARGE'
  | 'ERR_BODY_INCOMPLETE'
  | 'ERR_BODY_UNAVAILABLE'
> {
  override readonly name = 'RequestError';
}

/** The bytes are authentic but not what was expected: compare them with the service's description. */
export class EventError extends StablehooksError<'ERR_EVENT_MALFORMED' | 'ERR_PAYLOAD_INVALID'> {
  override readonly name = 'EventError';
  /** Which fields are missing or wrong, such as `created_at` or `payload.amount`; empty when it is the whole. */
  readonly fields: readonly string[];

  constructor(
    code: EventError['code'],
    message: string,
    { fields = [], ...options }: ErrorOptions & { readonly fields?: readonly string[] } = {},
  ) {
    super(code, message, options);
    this.fields = fields;
  }
}

/** A handler did not succeed: its own error is the `cause`. */
export class HandlerError extends StablehooksError<'ERR_HANDLER_FAILED' | 'ERR_HANDLER_TIMEOUT'> {
  override readonly name = 'HandlerError';
}

/**
 * Thrown by a handler to say that no retry can help: the event is dead-lettered and answered 200.
 *
 * @example
 * ```ts
 * throw new PermanentError('the account was closed');
 * ```
 */
export class PermanentError extends StablehooksError<'ERR_HANDLER_PERMANENT'> {
  override readonly name = 'PermanentError';

  constructor(message: string, options?: ErrorOptions) {
    super('ERR_HANDLER_PERMANENT', message, options);
  }
}

/** Somebody else has the event, or this process is stopping: deliver again later. */
export class BusyError extends StablehooksError<'ERR_EVENT_BUSY' | 'ERR_RECEIVER_CLOSED' | 'ERR_LEASE_LOST'> {
  override readonly name = 'BusyError';
  /** How long to wait before another try, in milliseconds. */
  readonly retryAfterMs: number;

  constructor(
    code: BusyError['code'],
    message: string,
    options: ErrorOptions & { readonly retryAfterMs: number },
  ) {
    super(code, message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** A store or service that the receiver depends on did not answer: the driver's own error is the `cause`. */
export class UnavailableError extends StablehooksError<
  'ERR_INBOX_FAILED' | 'ERR_QUEUE_FAILED' | 'ERR_SECRET_UNAVAILABLE'
> {
  override readonly name = 'UnavailableError';
}

/** The package was set up wrongly: change the code that calls it. */
export class ConfigError extends StablehooksError<'ERR_CONFIG_INVALID'> {
  override readonly name = 'ConfigError';

  constructor(message: string, options?: ErrorOptions) {
    super('ERR_CONFIG_INVALID', message, options);
  }
}

/** Every error that an {@link Outcome} can carry; `switch (error.code)` narrows it. */
export type ReceiverError =
  | SignatureError
  | RequestError
  | EventError
  | HandlerError
  | PermanentError
  | BusyError
  | UnavailableError
  | ConfigError;
