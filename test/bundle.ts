/** Programs that tests start many times, as one file each: loading their modules one by one takes most of the time of such a process. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

export interface Bundle {
  readonly file: string;
  remove(): Promise<void>;
}

const EXTERNAL = ['libsql', 'better-sqlite3', 'pg-native', 'typeorm', 'knex', 'bullmq', 'pg-boss'];

export async function bundle(program: URL): Promise<Bundle> {
  const name = /([^/]+)\.ts$/.exec(program.pathname)?.[1] ?? 'program';
  // Below node_modules, so that the program finds the packages that cannot be bundled.
  const cache = fileURLToPath(new URL('../node_modules/.cache/', import.meta.url));
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, `${name}-`));
  await build({
    entryPoints: [fileURLToPath(program)],
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    external: EXTERNAL,
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
    logLevel: 'error',
  });
  return {
    file: join(folder, `${name}.mjs`),
    remove: () => rm(folder, { recursive: true }),
  };
}
