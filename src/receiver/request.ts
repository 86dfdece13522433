import type { Logger } from '../core/ports.js';

/** One HTTP request as an adapter passes it to the receiver. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The requested path and query, with every prefix that the receiver is mounted at; or the absolute URL. Passed to a
   * `secret` function.
   *
   * @default ''
   */
  readonly url?: string | undefined;
  /** The value of a header, or multiple values joined with commas. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBytes`. Called at most once, after the checks of the headers, in the
   * first synchronous step of `receive`.
   *
   * Throws or rejects with a `StablehooksError`: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Called when the body takes longer than `bodyTimeoutMs`. Stops reading and frees the bytes that were read. It may throw
   * an error that is more specific than `ERR_BODY_TIMEOUT`.
   */
  cancelBody?(): void;
  /**
   * Called with work that continues after the answer: a handler under `answer: 'recorded'`, or one that outlives
   * `handlerTimeoutMs`. It must keep the invocation alive until the promise resolves, after `leaseMs` at the latest. The
   * promise never rejects. Leave it out where the process keeps running.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** The framework's logger of this request; the `logger` of the receiver has precedence. @default console */
  readonly logger?: Logger | undefined;
}
