/** `npm run test:consumers`: small real projects, installed from the tarball, started, and sent the contract. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { report } from '../report.js';
import { npm, packTarball } from '../tarball.js';
import { CONSUMERS, type Consumer } from './consumers.js';

const here = fileURLToPath(new URL('.', import.meta.url));

/** Installs the project in a folder of its own, outside this package, and proves it there. */
async function prove(consumer: Consumer, tarball: string): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), `stablehooks-${consumer.name}-`));
  try {
    await cp(join(here, consumer.name), folder, { recursive: true });
    await npm(['install', '--no-package-lock', tarball], folder);
    return await consumer.prove(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const only = process.argv.slice(2);
const tarball = await packTarball();
try {
  for (const consumer of CONSUMERS) {
    if (only.length > 0 && !only.includes(consumer.name)) continue;
    await report(consumer.name, () => prove(consumer, tarball.path));
  }
} finally {
  await tarball.remove();
}
