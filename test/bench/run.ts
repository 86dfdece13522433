/** `npm run bench` (`--quick` for a short form): installs the peers and the tarball, then measures. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { npm, packTarball } from '../tarball.js';

const here = fileURLToPath(new URL('.', import.meta.url));

const tarball = await packTarball();
try {
  await npm(['ci'], here);
  await npm(['install', '--no-save', tarball.path], here);
} finally {
  await tarball.remove();
}

// A process of its own, since what it imports is only there now.
const args = ['--import', 'tsx', 'main.ts', ...process.argv.slice(2)];
const [code] = await once(spawn(process.execPath, args, { cwd: here, stdio: 'inherit' }), 'close');
process.exitCode = code ?? 1;
