import { StablehooksError } from '../core/errors.js';

/** How long a sender must wait before it retries while this process stops, in ms. A restart takes seconds. */
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

  /** Makes `close()` wait until {@link leave} is called. @throws {StablehooksError} `ERR_RECEIVER_CLOSED` */
  enter(): void {
    this.assertOpen();
    this.#count += 1;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#resolvers.splice(0)) resolve();
  }

  /** Makes `close()` wait until the work has ended, even if the work began after `close()` was called. */
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
