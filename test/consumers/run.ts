/**
 * `npm run test:consumers`: starts small projects that install the packed package, and runs the adapter contract against
 * each. Words select projects by their names.
 */
import { access, cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { atNight } from '../nightly.js';
import { report } from '../report.js';
import { npm, packTarballs, type Tarballs } from '../tarball.js';
import { CONSUMERS, type Consumer } from './consumers.js';

const here = fileURLToPath(new URL('.', import.meta.url));

const contractReceiver = fileURLToPath(new URL('../contracts/adapter-receiver.ts', import.meta.url));

/** Adds the receiver that a server mounts, as TypeScript if the project compiles, else in its module system. */
async function addContractReceiver(folder: string): Promise<void> {
  const compiles = await access(join(folder, 'tsconfig.json')).then(
    () => true,
    () => false,
  );
  if (compiles) return cp(contractReceiver, join(folder, 'contract-receiver.ts'));
  const { type } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const format = type === 'module' ? 'esm' : 'cjs';
  const { code } = await transform(await readFile(contractReceiver, 'utf8'), { loader: 'ts', format });
  await writeFile(join(folder, 'contract-receiver.js'), code);
}

async function prove(consumer: Consumer, { stablehooks }: Tarballs): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), `stablehooks-${consumer.name}-`));
  try {
    await cp(join(here, consumer.folder ?? consumer.name), folder, { recursive: true });
    await addContractReceiver(folder);
    await npm(
      ['install', '--no-package-lock', '--prefer-offline', stablehooks, ...(consumer.packages ?? [])],
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
