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
    'The connection closed before the whole body arrived. No handler ran.',
    { cause },
  );
}

/** The stream continues after the declared length, which HTTP does not allow. */
export function longerThanDeclared(): RequestError {
  return new StablehooksError(
    'ERR_BODY_INCOMPLETE',
    'The body is longer than its content-length. Check the proxy or middleware in front of the receiver.',
  );
}

const CLOSED: readonly unknown[] = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'AbortError',
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

/** The stream contains strings, objects or other views of memory, so the signed bytes are not known. */
export function notBytes(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `The stream of the body contains something other than Uint8Array, such as strings, so the signed bytes are lost. ${fix}`,
  );
}

export function unavailable(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `A parser or middleware read the body first, so the signed bytes are lost. ${fix}`,
  );
}

/** No byte of the body arrived, although the request has one. */
export function nothingArrived(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `No byte of the body arrived: most likely a body parser in front of the receiver read it. ${fix}`,
  );
}
