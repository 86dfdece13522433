import type { Runtime } from './runtime.js';

/**
 * Time limits for waits, each with a timer of its own.
 * On platforms such as Workers a timer ends with the request that set it.
 */
export class Deadlines {
  readonly #ms: number;
  readonly #runtime: Runtime;

  /** @param ms - how long a wait may take. */
  constructor(ms: number, runtime: Runtime) {
    this.#ms = ms;
    this.#runtime = runtime;
  }

  /**
   * Calls back after `ms` unless {@link Deadlines.end} ends the wait first.
   *
   * @param from - when the wait began, if the clock was just read.
   */
  begin(onTimeUp: () => void, from = this.#runtime.elapsed()): unknown {
    const spent = this.#runtime.elapsed() - from;
    return this.#runtime.setTimeout(onTimeUp, Math.max(0, this.#ms - spent));
  }

  end(wait: unknown): void {
    this.#runtime.clearTimeout(wait);
  }
}
