/** One delivery over Node's request and response: what every adapter on Node shares. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import getRawBody from 'raw-body';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver, WebhookRequest } from '../receiver/receiver.js';
import { incomplete, tooLarge, unavailable } from './body-error.js';

/** Node's request, and where frameworks and parsers leave what they read. */
export interface NodeRequest extends IncomingMessage {
  /** Express, Nest, Connect: the URL before the prefix of a mounted router was removed from `url`. */
  readonly originalUrl?: string | undefined;
  /** Express: `express.raw` leaves bytes here, other parsers what they parsed. */
  readonly body?: unknown;
  /** Nest, Google Cloud Functions, Firebase: the bytes, beside the parsed body. */
  readonly rawBody?: unknown;
}

/** Handles Node's own request and response. Its promise never rejects. */
export type NodeHandler = (request: NodeRequest, response: ServerResponse) => Promise<void>;

/**
 * Makes the handler of a framework that uses Node's own request and response.
 *
 * @param fix - the lines to write in this framework when a parser read the body first.
 */
export function createNodeHandler(receiver: Receiver, fix: string): NodeHandler {
  return async (request, response) => {
    const delivery = toWebhookRequest(request, { parsed: [request.rawBody, request.body], fix });
    const { status, headers, body } = toWebhookResponse(await receiver.receive(delivery));
    // The sender has closed the connection, or something else, such as a timeout, has responded.
    if (response.destroyed || response.headersSent) return;
    // With its length the response is one write; in chunks it would be five, a fifth of a server's time.
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
  };
}

/** Where a body can be found, and the advice when it was already read. */
interface NodeBodyOptions {
  /** What parsers may have left: the first value that is bytes is the body. */
  readonly parsed: readonly unknown[];
  /** The lines to write in this framework when a parser read the body first. */
  readonly fix: string;
}

/** Node's request as the receiver takes it. */
export function toWebhookRequest(request: NodeRequest, options: NodeBodyOptions): WebhookRequest {
  const others = request.listeners('aborted');
  return {
    method: request.method ?? '',
    url: request.originalUrl ?? request.url,
    header(name) {
      const value = request.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(', ') : value;
    },
    body: (maxBytes) => readNodeBody(request, maxBytes, options),
    cancelBody() {
      // raw-body can be stopped only by its own listener for aborted requests, which frees what it collected.
      for (const stop of request.listeners('aborted')) if (!others.includes(stop)) stop();
    },
  };
}

/** The exact bytes of a body. Rejects immediately when they cannot be read. */
async function readNodeBody(
  request: IncomingMessage,
  maxBytes: number,
  { parsed, fix }: NodeBodyOptions,
): Promise<Uint8Array> {
  const bytes = parsed.find((value) => value instanceof Uint8Array);
  if (bytes !== undefined) {
    if (bytes.length > maxBytes) throw tooLarge(maxBytes);
    return bytes;
  }
  if (request.destroyed && !request.readableEnded) throw incomplete(request.errored ?? undefined);
  if (isUsed(request)) {
    throw unavailable(readerOf(parsed.find((value) => value !== undefined)), fix);
  }
  return readStream(request, maxBytes);
}

/** What read the body, by what it left. */
function readerOf(found: unknown): string {
  if (typeof found === 'string') return 'A text parser (such as express.text)';
  if (typeof found === 'object' && found !== null) {
    return 'A parser (such as express.json or express.urlencoded)';
  }
  return 'Something (a body parser, a logger, a proxy)';
}

/** Whether something else read the stream, reads it now, or decodes it to strings. */
function isUsed(request: IncomingMessage): boolean {
  return (
    request.readableDidRead ||
    request.readableFlowing === true ||
    request.listenerCount('readable') > 0 ||
    request.readableEncoding !== null ||
    !request.readable
  );
}

function readStream(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const length = request.headers['content-length'] ?? null;
    getRawBody(request, { length, limit: maxBytes }, (error, body) => {
      if (!error) return resolve(body);
      reject(error.type === 'entity.too.large' ? tooLarge(maxBytes) : incomplete(error));
      // Discards the rest, for at most Node's requestTimeout, so that the sender reads our response and the
      // connection serves its next delivery.
      request.resume();
    });
    // raw-body does not call back for a stream that is destroyed without an error.
    request.once('close', () => {
      if (!request.readableEnded) reject(incomplete());
    });
    // raw-body does not start a stream that is paused.
    request.resume();
  });
}
