/** Runs worlds one after the other. It is bundled with the sources, and run in worker threads. */
import Database from 'libsql';
import type { Scenario } from './scenario.js';
import { toScenario } from './scenario.js';
import { type Result, simulate } from './simulate.js';

export { toScenario } from './scenario.js';
export type { Result } from './simulate.js';

/** Runs one scenario. */
export function runScenario(scenario: Scenario, options: { readonly keepsTrace?: boolean } = {}): Promise<Result> {
  return simulate(scenario, { openDatabase: () => new Database(':memory:'), ...options });
}

/** Runs the scenario of a seed. */
export function runSeed(seed: number, options: { readonly keepsTrace?: boolean } = {}): Promise<Result> {
  return runScenario(toScenario(seed), options);
}
