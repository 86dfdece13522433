import { SandboxError } from './validation.js';

/** Does not check that the body is a `Claimed`. The operation that receives the body checks it. */
export async function readJsonBody<Claimed>(request: Request, maxBodyBytes: number): Promise<Claimed> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get('content-type') ?? '')) {
    const errors = [{ field: 'content-type', detail: 'must be application/json' }];
    const message = 'Send JSON as `content-type: application/json`.';
    throw new SandboxError('ERR_SANDBOX_MEDIA_TYPE', message, { errors });
  }
  const decoder = new TextDecoder();
  let text = '';
  let left = maxBodyBytes;
  // The bytes are counted as they are read, because a body without `content-length` can be too large as well.
  for await (const chunk of (request.body as ReadableStream<Uint8Array> | null) ?? []) {
    left -= chunk.length;
    if (left < 0) {
      const message = `Nothing was changed: the body is larger than ${maxBodyBytes} bytes.`;
      throw new SandboxError('ERR_SANDBOX_BODY_TOO_LARGE', message);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  try {
    return JSON.parse(text + decoder.decode());
  } catch {
    const errors = [{ field: 'body', detail: 'must be JSON' }];
    throw new SandboxError('ERR_SANDBOX_INPUT', 'Nothing was changed: the body is not valid JSON.', {
      errors,
    });
  }
}
