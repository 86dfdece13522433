/** `stablehooks/fetch`: the adapter for Request and Response (Hono, Workers, Deno, Bun, SvelteKit, Remix). */

import { isBytes, joinBytes } from '../core/bytes.js';
import { ConfigError } from '../core/errors.js';
import { func, readOptions } from '../core/options.js';
import { emptyBody } from '../receiver/body.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { ReceiverParts } from '../receiver/parts.js';
import { receive } from '../receiver/receive.js';
import type { WebhookRequest } from '../receiver/request.js';
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { failed, incomplete, tooLarge, unavailable } from './body-error.js';
import { DRAIN_BYTES, DRAIN_MS, RESPONSE_WAIT_MS } from './drain.js';

const FIX =
  'Pass the unread Request to the receiver (in Hono, `handler(c.req.raw)`) and a `request.clone()` to other readers. Register the receiver before any body parser, such as express.json.';

/** Options of {@link toFetchHandler}. */
export interface FetchHandlerOptions {
  /**
   * Keeps the invocation alive while handlers run after the response. Pass, for example, `waitUntil` from
   * `@vercel/functions`. A handler runs after the response if you set `answer: 'recorded'`, or if it takes longer than
   * `handlerTimeoutMs`.
   *
   * @default the `waitUntil` method of an argument that the platform passes after the request
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

type FetchHandler = (request: Request, ...context: readonly unknown[]) => Promise<Response>;

/**
 * Creates a handler that takes a Request and returns a Response. The handler's promise never rejects.
 *
 * Platforms can pass more arguments to the handler. If such an argument has a `waitUntil` method, the handler calls this
 * method to keep the invocation alive while handlers run after the response. Examples are the ExecutionContext on Workers
 * and the context on Netlify and Vercel Edge. Other arguments are ignored.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` or an option is invalid.
 *
 * @example
 * ```ts
 * const handler = toFetchHandler(receiver);
 * app.post('/hooks', (c) => handler(c.req.raw));
 * ```
 */
export function toFetchHandler(receiver: ReceiverSource, options: FetchHandlerOptions = {}): FetchHandler {
  const parts = toParts('toFetchHandler', receiver);
  const { waitUntil } = readOptions('toFetchHandler', options, { waitUntil: func() });
  return createFetchHandler(parts, waitUntil);
}

export function createFetchHandler(
  receiver: () => ReceiverParts,
  waitUntil: FetchHandlerOptions['waitUntil'],
): FetchHandler {
  return async (request, ...context) => {
    const delivery = new FetchWebhookRequest(request, context, waitUntil);
    const { status, headers, body } = toWebhookResponse(await receive(receiver, delivery));
    const drained = delivery.drainUnread();
    if (drained !== undefined) await drained;
    return new Response(body, { status, headers });
  };
}

/** A class, because its instances are fast to create. */
class FetchWebhookRequest implements WebhookRequest {
  readonly #request: Request;
  readonly #context: readonly unknown[];
  readonly #waitUntil: FetchHandlerOptions['waitUntil'];
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #chunks: Uint8Array[] = [];
  #size = 0;
  #isRead = false;

  constructor(request: Request, context: readonly unknown[], waitUntil: FetchHandlerOptions['waitUntil']) {
    this.#request = request;
    this.#context = context;
    this.#waitUntil = waitUntil;
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
    // Called as a method, because platforms reject a `waitUntil` that is called on its own.
    return lifetime === undefined ? this.#waitUntil : (work) => lifetime.waitUntil(work);
  }

  header(name: string): string | null {
    return this.#request.headers.get(name);
  }

  async body(maxBytes: number): Promise<Uint8Array> {
    const request = this.#request;
    if (isUsed(request)) throw unavailable(FIX);
    const length = request.headers.get('content-length') ?? '';
    // A transfer-encoding header overrides the declared length (RFC 9112, 6.3).
    const isDeclared = /^\d+$/.test(length) && !request.headers.has('transfer-encoding');
    const limit = isDeclared ? Number(length) : maxBytes;
    if (limit > maxBytes) throw tooLarge(maxBytes);
    const incoming = incomingOf(request);
    const isWhole = isConnection(request) && (isDeclared || incoming !== undefined);
    const body = await (isWhole ? this.#readWhole(limit, incoming) : this.#readStream(limit));
    if (body === undefined) throw isDeclared ? incomplete() : tooLarge(maxBytes);
    this.#isRead = true;
    if (isDeclared && body.length !== limit && body.length > 0) throw incomplete();
    return body;
  }

  /** If nothing has arrived, a parser may have read the body first, or a proxy may have dropped it. */
  cancelBody(): void {
    const isEmpty = this.#reader !== undefined && this.#size === 0;
    this.#chunks = [];
    // Stops the read loop at the next chunk.
    this.#size = Number.POSITIVE_INFINITY;
    if (isEmpty) throw emptyBody();
  }

  async #readWhole(limit: number, incoming: Incoming | undefined): Promise<Uint8Array | undefined> {
    let size = 0;
    // Stops reading at the limit, because a body without a declared length could go on forever.
    const count = ({ length }: Uint8Array) => {
      size += length;
      if (size > limit) incoming?.emit('error', TOO_LONG);
    };
    try {
      const reading = this.#request.arrayBuffer();
      incoming?.on('data', count);
      return new Uint8Array(await reading);
    } catch (cause) {
      if (cause === TOO_LONG) return undefined;
      // Fetch throws a TypeError for a body that was read before or is locked.
      throw Object(cause).name === 'TypeError' ? unavailable(FIX) : failed(cause);
    } finally {
      incoming?.off('data', count);
    }
  }

  async #readStream(limit: number): Promise<Uint8Array | undefined> {
    const { body } = this.#request;
    if (body === null) return new Uint8Array(0);
    if (body.locked) throw unavailable(FIX);
    const reader = body.getReader();
    this.#reader = reader;
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw failed(cause);
      });
      if (done) return joinBytes(this.#chunks, this.#size);
      // A network stream contains only bytes. A stream that other code created can contain anything.
      if (!isBytes(value)) {
        reader.cancel().catch(() => undefined);
        throw unavailable(`${FIX} If you create the stream yourself, its chunks must be Uint8Arrays.`);
      }
      this.#size += value.length;
      if (this.#size > limit) return undefined;
      this.#chunks.push(value);
    }
  }

  /** If this method returns a promise, the response must wait for it. */
  drainUnread(): Promise<void> | undefined {
    if (this.#isRead) return undefined;
    this.#chunks = [];
    try {
      const reader = this.#reader ?? this.#request.body?.getReader();
      if (reader === undefined) return undefined;
      const isClosing = /\bclose\b/i.test(this.#request.headers.get('connection') ?? '');
      // Cancelling the body closes the connection, perhaps before the response is sent, so the rest is read first.
      const drained = drain(reader, DRAIN_MS);
      const timeUp = () => new Promise<void>((resolve) => setTimeout(resolve, RESPONSE_WAIT_MS));
      return isClosing ? Promise.race([drained, timeUp()]) : undefined;
    } catch {
      // The value is not a Request, or another reader has locked its body.
      return undefined;
    }
  }
}

interface Lifetime {
  waitUntil(work: Promise<unknown>): void;
}

function isLifetime(value: unknown): value is Lifetime {
  return typeof (value as Partial<Lifetime> | null | undefined)?.waitUntil === 'function';
}

/** Some requests, such as those that Elysia gets from srvx on Node, throw here once their body has been read. */
function isUsed(request: Request): boolean {
  try {
    return request.bodyUsed;
  } catch {
    return true;
  }
}

const TOO_LONG = new Error('The body is longer than its limit.');

interface Incoming {
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  off(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  emit(event: 'error', error: Error): unknown;
}

/** Hono's own web stream loses data that arrives before its first read. */
function incomingOf(request: Request): Incoming | undefined {
  const key = Object.getOwnPropertySymbols(request).find(({ description }) => description === 'incomingKey');
  return key && (request as unknown as Record<symbol, Incoming>)[key];
}

/** If a framework reads the connection itself, as Hono does on Node, `arrayBuffer` takes a third of the time. */
function isConnection(request: Request): boolean {
  return request instanceof Request && request.arrayBuffer !== Request.prototype.arrayBuffer;
}

async function drain(reader: ReadableStreamDefaultReader<unknown>, ms: number): Promise<void> {
  const cancel = () => reader.cancel().catch(() => undefined);
  const timer = setTimeout(cancel, ms);
  try {
    let left = DRAIN_BYTES;
    while (left >= 0) {
      const { done, value } = await reader.read();
      if (done) return;
      left -= isBytes(value) ? value.length : DRAIN_BYTES;
    }
    await cancel();
  } catch {
    // The connection is closed.
  } finally {
    clearTimeout(timer);
  }
}
