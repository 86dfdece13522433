/**
 * `npm run mutation`: runs every mutant of every file, and records how they ended. `-- --group core` runs one group,
 * `-- --file src/core/events.ts` one file; `-- --missing` leaves out what is recorded for the sources and tests
 * of today. `-- --survivors` runs only the recorded survivors again, after tests were added: what was killed before is
 * taken as still killed.
 */
import { parseArgs } from 'node:util';
import { type Group, groups } from './groups.js';
import { blobOf, hashOf, readResults, record, recordAgain, toTable } from './record.js';
import { runStryker } from './stryker.js';
import { runTextMutants } from './text-mutants.js';

const { values } = parseArgs({
  options: {
    group: { type: 'string' },
    file: { type: 'string' },
    missing: { type: 'boolean' },
    survivors: { type: 'boolean' },
  },
});

const chosen = groups
  .filter(({ name }) => (values.group ?? name) === name)
  .map((group) => ({
    group,
    paths: group.sources.filter(
      (path) => (values.file ?? path) === path && !(values.missing && holds(group, path)),
    ),
  }))
  .filter(({ paths }) => paths.length > 0);

/** Whether the recorded result is that of the sources and tests of today. */
function holds({ name, tests }: Group, path: string): boolean {
  const known = readResults()[name]?.[path];
  return known?.source === blobOf(path) && known.tests === hashOf(tests);
}

/** The survivors of a file that has not changed since, as Stryker selects them. */
function survivorsOf({ name }: Group, path: string): readonly string[] {
  const known = readResults()[name]?.[path];
  if (known?.source !== blobOf(path)) return [];
  return known.survivors.flatMap(({ range }) => (range === undefined ? [] : [`${path}:${range}`]));
}

for (const { group, paths } of chosen) {
  if (values.survivors) {
    const again = [...new Set(paths.flatMap((path) => survivorsOf(group, path)))];
    if (again.length > 0) recordAgain(group, await runStryker(group, again));
    continue;
  }
  const startedAt = performance.now();
  const ended =
    group.kind === 'code'
      ? await runStryker(group, paths)
      : new Map(
          await Promise.all(paths.map(async (path) => [path, await runTextMutants(group, path)] as const)),
        );
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  record(group, { ended, seconds });
  console.log(`${group.name}: ${seconds} s`);
}
console.log(toTable(readResults()));
