/**
 * The package in each module system of TypeScript, for several versions of it. All subpaths compile without `skipLibCheck`
 * and `@types/node`, and a program runs.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../child.js';
import { atNight } from '../nightly.js';

type Compiler = 'typescript50' | 'typescript54' | 'typescript6';

/** The oldest TypeScript, the oldest for the types of Workers, and the newest, by their folders. */
const COMPILERS: readonly Compiler[] = atNight(
  ['typescript50', 'typescript54', 'typescript6'],
  ['typescript50', 'typescript6'],
);

interface System {
  readonly name: string;
  readonly type?: 'module' | 'commonjs';
  readonly options: Readonly<Record<string, unknown>>;
  /** The compilers that have these options. @default all */
  readonly compilers?: readonly Compiler[];
}

const NODENEXT = { module: 'nodenext' };
const NEW: readonly Compiler[] = ['typescript54', 'typescript6'];

const SYSTEMS: readonly System[] = [
  {
    name: 'commonjs',
    type: 'commonjs',
    options: { module: 'commonjs', moduleResolution: 'node' },
    compilers: ['typescript50', 'typescript54'],
  },
  {
    name: 'commonjs, which TypeScript 6 resolves as bundlers do',
    type: 'commonjs',
    options: { module: 'commonjs' },
    compilers: ['typescript6'],
  },
  { name: 'nodenext of a CommonJS package', type: 'commonjs', options: NODENEXT },
  { name: 'nodenext of an ES package', options: NODENEXT },
  { name: 'bundler', options: { module: 'esnext', moduleResolution: 'bundler' } },
  {
    name: 'Workers',
    options: { ...NODENEXT, lib: ['es2022'], types: ['@cloudflare/workers-types'] },
    compilers: NEW,
  },
];

/** The Nodes that run what is compiled. The last of them refuses `require` of an ES module, as older releases do. */
const NODES: readonly { readonly program?: string; readonly args: readonly string[] }[] = [
  { args: [] },
  { program: '../node_modules/node22/bin/node', args: [] },
  { args: ['--no-experimental-require-module'] },
];

const PRINTS = '200 handled, 401 rejected, 200 dead';

/** Its types need `@types/node`: see the projects of Nest. */
const OF_NODE = './nest';

/** Its file depends on the platform. */
const INTERNAL = './internal/hmac';

export async function proveModules(folder: string): Promise<readonly string[]> {
  const manifest = await readFile(join(folder, 'node_modules/stablehooks/package.json'), 'utf8');
  const subpaths = Object.entries(JSON.parse(manifest).exports)
    .filter(([subpath, target]) => typeof target !== 'string' && ![OF_NODE, INTERNAL].includes(subpath))
    .map(([subpath]) => subpath);
  const failures: string[] = [];
  for (const { compilers = COMPILERS, ...system } of SYSTEMS) {
    for (const compiler of COMPILERS.filter((name) => compilers.includes(name))) {
      const cwd = join(folder, `${compiler}, ${system.name}`);
      const failed = await compileAndRun({ cwd, system, compiler, subpaths }).catch(String);
      if (failed !== undefined) failures.push(`${compiler}, ${system.name}: ${failed}`);
    }
  }
  return failures;
}

async function compileAndRun({
  cwd,
  system: { type = 'module', options },
  compiler,
  subpaths,
}: {
  readonly cwd: string;
  readonly system: System;
  readonly compiler: Compiler;
  readonly subpaths: readonly string[];
}): Promise<string | undefined> {
  await mkdir(cwd);
  await writeFile(join(cwd, 'main.ts'), await readFile(join(cwd, '../main.ts')));
  const lines = subpaths.map((path, index) => `export * as part${index} from 'stablehooks${path.slice(1)}';`);
  await writeFile(join(cwd, 'subpaths.ts'), lines.join('\n'));
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ type }));
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2022', 'dom'],
    strict: true,
    types: [],
    ...options,
  };
  await writeFile(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['main.ts'] }));
  await run({ args: [join(cwd, '../node_modules', compiler, 'bin/tsc')], cwd });
  // The compilers write the same program.
  for (const { program, args } of compiler === 'typescript6' ? NODES : NODES.slice(0, 1)) {
    const printed = (await run({ program, args: [...args, 'main.js'], cwd })).trim();
    if (printed !== PRINTS) return `${[program, ...args].join(' ')} printed ${printed}, not ${PRINTS}`;
  }
  return undefined;
}
