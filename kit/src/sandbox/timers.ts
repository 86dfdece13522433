/** What is due when: a binary heap of timers, earliest first, and first added first among equals. */

interface Timer {
  readonly dueAt: number;
  readonly order: number;
  /** `undefined` once cancelled: the entry waits in the heap until its turn, its closure is free. */
  run: (() => void) | undefined;
}

/** Takes a timer out again; nothing happens when it already ran. */
export type Cancel = () => void;

/** Timers by due time, in epoch milliseconds. */
export class Timers {
  #heap: Timer[] = [];
  #added = 0;
  #cancelled = 0;

  add(dueAt: number, run: () => void): Cancel {
    const timer: Timer = { dueAt, order: this.#added++, run };
    this.#heap.push(timer);
    this.#rise(this.#heap.length - 1);
    return () => this.#cancel(timer);
  }

  /** When the earliest timer is due. */
  nextAt(): number | undefined {
    while (this.#heap[0] !== undefined && this.#heap[0].run === undefined) {
      this.#pop();
      this.#cancelled--;
    }
    return this.#heap[0]?.dueAt;
  }

  /** Takes out the earliest timer that is due by `now`. */
  take(now: number): (() => void) | undefined {
    const dueAt = this.nextAt();
    if (dueAt === undefined || dueAt > now) return undefined;
    const timer = this.#pop();
    const run = timer?.run;
    if (timer !== undefined) timer.run = undefined;
    return run;
  }

  clear(): void {
    for (const timer of this.#heap) timer.run = undefined;
    this.#heap = [];
    this.#cancelled = 0;
  }

  #cancel(timer: Timer): void {
    if (timer.run === undefined) return;
    timer.run = undefined;
    this.#cancelled++;
    // Every answered attempt cancels its timeout: without this the heap would grow while the time stands still.
    if (this.#cancelled < 1000 || this.#cancelled * 2 < this.#heap.length) return;
    this.#heap = this.#heap.filter(({ run }) => run !== undefined).sort((a, b) => (before(a, b) ? -1 : 1));
    this.#cancelled = 0;
  }

  #pop(): Timer | undefined {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (last !== undefined && last !== first) {
      this.#heap[0] = last;
      this.#sink();
    }
    return first;
  }

  #rise(from: number): void {
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfBefore(index, parent)) return;
      index = parent;
    }
  }

  #sink(): void {
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const rightTimer = this.#heap[right];
      const leftTimer = this.#heap[left];
      if (leftTimer === undefined) return;
      const least = rightTimer !== undefined && before(rightTimer, leftTimer) ? right : left;
      if (!this.#swapIfBefore(least, index)) return;
      index = least;
    }
  }

  #swapIfBefore(child: number, parent: number): boolean {
    const lower = this.#heap[child];
    const upper = this.#heap[parent];
    if (lower === undefined || upper === undefined || !before(lower, upper)) return false;
    this.#heap[child] = upper;
    this.#heap[parent] = lower;
    return true;
  }
}

function before(left: Timer, right: Timer): boolean {
  return left.dueAt < right.dueAt || (left.dueAt === right.dueAt && left.order < right.order);
}
