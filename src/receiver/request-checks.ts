/** The checks of a request before its body is read. */
import { ConfigError, StablehooksError } from '../core/errors.js';
import type { WebhookRequest } from './request.js';

/** The compressions of HTTP (RFC 9110, 8.4.1, and its registry), with their aliases. */
const COMPRESSIONS = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'compress', 'x-compress']);

/** @throws {ConfigError} when it is a framework's own request, as in `app.post('/hooks', receiver.receive)`. */
export function assertDelivery(request: WebhookRequest): void {
  const { method, header, body }: Partial<WebhookRequest> = Object(request);
  if (typeof method !== 'string' || typeof header !== 'function' || typeof body !== 'function') {
    throw new ConfigError(
      "receiver.receive: the argument is not a WebhookRequest. Pass the receiver to the adapter of your framework: `app.post('/hooks', toExpressHandler(receiver))`.",
    );
  }
  if (method !== 'POST') {
    throw new StablehooksError(
      'ERR_METHOD_NOT_ALLOWED',
      'A delivery is a POST request. Check the path that the receiver is mounted at.',
    );
  }
  // The service does not specify whether the signature covers the bytes before or after compression.
  const compression = request
    .header('content-encoding')
    ?.toLowerCase()
    .split(/[\s,]+/)
    .find((coding) => COMPRESSIONS.has(coding));
  if (compression !== undefined) {
    throw new StablehooksError(
      'ERR_BODY_ENCODED',
      `The body is compressed (content-encoding: ${compression}). Configure the sender or the proxy to send it uncompressed.`,
    );
  }
}
