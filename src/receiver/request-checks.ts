import { StablehooksError } from '../core/errors.js';
import type { WebhookRequest } from './request.js';

/** HTTP's content codings and their aliases (RFC 9110, section 8.4.1, and its registry). */
const COMPRESSIONS = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'compress', 'x-compress']);

export function assertDelivery(request: WebhookRequest): void {
  if (request.method !== 'POST') {
    throw new StablehooksError(
      'ERR_METHOD_NOT_ALLOWED',
      'A delivery must be a POST request. Check the path at which you mounted the receiver.',
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
