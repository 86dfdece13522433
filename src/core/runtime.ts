/** Time, timers and randomness of the platform, and their replacements. */
import type { OptionRule } from './options.js';

/** Time, timers and randomness. A test or a simulation can replace each of them. */
export interface Runtime {
  /** The time in epoch ms. @default Date.now */
  now(): number;
  /** Ms since an arbitrary moment, by a monotonic clock. @default performance.now */
  elapsed(): number;
  /** A number of at least 0 and less than 1. @default Math.random */
  random(): number;
  /** A unique id. @default crypto.randomUUID */
  uuid(): string;
  /** Calls back once, after `ms`, and returns the timer. @default setTimeout, after at most 24 days */
  setTimeout(callback: () => void, ms: number): unknown;
  /** Cancels a timer. A timer that has called back is accepted as well. @default clearTimeout */
  clearTimeout(timer: unknown): void;
}

/** The longest time of a platform timer: a signed 32-bit number of ms. A longer timer would call back immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The parts of a {@link Runtime} that replace those of the platform. */
export type RuntimeOptions = { readonly [Part in keyof Runtime]?: Runtime[Part] | undefined };

// Looked up at each call, so a test can replace the globals later.
const PLATFORM: Runtime = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  random: () => Math.random(),
  uuid: () => crypto.randomUUID(),
  setTimeout: (callback, ms) => setTimeout(callback, Math.min(ms, MAX_TIMER_MS)),
  clearTimeout: (timer) => clearTimeout(timer as ReturnType<typeof setTimeout>),
};

const PARTS = Object.keys(PLATFORM) as (keyof Runtime)[];

export const RUNTIME: OptionRule<RuntimeOptions> = {
  expected: `an object with some of the functions ${PARTS.join(', ')}`,
  accepts: (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.keys(value).every((name) => PARTS.includes(name as keyof Runtime)) &&
    PARTS.every((name) => ['function', 'undefined'].includes(typeof (value as RuntimeOptions)[name])),
  default: {},
};

export function toRuntime(given: RuntimeOptions = {}): Runtime {
  const parts = PARTS.map((name) => [name, given[name]?.bind(given) ?? PLATFORM[name]]);
  return Object.fromEntries(parts);
}

/** A moment, by both clocks of a runtime. */
export interface Moment {
  readonly elapsed: number;
  readonly now: number;
}

/** How long ago a moment was, in ms. The first clock stands still while a machine is suspended; the second can be set back. */
export function msSince(moment: Moment, { elapsed, now }: Pick<Runtime, 'elapsed' | 'now'>): number {
  return Math.max(elapsed() - moment.elapsed, now() - moment.now);
}

/** Calls back after `ms`, without keeping the process alive. */
export function setBackgroundTimeout(runtime: Runtime, callback: () => void, ms: number): unknown {
  const timer = runtime.setTimeout(callback, ms);
  // Outside Node a timer is a number and keeps no process alive.
  (timer as { readonly unref?: () => void } | undefined)?.unref?.();
  return timer;
}

/** Lets the other work of the process have its turn. */
export function nextTurn(runtime: Pick<Runtime, 'setTimeout'> = PLATFORM): Promise<void> {
  return new Promise((resolve) => runtime.setTimeout(resolve, 0));
}

/** The time limits of waits, as `Deadlines` keeps them. */
interface TimeLimits {
  begin(onTimeUp: () => void): unknown;
  end(wait: unknown): void;
}

/** Waits for an answer within its time limit, then rejects with the error and ignores a late answer. */
export function inTime<Value>(
  answer: PromiseLike<Value>,
  limits: TimeLimits,
  toError: () => unknown,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const wait = limits.begin(() => reject(toError()));
    answer.then(
      (value) => {
        limits.end(wait);
        resolve(value);
      },
      (error: unknown) => {
        limits.end(wait);
        reject(error);
      },
    );
  });
}

/** As {@link inTime}, for waits that have no limits in common. */
export function orTimeout<Value>(
  answer: PromiseLike<Value>,
  { runtime, ms, toError }: { readonly runtime: Runtime; readonly ms: number; readonly toError: () => Error },
): Promise<Value> {
  const limits: TimeLimits = {
    begin: (onTimeUp) => runtime.setTimeout(onTimeUp, ms),
    end: (timer) => runtime.clearTimeout(timer),
  };
  return inTime(answer, limits, toError);
}

/** Waits for work for at most `ms`, and ignores its failure. */
export async function atMost(ms: number, work: Promise<unknown>, runtime: Runtime): Promise<void> {
  await orTimeout(work, { runtime, ms, toError: () => new Error() }).catch(() => undefined);
}

/** Waits for work until the signal aborts. */
export async function orAborted(work: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return;
  let stop = () => {};
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
  });
  signal?.addEventListener('abort', stop);
  await Promise.race([work, aborted]);
  signal?.removeEventListener('abort', stop);
}
