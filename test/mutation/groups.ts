/** The mutated files, and the tests that have to notice their mutants. */
import { filesBelow } from '../project/source.js';

export interface Group {
  readonly name: string;
  /** `code`: Stryker mutates TypeScript. `text`: `text-mutants.ts` mutates the SQL or Lua in the strings. */
  readonly kind: 'code' | 'text';
  readonly sources: readonly string[];
  readonly tests: readonly string[];
  /** The project of vitest that runs the tests; `slow` runs those of `node` as well. @default 'node' */
  readonly project?: 'node' | 'webcrypto' | 'slow';
}

const sources = filesBelow('src');
const tests = filesBelow('test').filter((path) => path.endsWith('.test.ts'));

const pick = (paths: readonly string[], patterns: readonly RegExp[]) =>
  paths.filter((path) => patterns.some((pattern) => pattern.test(path)));

/** Tests of seconds would run once for each mutant: `npm test` runs the others. */
const fast = (...patterns: readonly RegExp[]) =>
  pick(tests, patterns).filter((path) => !/(?:\.slow|kills|property)\.test\.ts$/.test(path));

export const groups: readonly Group[] = [
  {
    name: 'receiver',
    kind: 'code',
    sources: pick(sources, [/^src\/(?:receiver|flow)\//]),
    tests: fast(
      /^test\/(?:receiver|telemetry)\//,
      /^test\/options/,
      /^test\/adapters\/(?:platform-requests|receiver-source)/,
      /^test\/catch-up\/wiring/,
    ),
  },
  {
    name: 'core',
    kind: 'code',
    sources: pick(sources, [/^src\/core\/(?!.*-web|bytes)/]),
    tests: fast(
      /^test\/(?:core|receiver|telemetry|catch-up)\//,
      /^test\/options/,
      /client\/client\./,
      /(?:redis-operations|inboxes\/memory)/,
    ),
  },
  {
    name: 'core on WebCrypto',
    kind: 'code',
    project: 'webcrypto',
    sources: pick(sources, [/^src\/core\/(?:bytes|.*-web)\./]),
    tests: fast(/^test\/core\/(?:signature|hmac)/, /^test\/receiver\/(?:receive|timers)\./),
  },
  {
    name: 'memory inbox',
    kind: 'code',
    sources: pick(sources, [/inboxes\/memory/]),
    tests: fast(/inboxes\/memory/),
  },
  {
    name: 'SQLite inbox',
    kind: 'code',
    sources: pick(sources, [/inboxes\/sqlite/]),
    tests: fast(/inboxes\/sqlite/),
  },
  {
    name: 'SQLite SQL',
    kind: 'text',
    sources: pick(sources, [/inboxes\/sqlite.*sql\.ts$/]),
    // Without the test that each statement uses an index: it notices most changes of a condition, whatever they do.
    tests: fast(/inboxes\/sqlite(?!-queries)/),
  },
  {
    name: 'SQLite tables',
    kind: 'text',
    sources: pick(sources, [/inboxes\/sqlite.*tables\.ts$/]),
    tests: fast(/inboxes\/sqlite/),
  },
  {
    name: 'coverage',
    kind: 'code',
    sources: pick(sources, [/^src\/catch-up\/(?:coverage|evidence|conclude|gaps|gap-text|acknowledge)\./]),
    // With the property of random servers, which takes less than a second.
    tests: [...fast(/^test\/catch-up\//), 'test/catch-up/property.test.ts'],
  },
  {
    name: 'bodies',
    kind: 'code',
    sources: pick(sources, [/^src\/adapters\/(?:fetch|node-body|web-body)\./]),
    tests: fast(
      /^test\/adapters\/(?:contract|http2|node-body|request-url|wiring-(?:express|fastify|fetch|node))\./,
    ),
  },
  {
    name: 'reconcile',
    kind: 'code',
    sources: pick(sources, [/^src\/reconcile\//, /same-event/]),
    // With the property of random books, which takes a second.
    tests: [...fast(/^test\/reconcile\//, /^test\/options/), 'test/reconcile/property.test.ts'],
  },
  {
    name: 'Redis Lua',
    kind: 'text',
    project: 'slow',
    sources: pick(sources, [/inboxes\/.*lua\.ts$/]),
    tests: pick(tests, [/inboxes\/redis(?!-clients|-model)/]),
  },
  {
    name: 'Postgres SQL',
    kind: 'text',
    project: 'slow',
    sources: pick(sources, [/inboxes\/postgres.*(?:expressions|keys|sql)\.ts$/]),
    tests: pick(tests, [/inboxes\/postgres(?:-operations|-transaction|-fence|-isolation|-keys)?\./]),
  },
];
