import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The part of esbuild that is used. It is installed with the runtimes, so its types are not available here. */
export interface Esbuild {
  build(options: Readonly<Record<string, unknown>>): Promise<{
    readonly metafile: {
      readonly inputs: Readonly<Record<string, { readonly imports: readonly { readonly path: string }[] }>>;
    };
  }>;
}

/** Loads the esbuild that is installed in the folder. */
export function loadEsbuild(folder: string): Esbuild {
  return createRequire(join(folder, 'package.json'))('esbuild');
}

/**
 * Compiles the servers into `dist` of the folder, where they resolve the installed tarball. The server for workerd
 * is one file with all its imports.
 */
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
    // The contracts in `stablehooks/conformance` import `node:` modules. The worker uses none of them, and does not
    // start when one is left in the bundle.
    external: ['node:*'],
  });
}
