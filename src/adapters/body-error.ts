import { type RequestError, StablehooksError } from '../core/errors.js';

export function tooLarge(maxBytes: number): RequestError {
  return new StablehooksError(
    'ERR_BODY_TOO_LARGE',
    `The body is larger than ${maxBytes} bytes. If the delivery is genuine, raise maxBodyBytes.`,
  );
}

export function incomplete(cause?: unknown): RequestError {
  return new StablehooksError(
    'ERR_BODY_INCOMPLETE',
    "The length of the body does not match its content-length: the connection closed early, or a proxy truncated the body. Next's proxy truncates bodies at 10 MB (proxyClientMaxBodySize). No handler ran.",
    { cause },
  );
}

const CLOSED: readonly unknown[] = [
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'AbortError',
  // The names of Deno's errors.
  ...['BadResource', 'Http'],
];

export function failed(cause: unknown): RequestError {
  const { code, name } = Object(cause);
  if (cause === undefined || cause === null || CLOSED.includes(code) || CLOSED.includes(name)) {
    return incomplete(cause ?? undefined);
  }
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    'Reading the body failed; see the cause. The framework may have a size limit, or a decoder may have run before the receiver.',
    { cause },
  );
}

export function unavailable(fix: string): RequestError {
  return new StablehooksError(
    'ERR_BODY_UNAVAILABLE',
    `A parser or middleware read or decoded the body first, so the signed bytes are lost. ${fix}`,
  );
}
