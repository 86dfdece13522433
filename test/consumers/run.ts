/**
 * `npm run test:consumers`: starts small projects that install the packed package, and runs the adapter contract against
 * each. Words select projects by their names.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { atNight } from '../nightly.js';
import { report } from '../report.js';
import { npm, packTarballs, type Tarballs } from '../tarball.js';
import { CONSUMERS, type Consumer } from './consumers.js';

const here = fileURLToPath(new URL('.', import.meta.url));

async function prove(consumer: Consumer, { stablehooks, kit }: Tarballs): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), `stablehooks-${consumer.name}-`));
  try {
    await cp(join(here, consumer.folder ?? consumer.name), folder, { recursive: true });
    await npm(
      ['install', '--no-package-lock', '--prefer-offline', stablehooks, kit, ...(consumer.packages ?? [])],
      folder,
    );
    return await consumer.prove(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** How many run at once: some install or wait while the others build. */
const AT_ONCE = 3;

const only = process.argv.slice(2);
const waiting = CONSUMERS.filter(({ name, nightly = false }) =>
  only.length === 0 ? atNight(true, !nightly) : only.includes(name),
);
if (waiting.length === 0)
  throw new Error(`The projects are ${CONSUMERS.map(({ name }) => name).join(', ')}.`);
const tarballs = await packTarballs();
const work = async () => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const consumer = next;
    await report(consumer.name, () => prove(consumer, tarballs));
  }
};
try {
  await Promise.all(Array.from({ length: AT_ONCE }, work));
} finally {
  await tarballs.remove();
}
