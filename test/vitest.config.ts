/** Tests import both packages by their public names; this maps each name in `exports` to its source. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { SkippedReporter } from './skipped-reporter.js';

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
  Object.entries<{ default?: string; import?: { default: string } }>(exports).flatMap(
    ([subpath, formats]) => {
      const target = formats.import?.default ?? formats.default;
      if (typeof target !== 'string') return [];
      return [{ find: exactly(`${name}${subpath.slice(1)}`), replacement: source(target, folder) }];
    },
  ),
);

function exactly(name: string): RegExp {
  return new RegExp(`^${name.replaceAll(/[.#/]/g, '\\$&')}$`);
}

const HMAC = './internal/hmac';

/** The names as a platform with this condition resolves them. */
const alias = (condition: 'node' | 'default') => [
  ...subpaths,
  {
    find: exactly(`stablehooks${HMAC.slice(1)}`),
    replacement: source(manifest.exports[HMAC][condition].default),
  },
];

const every = ['test/**/*.test.ts', 'kit/test/**/*.test.ts'];

/** What `npm test` leaves out, by the project that includes it. `npm run test:NAME` runs each. */
const separate = {
  project: ['test/project/**/*.test.ts'],
  chaos: ['test/chaos/**/*.test.ts'],
  kills: ['test/**/*kills.test.ts'],
  // Bundles the sources, once for each bug that is planted in them.
  simulation: ['test/simulation/**/*.test.ts'],
  // Opens the inspector in Chromium.
  browser: ['kit/test/**/*.browser.test.ts'],
  // Starts programs, builds an app, or runs for more than a few seconds.
  slow: ['**/*.slow.test.ts'],
};

/** The slowest files. One that began last would run alone, on one processor. */
const LONGEST = [
  'test/inboxes/postgres-transaction.test.ts',
  'test/inboxes/postgres.test.ts',
  'test/adapters/contract.test.ts',
  'test/chaos/chaos.test.ts',
  'test/inboxes/postgres-data-layers.slow.test.ts',
  'test/adapters/next.slow.test.ts',
  'kit/test/commands/inbox-server.slow.test.ts',
  'test/catch-up/kills.test.ts',
  'test/receiver/burst.slow.test.ts',
].map((path) => fileURLToPath(new URL(path, root)));

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files.filter(({ moduleId }) => !LONGEST.includes(moduleId)));
    const longest = LONGEST.flatMap((path) => files.filter(({ moduleId }) => moduleId === path));
    return [...longest, ...rest];
  }
}

const exclude = ['**/node_modules/**', '**/.next/**'];
// A hang still fails. A property test or a started process gets the time that it needs on a busy machine.
const limits = {
  ...{ testTimeout: 300_000, hookTimeout: 300_000, isolate: false },
  expect: { poll: { timeout: 60_000 } },
};

export default defineConfig({
  root: fileURLToPath(root),
  test: {
    // Two more than there are processors, because many files wait for the processes and sockets that they test.
    maxWorkers: availableParallelism() + 2,
    reporters: ['default', new SkippedReporter()],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        resolve: { alias: alias('node') },
        test: {
          ...limits,
          name: 'node',
          include: every,
          exclude: [...exclude, ...Object.values(separate).flat()],
        },
      },
      // Signatures and deliveries must behave the same on platforms without Node's modules.
      {
        resolve: { alias: alias('default') },
        test: {
          ...limits,
          name: 'webcrypto',
          include: ['test/core/{signature,hmac}*.test.ts', 'test/receiver/receive*.test.ts'],
          exclude: [...exclude, ...Object.values(separate).flat()],
        },
      },
      ...Object.entries(separate).map(([name, include]) => ({
        resolve: { alias: alias('node') },
        test: { ...limits, name, include, exclude },
      })),
    ],
  },
});
