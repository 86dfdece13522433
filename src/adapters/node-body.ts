import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import type { Readable } from 'node:stream';
import readRawBody, { type RawBodyError } from 'raw-body';
import { isBytes } from '../core/bytes.js';
import { ConfigError, describeThrown, StablehooksError } from '../core/errors.js';
import { log } from '../core/log.js';
import type { Logger } from '../core/ports.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { ReceiverParts } from '../receiver/parts.js';
import { receive } from '../receiver/receive.js';
import type { WebhookRequest } from '../receiver/request.js';
import { failed, incomplete, tooLarge, unavailable } from './body-error.js';
import { DRAIN_BYTES, DRAIN_MS, RESPONSE_WAIT_MS } from './drain.js';
import type { NodeHandler, NodeRequest } from './node-types.js';

/** Reading the properties that parsers set can throw: Vercel's `body` throws if the body isn't JSON. */
type Parsed = Pick<NodeRequest, 'body' | 'rawBody'>;

export function createNodeHandler(receiver: () => ReceiverParts, fix: string): NodeHandler {
  return async (given, answer) => {
    const request = given as IncomingMessage & NodeRequest;
    const outcome = await receive(receiver, new NodeWebhookRequest(request, fix));
    const { status, headers, body } = toWebhookResponse(outcome);
    try {
      const response = responseOf([answer, given]);
      // The framework passed a Request and expects a Response.
      if (response === undefined) return new Response(body, { status, headers });
      if (request?.complete === false) await drainUnread(request, response);
      // The sender has closed the connection, or other code, such as a timeout, has responded.
      if (response.destroyed || response.headersSent) return undefined;
      // With a content-length, Node needs one write instead of five, which would take up a fifth of a server's time.
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
      return response.end(body);
    } catch (error) {
      // Servers ignore this promise, so a rejection would end the process.
      log(console, 'error', `the response could not be written. ${describeThrown(error)}`);
      return undefined;
    }
  };
}

/** Also looks inside a Fastify or Koa object that was passed by mistake. */
function responseOf(given: readonly unknown[]): ServerResponse | undefined {
  return given
    .flatMap((value) => [value, Object(value).raw, Object(value).res])
    .find((value) => typeof Object(value).writeHead === 'function');
}

interface Framework {
  readonly stream?: Readable | undefined;
  readonly parsed?: Parsed | undefined;
  readonly logger?: Logger | undefined;
}

const NONE: Framework = {};

/** A class, because an object with its own functions takes longer to create. */
export class NodeWebhookRequest implements WebhookRequest {
  readonly #request: IncomingMessage & NodeRequest;
  readonly #fix: string;
  readonly #framework: Framework;
  readonly logger: Logger | undefined;
  #reading: Readable | undefined;

  constructor(request: IncomingMessage & NodeRequest, fix: string, framework = NONE) {
    this.#request = request;
    this.#fix = fix;
    this.#framework = framework;
    this.logger = framework.logger;
  }

  get method(): string {
    const { method = '', headers, on }: Partial<IncomingMessage> = Object(this.#request);
    if (typeof on === 'function' && typeof headers === 'object') return method;
    throw new ConfigError(
      "The handler needs Node's own request and response. In Koa, write `handler(ctx.req, ctx.res)`. In Fastify, register toFastifyPlugin(receiver). If the framework passes a Request, use toFetchHandler or toNextRoute.",
    );
  }

  get url(): string | undefined {
    return this.#request.originalUrl ?? this.#request.url;
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name.toLowerCase()];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  body(maxBytes: number): Uint8Array | Promise<Uint8Array> {
    const request = this.#request;
    const { stream = request, parsed = request } = this.#framework;
    const left = readLeft(parsed);
    if (left !== undefined) {
      if (left.length > maxBytes) throw tooLarge(maxBytes);
      return left;
    }
    if (stream.destroyed && !stream.readableEnded) throw failed(stream.errored);
    // Other `data` listeners receive the same chunks, but data that was read or decoded earlier is lost.
    const { readable, readableDidRead, readableEncoding } = stream;
    if (readableDidRead || !readable || readableEncoding) throw unavailable(this.#fix);
    const declared = request.headers['content-length'] ?? '';
    // A stream that other code derived from the request may have a different length.
    const length = stream === request && /^\d+$/.test(declared) ? Number(declared) : null;
    if (length !== null && length > maxBytes) throw tooLarge(maxBytes);
    return this.#read(stream, { limit: maxBytes, length });
  }

  cancelBody(): void {
    this.#reading?.emit('error', CANCELLED);
  }

  async #read(
    stream: Readable,
    options: { readonly limit: number; readonly length: number | null },
  ): Promise<Uint8Array> {
    stream.on('data', refuseOther);
    try {
      const reading = readRawBody(stream, options);
      this.#reading = stream;
      // A paused stream does not start by itself.
      stream.resume();
      const body = await reading;
      this.#reading = undefined;
      return body;
    } catch (error) {
      throw this.#toError(error as RawBodyError, { stream, ...options });
    } finally {
      // Node keeps the request after the delivery has ended, and this listener would keep the delivery in memory.
      stream.off('data', refuseOther);
    }
  }

  #toError(
    error: RawBodyError,
    { stream, limit }: { readonly stream: Readable; readonly limit: number },
  ): Error {
    if (error === OTHER) return unavailable(this.#fix);
    switch (error.type) {
      case 'entity.too.large':
        return tooLarge(limit);
      case 'request.aborted':
        return failed(stream.errored);
      case 'request.size.invalid':
        return error.received === 0 ? unavailable(this.#fix) : incomplete();
      default:
        return error instanceof StablehooksError ? error : failed(error);
    }
  }
}

function readLeft(parsed: Parsed): Uint8Array | undefined {
  try {
    const { rawBody } = parsed;
    if (isBytes(rawBody)) return rawBody;
    const { body } = parsed;
    return isBytes(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** These errors are emitted on the stream, because raw-body can't be stopped in any other way. */
const OTHER: unknown = new Error('The stream contains something other than bytes.');
const CANCELLED = new Error('The body did not arrive in time.');

/** Stops reading if other code has begun to decode the stream, because raw-body would then throw outside of any `catch`. */
function refuseOther(this: Readable, chunk: unknown): void {
  if (!isBytes(chunk)) this.emit('error', OTHER);
}

/** Await this before you write the response, or a sender that is still writing could lose the response. */
export function drainUnread(
  request: IncomingMessage & Partial<Pick<Http2ServerRequest, 'stream'>>,
  response: ServerResponse,
  stream: Readable = request,
): Promise<void> | undefined {
  if (request.complete || request.readableEnded || request.destroyed || response.destroyed) return undefined;
  const isClosing = response.shouldKeepAlive === false;
  const drained = new Promise<void>((resolve) => {
    let left = DRAIN_BYTES;
    const onData = ({ length }: Uint8Array) => {
      left -= length;
      if (left < 0) giveUp();
    };
    const end = () => {
      clearTimeout(timer);
      request.off('data', onData).off('end', end).off('close', end);
      resolve();
    };
    const giveUp = () => {
      end();
      // An HTTP/2 connection also serves other streams (RFC 9113, 8.1), so only the stream of this request is closed.
      const { stream: written = response } = request;
      const close = () => void (request.stream === undefined ? request.destroy() : request.stream.close());
      if (written.writableFinished) close();
      else written.once('finish', close);
    };
    const timer = setTimeout(giveUp, isClosing ? RESPONSE_WAIT_MS : DRAIN_MS).unref();
    request.on('data', onData).on('end', end).on('close', end).resume();
    if (stream !== request) stream.resume();
  });
  return isClosing ? drained : undefined;
}
