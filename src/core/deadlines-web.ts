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

  /** Calls back after `ms` unless {@link Deadlines.end} ends the wait first. */
  begin(onTimeUp: () => void): unknown {
    return this.#runtime.setTimeout(onTimeUp, this.#ms);
  }

  end(wait: unknown): void {
    this.#runtime.clearTimeout(wait);
  }
}
