/** Checks the tarballs of both packages with publint and attw, installs them as users do, and runs small programs. */
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { run } from '../child.js';
import { report } from '../report.js';
import { npm, packTarballs, type Tarballs } from '../tarball.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What `stablehooks` brings to production. */
const DEPENDENCIES = ['raw-body'];
/** Versions of drivers and frameworks that an app can have for something else, some older than this package supports. */
const OTHER_VERSIONS = [
  'bullmq@5 express@4 fastify@5 fastify-plugin@4 ioredis@5 libsql@0.4 next@15 pg@8 pg-boss@9 postgres@3 react@19 react-dom@19',
  '@nestjs/common@10 @nestjs/core@10 @opentelemetry/api@1.8 reflect-metadata@0.2 rxjs@7',
];
/** Every resolution of code must be right. The kit is for development and has ES modules only. */
const ATTW = {
  stablehooks: ['--exclude-entrypoints', 'openapi.json', 'internal/hmac'],
  kit: ['--ignore-rules', 'cjs-resolves-to-esm'],
};
/** The files of the inspector's page together, each compressed with gzip, in kB of 1,000 bytes. */
const MOST_PAGE_KB = 120;

/** A handler throws a PermanentError of the other copy of the package, beside an inbox of that copy. */
const COPIES = `import * as imported from 'stablehooks';
import { createRequire } from 'node:module';
const required = createRequire(import.meta.url)('stablehooks');
const event = { id: 'evt_1', type: 'transfer.settled', created_at: '2026-01-02T03:04:05Z', payload: {} };
for (const [one, other] of [[imported, required], [required, imported]]) {
  const closed = () => { throw new other.PermanentError('closed'); };
  const handlers = { 'transfer.settled': closed };
  const inbox = other.memoryInbox();
  const receiver = one.createReceiver({ secret: 's', handlers, inbox, onOutcome: () => undefined });
  console.log(one === other, (await receiver.handle(event, 'push')).kind);
}
`;

/** The sandbox delivers one event to a receiver in the same process. */
const SANDBOX = `import { createReceiver } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { createSandbox } from 'stablehooks-kit/sandbox';
const receiver = createReceiver({
  secret: 'whsec_pack',
  handlers: { 'accept.confirmed': () => undefined },
  onOutcome: () => undefined,
});
const sandbox = createSandbox({ secret: 'whsec_pack', endpoints: [{ fetch: toFetchHandler(receiver) }] });
sandbox.accept();
await sandbox.settled();
console.log(sandbox.attempts().map(({ response }) => response?.status).join());
await sandbox.close();
`;

interface Project {
  readonly name: string;
  readonly packages: readonly ('stablehooks' | 'kit' | '@types/node')[];
  /** The program, as JavaScript, or as TypeScript with these compiler options. */
  readonly program: string;
  readonly typescript?: Readonly<Record<string, unknown>>;
  readonly prints: string;
  /** Says what else is wrong in the folder where the project is installed. */
  readonly inspect?: (folder: string) => Promise<readonly string[]>;
}

/** The programs of each module system are those of `modules` in `test/consumers`. */
const PROJECTS: readonly Project[] = [
  {
    name: 'both copies in one process',
    packages: ['stablehooks'],
    program: COPIES,
    prints: 'false dead\nfalse dead',
    inspect: inspectPackage,
  },
  {
    name: 'the kit, TypeScript',
    packages: ['stablehooks', 'kit', '@types/node'],
    program: SANDBOX,
    typescript: {
      module: 'nodenext',
      lib: ['es2023', 'dom', 'dom.iterable', 'esnext.disposable'],
      types: ['node'],
    },
    prints: '200',
    inspect: inspectCommandLine,
  },
];

const { devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
const work = await mkdtemp(join(tmpdir(), 'stablehooks-pack-'));
const tarballs = await packTarballs();
try {
  for (const name of ['stablehooks', 'kit'] as const) {
    const lint = (tool: string, args: readonly string[]) => async () => {
      await run({
        program: join(root, 'node_modules/.bin', tool),
        args: [tarballs[name], ...args],
        cwd: root,
      });
      return [];
    };
    const { size } = await stat(tarballs[name]);
    console.log(`       ${name}: ${(size / 1_000).toFixed(0)} kB`);
    await report(`publint ${name}`, lint('publint', ['--strict']));
    await report(`attw ${name}`, lint('attw', ATTW[name]));
  }
  await report("the size of the inspector's page", measurePage);
  for (const versions of OTHER_VERSIONS) {
    const folder = await mkdtemp(join(work, 'beside-'));
    await report(`an app with ${versions}`, () =>
      installBeside(versions.split(' '), { folder, tarball: tarballs.stablehooks }),
    );
  }
  await report('the declarations of an app that exports what each export returns', declareAll);
  for (const [index, project] of PROJECTS.entries()) {
    await report(project.name, () => prove(project, { folder: join(work, String(index)), tarballs }));
  }
} finally {
  await tarballs.remove();
  await rm(work, { recursive: true, force: true });
}

async function measurePage(): Promise<readonly string[]> {
  const folder = join(root, 'kit/dist/inspector/page');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const bodies = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name))));
  const kB = bodies.reduce((sum, body) => sum + gzipSync(body).length, 0) / 1_000;
  console.log(`       ${files.length} files, ${kB.toFixed(1)} kB with gzip`);
  return [
    ...(files.some(({ name }) => name === 'index.html') ? [] : ['there is no index.html']),
    ...(kB > MOST_PAGE_KB ? [`${kB.toFixed(1)} kB are more than ${MOST_PAGE_KB}`] : []),
  ];
}

async function prove(
  { packages, program, typescript, prints, inspect }: Project,
  { folder, tarballs }: { readonly folder: string; readonly tarballs: Tarballs },
): Promise<readonly string[]> {
  const main = typescript === undefined ? 'main.js' : 'main.ts';
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'try', private: true, type: 'module' }),
  );
  await writeFile(join(folder, main), program);
  const specifiers = packages.map((name) =>
    name === '@types/node' ? `${name}@${devDependencies[name]}` : tarballs[name],
  );
  await npm(['install', '--prefer-offline', ...specifiers], folder);
  if (typescript !== undefined) {
    // No skipLibCheck: the declarations must compile without the frameworks that a user does not have.
    const compilerOptions = {
      target: 'es2022',
      // `await using` on a receiver names Symbol.asyncDispose.
      lib: ['es2022', 'dom', 'dom.iterable', 'esnext.disposable'],
      strict: true,
      types: [],
      ...typescript,
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [main] }));
    await run({ args: [join(root, 'node_modules/typescript/bin/tsc')], cwd: folder });
  }
  const printed = (await run({ args: ['main.js'], cwd: folder })).trim();
  const failures = printed === prints ? [] : [`printed ${printed}, not ${prints}`];
  return [...failures, ...((await inspect?.(folder)) ?? [])];
}

/** Resolves the dependencies of an app and then those of this package, as `npm install` does: npm refuses a conflict. */
async function installBeside(
  packages: readonly string[],
  { folder, tarball }: { readonly folder: string; readonly tarball: string },
): Promise<readonly string[]> {
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'try', private: true }));
  for (const specifiers of [packages, [tarball]]) {
    await npm(['install', '--package-lock-only', '--prefer-offline', ...specifiers], folder);
  }
  return [];
}

/** Under `declaration`, TypeScript refuses an inferred type that no public subpath names. Each subpath is imported alone. */
async function declareAll(): Promise<readonly string[]> {
  const folder = join(work, 'declared');
  await mkdir(folder);
  await writeFile(
    join(folder, 'package.json'),
    JSON.stringify({ name: 'try', private: true, type: 'module' }),
  );
  const peers = ['@types/node', '@nestjs/common', '@nestjs/core', '@opentelemetry/api', 'fastify'];
  const versions = peers.map((name) => `${name}@${devDependencies[name]}`);
  await npm(['install', '--prefer-offline', tarballs.stablehooks, ...versions], folder);
  const { exports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const subpaths = Object.keys(exports).filter((subpath) => !subpath.endsWith('.json'));
  const results = await Promise.allSettled(
    subpaths.map(async (subpath) => {
      const specifier = `stablehooks${subpath.slice(1)}`;
      const names = Object.entries<unknown>(await import(specifier)).map(([name, value]) => {
        const isCalled = typeof value === 'function' && !/^class /.test(String(value));
        // `apply` does not infer its type.
        const called = name === 'withPayload' ? '(given, given)' : '.apply(undefined, given)';
        return `export const ${name} = ${isCalled ? `() => all.${name}${called}` : `all.${name}`};`;
      });
      const lines = [`import * as all from '${specifier}';`, 'declare const given: never;', ...names];
      const file = `${subpath.replaceAll(/\W/g, '_')}.ts`;
      await writeFile(join(folder, file), lines.join('\n'));
      const options = '--declaration --emitDeclarationOnly --outDir out --module nodenext --target es2023';
      const tsc = join(root, 'node_modules/typescript/bin/tsc');
      await run({ args: [tsc, ...options.split(' '), '--strict', '--skipLibCheck', file], cwd: folder });
    }),
  );
  return results.flatMap((result) => (result.status === 'rejected' ? String(result.reason) : []));
}

/** What the package brings, and whether go-to-definition from an app ends in its TypeScript sources. */
async function inspectPackage(folder: string): Promise<readonly string[]> {
  const installed = join(folder, 'node_modules/stablehooks');
  const { dependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  const others = Object.keys(dependencies).filter((name) => !DEPENDENCIES.includes(name));
  const files = await readdir(installed, { recursive: true });
  const declarations = files.filter((path) => /\.d\.c?ts$/.test(path));
  const lost = await Promise.all(
    declarations.map(async (path) => {
      const [source = ''] = await sourcesOf(join(installed, path)).catch(() => []);
      return files.includes(relative(installed, source)) && source.endsWith('.ts') ? [] : [path];
    }),
  );
  return [
    ...others.map((name) => `${name} is a dependency`),
    ...(declarations.some((path) => path.endsWith('.d.cts'))
      ? []
      : ['there are no declarations of CommonJS']),
    ...lost.flat().map((path) => `${path} leads to no source`),
  ];
}

/** The sources of a declaration file, by its map. */
async function sourcesOf(declarations: string): Promise<readonly string[]> {
  const [, url = ''] = /\n\/\/# sourceMappingURL=(\S+)$/.exec(await readFile(declarations, 'utf8')) ?? [];
  const map = join(dirname(declarations), url);
  const { sources } = JSON.parse(await readFile(map, 'utf8')) as { readonly sources: readonly string[] };
  return sources.map((source) => join(dirname(map), source));
}

async function inspectCommandLine(folder: string): Promise<readonly string[]> {
  const { version } = JSON.parse(await readFile(join(root, 'kit/package.json'), 'utf8'));
  const failures: string[] = [];
  const expectPrinted = async (args: readonly string[], expected: RegExp) => {
    const printed = await run({ program: 'npx', args: ['--no-install', ...args], cwd: folder });
    if (!expected.test(printed)) failures.push(`npx ${args.join(' ')} printed ${printed}`);
  };
  const versionLine = new RegExp(`^${version.replaceAll('.', '\\.')}\n$`);
  await expectPrinted(['stablehooks', '--version'], versionLine);
  await expectPrinted(['stablehooks-kit', '--version'], versionLine);
  await expectPrinted(['stablehooks', 'trigger', '--help'], /^Usage: stablehooks trigger /);
  return failures;
}
