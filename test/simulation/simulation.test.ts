/** The simulation replays a seed exactly, and finds bugs. `npm run simulate` looks for unknown ones. */
import { describe, expect, test } from 'vitest';
import type * as Batch from './batch.js';
import { bundle } from './bundle.js';
import { PLANTED_BUGS } from './planted-bugs.js';

const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1);

/** Within so many seeds a planted bug must be found; some minutes on a busy machine. */
const FOUND_WITHIN = 1_000;

const load = async (edits: Parameters<typeof bundle>[0] = []): Promise<typeof Batch> =>
  import(await bundle(edits));

test('the same seed replays the same trace, also beside other worlds and real timers, and another seed does not', async () => {
  const { runSeed } = await load();
  const first: string[] = [];
  for (const seed of SEEDS) first.push((await runSeed(seed)).hash);
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, 1);
  const again = await Promise.all(SEEDS.map((seed) => runSeed(seed)));
  clearInterval(timer);
  expect(ticks).toBeGreaterThan(0);
  expect(again.map(({ hash }) => hash)).toEqual(first);
  expect(new Set(first).size).toBe(SEEDS.length);
});

test('the whole trace of a seed is the same when it is replayed', async () => {
  const { runSeed } = await load();
  const [one, other] = [await runSeed(8, { keepsTrace: true }), await runSeed(8, { keepsTrace: true })];
  expect(one.trace.length).toBeGreaterThan(100);
  expect(other.trace).toEqual(one.trace);
});

describe('the simulation finds a planted bug', () => {
  test.each(PLANTED_BUGS)('$name', { timeout: 900_000 }, async ({ name, edits, breaks }) => {
    const { runSeed } = await load(edits);
    for (let seed = 1; seed <= FOUND_WITHIN; seed++) {
      const { violation } = await runSeed(seed);
      if (violation === undefined) continue;
      console.log(`Found after ${seed} seeds: ${name}. "${violation.promise}" did not hold.`);
      expect(breaks).toContain(violation.promise);
      return;
    }
    expect.fail(`Not found within ${FOUND_WITHIN} seeds.`);
  });
});

test('the story of a failing seed is short, names the broken promise and the event, and how to replay it', async () => {
  const [bug] = PLANTED_BUGS;
  const { runSeed, tellSeed } = await load(bug?.edits);
  const seed = await firstFailing(runSeed);
  const story = await tellSeed(seed);
  console.log(story);
  expect(story).toContain(`Seed ${seed}: "${bug?.breaks[0]}" does not hold.`);
  expect(story).toMatch(/asks the inbox: claim \(evt_\w+\)\n/);
  expect(story).toContain(`npm run simulate -- --seed ${seed}`);
  expect(story.split('\n').filter((line) => line.startsWith('event '))).toHaveLength(1);
});

async function firstFailing(runSeed: typeof Batch.runSeed): Promise<number> {
  for (const seed of SEEDS) if ((await runSeed(seed)).violation !== undefined) return seed;
  throw new Error('No seed fails.');
}
