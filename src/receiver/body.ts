import { isPromise } from '../core/awaitable.js';
import { type RequestError, StablehooksError } from '../core/errors.js';
import { timeLimit } from '../core/runtime.js';
import type { ReceiverSettings } from './options.js';
import type { WebhookRequest } from './request.js';

/** Reading begins before this function returns its promise. */
export async function readRequestBody(
  request: WebhookRequest,
  {
    maxBodyBytes,
    bodyTimeoutMs,
    runtime,
  }: Pick<ReceiverSettings, 'maxBodyBytes' | 'bodyTimeoutMs' | 'runtime'>,
): Promise<Uint8Array> {
  const reading = request.body(maxBodyBytes);
  const onTimeUp = () => {
    // The adapter may throw a more specific error, for example if a parser has already read the body.
    request.cancelBody?.();
    throw new StablehooksError(
      'ERR_BODY_TIMEOUT',
      `The body did not arrive within ${bodyTimeoutMs} ms. Check that proxies forward it (in nginx, remove \`proxy_pass_request_body off\`). If the sender is genuine but slow, raise bodyTimeoutMs.`,
    );
  };
  const body = isPromise(reading) ? await timeLimit(reading, bodyTimeoutMs, onTimeUp, runtime) : reading;
  if (body?.length === 0) throw emptyBody();
  return body;
}

/** An empty body is never an event, so the signature must not be blamed for it. */
export function emptyBody(): RequestError {
  return new StablehooksError('ERR_BODY_UNAVAILABLE', EMPTY);
}

const EMPTY =
  'The body is empty. Either a parser or middleware read it before the receiver did, or a proxy or the framework dropped it (SvelteKit drops a body that has no content-type). Pass the unread request to the receiver. Register the receiver before any body parser, such as express.json.';
