/** The mutants of TypeScript, by Stryker. */
import type { PartialStrykerOptions } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { textOf } from '../project/source.js';
import type { Group } from './groups.js';
import type { Mutant, Status } from './record.js';

const STATUS: Readonly<Record<string, Status>> = {
  Killed: 'killed',
  Timeout: 'timeout',
  Survived: 'survived',
  NoCoverage: 'no coverage',
  Ignored: 'static',
};

/** Runs the mutants of one file against the tests of its group. `ranges`: only those of these lines. */
export async function runStryker(
  { tests }: Group,
  path: string,
  ranges: readonly string[] = [''],
): Promise<readonly Mutant[]> {
  // The workers read it in vitest.config.ts.
  process.env['MUTATION_TESTS'] = tests.join();
  const options: PartialStrykerOptions = {
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    mutate: ranges.map((range) => `${path}${range}`),
    coverageAnalysis: 'perTest',
    // A mutant that takes effect while a module loads needs a new process and every test. One that ends the
    // collection of the tests would count as not noticed.
    ignoreStatic: true,
    // Types are checked by tsc; the sandbox only runs the tests.
    disableTypeChecks: true,
    // Most of the time of a mutant that hangs is waiting.
    concurrency: Number(process.env['MUTATION_CONCURRENCY'] ?? 2),
    // For a test that blocks its thread; others end by the time limit of vitest.
    timeoutMS: 20_000,
    timeoutFactor: 4,
    reporters: [],
    tempDirName: '.stryker-tmp',
    cleanTempDir: 'always',
    allowEmpty: true,
    ignorePatterns: ['dist', '**/dist', '**/.next', 'docs', 'test/bench', 'test/consumers', 'kit/page'],
  };
  const results = await new Stryker(options).runMutationTest();
  const lines = textOf(path).split('\n');
  return results.flatMap(({ status, location: { start, end }, mutatorName, replacement = '' }) => {
    const ended = STATUS[status];
    if (ended === undefined) return [];
    const original =
      start.line === end.line ? (lines[start.line - 1] ?? '').slice(start.column - 1, end.column - 1) : '';
    return [
      { line: start.line, mutation: `${mutatorName}: ${original || '…'} → ${replacement}`, status: ended },
    ];
  });
}
