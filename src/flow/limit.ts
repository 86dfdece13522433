/** `maxConcurrency`: a slot for each handler that runs in this process. */
import { type BusyError, StablehooksError } from '../core/errors.js';
import type { UnknownEvent } from '../core/events.js';
import { orAborted, type Runtime } from '../core/runtime.js';
import type { Dispatch } from '../receiver/work.js';

/** The longest wait before the next try when all slots are taken, in ms. The shortest is a second, which spreads a burst. */
const RETRY_MS = 5_000;

export class Slots {
  readonly count: number;
  free: number;
  readonly #runtime: Runtime;
  #released: Promise<void> = Promise.resolve();
  #endWaits = () => {};
  /** The waits for the next release, one per signal: Node warns of a leak at the eleventh listener of a signal. */
  readonly #waits = new Map<AbortSignal | undefined, Promise<void>>();

  constructor(count: number, runtime: Runtime) {
    this.count = count;
    this.free = count;
    this.#runtime = runtime;
  }

  /** @throws {StablehooksError} `ERR_RECEIVER_BUSY` when no slot is free. */
  assertFree(): void {
    if (this.free === 0) throw this.#busy();
  }

  /** Takes a slot once one is free. @throws {StablehooksError} `ERR_RECEIVER_BUSY` when the signal aborts first. */
  async take(signal: AbortSignal | undefined): Promise<void> {
    while (this.free === 0) {
      if (signal?.aborted) throw this.#busy();
      await this.freed(signal);
    }
    this.free -= 1;
  }

  /** Resolves at the next release of a slot, or when the signal aborts. */
  freed(signal: AbortSignal | undefined): Promise<void> {
    if (this.#waits.size === 0) {
      this.#released = new Promise((resolve) => {
        this.#endWaits = resolve;
      });
    }
    const wait = this.#waits.get(signal) ?? orAborted(this.#released, signal);
    this.#waits.set(signal, wait);
    return wait;
  }

  release(): void {
    this.free += 1;
    this.#waits.clear();
    this.#endWaits();
  }

  #busy(): BusyError {
    return new StablehooksError(
      'ERR_RECEIVER_BUSY',
      'The limit of maxConcurrency running handlers is reached. Try again later.',
      { retryAfterMs: 1_000 + this.#runtime.random() * (RETRY_MS - 1_000) },
    );
  }
}

/**
 * Runs handlers only in slots. A slot is held until its handler has ended.
 * Deliveries do not wait for a slot: they go to `whenFull`. Stored events and jobs wait.
 */
export function limitConcurrency(
  slots: Slots,
  hasHandler: (event: UnknownEvent) => boolean,
  whenFull: Dispatch | undefined,
): (next: Dispatch) => Dispatch {
  return (next) => async (work) => {
    const { event, origin, signal } = work;
    if (!hasHandler(event)) return next(work);
    if (whenFull !== undefined && origin === 'push' && slots.free === 0) return whenFull(work);
    if (origin === 'push') slots.assertFree();
    await slots.take(signal);
    let rest: Promise<unknown> | undefined;
    try {
      const run = await next(work);
      ({ rest } = run);
      return run;
    } finally {
      if (rest === undefined) slots.release();
      else void rest.then(() => slots.release());
    }
  };
}
