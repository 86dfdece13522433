/** The simulation replays a seed exactly, and finds bugs. `npm run simulate` looks for unknown ones. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import type * as Batch from './batch.js';
import { bundle } from './bundle.js';
import { PLANTED_BUGS } from './planted-bugs.js';
import { PROMISES } from './promise-list.js';
import { startRunner } from './runner.js';
import { shrink, tell } from './shrink.js';
import type { TraceLine } from './world.js';

const SEEDS = Array.from({ length: 40 }, (_, index) => index + 1);

/** Within so many seeds a planted bug must be found; some minutes on a busy machine. */
const FOUND_WITHIN = 1_000;

const load = async (edit?: Parameters<typeof bundle>[0]): Promise<typeof Batch> => import(await bundle(edit));

test('a seed replays the same trace: beside other worlds and real timers, and in a thread after other seeds', async () => {
  const { runSeed, toScenario } = await load();
  const first: string[] = [];
  for (const seed of SEEDS) first.push((await runSeed(seed)).hash);
  expect(new Set(first).size).toBe(SEEDS.length);

  const timer = setInterval(() => undefined, 1);
  const again = await Promise.all(SEEDS.map((seed) => runSeed(seed)));
  clearInterval(timer);
  expect(again.map(({ hash }) => hash)).toEqual(first);

  const runner = startRunner(await bundle());
  const there: string[] = [];
  for (const seed of SEEDS.toReversed()) {
    const answer = await runner.run(toScenario(seed));
    there.unshift('breakdown' in answer ? answer.breakdown : answer.hash);
  }
  await runner.stop();
  expect(there).toEqual(first);

  const [one, other]: TraceLine[][] = [[], []];
  for (const trace of [one, other]) await runSeed(8, trace);
  expect(one?.length).toBeGreaterThan(100);
  expect(other).toEqual(one);
});

describe('a seed without a result is a failure that is told with its reason and its smallest scenario:', () => {
  const RECEIVER = 'src/receiver/receiver.ts';
  const CLOSE = 'const { leaseMs, runtime, use, inbox } = settings;\n';

  test.each([
    {
      what: 'a rejection that nothing handles',
      code: "void Promise.reject(new Error('Planted.'));",
      told: /an error that nothing catches\. Error: Planted\..* s {2}service +all faults end\nReplay it/s,
    },
    {
      what: 'a thread that ends',
      code: 'process.exit(7);',
      told: /an end of its thread\. The exit code is 7\./,
    },
    {
      what: 'a loop that never ends',
      code: 'for (;;);',
      limitMs: 1_000,
      told: /a run that never ends\. It takes more than 1000 ms\./,
    },
  ])('$what', async ({ code, limitMs, told }) => {
    const url = await bundle({ file: RECEIVER, find: CLOSE, replace: CLOSE + code });
    const { toScenario } = await load();
    const runner = startRunner(url, { limitMs });
    // A thread that is ended within native code, such as that of SQLite, ends the process.
    const scenario = { ...toScenario(1), inbox: 'memory', events: toScenario(1).events.slice(0, 2) } as const;
    const story = tell(await shrink(scenario, await runner.run(scenario), runner));
    await runner.stop();
    expect(story).toMatch(told);
    expect(eventsOf(story)).toHaveLength(1);
  });
});

test('every promise is broken by a planted bug', () => {
  const broken = new Set<string>(PLANTED_BUGS.flatMap(({ breaks }) => breaks));
  expect(PROMISES.filter((promise) => !broken.has(promise))).toEqual([]);
});

test('each bug can be planted', async () => {
  for (const { file, find } of PLANTED_BUGS) {
    expect(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')).toContain(find);
  }
});

describe('the simulation finds a planted bug, and that it breaks each of its promises', () => {
  let toScenario: typeof Batch.toScenario;
  beforeAll(async () => {
    ({ toScenario } = await load());
  });

  // Each runs in its own thread, to use all processors.
  test.concurrent.each(PLANTED_BUGS.filter((_, index) => index % atNight(1, 5) === 0))(
    '$name',
    { timeout: 900_000 },
    async ({ breaks, ...bug }) => {
      const runner = startRunner(await bundle(bug));
      const missing = new Set(breaks);
      try {
        for (let seed = 1; missing.size > 0 && seed <= FOUND_WITHIN; seed++) {
          const answer = await runner.run(toScenario(seed));
          if ('breakdown' in answer) expect.fail(`Seed ${seed}: ${answer.breakdown}. ${answer.details}`);
          if (answer.violation === undefined) continue;
          const { promise } = answer.violation;
          expect(breaks).toContain(promise);
          if (!missing.delete(promise)) continue;
          console.log(`Found after ${seed} seeds: ${bug.name}. "${promise}" did not hold.`);
        }
      } finally {
        await runner.stop();
      }
      expect([...missing], `not found within ${FOUND_WITHIN} seeds`).toEqual([]);
    },
  );
});

test('a seed that took too long is named with its reason, even if it does not fail again', async () => {
  const { toScenario } = await load();
  const runner = startRunner(await bundle());
  const { events, hosts, ...rest } = toScenario(1);
  const scenario = { ...rest, faults: {}, events: events.slice(0, 1), hosts: hosts.slice(0, 1) };
  const first = {
    breakdown: 'a run that never ends',
    details: 'It takes more than 120000 ms.',
    trace: [],
  } as const;
  const story = tell(await shrink(scenario, first, runner));
  await runner.stop();
  expect(story).toContain('Seed 1: no result, but a run that never ends. It takes more than 120000 ms.');
});

test('the story of a failing seed is short, names the broken promise and the event, and how to replay it', async () => {
  const [bug] = PLANTED_BUGS;
  const { runSeed, toScenario } = await load(bug);
  const seed = await firstFailing(runSeed);
  const runner = startRunner(await bundle(bug));
  const scenario = toScenario(seed);
  const story = tell(await shrink(scenario, await runner.run(scenario), runner));
  await runner.stop();
  console.log(story);
  expect(story).toContain(`Seed ${seed}: "${bug?.breaks[0]}" does not hold.`);
  expect(story).toMatch(/takes effect: claim -> claimed \(evt_\w+\)\n/);
  expect(story).toContain(`npm run simulate -- --seed ${seed}`);
  expect(eventsOf(story)).toHaveLength(1);
});

const eventsOf = (story: string) => story.split('\n').filter((line) => line.startsWith('event '));

async function firstFailing(runSeed: typeof Batch.runSeed): Promise<number> {
  for (const seed of SEEDS) if ((await runSeed(seed)).violation !== undefined) return seed;
  throw new Error('No seed fails.');
}
