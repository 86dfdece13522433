/** `stablehooks/fetch`: the adapter for Request and Response (Hono, Workers, Deno, Bun, SvelteKit, Remix). */

import { joinBytes } from '../core/bytes.js';
import { assertReceiver } from '../core/options.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { incomplete, longerThanDeclared, tooLarge, unavailable } from './body-error.js';

const READER = 'A body parser or proxy';

const FIX =
  'Give the receiver the unread Request (in Hono, `handler(c.req.raw)`), and other readers a `request.clone()`.';

/** How long the rest of a refused body can take, in ms. */
const LINGER_MS = 1_000;

/**
 * Makes a handler from Request to Response. Its promise never rejects.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver.
 *
 * @example
 * ```ts
 * const handler = toFetchHandler(receiver);
 * app.post('/hooks', (c) => handler(c.req.raw));
 * ```
 */
export function toFetchHandler(receiver: Receiver): (request: Request) => Promise<Response> {
  assertReceiver('toFetchHandler', receiver, 'receive');
  return async (request) => {
    const outcome = await receiver.receive({
      method: request.method,
      header: (name) => request.headers.get(name),
      body: (maxBytes, signal?: AbortSignal) => readBody(request, maxBytes, signal),
    });
    const { status, headers, body } = toWebhookResponse(outcome);
    return new Response(body, { status, headers });
  };
}

/** The exact bytes of a body. Rejects immediately when they cannot be read. */
async function readBody(request: Request, maxBytes: number, signal?: AbortSignal): Promise<Uint8Array> {
  if (request.bodyUsed) throw unavailable(READER, FIX);
  const length = request.headers.get('content-length') ?? '';
  // A transfer-encoding overrides the declared length (RFC 9112, 6.3).
  const isDeclared = /^\d+$/.test(length) && !request.headers.has('transfer-encoding');
  const limit = isDeclared ? Number(length) : maxBytes;
  if (limit > maxBytes) throw tooLarge(maxBytes);
  // A framework that overrides arrayBuffer (Hono on Node) reads the connection, which ends at the declared length, and
  // is three times as fast without a web stream. The platform's own would keep all that a longer stream gives.
  const isConnection = isDeclared && request.arrayBuffer !== Request.prototype.arrayBuffer;
  const body = await (isConnection ? readConnection(request) : readStream(request, limit, signal));
  if (body === undefined) throw isDeclared ? longerThanDeclared() : tooLarge(maxBytes);
  if (isDeclared && body.length !== limit) throw incomplete();
  return body;
}

async function readConnection(request: Request): Promise<Uint8Array> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    // A stream that another reader has locked fails before it is read.
    throw request.bodyUsed ? incomplete(cause) : unavailable(READER, FIX);
  }
}

/** The body; `undefined` when it is longer than the limit. Keeps nothing once the signal aborts. */
async function readStream(
  request: Request,
  limit: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  if (request.body === null) return new Uint8Array(0);
  if (request.body.locked) throw unavailable(READER, FIX);
  const reader = request.body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const refuse = () => {
    chunks.length = 0;
    size = Number.POSITIVE_INFINITY;
    void drain(reader, limit);
  };
  signal?.addEventListener('abort', refuse);
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      size += read.value.length;
      if (size > limit) break;
      chunks.push(read.value);
    }
  } catch (cause) {
    throw incomplete(cause);
  } finally {
    signal?.removeEventListener('abort', refuse);
  }
  if (size <= limit) return joinBytes(chunks, size);
  refuse();
  return undefined;
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
