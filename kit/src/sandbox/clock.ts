import type { Runtime, RuntimeOptions } from 'stablehooks';
import * as z from 'zod/mini';
import { inTime } from '../in-time.js';
import { check, milliseconds } from './validation.js';

/** A `real` clock follows the machine's clock. A `manual` clock moves only when you call `advance` or `settled`. */
export type ClockMode = 'real' | 'manual';

/** The clock of a sandbox. */
export interface SandboxClock {
  readonly mode: ClockMode;
  /** Returns the current time in epoch milliseconds. The time goes backwards only when the sandbox is reset. */
  now(): number;
  /**
   * Advances the time by `ms` and runs everything that becomes due, in order.
   *
   * Before each step, the clock waits for the attempts in progress, so that runs with endpoints in this process are
   * repeatable. The clock waits at most `settleTimeoutMs` of real time for a response. Then the time moves on, and the
   * attempt times out. A real clock waits at most `settleTimeoutMs` in total before each step, because new attempts can
   * start at any time.
   *
   * Rejects with the `SandboxError` `ERR_SANDBOX_INPUT` if `ms` is not an integer, is negative, or is more than a
   * hundred years.
   */
  advance(ms: number): Promise<void>;
}

export interface Clock extends SandboxClock {
  after(ms: number, run: () => void): Cancel;
  /** Resolves early if the clock is stopped or restarted. */
  wait(ms: number): Promise<void>;
  /** Keeps the time from advancing until the work is done. */
  waitFor(work: Promise<unknown>): void;
  /** Counts a movement or delivery as pending until `end` is called. */
  begin(): void;
  end(): void;
  settled(): Promise<void>;
  /** Cancels every timer, drops pending work and keeps the time. */
  stop(): void;
  restart(): void;
}

const advanceInput = z.object({ ms: milliseconds });

const PLATFORM: Pick<Runtime, 'now' | 'setTimeout' | 'clearTimeout'> = {
  now: () => Date.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
};

/** `setTimeout` calls back immediately if the time is longer than this. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export function createClock({
  mode,
  startsAtMs,
  settleTimeoutMs,
  runtime,
}: {
  readonly mode: ClockMode;
  readonly startsAtMs: number;
  readonly settleTimeoutMs: number;
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

  async function idle(): Promise<void> {
    const lateAt = performance.now() + settleTimeoutMs;
    const mayWait = () => mode === 'manual' || performance.now() < lateAt;
    do {
      // After an attempt gets its response or is aborted, the rest of its work ends within one turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      const works = [...awaited];
      const waitMs = mode === 'manual' ? settleTimeoutMs : lateAt - performance.now();
      if (works.length === 0) continue;
      await inTime(Promise.all(works), waitMs, () => new Error('late')).catch(() => {
        for (const work of works) awaited.delete(work);
      });
    } while (awaited.size > 0 && mayWait());
  }

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
    restart: () => {
      stop();
      latest = 0;
      ahead = 0;
    },
  };
}

interface Timer {
  readonly dueAt: number;
  readonly run: () => void;
}

/** Has no effect once the timer has run. */
export type Cancel = () => void;

/** Timers that are due at the same time run in the order in which they were added. */
class Timers {
  /** The next timer is at the end of the array, because removing the last element moves no other element. */
  #latestFirst: Timer[] = [];

  add(dueAt: number, run: () => void): Cancel {
    const timer: Timer = { dueAt, run };
    this.#latestFirst.splice(this.#find(dueAt), 0, timer);
    return () => {
      for (let at = this.#find(dueAt); this.#latestFirst[at]?.dueAt === dueAt; at++) {
        if (this.#latestFirst[at] !== timer) continue;
        this.#latestFirst.splice(at, 1);
        return;
      }
    };
  }

  nextAt(): number | undefined {
    return this.#latestFirst.at(-1)?.dueAt;
  }

  take(now: number): (() => void) | undefined {
    return (this.nextAt() ?? Infinity) <= now ? this.#latestFirst.pop()?.run : undefined;
  }

  clear(): void {
    this.#latestFirst = [];
  }

  /** Returns the index of the first timer that is due at `dueAt` or earlier. */
  #find(dueAt: number): number {
    let [from, until] = [0, this.#latestFirst.length];
    while (from < until) {
      const middle = (from + until) >> 1;
      if ((this.#latestFirst[middle]?.dueAt ?? 0) > dueAt) from = middle + 1;
      else until = middle;
    }
    return from;
  }
}
