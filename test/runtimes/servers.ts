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

export function loadEsbuild(folder: string): Esbuild {
  return createRequire(join(folder, 'package.json'))('esbuild');
}

const SERVERS = {
  node: 'node.ts',
  bun: 'bun.ts',
  deno: 'deno.ts',
  workerd: 'workerd.ts',
  'objects-unbundled': 'durable-object-worker.ts',
  'recorded-unbundled': 'recorded-durable-object.ts',
} as const;

/** The bundles for workerd, and the servers that they are made of. */
const WORKERS: Readonly<Record<string, keyof typeof SERVERS>> = {
  worker: 'workerd',
  'durable-object-worker': 'objects-unbundled',
  'recorded-durable-object': 'recorded-unbundled',
};

/**
 * Compiles the servers into `dist` of the folder, where they resolve the installed tarball. Each of those for workerd is
 * one file with all its imports.
 */
export async function buildServers(folder: string): Promise<void> {
  const esbuild = loadEsbuild(folder);
  const options = { bundle: true, format: 'esm', outdir: join(folder, 'dist'), logLevel: 'error' };
  await esbuild.build({
    ...options,
    entryPoints: Object.entries(SERVERS).map(([out, path]) => ({
      out,
      in: fileURLToPath(new URL(path, import.meta.url)),
    })),
    platform: 'node',
    // Each runtime resolves the package by its own conditions.
    packages: 'external',
  });
  await esbuild.build({
    ...options,
    entryPoints: Object.entries(WORKERS).map(([out, server]) => ({
      out,
      in: join(folder, `dist/${server}.js`),
    })),
    platform: 'browser',
    conditions: ['workerd', 'worker'],
    external: ['node:*', 'cloudflare:workers'],
  });
}
