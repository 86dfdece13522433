/** `stablehooks/fetch`: the adapter for Request and Response (Hono, Workers, Deno, Bun, SvelteKit, Remix). */

import { joinBytes } from '../core/bytes.js';
import { assertReceiver } from '../core/options.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { incomplete, tooLarge, unavailable } from './body-error.js';

const READER = 'A body parser or proxy';

const FIX =
  'Give the receiver the unread Request (in Hono, `handler(c.req.raw)`), and other readers a `request.clone()`.';

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
      body: (maxBytes) => readBody(request, maxBytes),
    });
    const { status, headers, body } = toWebhookResponse(outcome);
    return new Response(body, { status, headers });
  };
}

/** The exact bytes of a body. Rejects immediately when they cannot be read. */
async function readBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.bodyUsed) throw unavailable(READER, FIX);
  const declared = request.headers.get('content-length');
  // A transfer-encoding overrides the declared length (RFC 9112, 6.3).
  const isFramed = /^\d+$/.test(declared ?? '') && !request.headers.has('transfer-encoding');
  if (!isFramed) return readStream(request, maxBytes);
  if (Number(declared) > maxBytes) throw tooLarge(maxBytes);
  const body = await readDeclared(request);
  if (body.length > maxBytes) throw tooLarge(maxBytes);
  if (body.length !== Number(declared)) throw incomplete();
  return body;
}

/** HTTP ends a body at its declared length, so it cannot grow, and runtimes read it whole much faster. */
async function readDeclared(request: Request): Promise<Uint8Array> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    // A stream that another reader has locked fails before it is read.
    throw request.bodyUsed ? incomplete(cause) : unavailable(READER, FIX);
  }
}

async function readStream(request: Request, maxBytes: number): Promise<Uint8Array> {
  if (request.body === null) return new Uint8Array(0);
  if (request.body.locked) throw unavailable(READER, FIX);
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      size += read.value.length;
      if (size > maxBytes) break;
      chunks.push(read.value);
    }
  } catch (cause) {
    throw incomplete(cause);
  }
  if (size > maxBytes) {
    discard(reader).catch(() => undefined);
    throw tooLarge(maxBytes);
  }
  return joinBytes(chunks, size);
}

/** Reads the rest without keeping it: cancelling would close the connection before our response in some runtimes. */
async function discard(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  for (let read = await reader.read(); !read.done; ) read = await reader.read();
}
