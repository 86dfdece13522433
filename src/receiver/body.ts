import { isPromise } from '../core/awaitable.js';
import { StablehooksError } from '../core/errors.js';
import { type Runtime, timeLimit } from '../core/runtime.js';
import type { WebhookRequest } from './request.js';

/**
 * Reads the body within `bodyTimeoutMs`. Reading begins synchronously.
 *
 * @throws {StablehooksError} `ERR_BODY_TIMEOUT`, and the errors of `request.body`.
 */
export async function readRequestBody(
  request: WebhookRequest,
  {
    maxBodyBytes,
    bodyTimeoutMs,
    runtime,
  }: { readonly maxBodyBytes: number; readonly bodyTimeoutMs: number; readonly runtime: Runtime },
): Promise<Uint8Array> {
  const reading = request.body(maxBodyBytes);
  if (!isPromise(reading)) return reading;
  return timeLimit(
    reading,
    bodyTimeoutMs,
    () => {
      // It may throw an error of the adapter, which knows why a body never ends, such as a parser in front that read it.
      cancelBody(request);
      throw new StablehooksError(
        'ERR_BODY_TIMEOUT',
        `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
      );
    },
    runtime,
  );
}

function cancelBody(request: WebhookRequest): void {
  try {
    request.cancelBody?.();
  } catch (thrown) {
    if (thrown instanceof StablehooksError) throw thrown;
  }
}
