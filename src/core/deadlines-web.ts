import type { Runtime } from './runtime.js';

/**
 * As deadlines-node.ts, but each wait has a timer of its own: on platforms such as Workers a timer ends with the request
 * that set it.
 */
export class Deadlines {
  readonly #ms: number;
  readonly #runtime: Runtime;

  constructor(ms: number, runtime: Runtime) {
    this.#ms = ms;
    this.#runtime = runtime;
  }

  begin(onTimeUp: () => void, from = this.#runtime.elapsed()): unknown {
    const spent = this.#runtime.elapsed() - from;
    return this.#runtime.setTimeout(onTimeUp, Math.max(0, this.#ms - spent));
  }

  end(wait: unknown): void {
    this.#runtime.clearTimeout(wait);
  }
}
