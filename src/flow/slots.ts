import { deferred } from '../core/awaitable.js';
import { type BusyError, StablehooksError } from '../core/errors.js';
import { orAborted, type Runtime } from '../core/runtime.js';

/** In ms. The actual wait is random and no longer than this, to spread out bursts. */
const RETRY_MS = 5_000;

export class Slots {
  readonly count: number;
  free: number;
  readonly #runtime: Runtime;
  #released = deferred();
  /** One pending wait per signal, because Node warns of a leak if a signal has eleven listeners. */
  readonly #waits = new Map<AbortSignal | undefined, Promise<void>>();

  constructor(count: number, runtime: Runtime) {
    this.count = count;
    this.free = count;
    this.#runtime = runtime;
  }

  assertFree(): void {
    if (this.free === 0) throw this.#busy();
  }

  async take(signal: AbortSignal | undefined): Promise<void> {
    while (this.free === 0) {
      if (signal?.aborted) throw this.#busy();
      await this.freed(signal);
    }
    this.free -= 1;
  }

  freed(signal: AbortSignal | undefined): Promise<void> {
    const wait = this.#waits.get(signal) ?? orAborted(this.#released.promise, signal);
    this.#waits.set(signal, wait);
    return wait;
  }

  release(): void {
    this.free += 1;
    if (this.#waits.size === 0) return;
    this.#waits.clear();
    this.#released.resolve();
    this.#released = deferred();
  }

  #busy(): BusyError {
    return new StablehooksError(
      'ERR_RECEIVER_BUSY',
      'The receiver is already running as many handlers as maxConcurrency allows. Try again later.',
      { retryAfterMs: 1_000 + this.#runtime.random() * (RETRY_MS - 1_000) },
    );
  }
}
