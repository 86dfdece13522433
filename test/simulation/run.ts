/**
 * Runs the worlds of many seeds: `npm run simulate`, 100,000 by default; `-- --seeds 2000 --from 1` for others, and
 * `-- --seed 7` to tell the shortest story of one.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { readCount } from '../read-count.js';
import type * as Batch from './batch.js';
import { bundle } from './bundle.js';

/** Below this number of seeds, a fault that did not occur shows nothing. */
const SHOWN_FROM = 1_000;

/** How many seeds a worker gets at a time. */
const RANGE = 25;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
  },
});
const count = readCount('--seeds', values.seeds);
const from = readCount('--from', values.from, { min: 0 });
const only = readCount('--seed', values.seed, { min: 0 });
const url = await bundle();
const batch: typeof Batch = await import(url);
process.exitCode = only === undefined ? await runAll() : await runOne(only);

async function runOne(seed: number): Promise<number> {
  const { violation, hash, turns } = await batch.runSeed(seed);
  console.log(`Seed ${seed}: ${turns} turns, hash ${hash}.`);
  if (violation === undefined) {
    console.log('Every promise holds.');
    return 0;
  }
  console.log(await batch.tellSeed(seed));
  return 1;
}

async function runAll(): Promise<number> {
  const end = from + count;
  const startedAt = performance.now();
  const sums = { seeds: 0, turns: 0, virtualMs: 0 };
  const occurrences = new Map<string, number>();
  const failed: number[] = [];
  let next = from;

  function work(): Promise<void> {
    const worker = new Worker(new URL(url), { execArgv: [], workerData: batch.BATCH_WORKER });
    return new Promise((resolve, reject) => {
      const ask = () => {
        if (next >= end || failed.length > 0) {
          resolve();
          void worker.terminate();
          return;
        }
        const range: Batch.Range = { from: next, until: Math.min(next + RANGE, end) };
        next = range.until;
        worker.postMessage(range);
      };
      worker.on('error', reject);
      worker.on('message', (result: Batch.RangeResult) => {
        sums.seeds += result.seeds;
        sums.turns += result.turns;
        sums.virtualMs += result.virtualMs;
        for (const [what, count] of result.occurrences) {
          occurrences.set(what, (occurrences.get(what) ?? 0) + count);
        }
        if (result.failed !== undefined) failed.push(result.failed);
        ask();
      });
      ask();
    });
  }

  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `${sums.seeds} seeds in ${seconds.toFixed(0)} s: ${sums.turns} turns, ${(sums.virtualMs / 3_600_000).toFixed(0)} hours of simulated time, ${occurrences.get('crash') ?? 0} crashes.`,
  );
  print('Faults', batch.FAULT_NAMES);
  print('What the promises were tested with', batch.PRECONDITIONS);
  for (const seed of failed) console.log(await batch.tellSeed(seed));
  const missing = [...batch.FAULT_NAMES, ...batch.PRECONDITIONS].filter((name) => !occurrences.has(name));
  if (sums.seeds >= SHOWN_FROM && missing.length > 0) {
    console.error(`Not shown, because it never occurred: ${missing.join(', ')}.`);
    return 1;
  }
  return failed.length > 0 ? 1 : 0;

  function print(title: string, names: readonly string[]): void {
    console.log(`\n${title}`);
    for (const name of names) console.log(`${String(occurrences.get(name) ?? 0).padStart(10)}  ${name}`);
  }
}
