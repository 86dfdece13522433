/** Tests import both packages by their public names; this maps each name in `exports` and `imports` to its source. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = new URL('../', import.meta.url);
const [manifest, kit] = ['package.json', 'kit/package.json'].map((path) =>
  JSON.parse(readFileSync(new URL(path, root), 'utf8')),
);

const source = (target: string, folder = './') =>
  fileURLToPath(new URL(target.replace('./dist/', `${folder}src/`).replace(/\.js$/, '.ts'), root));

const subpaths = [
  { manifest, folder: './' },
  { manifest: kit, folder: './kit/' },
].flatMap(({ manifest: { name, exports }, folder }) =>
  Object.entries<{ default?: string }>(exports).flatMap(([subpath, { default: target }]) =>
    target === undefined
      ? []
      : [{ find: exactly(`${name}${subpath.slice(1)}`), replacement: source(target, folder) }],
  ),
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
        test: { ...shared, name: 'node', include: ['test/**/*.test.ts', 'kit/test/**/*.test.ts'] },
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
