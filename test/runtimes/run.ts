/** `npm run test:runtimes`: the packed package, by its public names, on every runtime that it supports. */
import { fileURLToPath } from 'node:url';
import { type Command, listenAsProcess } from '../child.js';
import { adapterContract } from '../contracts/index.js';
import { failuresAt, report } from '../report.js';
import { npm, packTarballs } from '../tarball.js';
import { assertBundles } from './bundles.js';
import { contractFailures, recordedFailures } from './durable-object.js';
import { buildServers } from './servers.js';

/** Where the runtimes and the tarball are installed, outside the package's own dependencies. */
const folder = fileURLToPath(new URL('installed', import.meta.url));

const node = (version: number) => `node_modules/node${version}/bin/node`;

interface Runtime {
  readonly name: string;
  readonly command: Omit<Command, 'cwd'>;
  /** Cases of the contract that this runtime's own server decides before the adapter can, and why. */
  readonly outOfReach?: Readonly<Record<string, string>>;
}

const CLOSES = 'its server closes a connection whose body was not read';

const RUNTIMES: readonly Runtime[] = [
  ...[20, 22, 24, 26].map((version) => ({
    name: `Node ${version}`,
    command: { program: node(version), args: ['dist/node.js'] },
  })),
  { name: 'Bun', command: { program: 'node_modules/.bin/bun', args: ['dist/bun.js'] } },
  {
    name: 'Deno',
    command: { program: 'node_modules/.bin/deno', args: ['run', '--allow-all', 'dist/deno.js'] },
    outOfReach: {
      'a body that never ends is answered 500 ERR_BODY_TIMEOUT, and its connection is closed':
        'its server answers, and leaves the connection open until the sender closes it',
    },
  },
  {
    name: 'workerd',
    command: { args: ['workerd-host.mjs', 'dist/worker.js'] },
    outOfReach: {
      'a connection serves the next delivery after a forged one whose body was not read': CLOSES,
      'a connection serves the next delivery after a body that was too large': CLOSES,
    },
  },
];

async function prove({ command, outOfReach = {} }: Runtime): Promise<readonly string[]> {
  const server = await listenAsProcess({ ...command, cwd: folder });
  try {
    const origin = new URL(server.address).origin;
    const inside: readonly string[] = await (await fetch(`${origin}/checks`)).json();
    const cases = adapterContract.filter(({ name }) => !(name in outOfReach));
    const outside = await failuresAt(`${origin}/hooks`, cases);
    return [...inside, ...outside];
  } finally {
    await server.stop();
  }
}

const AT_ONCE = 3;

const tarballs = await packTarballs();
try {
  // Without a lockfile, npm installs the newest of each line, as users do.
  await npm(['install', '--no-save', '--no-package-lock', tarballs.stablehooks], folder);
  await buildServers(folder);
  await report('the fetch adapter and durableObjectInbox bundle without Node', () => assertBundles(folder));
  // Contracts and kills wait for timeouts most of the time.
  const steps = [
    () =>
      report('a durable object that answers once it recorded, in workerd, which is killed', () =>
        recordedFailures(folder),
      ),
    ...RUNTIMES.map((runtime) => () => report(runtime.name, () => prove(runtime))),
    () => report('durableObjectInbox in workerd', () => contractFailures(folder)),
  ];
  const work = async () => {
    for (let next = steps.shift(); next !== undefined; next = steps.shift()) await next();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
} finally {
  await tarballs.remove();
}
