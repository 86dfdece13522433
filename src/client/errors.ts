import { type ConfigError, StablehooksError, type UnavailableError } from '../core/errors.js';

export interface RequestLine {
  readonly method: string;
  /** Without its query. */
  readonly url: string;
}

/** The service responded with a status other than 2xx. No field contains the token. */
export class ApiError extends StablehooksError<'ERR_API_STATUS'> implements RequestLine {
  override readonly name = 'ApiError';
  declare readonly method: string;
  declare readonly url: string;
  /** The HTTP status; 0 where a browser conceals the status of a redirect. */
  declare readonly status: number;
  /** All headers, such as the one with the service's id of the request. */
  declare readonly headers: Headers;
  /** The first 2,000 characters of the body. Its format is not specified. */
  declare readonly body: string;
  /** The service's `Retry-After`, in ms, not limited by `maxWaitMs`; `undefined` without one. */
  declare readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    facts: RequestLine & Pick<ApiError, 'status' | 'headers' | 'body' | 'retryAfterMs'>,
  ) {
    super('ERR_API_STATUS', message);
    Object.assign(this, facts);
  }
}

/**
 * No complete answer arrived: the connection was refused or closed, or the time ran out. `cause` is a copy of the error
 * of `fetch`, without the token.
 */
export class ConnectionError extends StablehooksError<'ERR_API_CONNECTION'> implements RequestLine {
  override readonly name = 'ConnectionError';
  readonly method: string;
  readonly url: string;
  /** Whether the request certainly did not reach the service. If so, even a POST can be sent again. */
  readonly unsent: boolean;

  constructor(message: string, facts: RequestLine & ErrorOptions & { readonly unsent: boolean }) {
    super('ERR_API_CONNECTION', message, { cause: facts.cause });
    this.method = facts.method;
    this.url = facts.url;
    this.unsent = facts.unsent;
  }
}

export interface ResponseFacts extends RequestLine {
  readonly answer: unknown;
}

/** The service responded with a 2xx, but not with the JSON that the call returns. */
export class ResponseError extends StablehooksError<'ERR_API_RESPONSE'> implements RequestLine {
  override readonly name = 'ResponseError';
  readonly method: string;
  readonly url: string;
  /** The missing or wrong fields, such as `limits.daily` or `[3].created_at`; empty for the whole body. */
  override readonly fields: readonly string[];
  readonly #answer: unknown;

  constructor(message: string, facts: ResponseFacts & { readonly fields: readonly string[] }) {
    super('ERR_API_RESPONSE', message);
    this.method = facts.method;
    this.url = facts.url;
    this.fields = facts.fields;
    this.#answer = facts.answer;
  }

  /**
   * The answer to `create` or `updateLimits`, which preserves the id of a created wallet: the parsed body, or its first
   * 2,000 characters when it is not JSON. `undefined` after a list.
   *
   * It may contain an address or a balance. The message does not contain it, and loggers that print an error's own fields do
   * not print it.
   */
  get answer(): unknown {
    return this.#answer;
  }
}

/** Every error of a call; `switch (error.code)` narrows it. An aborted call rejects with the signal's reason. */
export type ClientError = ApiError | ConnectionError | ResponseError | ConfigError | UnavailableError;
