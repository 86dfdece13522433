import { StablehooksError } from '../core/errors.js';
import type { WebhookRequest } from './request.js';

/** Stops reading a body whose time is up, and returns why it did not arrive. */
export function cancelBody(request: WebhookRequest, bodyTimeoutMs: number): unknown {
  try {
    request.cancelBody?.();
  } catch (thrown) {
    // The adapter may know why the body never ends, such as a parser in front that consumed it.
    if (thrown instanceof StablehooksError) return thrown;
  }
  return new StablehooksError(
    'ERR_BODY_TIMEOUT',
    `The body did not arrive within ${bodyTimeoutMs} ms. Raise bodyTimeoutMs if the sender is genuine.`,
  );
}
