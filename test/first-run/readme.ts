/** The programs and commands of the README, and of the pages on frameworks and languages that it links. */
import { blocksOf, sectionOf } from '../project/markdown.js';
import { textOf } from '../project/source.js';

/** The languages and module systems of the table in docs/modules.md. */
export const LANGUAGES = ['JavaScript', 'CommonJS', 'TypeScript'] as const;
export type Language = (typeof LANGUAGES)[number];

/** A quick start: what to install, its program and the text around it. */
export interface QuickStart {
  readonly install: readonly string[];
  readonly program: string;
  readonly text: string;
}

const readme = textOf('README.md');
const introduction = readme.slice(0, readme.indexOf('\n## '));
const trial = sectionOf(readme, 'Try it');
const frameworks = textOf('docs/frameworks.md');
const languages = sectionOf(textOf('docs/modules.md'), 'Languages');

/** A row of the table: the file, commands that precede the start, and the start. */
export interface LanguageSteps {
  readonly file: string;
  readonly install: readonly string[];
  readonly start: string;
}

/** The two lines at the top of the README. */
export const INSTALL: readonly string[] = onlyBlock(introduction, 'sh').trim().split('\n');

/** Signs an event and sends it twice. */
export const FIRE: string =
  /^\$ (.*)/.exec(onlyBlock(trial, 'console').replaceAll(/ \\\n */g, ' '))?.[1] ?? '';

export const CHECK: string = commandsOf(languages, 'npx tsc')[0] ?? '';

/** Makes `.ts` ES modules. */
export const TO_MODULES: string = commandsOf(languages, 'npm pkg set')[0] ?? '';

export function stepsOf(language: Language): LanguageSteps {
  const row = languages.split('\n').find((line) => line.startsWith(`| ${language} `));
  const [, saveAs = '', start = ''] = row?.split(' | ').map((cell) => cell.trim()) ?? [];
  const [file = ''] = inlineCode(saveAs);
  return { file, install: commandsOf(saveAs, 'npm install'), start: inlineCode(start)[0] ?? '' };
}

export const EXPRESS: QuickStart = toQuickStart(trial);
/** Its types, in TypeScript. */
export const EXPRESS_TYPES: string =
  commandsOf(languages, 'npm install').find((command) => command.includes('@types/express')) ?? '';
export const FASTIFY: QuickStart = toQuickStart(sectionOf(frameworks, 'Fastify'));
function toQuickStart(text: string): QuickStart {
  return { install: commandsOf(text, 'npm install'), program: onlyBlock(text, 'ts'), text };
}

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
