/** docs/compatibility.md is as `npm run compat:table` writes it, and shows what package.json promises. */
import { expect, test } from 'vitest';
import { parsePage, renderPage } from '../compat/page.js';
import { manifest, textOf } from './source.js';

/** Peers without a contract of their own, and where they are tested instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  '@nestjs/common': 'is released with @nestjs/core',
  '@opentelemetry/api': 'test/opentelemetry',
};

const page = textOf('docs/compatibility.md');
const rows = parsePage(page);

/** Compares lines of versions such as `9`, `16` and `0.5`. */
const compare = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true });

test('the compatibility page is what compat:table writes for its rows', () => {
  expect(rows.length).toBeGreaterThan(30);
  expect(renderPage(rows)).toBe(page);
});

test('the compatibility page shows the first line of each range of peers, and none outside of it', () => {
  const wrong = Object.entries(manifest.peerDependencies).flatMap(([name, range]) => {
    if (name in ELSEWHERE) return [];
    const [, from = '', before = 'none'] = /^>=([\d.]+)(?: <([\d.]+))?$/.exec(range) ?? [];
    const first = from.replace(/^(0\.\d+|[1-9]\d*).*$/, '$1');
    const shown = rows.filter(({ packageName }) => packageName === name).map(({ version }) => version);
    const outside = shown.filter(
      (version) => compare(version, first) < 0 || (before !== 'none' && compare(version, before) >= 0),
    );
    return shown.includes(first) && outside.length === 0 ? [] : [`${name} ${range}: ${shown.join(', ')}`];
  });
  expect(wrong).toEqual([]);
});
