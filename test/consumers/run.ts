/** `npm run test:consumers`: starts small projects that install the packed packages, and runs the adapter contract against each. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hashTree, NODE, type Result, record, versionOf } from '../compat/results.js';
import { report } from '../report.js';
import { npm, packTarballs, type Tarballs } from '../tarball.js';
import { CONSUMERS, type Consumer } from './consumers.js';

const here = fileURLToPath(new URL('.', import.meta.url));

const RUN = { script: 'test:consumers', tree: hashTree() };

/** Installs the project in a new folder outside this package and runs its checks there. */
async function prove(consumer: Consumer, { stablehooks, kit }: Tarballs): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), `stablehooks-${consumer.name}-`));
  try {
    await cp(join(here, consumer.folder ?? consumer.name), folder, { recursive: true });
    await npm(
      ['install', '--no-package-lock', '--prefer-offline', stablehooks, kit, ...(consumer.packages ?? [])],
      folder,
    );
    const failures = await consumer.prove(folder);
    if (failures.length === 0) record(RUN, resultsOf(consumer, folder));
    return failures;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** One result for each row of the table, with the version that is installed in the folder. */
function resultsOf({ shows = [] }: Consumer, folder: string): readonly Result[] {
  return shows.map(({ what, packageName, checks }) => {
    const version = packageName === '' ? '' : versionOf(packageName, folder);
    const subject = { kind: 'framework', what, packageName, version } as const;
    return { ...subject, contract: 'adapterContract', runtime: NODE, checks };
  });
}

/** How many run at once: some install or wait while the others build. */
const AT_ONCE = 3;

const only = process.argv.slice(2);
const waiting = CONSUMERS.filter(({ name }) => only.length === 0 || only.includes(name));
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
