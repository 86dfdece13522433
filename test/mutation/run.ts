/**
 * `npm run mutation`: runs every mutant of every file, and records how they ended. `-- --group core` runs one group,
 * `-- --file src/core/events.ts` one file; `-- --missing` leaves out what is recorded for the sources and tests
 * of today. `-- --survivors` runs only the recorded survivors again, after tests were added: it prints those that tests
 * still do not notice, and records nothing.
 */
import { parseArgs } from 'node:util';
import { type Group, groups } from './groups.js';
import { blobOf, hashOf, holds, readResults, record, survivorsOf, toTable } from './record.js';
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

function isShown(group: Group, path: string): boolean {
  return holds(readResults()[group.name]?.[path], path, hashOf(group));
}

/** The survivors of a file that has not changed since, as Stryker selects them. */
function rangesOf({ name }: Group, path: string): readonly string[] {
  const known = readResults()[name]?.[path];
  if (known?.source !== blobOf(path)) return [];
  return known.survivors.flatMap(({ range }) => (range === undefined ? [] : [`${path}:${range}`]));
}

for (const { group, paths } of chosen) {
  if (paths.length === 0) continue;
  if (values.survivors) {
    const again = [...new Set(paths.flatMap((path) => rangesOf(group, path)))];
    const ended = again.length === 0 ? new Map<string, never>() : await runStryker(group, again);
    for (const [path, mutants] of ended) {
      for (const { line, mutation } of survivorsOf(mutants)) console.log(`${path}:${line}: ${mutation}`);
    }
    continue;
  }
  const startedAt = performance.now();
  const ended = group.kind === 'code' ? await runStryker(group, paths) : await runTextMutants(group, paths);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  record(group, { ended, seconds });
  console.log(`${group.name}: ${seconds} s`);
}
if (!values.survivors) console.log(toTable(readResults()));
