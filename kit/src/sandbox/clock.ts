import type { Runtime, RuntimeOptions } from 'stablehooks';
import * as z from 'zod/mini';
import { check, milliseconds } from './validation.js';

/** `real` runs with the machine's clock; `manual` moves only by `advance` and `settled`. */
export type ClockMode = 'real' | 'manual';

/** The sandbox's clock. */
export interface SandboxClock {
  readonly mode: ClockMode;
  /** Epoch milliseconds. Goes back only at a reset. */
  now(): number;
  /**
   * Moves the time ahead and runs everything that becomes due, in order.
   *
   * Before each move it waits until the attempts under way are answered, so a run with endpoints in this process is the same
   * every time. It waits at most `settleTimeoutMs` of real time for an answer; then the time moves and the attempt times
   * out. A real clock waits at most that long in total before each move, because new attempts can begin all the time.
   *
   * Rejects with a `SandboxError`: `ERR_SANDBOX_INPUT` when `ms` is not an integer from 0 to a hundred years.
   */
  advance(ms: number): Promise<void>;
}

/** The clock, with the methods for the other parts of the sandbox. */
export interface Clock extends SandboxClock {
  after(ms: number, run: () => void): Cancel;
  /** Resolves after this much time, and when the clock is stopped or restarted. */
  wait(ms: number): Promise<void>;
  /** Delays the next move of the time until the work is done. */
  waitFor(work: Promise<unknown>): void;
  /** Counts a movement or delivery as pending until `end`. */
  begin(): void;
  end(): void;
  /** Resolves once nothing is pending; moves a manual clock as far as needed. */
  settled(): Promise<void>;
  /** Cancels every timer, drops pending work and keeps the time. */
  stop(): void;
  /** Stops and starts again, at `at` or at the initial time. */
  restart(at?: number): void;
}

const advanceInput = z.object({ ms: milliseconds });

const PLATFORM: Pick<Runtime, 'now' | 'setTimeout' | 'clearTimeout'> = {
  now: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
};

/** setTimeout accepts a 32-bit number of milliseconds and calls back immediately for a larger one. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export function createClock({
  mode,
  startsAtMs,
  settleTimeoutMs,
  runtime,
}: {
  readonly mode: ClockMode;
  /** Where a manual clock starts, in epoch milliseconds. */
  readonly startsAtMs: number;
  readonly settleTimeoutMs: number;
  /** Replaces the time and timers of the platform. */
  readonly runtime: RuntimeOptions;
}): Clock {
  const {
    now: readTime = PLATFORM.now,
    setTimeout = PLATFORM.setTimeout,
    clearTimeout = PLATFORM.clearTimeout,
  } = runtime;
  const timers = new Timers();
  const awaited = new Set<Promise<unknown>>();
  const waiting = new Set<() => void>();
  let pending = 0;
  let ahead = 0;
  let latest = 0;
  let wake: { readonly at: number; readonly timeout: unknown } | undefined;
  let onNonePending: (() => void)[] = [];

  function now(): number {
    latest = Math.max(latest, mode === 'real' ? readTime() + ahead : startsAtMs + ahead);
    return latest;
  }

  function moveTo(time: number): void {
    ahead += Math.max(0, time - now());
  }

  /** Sets the timeout of a real clock to the next timer. */
  function setWake(): void {
    const at = timers.nextAt();
    if (mode === 'manual' || at === wake?.at) return;
    clearTimeout(wake?.timeout);
    wake = undefined;
    if (at === undefined) return;
    const waitMs = Math.min(Math.max(at - now(), 0), LONGEST_TIMEOUT_MS);
    const onTimeout = () => {
      wake = undefined;
      runDue();
      setWake();
    };
    wake = { at, timeout: setTimeout(onTimeout, waitMs) };
  }

  function runDue(): void {
    const time = now();
    for (let run = timers.take(time); run !== undefined; run = timers.take(time)) run();
  }

  /** Resolves once the awaited work is done, or at the time limit. */
  async function idle(): Promise<void> {
    const lateAt = performance.now() + settleTimeoutMs;
    const mayWait = () => mode === 'manual' || performance.now() < lateAt;
    do {
      // The rest of an answered or aborted attempt ends within one turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      const works = [...awaited];
      const waitMs = mode === 'manual' ? settleTimeoutMs : lateAt - performance.now();
      if (works.length > 0 && !(await endsWithin(waitMs, Promise.all(works)))) {
        for (const work of works) awaited.delete(work);
      }
    } while (awaited.size > 0 && mayWait());
  }

  /** Moves to the next timer and runs it; `false` without a timer. */
  function step(): boolean {
    const at = timers.nextAt();
    if (at === undefined) return false;
    moveTo(at);
    runDue();
    return true;
  }

  function after(ms: number, run: () => void): Cancel {
    const cancel = timers.add(now() + ms, run);
    setWake();
    return () => {
      cancel();
      setWake();
    };
  }

  function setPending(count: number): void {
    pending = count;
    if (pending > 0) return;
    for (const resolve of onNonePending) resolve();
    onNonePending = [];
  }

  function stop(): void {
    timers.clear();
    awaited.clear();
    for (const resolve of waiting) resolve();
    waiting.clear();
    setPending(0);
    setWake();
  }

  return {
    mode,
    now,
    after,
    wait: (ms) =>
      new Promise((resolve) => {
        waiting.add(resolve);
        after(ms, () => {
          waiting.delete(resolve);
          resolve();
        });
      }),
    waitFor: (work) => {
      awaited.add(work);
      void work.finally(() => awaited.delete(work));
    },
    advance: async (ms) => {
      const target = now() + check(advanceInput, { ms }).ms;
      for (;;) {
        await idle();
        const at = timers.nextAt();
        if (at === undefined || at > target) break;
        moveTo(at);
        runDue();
      }
      moveTo(target);
      setWake();
    },
    begin: () => setPending(pending + 1),
    end: () => setPending(pending - 1),
    settled: async () => {
      for (;;) {
        if (mode === 'manual') await idle();
        if (pending === 0) return;
        if (mode === 'manual' && step()) continue;
        await new Promise<void>((resolve) => onNonePending.push(resolve));
      }
    },
    stop,
    restart: (at) => {
      stop();
      latest = 0;
      ahead = 0;
      if (at !== undefined) moveTo(at);
    },
  };
}

/** Whether the work ends within this much real time. */
async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timeout = setTimeout(() => resolve(false), ms);
  });
  const ended = await Promise.race([work.then(() => true), late]);
  clearTimeout(timeout);
  return ended;
}

interface Timer {
  readonly dueAt: number;
  readonly order: number;
  /** `undefined` once cancelled: the timer stays in the heap until it is due, without its closure. */
  run: (() => void) | undefined;
}

/** Cancels a timer; has no effect once it has run. */
export type Cancel = () => void;

/** A binary heap of timers, earliest first; timers that are due at the same time in the order of their addition. */
class Timers {
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

  /** Removes the earliest timer that is due by `now`. */
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
    // Every answered attempt cancels its timeout. Otherwise the heap would grow while a manual clock does not move.
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
      const earliest = rightTimer !== undefined && before(rightTimer, leftTimer) ? right : left;
      if (!this.#swapIfBefore(earliest, index)) return;
      index = earliest;
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
