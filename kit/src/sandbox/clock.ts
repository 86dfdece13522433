/** The sandbox's time: it runs with the machine's, or stands still until told to move, and can always jump ahead. */
import * as z from 'zod/mini';
import { milliseconds } from './fields.js';
import { check } from './problem.js';
import { type Cancel, Timers } from './timers.js';

/** `real` runs with the machine's clock; `manual` moves only by `advance` and `settled`. */
export type ClockMode = 'real' | 'manual';

/** The clock, as users of the sandbox see it. */
export interface SandboxClock {
  readonly mode: ClockMode;
  /** Epoch milliseconds; never goes back, but for a reset. */
  now(): number;
  /**
   * Moves the time ahead, and runs on the way, in order, everything that comes due.
   *
   * Before each move it waits for the attempts under way to be answered, so that a run over endpoints in
   * this process is the same every time. One without an answer after `settleTimeoutMs` of real time is taken for
   * an endpoint that never answers: the time moves on, and the attempt times out. A real clock waits no longer
   * than that before a move, as new attempts may begin all the while.
   *
   * Rejects with a `SandboxError`: `ERR_SANDBOX_INPUT` when `ms` is not a whole number up to a hundred years.
   */
  advance(ms: number): Promise<void>;
}

/** The clock, as the parts of the sandbox use it. */
export interface Clock extends SandboxClock {
  after(ms: number, run: () => void): Cancel;
  /** Resolves after so much time, or once the clock stops or starts again: nobody waits for ever. */
  wait(ms: number): Promise<void>;
  /** Names work that time has to wait for, when it is moved by hand. */
  hold(work: Promise<void>): void;
  /** Resolves once the held work is done, or has taken more real time than patience allows. */
  quiet(): Promise<void>;
  /** Moves to the next timer and runs it; `false` when there is none. */
  step(): boolean;
  /** Cancels every timer and leaves the time as it is. */
  stop(): void;
  /** Cancels every timer and starts again, at `at` or where time starts. */
  restart(at?: number): void;
}

/** Options of {@link createClock}. */
export interface ClockOptions {
  readonly mode: ClockMode;
  /** Where a manual clock starts, in epoch milliseconds. */
  readonly startsAtMs: number;
  readonly settleTimeoutMs: number;
}

const advanceInput = z.object({ ms: milliseconds });

/** setTimeout takes a 32-bit number of milliseconds and runs at once when it is larger. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export function createClock({ mode, startsAtMs, settleTimeoutMs }: ClockOptions): Clock {
  const timers = new Timers();
  const held = new Set<Promise<void>>();
  const waiting = new Set<() => void>();
  let ahead = 0;
  let latest = 0;
  let wake: { readonly at: number; readonly timeout: NodeJS.Timeout } | undefined;

  const now = () => {
    latest = Math.max(latest, mode === 'real' ? Date.now() + ahead : startsAtMs + ahead);
    return latest;
  };

  const moveTo = (time: number) => {
    ahead += Math.max(0, time - now());
  };

  function arm(): void {
    const at = timers.nextAt();
    if (mode === 'manual' || at === wake?.at) return;
    clearTimeout(wake?.timeout);
    wake = undefined;
    if (at === undefined) return;
    const waitMs = Math.min(Math.max(at - now(), 0), LONGEST_TIMEOUT_MS);
    wake = { at, timeout: setTimeout(ring, waitMs) };
  }

  function ring(): void {
    wake = undefined;
    runDue();
    arm();
  }

  function runDue(): void {
    const time = now();
    for (let run = timers.take(time); run !== undefined; run = timers.take(time)) run();
  }

  function stop(): void {
    timers.clear();
    held.clear();
    for (const resolve of waiting) resolve();
    waiting.clear();
    arm();
  }

  async function quiet(): Promise<void> {
    const lateAt = performance.now() + settleTimeoutMs;
    const mayWait = () => mode === 'manual' || performance.now() < lateAt;
    do {
      // One turn of the event loop lets what was just answered or aborted come to its end.
      await new Promise((resolve) => setImmediate(resolve));
      const waitedFor = [...held];
      const waitMs = mode === 'manual' ? settleTimeoutMs : lateAt - performance.now();
      if (waitedFor.length > 0 && !(await within(Promise.all(waitedFor), waitMs))) {
        for (const work of waitedFor) held.delete(work);
      }
    } while (held.size > 0 && mayWait());
  }

  function after(ms: number, run: () => void): Cancel {
    const cancel = timers.add(now() + ms, run);
    arm();
    return () => {
      cancel();
      arm();
    };
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
    hold: (work) => {
      held.add(work);
      void work.finally(() => held.delete(work));
    },
    advance: async (ms) => {
      const target = now() + check(advanceInput, { ms }).ms;
      for (;;) {
        await quiet();
        const at = timers.nextAt();
        if (at === undefined || at > target) break;
        moveTo(at);
        runDue();
      }
      moveTo(target);
      arm();
    },
    quiet,
    step: () => {
      const at = timers.nextAt();
      if (at === undefined) return false;
      moveTo(at);
      runDue();
      return true;
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

/** Whether the work ends within so much real time. */
async function within(work: Promise<unknown>, settleTimeoutMs: number): Promise<boolean> {
  let timeout: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timeout = setTimeout(() => resolve(false), settleTimeoutMs);
  });
  const ended = await Promise.race([work.then(() => true), late]);
  clearTimeout(timeout);
  return ended;
}
