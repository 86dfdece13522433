import type { Logger } from '../core/ports.js';

/** One HTTP request as an adapter passes it to the receiver. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The requested path and query, including any prefix under which the receiver is mounted, or the absolute URL. The
   * `secret` function receives the path and the query.
   *
   * @default ''
   */
  readonly url?: string | undefined;
  /** Returns the value of a header, with multiple values joined by commas. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBytes`. `receive` calls it at most once, synchronously, after checking
   * the headers.
   *
   * Throws or rejects with a `StablehooksError`: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE` or `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Called when the body takes longer than `bodyTimeoutMs`. Stops reading, and frees the bytes that were read. It may throw
   * a more specific error than `ERR_BODY_TIMEOUT`.
   */
  cancelBody?(): void;
  /**
   * Called with work that continues after the response: a handler with `answer: 'recorded'`, or a handler that takes
   * longer than `handlerTimeoutMs`. It must keep the invocation alive until the promise resolves, after `leaseMs` at the
   * latest. The promise never rejects. Leave this out if the process keeps running anyway.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** The framework's logger for this request. The receiver's own `logger` takes precedence. @default console */
  readonly logger?: Logger | undefined;
}
