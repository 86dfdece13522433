/** One delivery over Node's request and response: what every adapter on Node shares. */
import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import type { Logger } from '../core/ports.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver, WebhookRequest } from '../receiver/receiver.js';
import { incomplete, notBytes, tooLarge, unavailable } from './body-error.js';
import type { NodeHandler, NodeRequest } from './node-types.js';

/**
 * Makes the handler of a framework that uses Node's own request and response.
 *
 * @param fix - the lines to write in this framework when a parser read the body first.
 */
export function createNodeHandler(receiver: Receiver, fix: string): NodeHandler {
  return async (request, response) => {
    const delivery = new NodeWebhookRequest(request, { parsed: [request.rawBody, request.body], fix });
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
  /** The framework's logger of this request. */
  readonly logger?: Logger | undefined;
}

/** Node's request as the receiver takes it. A class, because an object with functions of its own takes longer to make. */
export class NodeWebhookRequest implements WebhookRequest {
  readonly #request: IncomingMessage & NodeRequest;
  readonly #options: NodeBodyOptions;
  #stop: (() => void) | undefined;

  constructor(request: NodeRequest, options: NodeBodyOptions) {
    this.#request = request as IncomingMessage & NodeRequest;
    this.#options = options;
  }

  get method(): string {
    return this.#request.method ?? '';
  }

  get url(): string | undefined {
    return this.#request.originalUrl ?? this.#request.url;
  }

  get logger(): Logger | undefined {
    return this.#options.logger;
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name.toLowerCase()];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const { parsed, fix } = this.#options;
      const request = this.#request;
      const bytes = parsed.find((value) => value instanceof Uint8Array);
      if (bytes !== undefined) {
        if (bytes.length > maxBytes) throw tooLarge(maxBytes);
        return resolve(bytes);
      }
      if (request.destroyed && !request.readableEnded) throw incomplete(request.errored ?? undefined);
      if (isUsed(request)) throw unavailable(readerOf(parsed.find((value) => value !== undefined)), fix);
      this.#read(maxBytes, { resolve, reject });
    });
  }

  cancelBody(): void {
    this.#stop?.();
  }

  /** Reads the stream to its end, and not beyond the limit. */
  #read(
    maxBytes: number,
    { resolve, reject }: { resolve(body: Uint8Array): void; reject(error: Error): void },
  ): void {
    const request = this.#request;
    const declared = declaredLength(request);
    let chunks: Uint8Array[] = [];
    let size = 0;

    const onData = (chunk: unknown) => {
      if (!(chunk instanceof Uint8Array)) return fail(notBytes(this.#options.fix));
      size += chunk.length;
      if (size > maxBytes) fail(tooLarge(maxBytes));
      else chunks.push(chunk);
    };
    const onEnd = () => {
      stop();
      // A stream of HTTP/2 that is reset ends as if it were whole, and only then says that it was aborted.
      if (request.httpVersionMajor === 2) setImmediate(finish);
      else finish();
    };
    const finish = () => {
      if (request.aborted || (declared !== undefined && size !== declared)) return fail(incomplete());
      const [first] = chunks;
      resolve(first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks, size));
    };
    const onError = (cause: unknown) => fail(incomplete(cause));
    const onClose = () => fail(incomplete());
    /** Node keeps a request longer than its delivery, which must not be kept with it. */
    const stop = () => {
      this.#stop = undefined;
      request.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
    };
    const fail = (error: Error) => {
      stop();
      chunks = [];
      reject(error);
      // Discards the rest, for at most Node's requestTimeout, so that the sender reads our response and the
      // connection serves its next delivery.
      request.resume();
      boundStream(request);
    };

    if (declared !== undefined && declared > maxBytes) {
      fail(tooLarge(maxBytes));
      return;
    }
    this.#stop = () => fail(incomplete());
    request.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
    // A stream that was paused does not start by itself.
    request.resume();
  }
}

/** How long the rest of a refused body can take over HTTP/2, in ms. A client of Node that is cut off never sees the end. */
const LINGER_MS = 1_000;

/**
 * Closes the stream of a refused body after the response (RFC 9113, 8.1), without its connection: over HTTP/2, where Node
 * has no `requestTimeout` and drops `connection: close`.
 */
function boundStream(request: IncomingMessage & Partial<Pick<Http2ServerRequest, 'stream'>>): void {
  const { stream, httpVersionMajor } = request;
  if (httpVersionMajor !== 2 || stream === undefined) return;
  const linger = () => void setTimeout(() => stream.close(), LINGER_MS).unref();
  if (stream.writableFinished) linger();
  else stream.once('finish', linger);
}

/** The length that the request declares; `undefined` if there is none. */
function declaredLength({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  return length !== undefined && /^\d+$/.test(length) ? Number(length) : undefined;
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
