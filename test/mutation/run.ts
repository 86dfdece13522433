/**
 * `npm run mutation`: runs the mutants of every group, and prints the score of each file and the mutants that no test notices.
 * `-- --group core` runs one group, or several if it is repeated, `-- --file src/core/events.ts` one file, and
 * `-- --since REV` the files that have changed since a commit.
 */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { root } from '../project/source.js';
import { groups } from './groups.js';
import { type Mutant, scoreOf, survivorsOf } from './mutant.js';
import { runStryker } from './stryker.js';
import { runTextMutants } from './text-mutants.js';

const { values } = parseArgs({
  options: { group: { type: 'string', multiple: true }, file: { type: 'string' }, since: { type: 'string' } },
});

const names = groups.map(({ name }) => name);
if (values.group?.some((name) => !names.includes(name))) {
  throw new Error(`The groups are ${names.join(', ')}.`);
}
const changed = values.since === undefined ? undefined : changedSince(values.since);
const chosen = groups
  .filter(({ name }) => values.group?.includes(name) !== false)
  .map((group) => ({
    group,
    paths: group.sources.filter(
      (path) => (values.file ?? path) === path && changed?.includes(path) !== false,
    ),
  }))
  .filter(({ paths }) => paths.length > 0);
if (chosen.length === 0) console.log('No file of a group is chosen.');

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

function changedSince(revision: string): readonly string[] {
  const args = ['diff', '--name-only', revision, '--', 'src'];
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n');
}
