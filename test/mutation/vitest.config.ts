/**
 * The tests of one group of mutants, as their project runs them. The environment names the group, because the
 * workers of Stryker read this file as well. `MUTATION_TEXT` is loaded instead of the file `MUTATION_SOURCE`.
 */
import { defineConfig } from 'vitest/config';
import config from '../vitest.config.js';

const name = process.env['MUTATION_PROJECT'] ?? 'node';
const projects = config.test?.projects ?? [];
const project = projects.find(
  (each) => typeof each === 'object' && 'test' in each && each.test?.name === name,
);
if (typeof project !== 'object' || !('test' in project)) throw new Error(`The project ${name} is missing.`);

export default defineConfig({
  ...(config.root !== undefined && { root: config.root }),
  ...project,
  plugins: [
    {
      name: 'text mutant',
      enforce: 'pre',
      load: (id) => (id === process.env['MUTATION_SOURCE'] ? process.env['MUTATION_TEXT'] : undefined),
    },
    {
      name: 'one test at a time',
      enforce: 'pre',
      // Stryker runs only the tests that reach a mutant, and cannot tell apart those that run beside each other.
      transform: (code, id) => (id.includes('/test/') ? code.replaceAll('.concurrent', '') : undefined),
    },
  ],
  test: {
    ...project.test,
    include: (process.env['MUTATION_TESTS'] ?? '').split(',').filter((path) => path !== ''),
    // A mutant that hangs ends here. The slowest test takes less than a twentieth of this on an idle machine, and ten
    // times as long while its coverage is measured.
    testTimeout: 20_000,
    hookTimeout: 20_000,
    expect: { poll: { timeout: 15_000 } },
  },
});
