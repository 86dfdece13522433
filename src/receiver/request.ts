import type { Logger } from '../core/ports.js';

/** One HTTP request as an adapter hands it in. An adapter knows its framework, and nothing else. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The path and query as the sender requested them, with every prefix that the receiver is mounted at; or the absolute
   * URL. A `secret` function sees them.
   *
   * @default ''
   */
  readonly url?: string | undefined;
  /** The value of a header, several joined by a comma. The name is case-insensitive. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBytes`. Called at most once, after the cheap checks, and in the first
   * synchronous step of `receive`.
   *
   * Throws or rejects with a `StablehooksError`: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`.
   */
  body(maxBytes: number): Uint8Array | Promise<Uint8Array>;
  /**
   * Called when the body takes longer than `bodyTimeoutMs`: stops reading and frees the bytes that were read. It may throw
   * an error that says more than `ERR_BODY_TIMEOUT`.
   */
  cancelBody?(): void;
  /**
   * Called with the work that goes on after the answer, if any does: a handler under `answer: 'recorded'`, or one that
   * outlives `handlerTimeoutMs`. It keeps the invocation alive until that has ended, at the latest after `leaseMs`. The
   * promise never rejects. Leave it out where the process keeps running.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** The framework's logger of this request; the `logger` of the receiver has precedence. @default console */
  readonly logger?: Logger | undefined;
}
