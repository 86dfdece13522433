/** What can go wrong while a body is read, the same for Node streams and web streams. */
import { RequestError } from '../core/errors.js';

export function tooLarge(maxBodyBytes: number): RequestError {
  return new RequestError(
    'ERR_BODY_TOO_LARGE',
    `The body is larger than ${maxBodyBytes} bytes. Raise maxBodyBytes if the service really sends such bodies.`,
  );
}

export function incomplete(cause?: unknown): RequestError {
  return new RequestError(
    'ERR_BODY_INCOMPLETE',
    'The sender, or a proxy, hung up before the body was whole. Nothing was run; the delivery should come again.',
    { cause },
  );
}

/**
 * Something read the body first, and its exact bytes are gone.
 *
 * @param found - what is in their place, from which the parser is guessed.
 * @param fix - the lines to write in this framework.
 */
export function unavailable(found: unknown, { fix }: { readonly fix: string }): RequestError {
  return new RequestError(
    'ERR_BODY_UNAVAILABLE',
    `${guessParser(found)}, so the bytes that were signed are gone. ${fix}`,
  );
}

function guessParser(found: unknown): string {
  if (typeof found === 'string') return 'A text parser (such as express.text) read the body first';
  if (typeof found === 'object' && found !== null) {
    return 'A parser (such as express.json or express.urlencoded) turned the body into an object first';
  }
  return 'Something (a body parser, a logger, a proxy) read the body first or is reading it now';
}
