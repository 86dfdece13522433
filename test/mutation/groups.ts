/** What is mutated, and which tests have to notice it. */
import { filesBelow } from '../project/source.js';

export interface Group {
  readonly name: string;
  /** `code`: Stryker mutates TypeScript. `text`: `text-mutants.ts` mutates the SQL or Lua in the strings. */
  readonly kind: 'code' | 'text';
  readonly sources: readonly string[];
  readonly tests: readonly string[];
  /** The project of vitest that runs them; `slow` runs those of `node`, too. @default 'node' */
  readonly project?: 'node' | 'webcrypto' | 'slow';
}

const below = (folder: string, pattern = /./) => filesBelow(folder).filter((path) => pattern.test(path));

/** The test files that `npm test` runs. A property test of seconds would run once for each mutant, so it is left out. */
const testsBelow = (folder: string, pattern = /./) =>
  below(folder, pattern).filter((path) => /(?<!\.slow|kills|property)\.test\.ts$/.test(path));

export const groups: readonly Group[] = [
  {
    name: 'receiver',
    kind: 'code',
    sources: below('src/receiver'),
    tests: [...testsBelow('test/receiver'), ...testsBelow('test/telemetry'), 'test/options.test.ts'],
  },
  {
    name: 'secrets',
    kind: 'code',
    sources: below('src/secrets'),
    tests: testsBelow('test/secrets'),
  },
  {
    name: 'core',
    kind: 'code',
    sources: below('src/core', /(?<!hmac-web|bytes)\.ts$/),
    tests: [
      ...testsBelow('test/core'),
      ...testsBelow('test/receiver'),
      'test/options.test.ts',
      'test/client/client.test.ts',
      'test/inboxes/redis-operations.test.ts',
    ],
  },
  {
    name: 'core on WebCrypto',
    kind: 'code',
    project: 'webcrypto',
    sources: ['src/core/bytes.ts', 'src/core/hmac-web.ts'],
    tests: [...testsBelow('test/core'), 'test/adapters/wiring-fetch.test.ts'],
  },
  {
    name: 'memory inbox',
    kind: 'code',
    sources: ['src/inboxes/memory.ts'],
    tests: ['test/inboxes/memory.test.ts'],
  },
  {
    name: 'SQLite inbox',
    kind: 'code',
    sources: below('src/inboxes', /sqlite/),
    tests: testsBelow('test/inboxes', /sqlite/),
  },
  {
    name: 'SQLite SQL',
    kind: 'text',
    sources: ['src/inboxes/sqlite-sql.ts'],
    // Without the test that each statement uses an index: it notices most changes of a condition, whatever they do.
    tests: testsBelow('test/inboxes', /sqlite(?!-queries)/),
  },
  {
    name: 'SQLite tables',
    kind: 'text',
    sources: ['src/inboxes/sqlite-tables.ts'],
    // With the test that each statement uses an index.
    tests: testsBelow('test/inboxes', /sqlite/),
  },
  {
    name: 'coverage',
    kind: 'code',
    sources: ['src/catch-up/coverage.ts', 'src/catch-up/gaps.ts'],
    // With the property of random servers, which takes less than a second.
    tests: [...testsBelow('test/catch-up'), 'test/catch-up/property.test.ts'],
  },
  {
    name: 'bodies',
    kind: 'code',
    sources: ['src/adapters/fetch.ts', 'src/adapters/node-body.ts'],
    tests: [
      ...testsBelow(
        'test/adapters',
        /(?:contract|http2|node-body|request-url|wiring-(?:express|fastify|fetch|node))\./,
      ),
      'test/options.test.ts',
    ],
  },
  {
    name: 'reconcile',
    kind: 'code',
    sources: [...below('src/reconcile'), 'src/catch-up/same-event.ts'],
    // With the property of random books, which takes a second.
    tests: [...testsBelow('test/reconcile'), 'test/reconcile/property.test.ts', 'test/options.test.ts'],
  },
  {
    name: 'Redis Lua',
    kind: 'text',
    project: 'slow',
    sources: ['src/inboxes/redis-lua.ts'],
    tests: [
      ...testsBelow('test/inboxes', /redis/),
      'test/inboxes/redis-batches.slow.test.ts',
      'test/inboxes/redis-clock.slow.test.ts',
      'test/inboxes/redis-eviction.slow.test.ts',
      'test/inboxes/redis-indexes.slow.test.ts',
      'test/inboxes/redis-keys.slow.test.ts',
    ],
  },
  {
    name: 'Postgres SQL',
    kind: 'text',
    project: 'slow',
    sources: [
      'src/inboxes/postgres-expressions.ts',
      'src/inboxes/postgres-keys.ts',
      'src/inboxes/postgres-sql.ts',
    ],
    tests: [
      ...testsBelow('test/inboxes', /postgres(?:-operations|-transaction)?\./),
      'test/inboxes/postgres-fence.slow.test.ts',
      'test/inboxes/postgres-isolation.slow.test.ts',
      'test/inboxes/postgres-keys.slow.test.ts',
    ],
  },
];
