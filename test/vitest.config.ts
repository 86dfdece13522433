/** Tests import the package by its public names; this maps each name in `exports` and `imports` to its source. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = new URL('../', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));

const source = (target: string) =>
  fileURLToPath(new URL(target.replace('./dist/', './src/').replace(/\.js$/, '.ts'), root));

const subpaths = Object.entries<{ default?: string }>(manifest.exports).flatMap(
  ([subpath, { default: target }]) =>
    target === undefined
      ? []
      : [{ find: exactly(`stablehooks${subpath.slice(1)}`), replacement: source(target) }],
);

function exactly(name: string): RegExp {
  return new RegExp(`^${name.replaceAll(/[.#/]/g, '\\$&')}$`);
}

/** The names in `imports` as a platform of this condition sees them. */
const alias = (condition: 'node' | 'default') => [
  ...subpaths,
  ...Object.entries<Record<string, string>>(manifest.imports).map(([name, targets]) => ({
    find: exactly(name),
    replacement: source(targets[condition] ?? ''),
  })),
];

const shared = { exclude: ['**/node_modules/**'], testTimeout: 20_000, hookTimeout: 60_000 };

export default defineConfig({
  root: fileURLToPath(root),
  test: {
    // One more than there are processors: many files wait for the processes and sockets that they test.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        resolve: { alias: alias('node') },
        test: { ...shared, name: 'node', include: ['test/**/*.test.ts'] },
      },
      // The same promises where there is nothing of Node's.
      {
        resolve: { alias: alias('default') },
        test: {
          ...shared,
          name: 'webcrypto',
          include: ['test/core/**/*.test.ts', 'test/receiver/**/*.test.ts'],
        },
      },
    ],
  },
});
