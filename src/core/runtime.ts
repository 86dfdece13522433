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

/** The rule of the option `runtime`. */
export const RUNTIME: OptionRule<RuntimeOptions> = {
  expected: `an object with some of the functions ${PARTS.join(', ')}`,
  accepts: (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.keys(value).every((name) => PARTS.includes(name as keyof Runtime)) &&
    PARTS.every((name) => ['function', 'undefined'].includes(typeof (value as RuntimeOptions)[name])),
  default: {},
};

/** The given parts, and the platform's parts in place of missing ones. */
export function toRuntime(given: RuntimeOptions = {}): Runtime {
  const parts = PARTS.map((name) => [name, given[name]?.bind(given) ?? PLATFORM[name]]);
  return Object.fromEntries(parts);
}

/** Calls back after `ms`, without keeping the process alive. */
export function setBackgroundTimeout(runtime: Runtime, callback: () => void, ms: number): unknown {
  const timer = runtime.setTimeout(callback, ms);
  // Outside Node a timer is a number and keeps no process alive.
  (timer as { readonly unref?: () => void } | undefined)?.unref?.();
  return timer;
}

/** Waits for an answer for `ms`, then rejects with the error and ignores a late answer. */
export function orTimeout<Value>(
  answer: PromiseLike<Value>,
  { runtime, ms, toError }: { readonly runtime: Runtime; readonly ms: number; readonly toError: () => Error },
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = runtime.setTimeout(() => reject(toError()), ms);
    answer.then(
      (value) => {
        runtime.clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        runtime.clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Waits for work for at most `ms`, and ignores its failure. */
export function atMost(ms: number, work: Promise<unknown>, runtime: Runtime): Promise<void> {
  return new Promise((resolve) => {
    const timer = runtime.setTimeout(resolve, ms);
    const end = () => {
      runtime.clearTimeout(timer);
      resolve();
    };
    work.then(end, end);
  });
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
