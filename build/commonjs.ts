/**
 * Writes `dist/cjs`: every module of `dist` as CommonJS, beside the same declarations and their maps. The extensions say which format
 * a file has, so the folder needs no package.json, which would hide `imports` and `sideEffects` of the package's own.
 */
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type ts from 'typescript';

const modules = fileURLToPath(new URL('../dist', import.meta.url));

interface Conversion {
  readonly source: string;
  readonly target: string;
}

/** The files that have changed, or all when this script has. */
async function changed(): Promise<readonly Conversion[]> {
  const paths = await readdir(modules, { recursive: true });
  const conversions = paths
    .filter((path) => /\.d\.ts(?:\.map)?$|\.js$/.test(path))
    .map((path) => ({
      source: join(modules, path),
      target: join(modules, 'cjs', path.replace(/\.d\.ts(?=$|\.map$)/, '.d.cts').replace(/\.js$/, '.cjs')),
    }));
  const written = await timeOf(fileURLToPath(import.meta.url));
  const old = await Promise.all(
    conversions.map(async ({ source, target }) => {
      const time = await timeOf(target).catch(() => 0);
      return time <= Math.max(written, await timeOf(source));
    }),
  );
  return conversions.filter((_, index) => old[index]);
}

async function timeOf(path: string): Promise<number> {
  return (await stat(path)).mtimeMs;
}

/** The text of a file, with the extension `.cjs` in the paths of its relative imports. */
const withExtensions = (text: string) =>
  text.replaceAll(/(\bfrom |\bimport ?\(?|\brequire\()(['"])(\.\.?\/[^'"\n]+)\.js\2/g, '$1$2$3.cjs$2');

/** The map of a declaration file that is one folder further from its source. */
function toMap(text: string): string {
  const map = JSON.parse(text) as { readonly file: string; readonly sources: readonly string[] };
  const file = map.file.replace(/\.ts$/, '.cts');
  return JSON.stringify({ ...map, file, sources: map.sources.map((source) => `../${source}`) });
}

async function convert({ source, target }: Conversion, compiler: typeof ts): Promise<void> {
  const compilerOptions = {
    module: compiler.ModuleKind.CommonJS,
    target: compiler.ScriptTarget.ES2023,
    esModuleInterop: true,
    removeComments: true,
  };
  const text = await readFile(source, 'utf8');
  await mkdir(dirname(target), { recursive: true });
  if (target.endsWith('.map')) return writeFile(target, toMap(text));
  const converted = target.endsWith('.d.cts')
    ? text.replace(/(?<=\n\/\/# sourceMappingURL=.*)\.d\.ts\.map/, '.d.cts.map')
    : compiler.transpileModule(text, { compilerOptions }).outputText;
  await writeFile(target, withExtensions(converted));
}

const conversions = await changed();
if (conversions.length > 0) {
  const { default: compiler } = await import('typescript');
  await Promise.all(conversions.map((conversion) => convert(conversion, compiler)));
}
