/** The suites in a folder with packages of its own: Node resolves all imports, so `stablehooks` is the tarball. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    name: 'compat',
    include: ['test/**/*.test.ts'],
    ...{ testTimeout: 300_000, hookTimeout: 300_000, expect: { poll: { timeout: 60_000 } } },
    passWithNoTests: false,
    reporters: ['verbose'],
  },
});
