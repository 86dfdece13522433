import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Deadlines, type Wait } from '../../src/core/deadlines-node.js';
import { type Runtime, toRuntime } from '../../src/core/runtime.js';

const LIMIT_MS = 10;

interface FakeTimer {
  readonly at: number;
  readonly callback: () => void;
  isReferenced: boolean;
  ref(): void;
  unref(): void;
}

/** A clock that the test moves, and its timers. */
function fakeTime() {
  let now = 0;
  const timers = new Set<FakeTimer>();
  const runtime: Runtime = toRuntime({
    elapsed: () => now,
    setTimeout(callback, ms) {
      const timer: FakeTimer = {
        at: now + ms,
        callback,
        isReferenced: true,
        ref() {
          timer.isReferenced = true;
        },
        unref() {
          timer.isReferenced = false;
        },
      };
      timers.add(timer);
      return timer;
    },
    clearTimeout: (timer) => void timers.delete(timer as FakeTimer),
  });
  const advance = (ms: number) => {
    const until = now + ms;
    for (;;) {
      const [next] = [...timers].sort((a, b) => a.at - b.at);
      if (next === undefined || next.at > until) break;
      timers.delete(next);
      now = Math.max(now, next.at);
      next.callback();
    }
    now = until;
  };
  return { runtime, timers, advance };
}

/** Something with a limit of {@link LIMIT_MS} for each wait. */
interface Limits {
  begin(onTimeUp: () => void): () => void;
}

const shared = (runtime: Runtime): Limits => {
  const deadlines = new Deadlines(LIMIT_MS, runtime);
  return {
    begin(onTimeUp) {
      const wait: Wait = deadlines.begin(onTimeUp);
      return () => deadlines.end(wait);
    },
  };
};

const plain = (runtime: Runtime): Limits => ({
  begin(onTimeUp) {
    const timer = runtime.setTimeout(onTimeUp, LIMIT_MS);
    return () => runtime.clearTimeout(timer);
  },
});

const step = fc.oneof(
  fc.record({
    do: fc.constant('begin' as const),
    /** What its end starts and ends, as a handler's signal can. */
    thenBegins: fc.boolean(),
    thenEnds: fc.option(fc.nat(20), { nil: undefined }),
  }),
  fc.record({ do: fc.constant('end' as const), wait: fc.nat(20) }),
  fc.record({ do: fc.constant('advance' as const), ms: fc.nat(LIMIT_MS) }),
);

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

/** When the time of each wait was up, in order, and whether a timer kept the process alive after each step. */
function run(steps: readonly Step[], toLimits: (runtime: Runtime) => Limits) {
  const { runtime, timers, advance } = fakeTime();
  const limits = toLimits(runtime);
  const ends: (() => void)[] = [];
  const seen: string[] = [];
  const begin = (onTimeUp: () => void) => {
    const name = ends.length;
    ends.push(
      limits.begin(() => {
        seen.push(`${name} at ${runtime.elapsed()}`);
        onTimeUp();
      }),
    );
  };
  for (const each of steps) {
    if (each.do === 'advance') advance(each.ms);
    if (each.do === 'end') ends[each.wait]?.();
    if (each.do === 'begin') {
      begin(() => {
        if (each.thenBegins) begin(() => undefined);
        if (each.thenEnds !== undefined) ends[each.thenEnds]?.();
      });
    }
    seen.push([...timers].some(({ isReferenced }) => isReferenced) ? 'alive' : 'idle');
  }
  advance(100 * LIMIT_MS);
  return { seen, most: timers.size };
}

test('deadlines end waits at the same times as a timer for each, and keep the process alive as these do', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      expect(run(steps, shared).seen).toEqual(run(steps, plain).seen);
    }),
    { numRuns: 2_000 },
  );
});
