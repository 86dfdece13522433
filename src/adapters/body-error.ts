/** The errors of reading a body, the same for Node streams, web streams and what platforms hand over. */
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

/** The stream goes on after the length that the request declares, which HTTP itself does not allow. */
export function longerThanDeclared(): RequestError {
  return new StablehooksError(
    'ERR_BODY_INCOMPLETE',
    'The body is longer than its content-length. Check what is in front of the receiver.',
  );
}

/** The codes and names of errors that mean a closed connection. */
const CLOSED: readonly unknown[] = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'AbortError',
];

/** The stream of the body failed: by its connection, or by an error that other code gave it, which is then shown. */
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

/** The stream contains strings, objects or other views of memory, so the bytes that were signed are not known. */
export function notBytes(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `The stream of the body contains something other than Uint8Array, such as strings, so the bytes that were signed are lost. ${fix}`,
  );
}

/**
 * Something read the body before the receiver, and its exact bytes are lost.
 *
 * @param reader - what read it, as the subject of a sentence.
 * @param fix - the lines to write in this framework.
 */
export function unavailable(reader: string, fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `${reader} read the body first, so the bytes that were signed are lost. ${fix}`,
  );
}

/** Nothing of a body arrived, although the request has one. */
export function nothingArrived(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `Nothing of the body arrived: most likely a body parser in front of the receiver has read it. ${fix}`,
  );
}
