/** What the pages say about security is proven by a test or a script that exists. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SCENARIOS } from '../catch-up/scenarios.js';
import { parsePage } from '../compat/page.js';
import { CONSUMERS } from '../consumers/consumers.js';
import { PLANTED_BUGS } from '../simulation/planted-bugs.js';
import { sectionOf } from './markdown.js';
import { manifest, root, textOf } from './source.js';

/** The cells of the rows of the first table below a heading, without its head. */
function tableBelow(page: string, heading: string): readonly (readonly string[])[] {
  const [, , ...rows] = sectionOf(textOf(page), heading)
    .split('\n')
    .filter((line) => line.startsWith('|'));
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

/** The script that a row names in a cell of its own. */
const scriptOf = (cells: readonly string[]) =>
  cells.flatMap((cell) => /^`([\w:-]+)`$/.exec(cell)?.[1] ?? [])[0] ?? '';

describe('the threats in SECURITY.md', () => {
  const threats = tableBelow('SECURITY.md', 'Threats');
  const isTitleIn = (source: string, title: string) =>
    ["'", '"', '`'].some((quote) => [',', ':'].some((end) => source.includes(quote + title + quote + end)));
  const proofsOf = (cell = '') =>
    cell.split('<br>').map((proof) => {
      const [, path = '', title = ''] = /^`([\w./-]+\.ts)`: "(.+)"$/.exec(proof) ?? [];
      return { proof, path, title };
    });

  test.each(threats)('%s: the tests that prove the defence exist', (_threat, _defence, cell) => {
    const missing = proofsOf(cell).filter(
      ({ path, title }) => path === '' || !existsSync(join(root, path)) || !isTitleIn(textOf(path), title),
    );
    expect(missing.map(({ proof }) => proof)).toEqual([]);
  });

  test('a title that no test has is found missing', () => {
    const source = textOf('test/receiver/receive.test.ts');
    expect(isTitleIn(source, 'a wrong signature is rejected before the body is parsed')).toBe(true);
    expect(isTitleIn(source, 'a wrong signature is rejected')).toBe(false);
  });
});

describe('the evidence in docs/security.md', () => {
  const rows = tableBelow('docs/security.md', 'Evidence');
  const numbersOf = (script: string) => rows.find((cells) => scriptOf(cells) === script)?.[1];

  test('has a number of a script that exists in every row, or says that it is not shown yet', () => {
    expect(rows.length).toBeGreaterThan(10);
    const wrong = rows.filter((cells) => {
      const [, numbers = ''] = cells;
      if (numbers.startsWith('not shown yet')) return scriptOf(cells) === '';
      return !/\d/.test(numbers) || !(scriptOf(cells) in manifest.scripts);
    });
    expect(wrong).toEqual([]);
  });

  test('has a row for every script of tests', () => {
    const scripts = Object.keys(manifest.scripts).filter((name) => /^test\b/.test(name));
    const named = rows.map(scriptOf);
    // Its rows are the compatibility page, which compat:table checks.
    expect(scripts.filter((name) => !named.includes(name) && name !== 'test:compat')).toEqual([]);
  });

  test('counts what the repository has', () => {
    const runtimes = parsePage(textOf('docs/compatibility.md')).filter(({ kind }) => kind === 'runtime');
    expect(numbersOf('test:runtimes')).toBe(`${runtimes.length} runtimes`);
    expect(numbersOf('test:consumers')).toBe(`${CONSUMERS.length} projects`);
    expect(numbersOf('test:simulation')).toBe(`2,000 seeds; ${PLANTED_BUGS.length} planted bugs`);
    const { runs } = JSON.parse(textOf('test/steady.json'));
    // With the commit, because later ones may have other sources.
    const on = runs.length === 0 ? '' : `, on ${runs.at(-1).commit.slice(0, 7)}`;
    const steady = `${runs.length} of 5 runs in a row${on}`;
    expect(numbersOf('steady')).toBe(runs.length < 5 ? `not shown yet: ${steady}` : steady);
    expect(numbersOf('coverage:scenarios')).toBe(`${SCENARIOS.length} kinds of list`);
    expect(numbersOf('compat:table')).toMatch(
      `${parsePage(textOf('docs/compatibility.md')).length} rows of `,
    );
    const tables = textOf('test/bench/results/results.md').match(/^\| :--/gm) ?? [];
    expect(numbersOf('bench')).toMatch(`${tables.length} tables of `);
  });
});

test('docs/design.md names scripts that exist, or says that what they show is not shown yet', () => {
  const rows = tableBelow('docs/design.md', 'How it is tested');
  expect(rows.length).toBeGreaterThan(10);
  const unknown = rows.filter((cells) => !(scriptOf(cells) in manifest.scripts));
  expect(unknown.filter(([, shows = '']) => !shows.endsWith('; not shown yet'))).toEqual([]);
});
