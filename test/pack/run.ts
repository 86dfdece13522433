/** Checks the tarballs of both packages with publint and attw, installs them as users do, and runs small programs. */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { run } from '../child.js';
import { report } from '../report.js';
import { npm, packTarballs, type Tarballs } from '../tarball.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** What `stablehooks` brings to production at most, itself included. */
const MOST_PACKAGES = 2;
/** Every resolution of code must be right. The kit is for development and has ES modules only. */
const ATTW = {
  stablehooks: ['--exclude-entrypoints', 'openapi.yaml'],
  kit: ['--ignore-rules', 'cjs-resolves-to-esm'],
};
/** The files of the inspector's page together, each compressed with gzip, in kB of 1,000 bytes. */
const MOST_PAGE_KB = 120;
const TOOLS = ['hono', '@hono/node-server', 'commander', 'stablehooks-kit'];

/** A signed delivery is handled and a forged one is rejected, by the public names. */
const receiver = (statement: string, types: '' | ': string') => `
const receiver = createReceiver({
  secret: 'whsec_pack',
  handlers: { 'transfer.settled': (event) => { ${statement} } },
  onOutcome: () => undefined,
});
const event = { id: 'evt_1', type: 'transfer.settled', created_at: '2026-01-02T03:04:05Z', payload: { amount: '1.10' } };
const bytes = new TextEncoder().encode(JSON.stringify(event));
const deliver = async (signature${types}) => {
  const headers = { 'X-SERVICE-Signature': signature };
  return toFetchHandler(receiver)(new Request('http://localhost/', { method: 'POST', headers, body: bytes }));
};
const main = async () => {
  const genuine = await deliver(await sign(bytes, { secret: 'whsec_pack' }));
  const forged = await deliver('0'.repeat(64));
  console.log(genuine.status, await genuine.text(), forged.status);
};
main();
`;
const ESM = `import { createReceiver, sign } from 'stablehooks';\nimport { toFetchHandler } from 'stablehooks/fetch';\n`;
const CJS = `const { createReceiver, sign } = require('stablehooks');\nconst { toFetchHandler } = require('stablehooks/fetch');\n`;
const TYPED = receiver("event.type satisfies 'transfer.settled'", ': string');
const HANDLED = '200 {"outcome":"handled"} 401';

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
  readonly type: 'module' | 'commonjs';
  readonly packages: readonly ('stablehooks' | 'kit' | '@types/node')[];
  /** The program, as JavaScript, or as TypeScript with these compiler options. */
  readonly program: string;
  readonly typescript?: Readonly<Record<string, unknown>>;
  readonly prints: string;
  /** Says what else is wrong in the folder where the project is installed. */
  readonly inspect?: (folder: string) => Promise<readonly string[]>;
}

const PROJECTS: readonly Project[] = [
  {
    name: 'ES module',
    type: 'module',
    packages: ['stablehooks'],
    program: ESM + receiver('', ''),
    prints: HANDLED,
    inspect: inspectDependencies,
  },
  {
    name: 'CommonJS',
    type: 'commonjs',
    packages: ['stablehooks'],
    program: CJS + receiver('', ''),
    prints: HANDLED,
  },
  {
    name: 'TypeScript, ES module, nodenext',
    type: 'module',
    packages: ['stablehooks'],
    program: ESM + TYPED,
    typescript: { module: 'nodenext' },
    prints: HANDLED,
  },
  {
    name: 'TypeScript, CommonJS, nodenext',
    type: 'commonjs',
    packages: ['stablehooks'],
    program: ESM + TYPED,
    typescript: { module: 'nodenext' },
    prints: HANDLED,
  },
  {
    name: 'TypeScript, CommonJS, node10',
    type: 'commonjs',
    packages: ['stablehooks'],
    program: ESM + TYPED,
    typescript: {
      module: 'commonjs',
      moduleResolution: 'node10',
      ignoreDeprecations: '6.0',
      skipLibCheck: true,
    },
    prints: HANDLED,
  },
  {
    name: 'TypeScript, CommonJS, node16',
    type: 'commonjs',
    packages: ['stablehooks'],
    program: ESM + TYPED,
    typescript: { module: 'node16' },
    prints: HANDLED,
  },
  {
    name: 'the kit, TypeScript',
    type: 'module',
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
    await report(`publint ${name}`, lint('publint', ['--strict']));
    await report(`attw ${name}`, lint('attw', ATTW[name]));
  }
  await report("the size of the inspector's page", measurePage);
  for (const [index, project] of PROJECTS.entries()) {
    await report(project.name, () => prove(project, { folder: join(work, String(index)), tarballs }));
  }
} finally {
  await tarballs.remove();
  await rm(work, { recursive: true, force: true });
}

/** Prints the size of the inspector's page, and says if it is too large. */
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

/** Installs and runs a project, and says what is wrong with it. */
async function prove(
  { type, packages, program, typescript, prints, inspect }: Project,
  { folder, tarballs }: { readonly folder: string; readonly tarballs: Tarballs },
): Promise<readonly string[]> {
  const main = typescript === undefined ? 'main.js' : 'main.ts';
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'try', private: true, type }));
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

/** What is installed beside the project: few packages, and none of the kit. */
async function inspectDependencies(folder: string): Promise<readonly string[]> {
  const { packages } = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8'));
  const names = Object.keys(packages)
    .filter((path) => path !== '')
    .map((path) => path.replace(/^.*node_modules\//, ''));
  const tools = names.filter((name) => TOOLS.includes(name));
  return [
    ...(names.length === 0 || names.length > MOST_PACKAGES
      ? [`${names.length} packages are installed, more than ${MOST_PACKAGES}: ${names.join(', ')}`]
      : []),
    ...tools.map((name) => `${name} is installed with stablehooks alone`),
  ];
}

/** The commands that the kit installs start. */
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
