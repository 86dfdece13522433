/** Runs worlds. It is bundled with the sources, and its module is also the thread of `seed-runner.ts`. */
import { parentPort, workerData } from 'node:worker_threads';
import Database from 'libsql';
import { FAULT_NAMES, type Scenario, toScenario } from './scenario.js';
import { shrink, tell } from './shrink.js';
import { type Result, simulate } from './simulate.js';

export { PRECONDITIONS } from './promises.js';
export type { Result as SeedResult };
export { FAULT_NAMES, toScenario };

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

if (workerData === 'runs seeds') {
  // What it rejects with ends the thread, which tells the seed.
  parentPort?.on('message', async (seed: number) => parentPort?.postMessage(await runSeed(seed)));
}
