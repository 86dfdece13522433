/** The package as users get it: built, packed, and installed from the tarball into a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './child.js';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs npm to its end; rejects with what it printed when it fails. */
export function npm(args: readonly string[], cwd: string): Promise<string> {
  return run({ program: 'npm', args: [...args, '--no-audit', '--no-fund', '--loglevel=error'], cwd });
}

/** Builds and packs the package; `remove` deletes the tarball again. */
export async function packTarball(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-tarball-'));
  await npm(['run', 'build'], root);
  const packed = await npm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], root);
  const [{ filename }]: [{ filename: string }] = JSON.parse(packed);
  return { path: join(folder, filename), remove: () => rm(folder, { recursive: true }) };
}
