/**
 * `npm run mutation`: runs every mutant of every file, and records how they ended. `-- --group core` runs one group,
 * `-- --file src/core/events.ts` one file; `-- --missing` leaves out what is recorded for the sources of today.
 */
import { parseArgs } from 'node:util';
import { groups } from './groups.js';
import { blobOf, hashOf, readResults, record, scoreOf, toResult, toTable } from './record.js';
import { runStryker } from './stryker.js';
import { runTextMutants } from './text-mutants.js';

const { values } = parseArgs({
  options: { group: { type: 'string' }, file: { type: 'string' }, missing: { type: 'boolean' } },
});

const chosen = groups.flatMap((group) =>
  group.sources
    .filter((path) => (values.group ?? group.name) === group.name && (values.file ?? path) === path)
    .map((path) => ({ group, path })),
);
if (chosen.length === 0) {
  console.error(`There is no such group or file. The groups: ${groups.map(({ name }) => name).join(', ')}.`);
  process.exit(2);
}

for (const { group, path } of chosen) {
  const known = readResults()[group.name]?.[path];
  if (values.missing && known?.source === blobOf(path) && known.tests === hashOf(group.tests)) continue;
  const startedAt = performance.now();
  const run = group.kind === 'code' ? runStryker : runTextMutants;
  const mutants = await run(group, path);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const result = toResult(group, path, { mutants, seconds });
  record(group, path, result);
  console.log(
    `${group.name}: ${path}: ${scoreOf([result.counts]).toFixed(1)} % of ${mutants.length} mutants`,
  );
}
console.log(toTable(readResults()));
