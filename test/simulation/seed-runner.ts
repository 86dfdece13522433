/** Runs seeds in a thread of its own, so that one that throws, or never ends, is named. */
import { Worker } from 'node:worker_threads';
import type * as Batch from './batch.js';
import { toText } from './world.js';

/** A seed takes some ms. One that takes longer than this never ends. */
const LIMIT_MS = 120_000;

/** Why a seed has no result. Its thread runs no other. */
export interface Breakdown {
  readonly breakdown: string;
}

export interface SeedRunner {
  /** Runs one seed at a time. It never rejects. */
  run(seed: number): Promise<Batch.SeedResult | Breakdown>;
  /** Ends the thread, whatever it does. */
  stop(): Promise<unknown>;
}

/** @param url - that of the bundle. */
export function startSeedRunner(url: string, { limitMs = LIMIT_MS } = {}): SeedRunner {
  // Without the environment of this process, which must not decide anything.
  const worker = new Worker(new URL(url), { execArgv: [], env: {}, workerData: 'runs seeds' });
  let end: (result: Batch.SeedResult | Breakdown) => void = () => undefined;
  let broken: Breakdown | undefined;

  function fail(breakdown: string): void {
    broken = { breakdown };
    end(broken);
  }

  worker.on('message', (result: Batch.SeedResult) => end(result));
  // An exception, or a rejection that nothing handles.
  worker.on('error', (error) => fail(toText(error)));
  worker.on('exit', () => fail('It ended its thread.'));

  return {
    run: (seed) =>
      new Promise((resolve) => {
        const limit = setTimeout(() => fail(`It takes more than ${limitMs} ms.`), limitMs);
        end = (result) => {
          clearTimeout(limit);
          resolve(result);
        };
        if (broken === undefined) worker.postMessage(seed);
        else end(broken);
      }),
    stop: () => worker.terminate(),
  };
}
