import { deferred } from './awaitable.js';
import type { OptionRule } from './options.js';

/** Time, timers and randomness. Tests can replace any of them. */
export interface Runtime {
  /** Returns the current time, in epoch ms. @default Date.now */
  now(): number;
  /** Returns the time since an arbitrary moment, in ms, from a monotonic clock. @default performance.now */
  elapsed(): number;
  /** Returns a random number from 0 (inclusive) to 1 (exclusive). @default Math.random */
  random(): number;
  /** Returns a unique id. @default crypto.randomUUID */
  uuid(): string;
  /** Calls `callback` once after `ms`, and returns the timer. @default setTimeout, with a maximum of 24 days */
  setTimeout(callback: () => void, ms: number): unknown;
  /** Cancels a timer. If the timer has already fired, this does nothing. @default clearTimeout */
  clearTimeout(timer: unknown): void;
}

/** In ms. A longer timer would fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Replacements for parts of a {@link Runtime}. The platform provides all other parts. */
export type RuntimeOptions = { readonly [Part in keyof Runtime]?: Runtime[Part] | undefined };

// Each call looks up the global function, so a test can replace it later.
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
  expected: `an object with any of the functions ${PARTS.join(', ')}`,
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

/** If `now` is replaced but `elapsed` isn't, `now` also measures elapsed time. */
export function toStoreRuntime(given: RuntimeOptions = {}): Runtime {
  const runtime = toRuntime(given);
  return given.now && !given.elapsed ? { ...runtime, elapsed: runtime.now } : runtime;
}

/** In ms. Smaller jumps of the clock don't shift leases. */
const JUMP_MS = 1_000;

/** Calls `shift` after the clock has jumped, so that leases keep their duration. */
export function watchClock(
  { now, elapsed }: Pick<Runtime, 'now' | 'elapsed'>,
  shift: (ms: number) => void,
): () => number {
  let ahead = now() - elapsed();
  return () => {
    const at = now();
    const jump = at - elapsed() - ahead;
    if (Math.abs(jump) > JUMP_MS) {
      ahead += jump;
      shift(jump);
    }
    return at;
  };
}

interface AsyncContext {
  readonly AsyncLocalStorage?: { snapshot(): <Result>(run: () => Result) => Result };
}

/** Runs work in the async context in which this module was loaded. */
export const outsideRequests = snapshot();

function snapshot(): <Result>(run: () => Result) => Result {
  const { AsyncLocalStorage, process }: typeof globalThis & AsyncContext = globalThis;
  // Next's Edge runtime has `AsyncLocalStorage` as a global, and throws if code requests a Node module.
  const storage = AsyncLocalStorage ?? process?.getBuiltinModule?.('node:async_hooks')?.AsyncLocalStorage;
  return storage?.snapshot?.() ?? ((run) => run());
}

export interface Moment {
  readonly elapsed: number;
  readonly now: number;
}

/** The longer of two measurements, because `elapsed` stops while a machine is suspended, and `now` can be set back. */
export function msSince(moment: Moment, { elapsed, now }: Pick<Runtime, 'elapsed' | 'now'>): number {
  return Math.max(elapsed() - moment.elapsed, now() - moment.now);
}

export function setBackgroundTimeout(runtime: Runtime, callback: () => void, ms: number): unknown {
  const timer = runtime.setTimeout(callback, ms);
  // Outside Node, a timer is a number, and it does not keep a process alive.
  (timer as { readonly unref?: () => void } | undefined)?.unref?.();
  return timer;
}

export function nextTurn(runtime: Pick<Runtime, 'setTimeout'> = PLATFORM): Promise<void> {
  return new Promise((resolve) => runtime.setTimeout(resolve, 0));
}

/** If time runs out first, settles in the same way as `onTimeUp` and ignores the result of `work`. */
export function timeLimit<Value, Late = never>(
  work: PromiseLike<Value>,
  ms: number,
  onTimeUp: () => Late,
  runtime: Pick<Runtime, 'setTimeout' | 'clearTimeout'>,
): Promise<Value | Late> {
  return new Promise((resolve, reject) => {
    const timer = runtime.setTimeout(() => resolve(Promise.resolve().then(onTimeUp)), ms);
    const end = () => runtime.clearTimeout(timer);
    work.then(
      (value) => {
        end();
        resolve(value);
      },
      (error) => {
        end();
        reject(error);
      },
    );
  });
}

export async function orAborted(work: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return;
  const aborted = deferred();
  signal?.addEventListener('abort', aborted.resolve);
  await Promise.race([work, aborted.promise]);
  signal?.removeEventListener('abort', aborted.resolve);
}
