/** The package in each module system of TypeScript, for several versions of it: a program compiles, and runs. */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../child.js';
import { atNight } from '../nightly.js';

/** The versions, by the folders that they are installed in. */
const COMPILERS = atNight(['typescript50', 'typescript59', 'typescript6'], ['typescript50', 'typescript6']);

interface System {
  readonly name: string;
  readonly type: 'module' | 'commonjs';
  readonly options: Readonly<Record<string, unknown>>;
  /** The compilers that have these options. @default all */
  readonly compilers?: RegExp;
}

const SYSTEMS: readonly System[] = [
  {
    name: 'commonjs',
    type: 'commonjs',
    options: { module: 'commonjs', moduleResolution: 'node' },
    compilers: /50|59/,
  },
  {
    name: 'commonjs, which TypeScript 6 resolves as bundlers do',
    type: 'commonjs',
    options: { module: 'commonjs' },
    compilers: /6/,
  },
  { name: 'node16 of a CommonJS package', type: 'commonjs', options: { module: 'node16' } },
  { name: 'node16 of an ES package', type: 'module', options: { module: 'node16' } },
  { name: 'nodenext of a CommonJS package', type: 'commonjs', options: { module: 'nodenext' } },
  { name: 'nodenext of an ES package', type: 'module', options: { module: 'nodenext' } },
  { name: 'bundler', type: 'module', options: { module: 'esnext', moduleResolution: 'bundler' } },
];

/** The Nodes that run what is compiled. The last of them refuses `require` of an ES module, as older releases do. */
const NODES: readonly { readonly program?: string; readonly args: readonly string[] }[] = [
  { args: [] },
  { program: '../node_modules/node22/bin/node', args: [] },
  { args: ['--no-experimental-require-module'] },
];

const PRINTS = '200 handled, 401 rejected, 200 dead';

/** Compiles and runs the program in each system, and returns what failed. */
export async function proveModules(folder: string): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { name, type, options, compilers = /./ } of SYSTEMS) {
    for (const compiler of COMPILERS.filter((each) => compilers.test(each))) {
      const cwd = join(folder, `${compiler}, ${name}`);
      const failed = await compileAndRun({ cwd, type, options, compiler }).catch(String);
      if (failed !== undefined) failures.push(`${compiler}, ${name}: ${failed}`);
    }
  }
  return failures;
}

async function compileAndRun({
  cwd,
  type,
  options,
  compiler,
}: Pick<System, 'type' | 'options'> & {
  readonly cwd: string;
  readonly compiler: string;
}): Promise<string | undefined> {
  await mkdir(cwd);
  await cp(join(cwd, '../main.ts'), join(cwd, 'main.ts'));
  await writeFile(join(cwd, 'package.json'), JSON.stringify({ type }));
  // No skipLibCheck: the declarations themselves must compile.
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.iterable'],
    strict: true,
    types: ['node'],
    ...options,
  };
  await writeFile(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['main.ts'] }));
  await run({ args: [join(cwd, '../node_modules', compiler, 'bin/tsc')], cwd });
  for (const { program, args } of NODES) {
    const printed = (await run({ program, args: [...args, 'main.js'], cwd })).trim();
    if (printed !== PRINTS) return `${[program, ...args].join(' ')} printed ${printed}, not ${PRINTS}`;
  }
  return undefined;
}
