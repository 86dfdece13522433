/** The one reader of bodies on the web platform: a Request's bytes, without anything of Node. */
import { joinBytes } from '../core/bytes.js';
import { incomplete, tooLarge, unavailable } from './body-fault.js';

const FIX =
  'Hand the receiver the untouched Request, before anything reads it: in Hono `app.post("/hooks", (c) => handler(c.req.raw))`, elsewhere pass others a `request.clone()`.';

/**
 * Reads the exact bytes of a body, at most `maxBodyBytes`.
 *
 * @throws {RequestError} `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`, at once.
 */
export async function readWebBody(
  request: Request,
  { maxBodyBytes }: { readonly maxBodyBytes: number },
): Promise<Uint8Array> {
  if (request.bodyUsed) throw unavailable(undefined, { fix: FIX });
  const declared = request.headers.get('content-length');
  // A transfer-encoding overrules the declared length (RFC 9112, 6.3).
  const isFramed = /^\d+$/.test(declared ?? '') && !request.headers.has('transfer-encoding');
  if (!isFramed) return readStream(request, maxBodyBytes);
  if (Number(declared) > maxBodyBytes) throw tooLarge(maxBodyBytes);
  const body = await readDeclared(request);
  if (body.length > maxBodyBytes) throw tooLarge(maxBodyBytes);
  if (body.length !== Number(declared)) throw incomplete();
  return body;
}

/** HTTP ends a body at its declared length, so this one cannot grow, and runtimes read it whole far faster. */
async function readDeclared(request: Request): Promise<Uint8Array> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    // A stream that somebody else holds refuses before it is touched.
    throw request.bodyUsed ? incomplete(cause) : unavailable(undefined, { fix: FIX });
  }
}

async function readStream(request: Request, maxBodyBytes: number): Promise<Uint8Array> {
  if (request.body === null) return new Uint8Array(0);
  if (request.body.locked) throw unavailable(undefined, { fix: FIX });
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      size += read.value.length;
      if (size > maxBodyBytes) break;
      chunks.push(read.value);
    }
  } catch (cause) {
    throw incomplete(cause);
  }
  if (size > maxBodyBytes) {
    discard(reader).catch(() => undefined);
    throw tooLarge(maxBodyBytes);
  }
  return joinBytes(chunks, size);
}

/** Reads the rest away, unkept: to cancel it would, in some runtimes, close the connection before our reply. */
async function discard(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  for (let read = await reader.read(); !read.done; ) read = await reader.read();
}
