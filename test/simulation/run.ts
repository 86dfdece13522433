/**
 * Runs the worlds of many seeds: `npm run simulate`, 100,000 by default; `-- --seeds 2000 --from 1` for others, and
 * `-- --seed 7` to tell the shortest story of one.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { readCount } from '../read-count.js';
import type * as Batch from './batch.js';
import { bundle } from './bundle.js';
import { startSeedRunner } from './seed-runner.js';

/** Below this number of seeds, a fault that did not occur shows nothing. */
const SHOWN_FROM = 1_000;

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
  const runner = startSeedRunner(url);
  const result = await runner.run(seed);
  await runner.stop();
  if ('breakdown' in result) {
    console.log(tellBreakdown(seed, result.breakdown));
    return 1;
  }
  console.log(`Seed ${seed}: ${result.turns} turns, hash ${result.hash}.`);
  console.log(result.violation === undefined ? 'Every promise holds.' : await batch.tellSeed(seed));
  return result.violation === undefined ? 0 : 1;
}

function tellBreakdown(seed: number, breakdown: string): string {
  return `Seed ${seed} has no result. ${breakdown}\nReplay it: npm run simulate -- --seed ${seed}`;
}

async function runAll(): Promise<number> {
  const end = from + count;
  const startedAt = performance.now();
  const sums = { seeds: 0, turns: 0, virtualMs: 0 };
  const occurrences = new Map<string, number>();
  const stories: (() => string | Promise<string>)[] = [];
  let next = from;

  async function work(): Promise<void> {
    const runner = startSeedRunner(url);
    while (next < end && stories.length === 0) {
      const seed = next;
      next += 1;
      const result = await runner.run(seed);
      if ('breakdown' in result) {
        stories.push(() => tellBreakdown(seed, result.breakdown));
        break;
      }
      sums.seeds += 1;
      sums.turns += result.turns;
      sums.virtualMs += result.virtualMs;
      for (const [what, times] of result.occurrences) {
        occurrences.set(what, (occurrences.get(what) ?? 0) + times);
      }
      if (result.violation !== undefined) stories.push(() => batch.tellSeed(seed));
    }
    await runner.stop();
  }

  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `${sums.seeds} seeds in ${seconds.toFixed(0)} s: ${sums.turns} turns, ${(sums.virtualMs / 3_600_000).toFixed(0)} hours of simulated time, ${occurrences.get('crash') ?? 0} crashes.`,
  );
  print('Faults', batch.FAULT_NAMES);
  print('What the promises were tested with', batch.PRECONDITIONS);
  for (const story of stories) console.log(await story());
  const missing = [...batch.FAULT_NAMES, ...batch.PRECONDITIONS].filter((name) => !occurrences.has(name));
  if (sums.seeds >= SHOWN_FROM && missing.length > 0) {
    console.error(`Not shown, because it never occurred: ${missing.join(', ')}.`);
    return 1;
  }
  return stories.length > 0 ? 1 : 0;

  function print(title: string, names: readonly string[]): void {
    console.log(`\n${title}`);
    for (const name of names) console.log(`${String(occurrences.get(name) ?? 0).padStart(10)}  ${name}`);
  }
}
