/** Runs worlds. It is bundled with the sources, and its module is also the thread of `runner.ts`. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import Database from 'libsql';
import type { Answer, Task } from './runner.js';
import { FAULT_NAMES, type Scenario, toScenario } from './scenario.js';
import { type Result, simulate } from './simulate.js';
import { type TraceLine, toText } from './world.js';

export { PRECONDITIONS } from './promises.js';
export { FAULT_NAMES, toScenario };

export function runSeed(seed: number, trace?: TraceLine[]): Promise<Result> {
  return runScenario(toScenario(seed), trace);
}

function runScenario(scenario: Scenario, trace?: TraceLine[]): Promise<Result> {
  return simulate(scenario, { openDatabase: () => new Database(':memory:'), trace });
}

function runTasks(port: MessagePort): void {
  let trace: TraceLine[] = [];
  const answer = (result: Answer) => port.postMessage(result);
  port.on('message', async ({ scenario, keepsTrace }: Task) => {
    trace = [];
    answer({ ...(await runScenario(scenario, keepsTrace ? trace : undefined)), trace });
  });
  // Also for a rejection that nothing handles, and that of a run.
  process.on('uncaughtException', (error) =>
    answer({ breakdown: 'an error that nothing catches', details: toText(error), trace }),
  );
}

if (workerData === 'runs scenarios' && parentPort !== null) runTasks(parentPort);
