import type { Runtime } from '../core/runtime.js';

/** The signal that ends a wait early, and the timers. */
export interface Waiting {
  readonly signal: AbortSignal | undefined;
  readonly runtime: Runtime;
}

/**
 * Rejects when the caller's signal aborts or the time is up, even if the work ignores the signal that it receives.
 *
 * Not `AbortSignal.any`, which keeps each signal that it creates alive as long as the caller's.
 */
export function withDeadline<T>(
  work: (signal: AbortSignal) => Promise<T>,
  {
    signal,
    runtime,
    timeoutMs,
    toError,
  }: Waiting & { readonly timeoutMs: number; readonly toError: () => Error },
): Promise<T> {
  signal?.throwIfAborted();
  return new Promise<T>((resolve, reject) => {
    const controller = new AbortController();
    const stop = (reason: unknown) => {
      reject(reason);
      controller.abort(reason);
    };
    const onAbort = () => stop(signal?.reason);
    const timer = runtime.setTimeout(() => stop(toError()), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    work(controller.signal)
      .then(resolve, reject)
      .finally(() => {
        runtime.clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      });
  });
}

/** Waits; rejects with the signal's reason when it aborts. */
export function wait(waitMs: number, { signal, runtime }: Waiting): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      runtime.clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = runtime.setTimeout(end, waitMs);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}
