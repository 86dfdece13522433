/**
 * Runs the worlds of many seeds: `npm run simulate`, 100,000 by default; `-- --seeds 2000 --from 1` for others, and
 * `-- --seed 7` to tell the shortest story of one.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { readCount } from '../read-count.js';
import type * as Batch from './batch.js';
import { bundle } from './bundle.js';
import { type Answer, startRunner } from './runner.js';
import { failureOf, shrink, tell } from './shrink.js';

/** Below this number of seeds, a fault that did not occur shows nothing. */
const SHOWN_FROM = 1_000;

/** Each time this number of seeds has run, which takes some minutes, a line of progress is printed. */
const PROGRESS_EVERY = 5_000;

/** While a story is made shorter, a scenario that takes longer than this never ends. */
const STORY_LIMIT_MS = 10_000;

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
  const runner = startRunner(url);
  const answer = await runner.run(batch.toScenario(seed));
  await runner.stop();
  if (!('breakdown' in answer)) console.log(`Seed ${seed}: ${answer.turns} turns, hash ${answer.hash}.`);
  const fails = failureOf(answer) !== undefined;
  console.log(fails ? await tellSeed({ seed, answer }) : 'Every promise holds.');
  return fails ? 1 : 0;
}

interface Failed {
  readonly seed: number;
  readonly answer: Answer;
}

/** The shortest story of a seed that fails, in plain words. */
async function tellSeed({ seed, answer }: Failed): Promise<string> {
  const runner = startRunner(url, { limitMs: STORY_LIMIT_MS });
  const story = await shrink(batch.toScenario(seed), answer, runner);
  await runner.stop();
  return tell(story);
}

async function runAll(): Promise<number> {
  const end = from + count;
  const startedAt = performance.now();
  const sums = { seeds: 0, turns: 0, virtualMs: 0 };
  const occurrences = new Map<string, number>();
  const failed: Failed[] = [];
  let next = from;

  async function work(): Promise<void> {
    const runner = startRunner(url);
    while (next < end && failed.length === 0) {
      const seed = next;
      next += 1;
      const answer = await runner.run(batch.toScenario(seed));
      if (failureOf(answer) !== undefined) failed.push({ seed, answer });
      if ('breakdown' in answer) break;
      sums.seeds += 1;
      sums.turns += answer.turns;
      sums.virtualMs += answer.virtualMs;
      for (const [what, times] of answer.occurrences) {
        occurrences.set(what, (occurrences.get(what) ?? 0) + times);
      }
      if (sums.seeds % PROGRESS_EVERY === 0) console.log(`${sums.seeds} of ${count} seeds`);
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
  for (const each of failed) console.log(await tellSeed(each));
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
