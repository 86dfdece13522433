/** Waiting that ends in time: at the caller's signal, or when an attempt has taken too long. */

/** Thrown when an attempt ran out of time. */
export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
}

/**
 * Runs something that may not listen to its signal, and stops waiting for it all the same.
 *
 * `AbortSignal.any` would do, but keeps each signal it made alive for as long as the caller's.
 */
export function withDeadline<T>(
  run: (signal: AbortSignal) => Promise<T>,
  { signal, timeoutMs }: { readonly signal: AbortSignal | undefined; readonly timeoutMs: number },
): Promise<T> {
  signal?.throwIfAborted();
  return new Promise<T>((resolve, reject) => {
    const controller = new AbortController();
    const stop = (reason: unknown) => {
      reject(reason);
      controller.abort(reason);
    };
    const onAbort = () => stop(signal?.reason);
    const timer = setTimeout(() => stop(new DeadlineError(`nothing after ${timeoutMs} ms`)), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    run(controller.signal)
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
  });
}

/** Waits, and rejects with the signal's reason as soon as it is aborted. */
export function wait(
  waitMs: number,
  { signal }: { readonly signal: AbortSignal | undefined },
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, waitMs);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
