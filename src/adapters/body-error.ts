/** The errors of reading a body, the same for Node streams and web streams. */
import { RequestError } from '../core/errors.js';

export function tooLarge(maxBytes: number): RequestError {
  return new RequestError(
    'ERR_BODY_TOO_LARGE',
    `The body is larger than ${maxBytes} bytes. Raise maxBodyBytes if it is genuine.`,
  );
}

export function incomplete(cause?: unknown): RequestError {
  return new RequestError(
    'ERR_BODY_INCOMPLETE',
    'The connection closed before the whole body arrived. No handler ran.',
    { cause },
  );
}

/** The stream goes on after the length that the request declares, which HTTP itself does not allow. */
export function longerThanDeclared(): RequestError {
  return new RequestError(
    'ERR_BODY_INCOMPLETE',
    'The body is longer than its content-length. Check what is in front of the receiver.',
  );
}

/** The stream gives strings, objects or other views of memory, so the bytes that were signed are not known. */
export function notBytes(fix: string): RequestError {
  return new RequestError(
    'ERR_BODY_UNAVAILABLE',
    `The stream of the body gives something other than Uint8Array, such as strings, so the bytes that were signed are lost. ${fix}`,
  );
}

/**
 * Something read the body before the receiver, and its exact bytes are lost.
 *
 * @param reader - what read it, as the subject of a sentence.
 * @param fix - the lines to write in this framework.
 */
export function unavailable(reader: string, fix: string): RequestError {
  return new RequestError(
    'ERR_BODY_UNAVAILABLE',
    `${reader} read the body first, so the bytes that were signed are lost. ${fix}`,
  );
}
