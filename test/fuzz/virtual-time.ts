/** Time that passes when nothing else can happen, so that a wait of minutes takes none. */
import type { RuntimeOptions } from 'stablehooks';

type Settled<Value> = { readonly value: Value } | { readonly error: unknown };

/** A runtime, and how to wait under it. */
export interface VirtualTime {
  readonly runtime: RuntimeOptions;
  /** Waits for a promise; `undefined` when it is still pending although no timer is left, or after an hour. */
  settle<Value>(start: () => Promise<Value>): Promise<Settled<Value> | undefined>;
}

/** Turns of the event loop in which what is pending can go on, before a timer calls. */
const TURNS = 3;

const HOUR_MS = 3_600_000;

export function createVirtualTime(): VirtualTime {
  let now = Date.UTC(2026, 6, 14);
  const timers = new Set<{ readonly at: number; readonly call: () => void }>();

  async function settle<Value>(start: () => Promise<Value>): Promise<Settled<Value> | undefined> {
    let settled: Settled<Value> | undefined;
    const limit = now + HOUR_MS;
    try {
      start().then(
        (value) => {
          settled = { value };
        },
        (error: unknown) => {
          settled = { error };
        },
      );
    } catch (error) {
      return { error };
    }
    // Most deliveries end within a few jobs of the microtask queue.
    for (let job = 0; job < 30 && settled === undefined; job += 1) await undefined;
    while (settled === undefined && now < limit) {
      for (let turn = 0; turn < TURNS && settled === undefined; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (settled !== undefined) break;
      const [next] = [...timers].sort((one, other) => one.at - other.at);
      if (next === undefined) break;
      timers.delete(next);
      now = Math.max(now, next.at);
      next.call();
    }
    return settled;
  }

  return {
    settle,
    runtime: {
      now: () => now,
      elapsed: () => now,
      random: () => 0.5,
      setTimeout(call, ms) {
        const timer = { at: now + ms, call };
        timers.add(timer);
        return timer;
      },
      clearTimeout: (timer) => void timers.delete(timer as { at: number; call: () => void }),
    },
  };
}
