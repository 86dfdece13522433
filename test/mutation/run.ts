/**
 * `npm run mutation`: runs the mutants of every group, and prints the score of each file and the mutants that no test notices.
 * `-- --group core` runs one group, or several if it is repeated, and `-- --file src/core/events.ts` one file.
 */
import { parseArgs } from 'node:util';
import { groups } from './groups.js';
import { type Mutant, scoreOf, survivorsOf } from './mutant.js';
import { runStryker } from './stryker.js';
import { runTextMutants } from './text-mutants.js';

const { values } = parseArgs({
  options: { group: { type: 'string', multiple: true }, file: { type: 'string' } },
});

const names = groups.map(({ name }) => name);
if (values.group?.some((name) => !names.includes(name))) {
  throw new Error(`The groups are ${names.join(', ')}.`);
}
const chosen = groups
  .filter(({ name }) => values.group?.includes(name) !== false)
  .map((group) => ({
    group,
    paths: group.sources.filter((path) => (values.file ?? path) === path),
  }))
  .filter(({ paths }) => paths.length > 0);
if (chosen.length === 0) throw new Error(`No group mutates ${values.file}.`);

const totals: (readonly [name: string, mutants: readonly Mutant[]])[] = [];
for (const { group, paths } of chosen) {
  const ended = group.kind === 'code' ? await runStryker(group, paths) : await runTextMutants(group, paths);
  for (const [path, mutants] of ended) {
    console.log(`\n${group.name}: ${path}: ${scoreOf(mutants)}`);
    for (const { line, mutation, status } of survivorsOf(mutants)) {
      console.log(`  ${path}:${line}: ${mutation} (${status})`);
    }
  }
  totals.push([group.name, [...ended.values()].flat()]);
}
console.log();
for (const [name, mutants] of totals) console.log(`${name}: ${scoreOf(mutants)}`);
