/** The mutants of TypeScript, by Stryker. */
import { availableParallelism } from 'node:os';
import { relative } from 'node:path';
import type { PartialStrykerOptions } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { root, textOf } from '../project/source.js';
import type { Group } from './groups.js';
import { isTimeout, type Mutant, type Status } from './mutant.js';

const STATUS: Readonly<Record<string, Status>> = {
  Killed: 'killed',
  Timeout: 'timeout',
  Survived: 'survived',
  NoCoverage: 'no coverage',
  Ignored: 'static',
};

/** Runs the mutants of files against the tests of their group. */
export async function runStryker(
  { tests, project = 'node' }: Group,
  paths: readonly string[],
): Promise<ReadonlyMap<string, readonly Mutant[]>> {
  // The workers read it in vitest.config.ts.
  process.env['MUTATION_TESTS'] = tests.join();
  process.env['MUTATION_PROJECT'] = project;
  const options: PartialStrykerOptions = {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    mutate: [...paths],
    coverageAnalysis: 'perTest',
    // A mutant that takes effect while a module loads needs a new process and every test. One that ends the
    // collection of the tests would count as not noticed.
    ignoreStatic: true,
    // Types are checked by tsc; the sandbox only runs the tests.
    disableTypeChecks: true,
    // A mutant that hangs waits for the limit of its test, and this is most of the time: with 2 of them, 2 processors
    // were idle for 90 % of it.
    concurrency: 3 * availableParallelism(),
    // For a test that blocks its thread; others end by the time limit of vitest.
    timeoutMS: 20_000,
    timeoutFactor: 4,
    reporters: ['progress-append-only'],
    tempDirName: '.stryker-tmp',
    cleanTempDir: 'always',
    allowEmpty: true,
    ignorePatterns: ['dist', '**/dist', '**/.next', 'test/bench', 'test/consumers', 'kit/page'],
  };
  const results = await new Stryker(options).runMutationTest();
  const mutants = new Map(paths.map((path) => [path, [] as Mutant[]]));
  for (const { fileName, status, statusReason = '', location, mutatorName, replacement = '' } of results) {
    const path = relative(root, fileName);
    const ended = status === 'Killed' && isTimeout({ message: statusReason }) ? 'timeout' : STATUS[status];
    if (ended === undefined) continue;
    const { start, end } = location;
    const line = textOf(path).split('\n')[start.line - 1] ?? '';
    const original = start.line === end.line ? line.slice(start.column - 1, end.column - 1) : '…';
    const mutation = `${mutatorName}: ${original} → ${replacement}`;
    mutants.get(path)?.push({ line: start.line, mutation, status: ended });
  }
  return mutants;
}
