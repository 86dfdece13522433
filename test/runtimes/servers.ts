/** The servers, as each runtime loads them: TypeScript taken away, and for workerd one file with all in it. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The least of esbuild, which is installed beside the runtimes and not by the package. */
export interface Esbuild {
  build(options: Readonly<Record<string, unknown>>): Promise<{
    readonly metafile: {
      readonly inputs: Readonly<Record<string, { readonly imports: readonly { readonly path: string }[] }>>;
    };
  }>;
}

/** Loads what `npm ci` installed in the folder. */
export function loadEsbuild(folder: string): Esbuild {
  return createRequire(join(folder, 'package.json'))('esbuild');
}

/** Writes the servers to `dist` in the folder, from where they find the tarball that is installed there. */
export async function buildServers(folder: string): Promise<void> {
  const esbuild = loadEsbuild(folder);
  const options = { bundle: true, format: 'esm', outdir: join(folder, 'dist'), logLevel: 'error' };
  await esbuild.build({
    ...options,
    entryPoints: ['node', 'bun', 'deno', 'workerd'].map((name) =>
      fileURLToPath(new URL(`${name}.ts`, import.meta.url)),
    ),
    platform: 'node',
    // Each runtime resolves the package by its own conditions.
    packages: 'external',
  });
  await esbuild.build({
    ...options,
    entryPoints: { worker: join(folder, 'dist/workerd.js') },
    platform: 'browser',
    conditions: ['workerd', 'worker'],
    // `stablehooks/testing` drives servers from Node, too; the worker takes none of that, and would not start with it.
    external: ['node:*'],
  });
}
