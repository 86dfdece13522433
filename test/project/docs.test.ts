import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { measure, sumOf, writtenPages } from './docs-measure.js';
import { blocksOf, headingsOf, linksOf, squeeze } from './markdown.js';
import { filesBelow, kitManifest, manifest, root, textOf } from './source.js';

const packages = [manifest, kitManifest];

const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
];
const everything = pages.map(textOf).join('\n');

function packedFiles(folder: string): ReadonlySet<string> {
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: join(root, folder),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [packed] = JSON.parse(output) as [{ readonly files: readonly { readonly path: string }[] }];
  return new Set(packed.files.map(({ path }) => path));
}

const programFiles: ReadonlySet<string> = new Set(
  filesBelow('examples')
    .filter((path) => /^examples\/[\w-]+\/.*\.ts$/.test(path) && !path.includes('node_modules'))
    .map((path) => squeeze(textOf(path))),
);

/** Compiles texts as modules of one program, and returns what the compiler reports. */
function compile(files: ReadonlyMap<string, string>): readonly string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options: base } = ts.parseJsonConfigFileContent(
    { ...config, include: [], files: [...files.keys()] },
    ts.sys,
    root,
  );
  // A block can declare what it does not use, and reads the environment as most projects do.
  const options = { ...base, noUnusedLocals: false, noPropertyAccessFromIndexSignature: false };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.getSourceFile = (path, target, ...rest) => {
    const text = files.get(path);
    return text === undefined
      ? getSourceFile(path, target, ...rest)
      : ts.createSourceFile(path, text, target);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start ?? 0).line + 1;
    const message = ts.flattenDiagnosticMessageText(messageText, '\n');
    return `${file?.fileName.slice(root.length)}:${line}: ${message}`;
  });
}

describe('the blocks of README and docs', () => {
  test('every TypeScript block compiles as a module of its own', () => {
    // Those that import their neighbours are files of `examples`, and are compiled there: test/project/programs.test.ts.
    const blocks = [...pages, 'AGENTS.md', 'kit/README.md', 'site/index.md'].flatMap((page) =>
      blocksOf(textOf(page), 'ts')
        .map(
          (text, index) =>
            [join(root, `examples/${page.replaceAll('/', '-')}-block-${index + 1}.ts`), text] as const,
        )
        .filter(([, text]) => !/ from '\.\.?\//.test(text) || !programFiles.has(squeeze(text))),
    );
    expect(blocks.length).toBeGreaterThan(25);
    expect(compile(new Map(blocks))).toEqual([]);
  });

  test('the README shows the two commands for a fresh clone', () => {
    const commands = blocksOf(textOf('README.md'), 'sh').flatMap((text) => text.split('\n'));
    expect(commands).toContain('npm ci && npm run demo');
    expect(commands).toContain('npm ci && npm test');
  });

  test('every npm script that the pages name exists, here or in the program that init writes', () => {
    const program = JSON.parse(textOf('examples/express-sqlite/package.json'));
    const scripts = { ...manifest.scripts, ...program.scripts };
    const named = [...everything.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
});

describe('the names in README and docs', () => {
  test('are every error code of the source, and no other', () => {
    // Codes of Node streams are not codes of this package.
    const codes = (text: string) => text.match(/(?<!\w)ERR_(?!STREAM_)[A-Z]+(?:_[A-Z]+)*(?!\w)/g) ?? [];
    const sources = [...filesBelow('src'), ...filesBelow('kit/src')].map(textOf);
    const real = new Set(sources.flatMap(codes));
    expect([...new Set(codes(textOf('docs/errors.md')))].sort()).toEqual([...real].sort());
    expect(codes(everything).filter((code) => !real.has(code))).toEqual([]);
  });

  test.each(packages)('are every subpath of $name, and no other', ({ name, exports }) => {
    const real = Object.keys(exports)
      .filter((subpath) => subpath !== './package.json')
      .map((subpath) => `${name}${subpath.slice(1)}`);
    const quoted = everything.match(/(?<=['`])stablehooks(?:-kit)?(?:\/[a-z.-]+)*(?=['`])/g) ?? [];
    const named = new Set(quoted.filter((path) => path.split('/')[0] === name));
    // A package is named by its name, too, where it exports nothing under it.
    if (!real.includes(name)) named.delete(name);
    expect([...named].sort()).toEqual(real.sort());
  });

  test('the source map names files that exist', () => {
    const named = [...textOf('src/README.md').matchAll(/`([\w-]+\/[\w-]+\.ts)`/g)].map(
      ([, path]) => `src/${path}`,
    );
    const real = new Set(filesBelow('src'));
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((path) => !real.has(path))).toEqual([]);
  });
});

describe('the links of everything that is shipped', () => {
  test.each(['.', 'kit'])(
    'in the package in folder %s lead to files and headings of its tarball',
    (folder) => {
      const files = packedFiles(folder);
      const shipped = [...files].filter((path) => /\.md$|^llms\.txt$/.test(path));
      const broken = shipped.flatMap((path) =>
        linksOf(textOf(posix.join(folder, path))).filter((link) => {
          const [target = '', anchor] = link.split('#');
          const file = target === '' ? path : posix.join(posix.dirname(path), target);
          if (!files.has(file)) return true;
          return anchor !== undefined && !headingsOf(textOf(posix.join(folder, file))).includes(anchor);
        }),
      );
      expect(shipped).toContain('README.md');
      expect(broken).toEqual([]);
    },
  );

  test('the README and llms.txt link to every page of docs', () => {
    for (const index of ['README.md', 'llms.txt']) {
      const linked = linksOf(textOf(index)).map((link) => link.split('#')[0]);
      expect(linked).toEqual(expect.arrayContaining(pages.filter((page) => page.startsWith('docs/'))));
    }
  });

  test('AGENTS.md fits into 8 kB and has the index of llms.txt', () => {
    const indexOf = (text: string) => text.match(/^- \[[^\]]+\]\(docs\/[^)]+\): .*$/gm);
    expect(indexOf(textOf('AGENTS.md'))).toEqual(indexOf(textOf('llms.txt')));
    expect(Buffer.byteLength(textOf('AGENTS.md'))).toBeLessThanOrEqual(8_000);
  });

  test('llms.txt has a title, a summary, and one line for each link', () => {
    const [title = '', , summary = ''] = textOf('llms.txt').split('\n');
    expect(title).toBe('# stablehooks');
    expect(summary).toMatch(/^> /);
    const items = textOf('llms.txt').match(/^- .*$/gm) ?? [];
    expect(items.filter((item) => !/^- \[[^\]]+\]\([^)]+\): \S/.test(item))).toEqual([]);
  });
});

describe('the size of the pages', () => {
  const linesOf = (path: string) => textOf(path).trimEnd().split('\n').length;

  test('the README has at most 160 lines and 10 kB', () => {
    expect(linesOf('README.md')).toBeLessThanOrEqual(160);
    expect(Buffer.byteLength(textOf('README.md'))).toBeLessThanOrEqual(10_000);
  });

  test('every page of docs that is written by hand has at most 1,300 words', () => {
    expect(writtenPages.filter((page) => measure(textOf(page)).words > 1_300)).toEqual([]);
  });

  test('read as docs that show: numbers of npm run docs:measure', () => {
    const { words, codeLines, wideLines, tableWords, you, semicolons } = sumOf(writtenPages);
    expect(words).toBeLessThanOrEqual(12_500);
    expect(words / codeLines).toBeLessThanOrEqual(8);
    expect((1_000 * you) / words).toBeGreaterThanOrEqual(20);
    expect((1_000 * semicolons) / words).toBeLessThanOrEqual(1);
    expect(tableWords / words).toBeLessThanOrEqual(0.08);
    expect(wideLines / codeLines).toBeLessThanOrEqual(0.01);
    expect(measure(textOf('docs/guide.md')).words).toBeLessThanOrEqual(600);
  });

  test('the design page has at most 150 lines', () => {
    expect(linesOf('docs/internals/design.md')).toBeLessThanOrEqual(150);
  });

  test('the source map has at most 80 lines', () => {
    expect(linesOf('src/README.md')).toBeLessThanOrEqual(80);
  });
});

describe('CHANGELOG.md', () => {
  const changelog = textOf('CHANGELOG.md');
  const headings = [...changelog.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);

  test('begins with this version, or with what is not released and then this version', () => {
    expect(headings.filter((heading) => heading !== 'Unreleased')[0]).toBe(manifest.version);
    expect(headings.lastIndexOf('Unreleased')).toBeLessThanOrEqual(0);
  });

  test('names every subpath that the packages export, in full or from its slash on', () => {
    const isNamed = (name: string, subpath: string) =>
      changelog.includes(`\`${name}${subpath}\``) || changelog.includes(`\`${subpath}\``);
    const missing = packages.flatMap(({ name, exports }) =>
      Object.keys(exports)
        .filter((subpath) => !['.', './package.json'].includes(subpath))
        .map((subpath) => subpath.slice(1))
        .filter((subpath) => !isNamed(name, subpath))
        .map((subpath) => `${name}${subpath}`),
    );
    expect(missing).toEqual([]);
  });
});

test('both packages have one version, and the kit depends on it', () => {
  expect(kitManifest.version).toBe(manifest.version);
  expect(kitManifest.dependencies['stablehooks']).toBe(`^${manifest.version}`);
});
