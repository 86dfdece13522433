import { type ConfigError, StablehooksError, type UnavailableError } from '../core/errors.js';

export interface RequestLine {
  readonly method: string;
  /** The URL without its query. */
  readonly url: string;
}

/** The service responded with a non-2xx status. No field contains the token. */
export class ApiError extends StablehooksError<'ERR_API_STATUS'> implements RequestLine {
  override readonly name = 'ApiError';
  declare readonly method: string;
  declare readonly url: string;
  /** The HTTP status, or 0 if a browser hides the status of a redirect. */
  declare readonly status: number;
  /** All response headers, which may include the service's id for this request. */
  declare readonly headers: Headers;
  /** The first 2,000 characters of the body. The service doesn't specify the format of error responses. */
  declare readonly body: string;
  /** The wait in ms that `Retry-After` asks for, even beyond `maxWaitMs`; `undefined` without a valid `Retry-After`. */
  declare readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    facts: RequestLine & Pick<ApiError, 'status' | 'headers' | 'body' | 'retryAfterMs'>,
  ) {
    super('ERR_API_STATUS', message);
    Object.assign(this, facts);
  }
}

/** No complete response arrived, or the request timed out. `cause` is a copy of the `fetch` error without the token. */
export class ConnectionError extends StablehooksError<'ERR_API_CONNECTION'> implements RequestLine {
  override readonly name = 'ConnectionError';
  readonly method: string;
  readonly url: string;
  /**
   * Whether it is certain that the request didn't reach the service. If so, you can safely repeat the request, even a POST.
   */
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

/** The service responded with a 2xx status, but the body isn't the JSON that the call expects. */
export class ResponseError extends StablehooksError<'ERR_API_RESPONSE'> implements RequestLine {
  override readonly name = 'ResponseError';
  readonly method: string;
  readonly url: string;
  /** The missing or invalid fields, such as `limits.daily` or `[3].created_at`; empty if the whole body is invalid. */
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
   * The response to `create` or `updateLimits`: the parsed body, or its first 2,000 characters if it isn't JSON. It can
   * contain the id of a newly created wallet, an address or a balance, so it is neither part of the message nor an own
   * property that loggers print. After a failed `list`, `answer` is `undefined`.
   */
  get answer(): unknown {
    return this.#answer;
  }
}

/** Any error with which a call can reject, unless you abort the call. Use `switch (error.code)` to narrow its type. */
export type ClientError = ApiError | ConnectionError | ResponseError | ConfigError | UnavailableError;
