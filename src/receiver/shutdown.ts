/** Shutting down: who is still running, and waiting for them. */
import { BusyError } from '../core/errors.js';

/** Counts what runs; once closed, lets nothing in and tells when the last has left. */
export interface Gate {
  /** @throws {BusyError} `ERR_RECEIVER_CLOSED` once closed. */
  enter(): void;
  leave(): void;
  closed(): boolean;
  /** Resolves when nobody is inside any more. */
  close(): Promise<void>;
}

/** How soon another process may be asked: a restart takes seconds. */
const RETRY_AFTER_MS = 5_000;

export function createGate(): Gate {
  let inside = 0;
  let closed = false;
  const waiting: (() => void)[] = [];
  return {
    enter() {
      if (closed) {
        throw new BusyError(
          'ERR_RECEIVER_CLOSED',
          'This process is stopping; the delivery will come again.',
          {
            retryAfterMs: RETRY_AFTER_MS,
          },
        );
      }
      inside += 1;
    },
    leave() {
      inside -= 1;
      if (inside === 0) for (const resolve of waiting.splice(0)) resolve();
    },
    closed: () => closed,
    async close() {
      closed = true;
      if (inside > 0) await new Promise<void>((resolve) => waiting.push(resolve));
    },
  };
}
