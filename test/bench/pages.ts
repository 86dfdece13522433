/** The files that show what `npm run bench` found. */
import { readFileSync, writeFileSync } from 'node:fs';
import { drawCharts } from './charts.js';

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');

/** The charts, and the pages that show results, by their paths, as they must be for these results. */
export function pagesWith(results: string): ReadonlyMap<string, string> {
  const charts = drawCharts(results);
  const withDescriptions = (page: string) =>
    charts.reduce((text, { name, description }) => {
      const picture = new RegExp(`!\\[[^\\]]*\\](?=\\((?:docs/)?images/${name}\\.svg\\))`, 'g');
      return text.replaceAll(picture, () => `![${description}]`);
    }, page);
  return new Map([
    ...charts.map(({ name, svg }) => [`docs/images/${name}.svg`, svg] as const),
    ['docs/benchmarks.md', withDescriptions(withTables(read('docs/benchmarks.md'), results))],
    ['README.md', withDescriptions(read('README.md'))],
  ]);
}

/** Writes them. */
export function writePagesWith(results: string): void {
  for (const [path, text] of pagesWith(results)) writeFileSync(new URL(path, root), text);
}

const TABLE = /(?:^\|.*\n)+/gm;

/** The page with its tables replaced by those of the results, in their order. */
function withTables(page: string, results: string): string {
  const tables = results.match(TABLE) ?? [];
  const places = page.match(TABLE)?.length ?? 0;
  if (places !== tables.length)
    throw new Error(`The page has ${places} tables and the results have ${tables.length}.`);
  const next = tables.values();
  return page.replaceAll(TABLE, () => next.next().value ?? '');
}
