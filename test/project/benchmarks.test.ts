/** What the pages show of the benchmarks is what the last full run of `npm run bench` found. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseXml, XmlElement } from '@rgrove/parse-xml';
import { describe, expect, test } from 'vitest';
import { toBudgetTable } from '../bench/budgets.js';
import { drawCharts } from '../bench/charts.js';
import { pagesWith } from '../bench/pages.js';
import { root, textOf } from './source.js';

const results = textOf('test/bench/results/results.md');
const charts = drawCharts(results);
const rowsOf = (text: string) => text.split('\n').filter((line) => line.startsWith('|'));
const chartsIn = (page: string) =>
  [...textOf(page).matchAll(/!\[[^\]]*\]\((?:docs\/)?images\/([\w-]+)\.svg\)/g)].map(([, name]) => name);

test.each([...pagesWith(results)])(
  '%s is what `npm run bench:page` writes for the results of the last full run',
  (path, text) => {
    expect(textOf(path)).toBe(text);
  },
);

test('the tables of docs/benchmarks.md are all tables of the results', () => {
  expect(rowsOf(results).length).toBeGreaterThan(20);
  expect(rowsOf(textOf('docs/benchmarks.md'))).toEqual(rowsOf(results));
});

test('the benchmarks page shows every chart, the README two of them, and there is no other', () => {
  const names = charts.map(({ name }) => name);
  expect(chartsIn('docs/benchmarks.md')).toEqual(names);
  expect(chartsIn('README.md')).toEqual(['verify', 'adapters']);
  const files = readdirSync(join(root, 'docs/images')).filter((name) => name.endsWith('.svg'));
  expect(files.sort()).toEqual(names.map((name) => `${name}.svg`).sort());
});

test('the README states no ratio that is not in the results', () => {
  const ratios = textOf('README.md').match(/\d+\.\d+×/g) ?? [];
  expect(ratios.length).toBeGreaterThan(5);
  expect(ratios.filter((ratio) => !results.includes(ratio))).toEqual([]);
});

describe.each(charts)('the chart $name', ({ svg, description }) => {
  const { root: drawn } = parseXml(svg);

  test('has a title and a description, which name it to a screen reader', () => {
    const named = new Map(
      (drawn?.children ?? [])
        .filter((child) => child instanceof XmlElement)
        .flatMap(({ name, attributes, text }) =>
          name === 'title' || name === 'desc' ? [[attributes['id'] ?? '', text] as const] : [],
        ),
    );
    expect(drawn?.attributes['role']).toBe('img');
    expect(drawn?.attributes['aria-labelledby']?.split(' ')).toEqual([...named.keys()]);
    expect([...named.values()]).toEqual([expect.stringMatching(/\w/), description]);
  });

  test('has colours for light and for dark pages, and a background of its own', () => {
    expect(svg).toMatch(/\.chart \{ background: #\w+; color: #\w+/);
    expect(svg).toMatch(
      /@media \(prefers-color-scheme: dark\) \{\s*\.chart \{ background: #\w+; color: #\w+/,
    );
  });

  test('loads nothing from elsewhere', () => {
    expect(svg.replace('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:\/\/|@import|url\(|<script/);
  });
});

test('charts follow the results', () => {
  const other = results.replace(/(?<=verifySignature \+ parseEvent \| )[\d.]+ \([\d.]+×\)/, '8.04 (2.00×)');
  expect(other).not.toBe(results);
  const [verify] = drawCharts(other);
  expect(verify?.description).toContain('stablehooks verifySignature + parseEvent 2.00×');
  expect(verify?.svg).not.toBe(charts[0]?.svg);
  expect(drawCharts(other).slice(1)).toEqual(charts.slice(1));
});

test('the budgets are compared with the tables of the results', () => {
  expect(results.endsWith(`\n## Budgets\n\n${toBudgetTable(results)}\n`)).toBe(true);
});

describe('a budget', () => {
  const rowOf = (text: string, name: string) =>
    toBudgetTable(text)
      .split('\n')
      .find((line) => line.startsWith(`| ${name}`));
  const withImport = (ratio: string) =>
    results.replace(/(?<=\| stablehooks\/express \| [\d.]+ \| )[\d.]+×/, ratio);
  const withRate = (rate: string) => results.replace(/(?<=\| stablehooks \| 100,000 \| )[\d,]+/, rate);

  test('is kept at its bound, and not beyond', () => {
    expect(rowOf(withImport('0.50×'), 'import of')).toContain('| ≤ 0.5× | 0.5× | yes |');
    expect(rowOf(withImport('0.51×'), 'import of')).toContain('| ≤ 0.5× | 0.51× | **no** |');
  });

  test('is that of the worst row', () => {
    expect(rowOf(withRate('123'), 'catch-up')).toContain('| ≥ 10,000 events/s | 123 events/s | **no** |');
  });

  test('without a row in the results is refused', () => {
    expect(() => toBudgetTable(results.replace('| stablehooks/express |', '| express |'))).toThrow(
      'The results have no row',
    );
  });
});

test('results without a table that a chart needs, or without a number in it, are refused', () => {
  expect(() => drawCharts(results.replace('## Claims in Postgres', '## Claims'))).toThrow(
    'The results have no table below "Claims in Postgres".',
  );
  expect(() => drawCharts(results.replace(/(?<=## Claims in Postgres.*?)\d\.\d\d×/s, '–'))).toThrow(
    'where a number must be',
  );
});
