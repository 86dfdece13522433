/** How much is still under way, and the moment when nothing is. */

export interface OutcomeCounts {
  readonly count: number;
  begin(): void;
  end(): void;
  /** Resolves when nothing is under way, at once if that is so already. */
  whenNone(): Promise<void>;
  /** Forgets what was under way. */
  clear(): void;
}

export function createTally(): OutcomeCounts {
  let count = 0;
  let waiting: (() => void)[] = [];
  const settle = () => {
    if (count > 0) return;
    for (const resolve of waiting) resolve();
    waiting = [];
  };
  return {
    get count() {
      return count;
    },
    begin: () => {
      count += 1;
    },
    end: () => {
      count -= 1;
      settle();
    },
    whenNone: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        settle();
      }),
    clear: () => {
      count = 0;
      settle();
    },
  };
}
