/** What the README, and the page of the job that it links, tell a newcomer to save and to type. */
import { blocksOf, sectionOf } from '../project/markdown.js';
import { textOf } from '../project/source.js';

/** The languages and module systems of the table in "Quick starts". */
export const LANGUAGES = ['JavaScript', 'CommonJS', 'TypeScript'] as const;
export type Language = (typeof LANGUAGES)[number];

const readme = textOf('README.md');
const introduction = readme.slice(0, readme.indexOf('\n## '));
const quickStarts = sectionOf(readme, 'Quick starts');

/** A row of the table: the file, commands that precede the start, and the start. */
export interface LanguageSteps {
  readonly file: string;
  readonly install: readonly string[];
  readonly start: string;
}

/** The two lines at the top of the README. */
export const INSTALL: readonly string[] = onlyBlock(introduction, 'sh').trim().split('\n');

/** Exports the settings of the sandbox and fires one event. */
export const FIRE: string = blocksOf(sectionOf(readme, 'Try it'), 'sh')[1] ?? '';

/** Starts the sandbox for the servers of the quick starts. */
export const SANDBOX: string = commandsOf(quickStarts, 'npx stablehooks sandbox')[0] ?? '';

/** Checks types. */
export const CHECK: string = commandsOf(quickStarts, 'npx tsc')[0] ?? '';

/** Makes `.ts` ES modules. */
export const TO_MODULES: string = commandsOf(quickStarts, 'npm pkg set')[0] ?? '';

/** What the table says about a language. */
export function stepsOf(language: Language): LanguageSteps {
  const row = quickStarts.split('\n').find((line) => line.startsWith(`| ${language} `));
  const [, saveAs = '', start = ''] = row?.split(' | ').map((cell) => cell.trim()) ?? [];
  const [file = ''] = inlineCode(saveAs);
  return { file, install: commandsOf(saveAs, 'npm install'), start: inlineCode(start)[0] ?? '' };
}

/** One of the quick starts: its text and its program. */
export function quickStart(heading: string): { readonly text: string; readonly program: string } {
  const text = sectionOf(readme, heading);
  return { text, program: onlyBlock(text, 'ts') };
}

/** The job of docs/reconcile.md: what to install, the program, and what to type to see it work. */
export function reconcileJob(): {
  readonly install: readonly string[];
  readonly program: string;
  readonly sandbox: string;
  readonly run: string;
} {
  const text = sectionOf(textOf('docs/reconcile.md'), 'A first job');
  const [install = '', run = ''] = blocksOf(text, 'sh');
  const [sandbox = ''] = commandsOf(text, 'npx stablehooks sandbox');
  return { install: install.trim().split('\n'), program: onlyBlock(text, 'ts'), sandbox, run };
}

/** The commands within the lines of a text that begin so. */
export function commandsOf(text: string, start: string): readonly string[] {
  return inlineCode(text).filter((code) => code.startsWith(start));
}

/** As the table tells for CommonJS: `const … = require('…')` for each `import … from '…'`. */
export function toCommonJs(program: string): string {
  return program.replaceAll(/^import (.+) from (.+);$/gm, 'const $1 = require($2);');
}

function inlineCode(text: string): readonly string[] {
  return [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) =>
    code.replaceAll(/\s+/g, ' '),
  );
}

function onlyBlock(text: string, language: string): string {
  const [block, ...more] = blocksOf(text, language);
  if (block === undefined || more.length > 0) throw new Error(`One ${language} block is expected:\n${text}`);
  return block;
}
