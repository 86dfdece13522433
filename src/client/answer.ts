import { ApiError, type RequestLine, ResponseError, type ResponseFacts } from './errors.js';
import { redact } from './token.js';

export interface HttpResult<Value> extends ResponseFacts {
  /** Parsed JSON whose shape hasn't been checked yet. */
  readonly value: Value;
  /** The time on the service's clock, in epoch ms, from the `Date` header; `null` if the header is missing or invalid. */
  readonly servedAt: number | null;
}

export interface Answered {
  readonly line: RequestLine;
  readonly token: string;
  readonly response: Response;
  readonly bytes: ArrayBuffer;
}

const MAX_QUOTED = 2_000;

export async function toResult<Value>(
  answered: Answered,
  parse: (text: string) => Value | Promise<Value>,
): Promise<HttpResult<Value>> {
  const { line, token, response, bytes } = answered;
  /** Only this response shows what a change did. A list can be requested again. */
  const isKept = line.method !== 'GET';
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return {
      ...line,
      value: await parse(text),
      answer: isKept ? JSON.parse(redact(text, token)) : undefined,
      servedAt: readDate(response.headers.get('date')),
    };
  } catch {
    const after =
      line.method === 'POST' ? ' The service may have carried out the request; see `answer`.' : '';
    // The error has no cause, because the message of a SyntaxError quotes the body.
    throw new ResponseError(
      `The response to ${line.method} ${line.url} is not JSON. Check that the base URL points to the API itself, not to a web page or a proxy.${after}`,
      { ...line, answer: isKept ? quote(answered) : undefined, fields: [] },
    );
  }
}

export function toApiError(answered: Answered, now: number): ApiError {
  const { line, token, response } = answered;
  const { status } = response;
  const headers = new Headers();
  for (const [name, value] of response.headers) headers.append(name, redact(value, token));
  return new ApiError(`${line.method} ${line.url} returned ${status}. ${fixOf(status, line.method)}`, {
    ...line,
    status,
    headers,
    body: quote(answered),
    retryAfterMs: readRetryAfter(headers.get('retry-after'), now),
  });
}

function quote({ bytes, token }: Answered): string {
  return redact(new TextDecoder().decode(bytes), token).slice(0, MAX_QUOTED);
}

function fixOf(status: number, method: string): string {
  if (status < 400) {
    return 'Redirects are not followed, because they could send the token elsewhere. Set the base URL to the target of the redirect.';
  }
  if (status === 401 || status === 403) return 'Check that the token is valid and belongs to this base URL.';
  if (method === 'POST' && (status === 408 || status === 429 || status >= 500)) {
    return 'The service may have carried out the request. Check before you send it again.';
  }
  if (status === 404) return 'Check the base URL and the id.';
  if (status === 429) return 'Send fewer requests.';
  if (status >= 500) return 'The service failed. Try again later.';
  return "The service's reason is in the `body` of this error.";
}

/** Accepts only an IMF-fixdate (RFC 9110, 5.6.7), because `Date.parse` reads even `0` as a date, in the year 2000. */
function readDate(header: string | null): number | null {
  const time = Date.parse(header ?? '');
  return !Number.isNaN(time) && new Date(time).toUTCString() === header ? time : null;
}

function readRetryAfter(value: string | null, now: number): number | undefined {
  if (value !== null && /^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER);
  const at = readDate(value);
  return at === null ? undefined : Math.max(0, at - now);
}
