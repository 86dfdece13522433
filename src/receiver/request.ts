import type { Logger } from '../core/ports.js';

/** An HTTP request, as an adapter passes it to the receiver. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The path and query of the request, or its absolute URL. Include any prefix under which the receiver is mounted. The
   * `secret` function receives the path and the query. @default ''
   */
  readonly url?: string | undefined;
  /** Returns the value of a header. Multiple values are joined by commas. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, up to `maxBytes`. `receive` calls this method at most once, after checking the
   * headers and before returning its promise.
   * Throws or rejects with a `StablehooksError`: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE` or `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Stops reading, and frees the bytes that were read. `receive` calls this method when the body takes longer than
   * `bodyTimeoutMs`. The method can throw an error that is more specific than `ERR_BODY_TIMEOUT`.
   */
  cancelBody?(): void;
  /**
   * Called with a promise for work that continues after the response: a handler with `answer: 'recorded'`, or a handler
   * that takes longer than `handlerTimeoutMs`. This function must keep the process alive until the promise resolves, which
   * takes at most `leaseMs`. The promise never rejects. Omit this function if the process keeps running anyway.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** The framework's logger for this request. The receiver's own `logger` takes precedence. @default console */
  readonly logger?: Logger | undefined;
}
