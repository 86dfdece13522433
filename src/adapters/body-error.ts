/** The errors of reading a body, the same for Node streams and web streams. */
import { RequestError } from '../core/errors.js';

export function tooLarge(maxBytes: number): RequestError {
  return new RequestError(
    'ERR_BODY_TOO_LARGE',
    `The body is larger than ${maxBytes} bytes. Raise maxBodyBytes if the service really sends such bodies.`,
  );
}

export function incomplete(cause?: unknown): RequestError {
  return new RequestError(
    'ERR_BODY_INCOMPLETE',
    'The connection closed before the whole body arrived. No handler ran. The sender should deliver again.',
    { cause },
  );
}

/**
 * Something read the body before the receiver, and its exact bytes are lost.
 *
 * @param found - what was found instead; it identifies the parser.
 * @param fix - the lines to write in this framework.
 */
export function unavailable(found: unknown, fix: string): RequestError {
  return new RequestError(
    'ERR_BODY_UNAVAILABLE',
    `${parserOf(found)}, so the bytes that were signed are lost. ${fix}`,
  );
}

function parserOf(found: unknown): string {
  if (typeof found === 'string') return 'A text parser (such as express.text) read the body first';
  if (typeof found === 'object' && found !== null) {
    return 'A parser (such as express.json or express.urlencoded) read the body first';
  }
  return 'Something (a body parser, a logger, a proxy) read the body first, or is reading it now';
}
