/** What a call to the service can end in, beside its result. None of these holds the token. */
import { type ConfigError, StablehooksError, type UnavailableError } from '../core/errors.js';

/** Which call failed; the URL is without its query. */
export interface Called {
  readonly method: string;
  readonly url: string;
}

/** The service answered with a status other than 2xx: `status` says what to do, `body` says why. */
export class ApiError extends StablehooksError<'ERR_API_STATUS'> implements Called {
  override readonly name = 'ApiError';
  readonly method: string;
  readonly url: string;
  /** The HTTP status; 0 where a browser hides that of a redirect. */
  readonly status: number;
  readonly headers: Headers;
  /** The text of the answer, cut at 65,536 bytes: `service.md` does not specify its shape. */
  readonly body: string;
  /** How long the service asks to wait, in ms, uncapped; `undefined` when it does not say. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    facts: Called & Pick<ApiError, 'status' | 'headers' | 'body' | 'retryAfterMs'>,
  ) {
    super('ERR_API_STATUS', message);
    this.method = facts.method;
    this.url = facts.url;
    this.status = facts.status;
    this.headers = facts.headers;
    this.body = facts.body;
    this.retryAfterMs = facts.retryAfterMs;
  }
}

/** No whole answer came: refused, cut, or too slow. `cause` holds the words of what `fetch` threw. */
export class ConnectionError extends StablehooksError<'ERR_API_CONNECTION'> implements Called {
  override readonly name = 'ConnectionError';
  readonly method: string;
  readonly url: string;
  /** Whether the request surely never reached the service, so that even a POST may be sent again. */
  readonly unsent: boolean;

  constructor(message: string, facts: Called & ErrorOptions & { readonly unsent: boolean }) {
    super('ERR_API_CONNECTION', message, 'cause' in facts ? { cause: facts.cause } : undefined);
    this.method = facts.method;
    this.url = facts.url;
    this.unsent = facts.unsent;
  }
}

/** A 2xx answer is not what `service.md` specifies: `fields` names what is missing or wrong. */
export class ResponseError extends StablehooksError<'ERR_API_RESPONSE'> implements Called {
  override readonly name = 'ResponseError';
  readonly method: string;
  readonly url: string;
  /** Such as `limits.daily` or `[3].created_at`; empty when the body as a whole is wrong. */
  readonly fields: readonly string[];

  constructor(message: string, facts: Called & { readonly fields: readonly string[] }) {
    super('ERR_API_RESPONSE', message);
    this.method = facts.method;
    this.url = facts.url;
    this.fields = facts.fields;
  }
}

/** Every error of a call; `switch (error.code)` narrows it. An abort rejects with the signal's own reason. */
export type ClientError = ApiError | ConnectionError | ResponseError | ConfigError | UnavailableError;
