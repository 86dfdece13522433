/** Bundles the simulation with the sources of both packages, as they are or with a bug that is planted in them. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = new URL('../../', import.meta.url);

/** A change of one place of a source file. */
export interface Edit {
  /** Below the root of the repository. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

interface Manifest {
  readonly exports: Readonly<
    Record<string, string | { readonly default?: unknown; readonly import?: { readonly default: string } }>
  >;
}

function sourcesOf(name: string, folder: string): [string, string][] {
  const { exports }: Manifest = JSON.parse(readFileSync(new URL(`${folder}package.json`, root), 'utf8'));
  return Object.entries(exports).flatMap(([subpath, target]) => {
    const file = typeof target === 'string' ? undefined : (target.import?.default ?? target.default);
    if (typeof file !== 'string') return [];
    const module = file.replace('./dist/', `${folder}src/`);
    return [[name + subpath.slice(1), fileURLToPath(new URL(module.replace(/\.js$/, '.ts'), root))]];
  });
}

/** @returns the URL of a module that exports what `batch.ts` does. */
export async function bundle(edit?: Edit): Promise<string> {
  const name = createHash('sha256')
    .update(JSON.stringify(edit ?? null))
    .digest('hex')
    .slice(0, 16);
  const outfile = fileURLToPath(new URL(`test/simulation/dist/${name}.mjs`, root));
  const platform = (name: string) => fileURLToPath(new URL(`src/core/${name}-node.ts`, root));
  await build({
    entryPoints: [fileURLToPath(new URL('test/simulation/batch.ts', root))],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'error',
    sourcemap: 'inline',
    alias: Object.fromEntries([
      ...sourcesOf('stablehooks', ''),
      ...sourcesOf('stablehooks-kit', 'kit/'),
      ['stablehooks/internal/hmac', platform('hmac')],
    ]),
    // Other packages are not bundled: the driver has native code.
    external: ['libsql', 'hono', 'hono/*', '@hono/*', 'zod', 'zod/*'],
    plugins: [
      {
        name: 'planted bug',
        setup({ onLoad }) {
          if (edit === undefined) return;
          const path = fileURLToPath(new URL(edit.file, root));
          const filter = new RegExp(`^${path.replaceAll(/[\\.+()[\]{}^$|*?]/g, '\\$&')}$`);
          onLoad({ filter }, () => ({ contents: applyTo(path, edit), loader: 'ts' }));
        },
      },
    ],
  });
  return pathToFileURL(outfile).href;
}

function applyTo(path: string, { file, find, replace }: Edit): string {
  const parts = readFileSync(path, 'utf8').split(find);
  if (parts.length !== 2) throw new Error(`${file} has this ${parts.length - 1} times: ${find}`);
  return parts.join(replace);
}
