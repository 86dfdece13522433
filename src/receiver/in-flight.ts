import { type BusyError, StablehooksError } from '../core/errors.js';

/** The wait before the next try while this process stops, in ms: a restart takes seconds. */
const RESTART_MS = 5_000;

/** The work that `close()` waits for: verified deliveries, and handlers that run after the answer. */
export class InFlight {
  isClosed = false;
  #count = 0;
  #resolvers: (() => void)[] = [];

  /** Counts a pass as in flight. @throws {StablehooksError} `ERR_RECEIVER_CLOSED` */
  admit(pass: { isInFlight: boolean }): void {
    if (this.isClosed) throw receiverClosed();
    this.#count += 1;
    pass.isInFlight = true;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#resolvers.splice(0)) resolve();
  }

  /** Holds `close()` until the work has ended. */
  track<Work extends Promise<unknown>>(work: Work): Work {
    this.#count += 1;
    const leave = () => this.leave();
    work.then(leave, leave);
    return work;
  }

  close(): Promise<void> {
    this.isClosed = true;
    return this.#count === 0 ? Promise.resolve() : new Promise((resolve) => this.#resolvers.push(resolve));
  }
}

export function receiverClosed(): BusyError {
  return new StablehooksError('ERR_RECEIVER_CLOSED', 'The receiver is closing. Try again later.', {
    retryAfterMs: RESTART_MS,
  });
}
