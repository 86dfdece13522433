/** `npm run bench` (`--quick` for a short form): installs the peers and the tarball, then measures. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { npm, packTarballs } from '../tarball.js';
import { progress } from './progress.js';

const here = fileURLToPath(new URL('.', import.meta.url));

progress('Packing, and installing the peers');
const tarballs = await packTarballs();
try {
  await npm(['ci'], here);
  await npm(['install', '--no-save', tarballs.stablehooks], here);
} finally {
  await tarballs.remove();
}

// A process of its own, because what it imports has just been installed.
const args = ['--import', 'tsx', 'main.ts', ...process.argv.slice(2)];
const [code] = await once(spawn(process.execPath, args, { cwd: here, stdio: 'inherit' }), 'close');
process.exitCode = code ?? 1;
