/** `npm run docs:measure`: how the README and the pages of docs read, in numbers. docs.test.ts holds some of them to limits. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { root, textOf } from './source.js';

/** The width of the site's column, in characters of code. */
const COLUMN = 76;

/** The pages that are written by hand, without those for maintainers. */
export const writtenPages: readonly string[] = [
  'README.md',
  ...readdirSync(`${root}/docs`)
    .filter((name) => name.endsWith('.md') && name !== 'command-line-flags.md')
    .sort()
    .map((name) => `docs/${name}`),
];

const wordsOf = (text: string) => text.split(/\s+/).filter((word) => /\w/.test(word)).length;
const countOf = (text: string, pattern: RegExp) => text.match(pattern)?.length ?? 0;

export interface Measures {
  readonly words: number;
  readonly codeLines: number;
  readonly wideLines: number;
  readonly tableWords: number;
  readonly you: number;
  readonly semicolons: number;
}

/** The words of a page without its code, of which some are in tables; and the lines of its code. */
export function measure(markdown: string): Measures {
  const code = [...markdown.matchAll(/^```\w*\n([\s\S]*?)^```$/gm)]
    .flatMap(([, text = '']) => text.split('\n'))
    .filter((line) => line.trim() !== '');
  const prose = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '').replaceAll(/\]\([^)]*\)/g, ']');
  const tables = prose
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .join('\n');
  return {
    words: wordsOf(prose),
    codeLines: code.length,
    wideLines: code.filter((line) => line.length > COLUMN).length,
    tableWords: wordsOf(tables),
    you: countOf(prose, /\byou(?:r|rs|rself|'\w+)?\b/gi),
    // A semicolon of code in the text, such as `a; b`, does not join sentences.
    semicolons: countOf(prose.replaceAll(/`[^`]*`/g, ''), /;/g),
  };
}

export function sumOf(pages: readonly string[]): Measures {
  const all = pages.map((page) => measure(textOf(page)));
  const sum = (key: keyof Measures) => all.reduce((total, measures) => total + measures[key], 0);
  return {
    words: sum('words'),
    codeLines: sum('codeLines'),
    wideLines: sum('wideLines'),
    tableWords: sum('tableWords'),
    you: sum('you'),
    semicolons: sum('semicolons'),
  };
}

const tell = ({ words, codeLines, wideLines, tableWords, you, semicolons }: Measures) =>
  [
    `${words} words of prose`,
    `${(words / codeLines).toFixed(1)} per line of code`,
    `"you" ${((1_000 * you) / words).toFixed(1)} and semicolons ${((1_000 * semicolons) / words).toFixed(1)} per 1,000`,
    `${((100 * tableWords) / words).toFixed(1)} % in tables`,
    `${wideLines} of ${codeLines} lines of code (${((100 * wideLines) / codeLines).toFixed(1)} %) wider than ${COLUMN}`,
  ].join(', ');

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const page of writtenPages) console.log(`${page}: ${tell(measure(textOf(page)))}`);
  console.log(`All ${writtenPages.length} pages: ${tell(sumOf(writtenPages))}`);
}
