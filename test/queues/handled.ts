import type { Outcome } from 'stablehooks';

export interface HandledOutcomes {
  readonly onOutcome: (outcome: Outcome) => void;
  /** Resolves with the outcomes of kind `handled` when there are `count` of them. */
  readonly all: Promise<readonly Outcome[]>;
}

export function awaitHandled(count: number): HandledOutcomes {
  const outcomes: Outcome[] = [];
  let resolve: (outcomes: readonly Outcome[]) => void;
  const all = new Promise<readonly Outcome[]>((settle) => {
    resolve = settle;
  });
  return {
    onOutcome(outcome) {
      if (outcome.kind !== 'handled') return;
      outcomes.push(outcome);
      if (outcomes.length === count) resolve(outcomes);
    },
    all,
  };
}
