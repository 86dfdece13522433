import { StablehooksError } from '../core/errors.js';

const RESTART_MS = 5_000;

/** The work that `close()` waits for: verified deliveries, and handlers that run after the response. */
export class InFlight {
  isClosed = false;
  #count = 0;
  #resolvers: (() => void)[] = [];

  assertOpen(): void {
    if (!this.isClosed) return;
    throw new StablehooksError('ERR_RECEIVER_CLOSED', 'The receiver is closing. Try again later.', {
      retryAfterMs: RESTART_MS,
    });
  }

  enter(): void {
    this.assertOpen();
    this.#count += 1;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#resolvers.splice(0)) resolve();
  }

  /** `close()` waits for this work even if it began after `close()` was called. */
  async track<Value>(work: Promise<Value>): Promise<Value> {
    this.#count += 1;
    try {
      return await work;
    } finally {
      this.leave();
    }
  }

  async close(): Promise<void> {
    this.isClosed = true;
    if (this.#count > 0) await new Promise<void>((resolve) => this.#resolvers.push(resolve));
  }
}
