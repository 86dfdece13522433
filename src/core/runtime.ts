/** The platform's time, timers and randomness, and their replacements. */
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
  /** Calls `callback` once after `ms`, and returns a timer. @default setTimeout, with a maximum of 24 days */
  setTimeout(callback: () => void, ms: number): unknown;
  /** Cancels a timer, which may already have fired. @default clearTimeout */
  clearTimeout(timer: unknown): void;
}

/** The longest time of a platform timer: a signed 32-bit number of ms. A longer timer would call back immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The parts of a {@link Runtime} to replace. The platform provides the rest. */
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

/** Returns a runtime that measures elapsed time with a given `now`, unless `elapsed` is given as well. */
export function toStoreRuntime(given: RuntimeOptions = {}): Runtime {
  const runtime = toRuntime(given);
  return given.now && !given.elapsed ? { ...runtime, elapsed: runtime.now } : runtime;
}

/** How far a clock must jump before leases move with it, in ms. */
const JUMP_MS = 1_000;

/** Returns a function that reads the clock. After a jump, it calls `shift` first, so that leases keep their duration. */
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

/** Runs work outside of any request, in the async context in which this module was loaded. */
export const outsideRequests = snapshot();

function snapshot(): <Result>(run: () => Result) => Result {
  const { AsyncLocalStorage, process }: typeof globalThis & AsyncContext = globalThis;
  // Next's Edge runtime has the class as a global, and throws if a Node module is requested.
  const storage = AsyncLocalStorage ?? process?.getBuiltinModule?.('node:async_hooks')?.AsyncLocalStorage;
  return storage?.snapshot?.() ?? ((run) => run());
}

export interface Moment {
  readonly elapsed: number;
  readonly now: number;
}

/** Returns how long ago a moment was, in ms. `elapsed` stops while a machine is suspended, and `now` may be set back. */
export function msSince(moment: Moment, { elapsed, now }: Pick<Runtime, 'elapsed' | 'now'>): number {
  return Math.max(elapsed() - moment.elapsed, now() - moment.now);
}

export function setBackgroundTimeout(runtime: Runtime, callback: () => void, ms: number): unknown {
  const timer = runtime.setTimeout(callback, ms);
  // Outside Node, a timer is a number and does not keep a process alive.
  (timer as { readonly unref?: () => void } | undefined)?.unref?.();
  return timer;
}

/** Yields to the event loop. */
export function nextTurn(runtime: Pick<Runtime, 'setTimeout'> = PLATFORM): Promise<void> {
  return new Promise((resolve) => runtime.setTimeout(resolve, 0));
}

/** Waits for work for at most `ms`. After that, it settles like `onTimeUp`, and ignores the result of the work. */
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

/** Waits for work until the signal aborts. */
export async function orAborted(work: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) return;
  const aborted = deferred();
  signal?.addEventListener('abort', aborted.resolve);
  await Promise.race([work, aborted.promise]);
  signal?.removeEventListener('abort', aborted.resolve);
}
