/**
 * The suites in a folder with packages of its own: Node resolves all imports, so `stablehooks` is the tarball. Folders are
 * tested at the same time, so each names a file of results of its own by `RECORD_AS`.
 */
import { defineConfig } from 'vitest/config';
import { CompatibilityReporter } from './reporter.js';

export default defineConfig({
  test: {
    name: 'compat',
    include: ['test/**/*.test.ts'],
    ...{ testTimeout: 300_000, hookTimeout: 300_000, expect: { poll: { timeout: 60_000 } } },
    passWithNoTests: false,
    reporters: [
      ['dot', { summary: false }],
      new CompatibilityReporter(process.env['RECORD_AS'] ?? 'test:compat'),
    ],
  },
});
