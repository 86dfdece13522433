/** Both packages as users get them: packed, and installed from the tarballs into a folder of their own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './child.js';

const root = fileURLToPath(new URL('..', import.meta.url));

export interface Tarballs {
  readonly stablehooks: string;
  readonly kit: string;
  remove(): Promise<void>;
}

/** Runs npm to its end and returns its stdout; rejects with what it printed when it fails. */
export function npm(args: readonly string[], cwd: string): Promise<string> {
  return run({ program: 'npm', args: [...args, '--no-audit', '--no-fund', '--loglevel=error'], cwd });
}

/** Packs both packages as they are built: run `npm run build` first. */
export async function packTarballs(): Promise<Tarballs> {
  const folder = await mkdtemp(join(tmpdir(), 'stablehooks-tarballs-'));
  const packed = await npm(
    ['pack', '--json', '--ignore-scripts', '-w', '.', '-w', 'kit', '--pack-destination', folder],
    root,
  );
  const files = new Map(
    (JSON.parse(packed) as { readonly name: string; readonly filename: string }[]).map(
      ({ name, filename }) => [name, join(folder, filename)],
    ),
  );
  const [stablehooks, kit] = [files.get('stablehooks'), files.get('stablehooks-kit')];
  if (stablehooks === undefined || kit === undefined)
    throw new Error(`npm packed only ${[...files.keys()]}.`);
  return { stablehooks, kit, remove: () => rm(folder, { recursive: true }) };
}
