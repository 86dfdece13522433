/** Runs worlds one after the other. It is bundled with the sources, and its module is also the worker of `run.ts`. */
import { parentPort, threadId, workerData } from 'node:worker_threads';
import Database from 'libsql';
import { FAULT_NAMES, type Scenario, toScenario } from './scenario.js';
import { shrink, tell } from './shrink.js';
import { type Result, simulate } from './simulate.js';

export { PRECONDITIONS } from './promises.js';
export { FAULT_NAMES };

/** The `workerData` of a worker that runs ranges. */
export const BATCH_WORKER = 'simulation';

type Options = { readonly keepsTrace?: boolean };

function runScenario(scenario: Scenario, options: Options = {}): Promise<Result> {
  return simulate(scenario, { openDatabase: () => new Database(':memory:'), ...options });
}

/** Runs the scenario of a seed. */
export function runSeed(seed: number, options?: Options): Promise<Result> {
  return runScenario(toScenario(seed), options);
}

/** The shortest story of a seed that violates a promise, in plain words. */
export async function tellSeed(seed: number): Promise<string> {
  return tell(await shrink(toScenario(seed), runScenario));
}

/** What a worker is asked to run. */
export interface Range {
  readonly from: number;
  readonly until: number;
}

/** What a worker answers for a range. */
export interface RangeResult {
  readonly worker: number;
  readonly seeds: number;
  readonly turns: number;
  readonly virtualMs: number;
  readonly occurrences: ReadonlyMap<string, number>;
  /** The first seed that violates a promise. */
  readonly failed: number | undefined;
}

async function runRange({ from, until }: Range): Promise<RangeResult> {
  const occurrences = new Map<string, number>();
  const sums = { seeds: 0, turns: 0, virtualMs: 0 };
  for (let seed = from; seed < until; seed++) {
    const result = await runSeed(seed);
    sums.seeds += 1;
    sums.turns += result.turns;
    sums.virtualMs += result.virtualMs;
    for (const [what, count] of result.occurrences)
      occurrences.set(what, (occurrences.get(what) ?? 0) + count);
    if (result.violation !== undefined) return { worker: threadId, ...sums, occurrences, failed: seed };
  }
  return { worker: threadId, ...sums, occurrences, failed: undefined };
}

if (workerData === BATCH_WORKER) {
  parentPort?.on('message', async (range: Range) => {
    parentPort?.postMessage(await runRange(range));
  });
}
