/** docs/compatibility.md is as `npm run compat:table` writes it, and shows what package.json promises. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { parsePage, renderPage } from '../compat/page.js';
import { hashTree } from '../compat/results.js';
import { CONSUMERS } from '../consumers/consumers.js';
import { manifest, root, textOf } from './source.js';

/** Peers without a contract of their own, and the package or the folder of tests that shows them instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  '@nestjs/common': '@nestjs/core',
  '@opentelemetry/api': 'test/telemetry',
};

const page = textOf('docs/compatibility.md');
const rows = parsePage(page);

/** Compares lines of versions such as `9`, `16` and `0.5`. */
const compare = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true });

test('the compatibility page is what compat:table writes for its rows', () => {
  expect(rows.length).toBeGreaterThan(30);
  expect(renderPage(rows)).toBe(page);
});

/** The last line below this one: 12 for 13, and 0.46 for 0.47. */
const lineBefore = (line: string) => line.replace(/\d+$/, (number) => String(Number(number) - 1));

test('the compatibility page shows the first line of each range of peers, the last of each that ends, and none outside', () => {
  const wrong = Object.entries(manifest.peerDependencies).flatMap(([name, range]) => {
    if (name in ELSEWHERE) return [];
    const [, from = '', before = ''] = /^>=([\d.]+)(?: <([\d.]+))?$/.exec(range) ?? [];
    const first = from.replace(/^(0\.\d+|[1-9]\d*).*$/, '$1');
    const expected = before === '' ? [first] : [first, lineBefore(before)];
    const shown = rows.filter(({ packageName }) => packageName === name).map(({ version }) => version);
    const outside = shown.filter(
      (version) => compare(version, first) < 0 || (before !== '' && compare(version, before) >= 0),
    );
    const complete = expected.every((version) => shown.includes(version));
    return complete && outside.length === 0 ? [] : [`${name} ${range}: ${shown.join(', ')}`];
  });
  expect(wrong).toEqual([]);
});

test('each peer that the compatibility page leaves out is shown by a package or a folder of tests that exists', () => {
  const shown = new Set(rows.map(({ packageName }) => packageName));
  const wrong = Object.values(ELSEWHERE).filter(
    (where) => !shown.has(where) && !existsSync(join(root, where)),
  );
  expect(wrong).toEqual([]);
});

test('each framework on the compatibility page has as many lines as projects that record it, and each of these a row', () => {
  const recorded = CONSUMERS.flatMap(({ shows = [] }) => shows.map(({ what }) => what));
  const shown = rows.filter(({ kind }) => kind === 'framework').map(({ what }) => what);
  expect(shown.toSorted()).toEqual(recorded.toSorted());
  const empty = CONSUMERS.flatMap(({ shows = [] }) => shows).filter(({ checks }) => checks < 1);
  expect(empty).toEqual([]);
});

const DECIDING = [
  ...[
    'src/index.ts',
    'package.json',
    'package-lock.json',
    'build/commonjs.ts',
    'test/adapters/lambda-bridge.ts',
  ],
  ...['test/inboxes/sqlite-drivers.ts', 'test/queues/handled.ts', 'test/compat/run.ts', 'test/report.ts'],
  ...['test/consumers/nest11/server.ts', 'test/runtimes/run.ts', 'test/services/redis.ts'],
];
/** What scripts write below the folders of tests. */
const WRITTEN = [
  ...['test/compat/results/npm-test.jsonl', 'test/adapters/.next/app/page.js'],
  ...['test/consumers/next/node_modules/a/index.js'],
];

test('a result counts for the sources, the lock file, the build and the suites that it was found with', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-tree-'));
  try {
    for (const path of ['src', 'kit/src/conformance', 'build', 'test', 'package.json', 'package-lock.json']) {
      const isSource = (from: string) =>
        !/\/(node_modules|\.next|results)$/.test(from.slice(root.length - 1));
      cpSync(join(root, path), join(folder, path), { recursive: true, filter: isSource });
    }
    const before = hashTree(folder);
    for (const path of WRITTEN) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), 'written');
    }
    expect(hashTree(folder)).toBe(before);
    expect(hashTree()).toBe(before);
    const hashes = DECIDING.map((path) => {
      writeFileSync(join(folder, path), '');
      return hashTree(folder);
    });
    expect(new Set([before, ...hashes]).size).toBe(DECIDING.length + 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
