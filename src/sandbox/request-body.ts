/** The JSON body of a request. */
import type { Context } from 'hono';
import { SandboxError } from './problem.js';

/**
 * Reads the body as JSON. Its type is only what the sender claims: the operation that takes it judges it.
 *
 * @throws {SandboxError} `ERR_SANDBOX_MEDIA_TYPE`, or `ERR_SANDBOX_INPUT` when it is not JSON.
 */
export async function readJson<Claimed>(context: Context): Promise<Claimed> {
  const type = context.req.header('content-type') ?? '';
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    const errors = [{ field: 'content-type', detail: 'must be application/json' }];
    throw new SandboxError('ERR_SANDBOX_MEDIA_TYPE', 'Send JSON as `content-type: application/json`.', {
      errors,
    });
  }
  const text = await context.req.text();
  try {
    return JSON.parse(text);
  } catch {
    const errors = [{ field: 'body', detail: 'must be JSON' }];
    throw new SandboxError('ERR_SANDBOX_INPUT', 'Nothing was changed: the body is not JSON.', { errors });
  }
}
