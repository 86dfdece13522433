import type { Runtime } from './runtime.js';

/** Outside Node a timer is a number and keeps no process alive. */
type PlatformTimer = { readonly ref?: () => void; readonly unref?: () => void } | undefined;

export interface Wait {
  readonly at: number;
  onTimeUp: (() => void) | undefined;
  next: Wait | undefined;
  previous: Wait | undefined;
  isOver: boolean;
}

/**
 * Time limits for waits that nearly always end early.
 * One platform timer serves all of them: setting and clearing one per wait takes about as long as an HMAC over a short body.
 */
export class Deadlines {
  readonly #ms: number;
  readonly #runtime: Runtime;
  /** Waits in the order of their ends. */
  #first: Wait | undefined;
  #last: Wait | undefined;
  #timer: unknown;
  /** The wait that the timer was set for; it may have ended. */
  #timed: Wait | undefined;

  constructor(ms: number, runtime: Runtime) {
    this.#ms = ms;
    this.#runtime = runtime;
  }

  /** @param from - when the wait began, if the clock was just read. */
  begin(onTimeUp: () => void, from = this.#runtime.elapsed()): Wait {
    const at = from + this.#ms;
    const wait: Wait = { at, onTimeUp, next: undefined, previous: this.#last, isOver: false };
    if (this.#last === undefined) this.#first = wait;
    else this.#last.next = wait;
    this.#last = wait;
    if (this.#timed === undefined) this.#setTimer(wait);
    else if (this.#first === wait) (this.#timer as PlatformTimer)?.ref?.();
    return wait;
  }

  end(wait: Wait): void {
    if (wait.isOver) return;
    wait.isOver = true;
    const { previous, next } = wait;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    // The timer references its wait. A link to later waits, and to their callbacks, would keep them in memory.
    wait.next = undefined;
    wait.previous = undefined;
    wait.onTimeUp = undefined;
    // An idle timer must not keep the process alive.
    if (this.#first === undefined) (this.#timer as PlatformTimer)?.unref?.();
  }

  #setTimer(wait: Wait): void {
    this.#timed = wait;
    const ms = Math.max(0, wait.at - this.#runtime.elapsed());
    this.#timer = this.#runtime.setTimeout(() => this.#onTimer(wait), ms);
  }

  #onTimer(timed: Wait): void {
    const isTimeUp = !timed.isOver;
    for (let wait = this.#first; isTimeUp && wait !== undefined && wait.at <= timed.at; wait = this.#first) {
      const { onTimeUp } = wait;
      this.end(wait);
      onTimeUp?.();
    }
    // Only now: a callback may begin a wait, which does not end first.
    this.#timed = undefined;
    this.#timer = undefined;
    if (this.#first !== undefined) this.#setTimer(this.#first);
  }
}
