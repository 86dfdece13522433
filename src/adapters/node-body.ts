/** The one reader of bodies on Node: the bytes that a parser kept, or the stream, over raw-body. */
import type { IncomingMessage } from 'node:http';
import getRawBody from 'raw-body';
import { incomplete, tooLarge, unavailable } from './body-fault.js';

/** Node's request, and where parsers leave what they read. */
export interface NodeRequest extends IncomingMessage {
  /** Express: `express.raw` leaves bytes here, other parsers what they made of them. */
  readonly body?: unknown;
  /** Nest, Google Cloud Functions, Firebase: the bytes, beside the parsed body. */
  readonly rawBody?: unknown;
}

/** What {@link readNodeBody} needs to know. */
export interface NodeBodyRules {
  readonly maxBodyBytes: number;
  /** What parsers may have left: the first that is bytes is the body. */
  readonly parsed: readonly unknown[];
  /** The lines to write when a parser took the bytes away. */
  readonly fix: string;
}

/**
 * Reads the exact bytes of a body, at most `maxBodyBytes`.
 *
 * @throws {RequestError} `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`, at once.
 */
export async function readNodeBody(request: IncomingMessage, rules: NodeBodyRules): Promise<Uint8Array> {
  const { maxBodyBytes, parsed, fix } = rules;
  const bytes = parsed.find((value) => value instanceof Uint8Array);
  if (bytes !== undefined) {
    if (bytes.length > maxBodyBytes) throw tooLarge(maxBodyBytes);
    return bytes;
  }
  if (request.destroyed && !request.readableEnded) throw incomplete(request.errored ?? undefined);
  if (isTouched(request)) {
    throw unavailable(
      parsed.find((value) => value !== undefined),
      { fix },
    );
  }
  return readStream(request, maxBodyBytes);
}

/** Whether somebody else read the stream, reads it now, or has it decoded to text. */
function isTouched(request: IncomingMessage): boolean {
  return (
    request.readableDidRead ||
    request.readableFlowing === true ||
    request.listenerCount('readable') > 0 ||
    request.readableEncoding !== null ||
    !request.readable
  );
}

function readStream(request: IncomingMessage, maxBodyBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const length = request.headers['content-length'] ?? null;
    getRawBody(request, { length, limit: maxBodyBytes }, (error, body) => {
      if (!error) return resolve(body);
      reject(error.type === 'entity.too.large' ? tooLarge(maxBodyBytes) : incomplete(error));
      // Discards the rest, unkept, for as long as Node's requestTimeout lets the sender go on: so it gets to
      // read our reply, and the connection its next delivery.
      request.resume();
    });
    // raw-body never answers for a stream that is destroyed without an error.
    request.once('close', () => {
      if (!request.readableEnded) reject(incomplete());
    });
    // And it never starts one that somebody paused.
    request.resume();
  });
}
