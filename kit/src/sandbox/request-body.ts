/** The JSON body of a request, read up to a limit. */
import type { Context } from 'hono';
import { SandboxError } from './problem.js';

/**
 * Reads the body as JSON. Its type is only what the sender claims: the operation that takes it judges it.
 *
 * Rejects with a {@link SandboxError}: `ERR_SANDBOX_MEDIA_TYPE`, `ERR_SANDBOX_BODY_TOO_LARGE`, or
 * `ERR_SANDBOX_INPUT` when it is not JSON.
 */
export type ReadJson = <Claimed>(context: Context) => Promise<Claimed>;

export function createJsonReader({ maxBodyBytes }: { readonly maxBodyBytes: number }): ReadJson {
  return async (context) => {
    const type = context.req.header('content-type') ?? '';
    if (!/^application\/json\s*(;|$)/i.test(type)) {
      const errors = [{ field: 'content-type', detail: 'must be application/json' }];
      throw new SandboxError('ERR_SANDBOX_MEDIA_TYPE', 'Send JSON as `content-type: application/json`.', {
        errors,
      });
    }
    const text = await readText(context.req.raw.body, { maxBodyBytes });
    try {
      return JSON.parse(text);
    } catch {
      const errors = [{ field: 'body', detail: 'must be JSON' }];
      throw new SandboxError('ERR_SANDBOX_INPUT', 'Nothing was changed: the body is not JSON.', { errors });
    }
  };
}

/** Counts while reading: a body without a `content-length` can be too large as well. */
async function readText(
  body: ReadableStream<Uint8Array> | null,
  { maxBodyBytes }: { readonly maxBodyBytes: number },
): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let left = maxBodyBytes;
  for await (const chunk of body ?? []) {
    left -= chunk.length;
    if (left < 0) {
      throw new SandboxError(
        'ERR_SANDBOX_BODY_TOO_LARGE',
        `Nothing was changed: the body is over ${maxBodyBytes} bytes.`,
      );
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
