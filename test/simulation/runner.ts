/** Runs scenarios in a thread. A scenario that throws or never ends has a result as well. */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Scenario } from './scenario.js';
import type { Result } from './simulate.js';
import { type TraceLine, toText } from './world.js';

/** The time limit of a scenario in ms. A normal scenario takes a few ms. */
const LIMIT_MS = 120_000;

export interface Task {
  readonly scenario: Scenario;
  readonly keepsTrace: boolean;
}

/** Why a scenario has no result. */
export interface Breakdown {
  readonly breakdown: 'an error that nothing catches' | 'an end of its thread' | 'a run that never ends';
  readonly details: string;
}

/** The trace is empty unless it was asked for, and after a breakdown without an error. */
export type Answer = (Result | Breakdown) & { readonly trace: readonly TraceLine[] };

export interface Runner {
  /** Runs one scenario at a time. It never rejects. */
  run(scenario: Scenario, options?: { readonly keepsTrace?: boolean }): Promise<Answer>;
  /** Ends the thread, whatever it does. */
  stop(): Promise<unknown>;
}

/** @param url - that of the bundle. */
export function startRunner(url: string, { limitMs = LIMIT_MS } = {}): Runner {
  let worker: Worker | undefined;

  async function stop(): Promise<void> {
    const ended = worker;
    worker = undefined;
    await ended?.terminate();
  }

  return {
    async run(scenario, { keepsTrace = false } = {}) {
      // Without the environment of this process, which must not decide anything.
      worker ??= new Worker(new URL(url), { execArgv: [], env: {}, workerData: 'runs scenarios' });
      worker.postMessage({ scenario, keepsTrace } satisfies Task);
      const answer = await nextAnswer(worker, limitMs);
      // Nothing is known of a thread after a breakdown: the next scenario gets another one.
      if ('breakdown' in answer) await stop();
      return answer;
    },
    stop,
  };
}

async function nextAnswer(worker: Worker, limitMs: number): Promise<Answer> {
  const waiting = new AbortController();
  const { signal } = waiting;
  const trace: Answer['trace'] = [];
  const tooLong: Answer = {
    breakdown: 'a run that never ends',
    details: `It takes more than ${limitMs} ms.`,
    trace,
  };
  try {
    return await Promise.race([
      once(worker, 'message', { signal }).then(([answer]: Answer[]) => answer as Answer),
      once(worker, 'exit', { signal }).then(
        ([code]): Answer => ({
          breakdown: 'an end of its thread',
          details: `The exit code is ${code}.`,
          trace,
        }),
      ),
      pause(limitMs, tooLong, { signal }),
    ]);
  } catch (error) {
    return { breakdown: 'an error that nothing catches', details: toText(error), trace };
  } finally {
    waiting.abort();
  }
}
