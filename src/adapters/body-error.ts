/** The errors of reading a body, shared by Node streams, web streams and bodies that platforms pass as text. */
import { type RequestError, StablehooksError } from '../core/errors.js';

export function tooLarge(maxBytes: number): RequestError {
  return new StablehooksError(
    'ERR_BODY_TOO_LARGE',
    `The body is larger than ${maxBytes} bytes. Raise maxBodyBytes if it is genuine.`,
  );
}

export function incomplete(cause?: unknown): RequestError {
  return new StablehooksError(
    'ERR_BODY_INCOMPLETE',
    'The body is not as long as its content-length: the connection closed first, or something in front cut it, as the proxy of Next cuts at 10 MB (proxyClientMaxBodySize). No handler ran.',
    { cause },
  );
}

const CLOSED: readonly unknown[] = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'AbortError',
  // Of Deno.
  ...['BadResource', 'Http'],
];

/** The stream of the body failed, because the connection did or because other code destroyed it with an error. */
export function failed(cause: unknown): RequestError {
  const { code, name } = Object(cause);
  if (cause === undefined || cause === null || CLOSED.includes(code) || CLOSED.includes(name)) {
    return incomplete(cause ?? undefined);
  }
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    'The stream of the body failed with an error of its own; see the cause, such as a size limit of the framework or a decoder in front of the receiver.',
    { cause },
  );
}

/** The bytes that were signed are not known, because other code read the body or made something else of it. */
export function unavailable(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `A parser or middleware read or decoded the body first, so the signed bytes are lost. ${fix}`,
  );
}
