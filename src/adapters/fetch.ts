/** `stablehooks/fetch`: the adapter for Request and Response (Hono, Workers, Deno, Bun, SvelteKit, Remix). */

import { joinBytes } from '../core/bytes.js';
import { ConfigError } from '../core/errors.js';
import { assertReceiver, func, readOptions } from '../core/options.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver, WebhookRequest } from '../receiver/receiver.js';
import { incomplete, longerThanDeclared, notBytes, tooLarge, unavailable } from './body-error.js';

const READER = 'A body parser or proxy';

const FIX =
  'Give the receiver the unread Request (in Hono, `handler(c.req.raw)`), and other readers a `request.clone()`.';

/** How long the rest of a refused body can take, in ms. */
const LINGER_MS = 1_000;

/** Options of {@link toFetchHandler}. */
export interface FetchHandlerOptions {
  /**
   * Keeps the invocation alive until handlers that run after the answer have ended, where the platform gives a function
   * for it, such as `waitUntil` of `@vercel/functions`. They do under `acknowledge: 'recorded'`, and when they outlive
   * `handlerTimeoutMs`.
   *
   * @default that of the handler's later arguments
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/**
 * Makes a handler from Request to Response. Its promise never rejects.
 *
 * The handler takes what the platform passes after the Request. Of these arguments, the one that has a method
 * `waitUntil` (the ExecutionContext of Workers, the context of Netlify and Vercel Edge) keeps the invocation alive for
 * handlers that run after the answer; what else there is, is ignored.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver, or an option is wrong.
 *
 * @example
 * ```ts
 * const handler = toFetchHandler(receiver);
 * app.post('/hooks', (c) => handler(c.req.raw));
 * ```
 */
export function toFetchHandler(
  receiver: Receiver,
  options: FetchHandlerOptions = {},
): (request: Request, ...context: readonly unknown[]) => Promise<Response> {
  assertReceiver('toFetchHandler', receiver, 'receive');
  const given = readOptions('toFetchHandler', options, { waitUntil: func() });
  return async (request, ...context) => {
    const outcome = await receiver.receive(new FetchWebhookRequest(request, context, given));
    const { status, headers, body } = toWebhookResponse(outcome);
    return new Response(body, { status, headers });
  };
}

/**
 * A Request as the receiver takes it. A class, because an object with functions of its own takes longer to make. It reads
 * the arguments of the handler, which can be wrong, when the receiver asks: what that throws becomes the outcome.
 */
class FetchWebhookRequest implements WebhookRequest {
  readonly #request: Request;
  readonly #context: readonly unknown[];
  readonly #given: FetchHandlerOptions;
  readonly #reading: Reading = {};

  constructor(request: Request, context: readonly unknown[], given: FetchHandlerOptions) {
    this.#request = request;
    this.#context = context;
    this.#given = given;
  }

  get method(): string {
    const request: Request | null | undefined = this.#request;
    if (typeof request?.headers?.get === 'function') return request.method;
    throw new ConfigError(
      'toFetchHandler: the first argument of the handler must be a Request. In Hono, write `handler(c.req.raw)`.',
    );
  }

  get url(): string {
    return this.#request.url;
  }

  get waitUntil(): FetchHandlerOptions['waitUntil'] {
    const lifetime = this.#context.find(isLifetime);
    // Platforms refuse a call that is not one of the method.
    return lifetime === undefined ? this.#given.waitUntil : (work) => lifetime.waitUntil(work);
  }

  header(name: string): string | null {
    return this.#request.headers.get(name);
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readBody(this.#request, maxBytes, this.#reading);
  }

  cancelBody(): void {
    this.#reading.cancel?.();
  }
}

/** What a platform passes to extend the life of an invocation. */
interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

function isLifetime(value: unknown): value is Lifetime {
  return typeof (value as Partial<Lifetime> | null | undefined)?.waitUntil === 'function';
}

/** A body that is being read. */
interface Reading {
  /** Frees what was read, and reads no more of it. */
  cancel?: () => void;
}

/** The exact bytes of a body. Rejects immediately when they cannot be read. */
async function readBody(request: Request, maxBytes: number, reading: Reading): Promise<Uint8Array> {
  if (request.bodyUsed) throw unavailable(READER, FIX);
  const length = request.headers.get('content-length') ?? '';
  // A transfer-encoding overrides the declared length (RFC 9112, 6.3).
  const isDeclared = /^\d+$/.test(length) && !request.headers.has('transfer-encoding');
  const limit = isDeclared ? Number(length) : maxBytes;
  if (limit > maxBytes) throw tooLarge(maxBytes);
  const whole = isDeclared && isConnection(request);
  const body = await (whole ? readWhole(request) : readStream(request, limit, reading));
  if (body === undefined) throw isDeclared ? longerThanDeclared() : tooLarge(maxBytes);
  if (isDeclared && body.length !== limit) throw incomplete();
  return body;
}

/**
 * Whether a framework reads the connection itself (Hono on Node), where HTTP ends a body at its declared length: three
 * times as fast as a web stream. The platform's own `arrayBuffer` keeps all that a longer stream gives.
 */
function isConnection(request: Request): boolean {
  return request instanceof Request && request.arrayBuffer !== Request.prototype.arrayBuffer;
}

async function readWhole(request: Request): Promise<Uint8Array> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    // A stream that another reader has locked fails before it is read.
    throw request.bodyUsed ? incomplete(cause) : unavailable(READER, FIX);
  }
}

/** The body; `undefined` when it is longer than the limit. */
async function readStream(
  request: Request,
  limit: number,
  reading: Reading,
): Promise<Uint8Array | undefined> {
  if (request.body === null) return new Uint8Array(0);
  if (request.body.locked) throw unavailable(READER, FIX);
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  reading.cancel = () => {
    chunks.length = 0;
    size = Number.POSITIVE_INFINITY;
    void drain(reader, limit);
  };
  let hasOther = false;
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      // A stream of the network gives nothing else; one that other code made can give anything.
      hasOther = !isBytes(read.value);
      if (hasOther) break;
      size += read.value.length;
      if (size > limit) break;
      chunks.push(read.value);
    }
  } catch (cause) {
    throw incomplete(cause);
  }
  if (hasOther) {
    reader.cancel().catch(() => undefined);
    throw notBytes(`${FIX} A stream of your own must give Uint8Array.`);
  }
  if (size <= limit) return joinBytes(chunks, size);
  reading.cancel();
  return undefined;
}

/** Whether it is a Uint8Array, also one of another realm: test environments have their own. */
function isBytes(chunk: unknown): boolean {
  return Object.prototype.toString.call(chunk) === '[object Uint8Array]';
}

/**
 * Reads up to `limit` further bytes without keeping them, then cancels: in some runtimes that closes the connection,
 * and the sender must have read our response by then.
 */
async function drain(reader: ReadableStreamDefaultReader<Uint8Array>, limit: number): Promise<void> {
  const timer = setTimeout(() => reader.cancel().catch(() => undefined), LINGER_MS);
  try {
    let left = limit;
    while (left > 0) {
      const { done, value } = await reader.read();
      if (done) return clearTimeout(timer);
      left -= value.length;
    }
  } catch {
    clearTimeout(timer);
  }
}
