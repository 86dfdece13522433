/** Writes a program as a user gets it: with `init` of the packed kit, and the tarballs in place of the registry's packages. */
import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { paste } from '../first-run/terminal.js';
import { npm, type Tarballs } from '../tarball.js';

/** How long one command may take on a slow machine. */
export const LIMIT_MS = 240_000;

/** Runs lines in the folder of a program to their end, and returns what they printed. */
export async function succeed(lines: string, folder: string): Promise<string> {
  const { code, output } = await paste(lines, folder).ended(AbortSignal.timeout(LIMIT_MS));
  assert.equal(code, 0, `${lines}\n${output}`);
  return output;
}

/** An empty folder in which `init` of the packed kit wrote the program, with the tarballs in place of the registry's. */
export async function write(init: string, { stablehooks, kit }: Tarballs): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'programs-'));
  await writeFile(join(parent, 'package.json'), '{"private":true}');
  await npm(['install', '--no-package-lock', '--prefer-offline', stablehooks, kit], parent);
  await succeed(`npx stablehooks-kit init app ${init}`, parent);
  const folder = join(parent, 'app');
  await npm(['install', '--no-package-lock', '--prefer-offline', stablehooks, kit], folder);
  return folder;
}

export const toEnv = (env: Readonly<Record<string, string>>) =>
  Object.entries(env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
