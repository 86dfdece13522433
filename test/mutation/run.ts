/**
 * `npm run mutation`: runs every mutant of every file, and records how they ended. `-- --group core` runs one group,
 * `-- --file src/core/events.ts` one file; `-- --missing` leaves out what is recorded for the sources and tests
 * of today. `-- --survivors` runs only the recorded survivors again, after tests were added: what was killed before is
 * taken as still killed.
 */
import { parseArgs } from 'node:util';
import { type Group, groups } from './groups.js';
import { blobOf, hashOf, holds, readResults, record, recordAgain, toTable } from './record.js';
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

const asked = groups
  .filter(({ name }) => (values.group ?? name) === name)
  .map((group) => ({ group, paths: group.sources.filter((path) => (values.file ?? path) === path) }))
  .filter(({ paths }) => paths.length > 0);
if (asked.length === 0) {
  throw new Error(`No group has this file. The groups are ${groups.map(({ name }) => name).join(', ')}.`);
}
const chosen = asked.map(({ group, paths }) => ({
  group,
  paths: values.missing ? paths.filter((path) => !isShown(group, path)) : paths,
}));

function isShown({ name, tests }: Group, path: string): boolean {
  return holds(readResults()[name]?.[path], path, hashOf(tests));
}

/** The survivors of a file that has not changed since, as Stryker selects them. */
function survivorsOf({ name }: Group, path: string): readonly string[] {
  const known = readResults()[name]?.[path];
  if (known?.source !== blobOf(path)) return [];
  return known.survivors.flatMap(({ range }) => (range === undefined ? [] : [`${path}:${range}`]));
}

for (const { group, paths } of chosen) {
  if (paths.length === 0) continue;
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
