/**
 * `npm run test:compat`: the packed package with versions of its peers that the other scripts do not install, on Node 22,
 * which some of these versions need. The suites are those of `npm test`.
 */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../child.js';
import { report } from '../report.js';
import { npm, packTarballs } from '../tarball.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

interface Peers {
  readonly name: string;
  readonly packages: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  /** Which tests of the files, by parts of their titles; some of each must pass. @default all */
  readonly only?: readonly string[];
  /** A program that must compile with the types of these versions. */
  readonly types?: string;
}

const pgBossTypes = (statement: string) => `
${statement}
import { createReceiver, memoryInbox } from 'stablehooks';
import { pgBossProcessor, pgBossQueue } from 'stablehooks/queues/pg-boss';
export async function wire(boss: PgBoss) {
  const receiver = createReceiver({ secret: 'x', inbox: memoryInbox(), handlers: {} });
  const options = { batchSize: 20, pollingIntervalSeconds: 0.5 };
  await boss.createQueue('stablehooks', { retryLimit: 10, retryBackoff: true, expireInSeconds: 60 });
  await boss.work('stablehooks', options, pgBossProcessor(boss, receiver));
  return [pgBossQueue(boss), pgBossQueue(() => boss)];
}
`;

const PEERS: readonly Peers[] = [
  {
    name: 'pg-boss 11',
    packages: { 'pg-boss': '^11.0.0' },
    files: ['test/queues/pg-boss.test.ts'],
    types: pgBossTypes("import type PgBoss from 'pg-boss';"),
  },
  {
    name: 'pg-boss 12',
    packages: { 'pg-boss': '^12.0.0' },
    files: ['test/queues/pg-boss.test.ts'],
    types: pgBossTypes("import type { PgBoss } from 'pg-boss';"),
  },
  {
    name: 'better-sqlite3 13, ioredis 5, node-redis 5',
    packages: { 'better-sqlite3': '^13.0.0', ioredis: '^5.0.0', redis: '^5.0.0' },
    files: [
      'test/inboxes/sqlite.test.ts',
      'test/inboxes/redis.test.ts',
      'test/inboxes/redis-clients.slow.test.ts',
    ],
    only: ['over better-sqlite3', 'over ioredis', 'over node-redis'],
  },
];

/** Makes the folder of these peers: their packages, the tarball, the tests, and behind them what this project installs. */
async function install(
  peers: Peers,
  { folder, tarball }: { readonly folder: string; readonly tarball: string },
) {
  await mkdir(folder);
  const manifest = { private: true, type: 'module', dependencies: peers.packages };
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  await Promise.all([
    cp(join(root, 'test'), join(folder, 'test'), { recursive: true, filter: isTestFile }),
    npm(['install', '--no-package-lock', '--prefer-offline', tarball], folder),
  ]);
}

/** Not the packages that test scripts install, and not what they build. */
const isTestFile = (path: string) => !/node_modules|\.next|\/dist$/.test(path.slice(root.length));

async function prove(peers: Peers, folder: string, node: string): Promise<readonly string[]> {
  if (peers.types !== undefined) {
    await writeFile(join(folder, 'wiring.ts'), peers.types);
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', '--noEmit'];
    const platform = ['--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
    await run({
      args: [join(root, 'node_modules/typescript/bin/tsc'), ...strict, ...platform, 'wiring.ts'],
      cwd: folder,
    });
  }
  const config = join(root, 'test/compat/vitest.config.ts');
  const { only = [] } = peers;
  const vitest = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder, '--config', config];
  const args = [...vitest, '--testNamePattern', only.join('|'), ...peers.files];
  const printed = await run({ program: node, args, cwd: folder, env: { NO_COLOR: '1' } });
  const passed = printed.split('\n').filter((line) => line.includes('✓'));
  const missing = only.filter((title) => !passed.some((line) => line.includes(title)));
  return passed.length === 0 ? ['no test ran'] : missing.map((title) => `no test "${title}" ran`);
}

const base = await mkdtemp(join(tmpdir(), 'stablehooks-compat-'));
const tarballs = await packTarballs();
try {
  // Node finds vitest and the other packages of the tests here, if a folder does not install them itself.
  await symlink(join(root, 'node_modules'), join(base, 'node_modules'));
  const runtime = join(base, 'runtime');
  await mkdir(runtime);
  await writeFile(
    join(runtime, 'package.json'),
    JSON.stringify({ private: true, dependencies: { node: '22' } }),
  );
  const folders = PEERS.map((peers, index) => ({ peers, folder: join(base, `peers-${index}`) }));
  let installed = false;
  await report('install', async () => {
    const installs = await Promise.allSettled([
      npm(['install', '--no-package-lock', '--prefer-offline'], runtime),
      ...folders.map(({ peers, folder }) => install(peers, { folder, tarball: tarballs.stablehooks })),
    ]);
    const failures = installs.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
    installed = failures.length === 0;
    return failures;
  });
  // Without its own packages, a folder would silently use those of this project.
  const node = join(runtime, 'node_modules/node/bin/node');
  if (installed) {
    await Promise.all(
      folders.map(({ peers, folder }) => report(peers.name, () => prove(peers, folder, node))),
    );
  }
} finally {
  await tarballs.remove();
  await rm(base, { recursive: true });
}
