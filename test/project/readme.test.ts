/** The README is code: its blocks compile against the built package, and its names and codes exist. */
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { filesBelow, manifest, root, textOf } from './source.js';

const readme = textOf('README.md');
const blocks = [...readme.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = '']) => ({
  language,
  text,
}));

describe('README', () => {
  test('every TypeScript block compiles as a module of its own', () => {
    const files = new Map(
      blocks
        .filter(({ language }) => language === 'ts')
        .map(({ text }, index) => [join(root, 'examples', `readme-${index + 1}.ts`), text] as const),
    );
    expect(files.size).toBeGreaterThan(5);
    const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
    const { options } = ts.parseJsonConfigFileContent(
      { ...config, include: [], files: [...files.keys()] },
      ts.sys,
      root,
    );
    // A block shows one thing; what it makes for that need not be used.
    const host = ts.createCompilerHost({ ...options, noUnusedLocals: false });
    const { getSourceFile, fileExists } = host;
    host.fileExists = (path) => files.has(path) || fileExists(path);
    host.getSourceFile = (path, target, ...rest) => {
      const text = files.get(path);
      return text === undefined
        ? getSourceFile(path, target, ...rest)
        : ts.createSourceFile(path, text, target);
    };
    const program = ts.createProgram([...files.keys()], { ...options, noUnusedLocals: false }, host);
    const faults = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
      const text = ts.flattenDiagnosticMessageText(messageText, '\n');
      return `${file?.fileName.slice(root.length)}: ${text}\n${files.get(file?.fileName ?? '') ?? ''}`;
    });
    expect(faults).toEqual([]);
  }, 60_000);

  test('shows the two commands as they are', () => {
    const commands = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => text.split('\n'));
    expect(commands).toContain('npm ci && npm run demo');
    expect(commands).toContain('npm ci && npm test');
    const scripts = readme.matchAll(/npm run ([\w:]+)/g);
    for (const [, name = ''] of scripts) expect(Object.keys(manifest.scripts)).toContain(name);
  });

  test('the figures are those that the last `npm run bench` wrote', () => {
    const rows = (text: string) =>
      text
        .split('\n')
        .filter((line) => /^\|.*\d \(\d+\.\d\d×\)/.test(line))
        .map((line) => line.replaceAll(/ {2,}/g, ' '));
    const written = rows(textOf('test/bench/results/results.md'));
    expect(written.length).toBeGreaterThan(5);
    expect(rows(readme)).toEqual(written);
  });

  test('names every error code of the source, and no other', () => {
    const codes = (text: string) => text.match(/(?<!\w)ERR_[A-Z]+(?:_[A-Z]+)*(?![\w])/g) ?? [];
    const real = new Set(
      [...filesBelow('src'), ...filesBelow('kit/src')].flatMap((path) => codes(textOf(path))),
    );
    const named = new Set(codes(readme));
    expect([...real].filter((code) => !named.has(code))).toEqual([]);
    expect([...named].filter((code) => !real.has(code))).toEqual([]);
  });

  test('names every subpath of the package, and no other', () => {
    const real = Object.keys(manifest.exports).filter((subpath) => subpath !== './package.json');
    const names = new Set(readme.match(/(?<=['`])stablehooks(?:\/[a-z-]+)*(?=['`])/g) ?? []);
    expect(new Set(real.map((subpath) => `stablehooks${subpath.slice(1)}`))).toEqual(names);
  });

  test('links to headings that are there', () => {
    const slug = (heading: string) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, '')
        .trim()
        .replaceAll(' ', '-');
    const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => slug(heading));
    for (const [, target = ''] of readme.matchAll(/\]\(#([^)]+)\)/g)) expect(headings).toContain(target);
  });
});

describe('CHANGELOG.md', () => {
  test('has an entry for this version', () => {
    expect(textOf('CHANGELOG.md')).toContain(`## ${manifest.version}`);
  });
});
