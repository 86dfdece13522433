/** `npm run test:runtimes`: the packed package, by its public names, on every runtime that it supports. */
import { fileURLToPath } from 'node:url';
import { adapterContract, inboxContract } from 'stablehooks-kit/conformance';
import { type Command, listenAsProcess } from '../child.js';
import { hashTree, type Result, record, versionOf } from '../compat/results.js';
import { failuresAt, report } from '../report.js';
import { npm, packTarballs } from '../tarball.js';
import type { Checked } from './answer.js';
import { assertBundles } from './bundles.js';
import { contractFailures, exampleFailures } from './durable-object.js';
import { buildServers } from './servers.js';

/** Where the runtimes and the tarball are installed, outside the package's own dependencies. */
const folder = fileURLToPath(new URL('installed', import.meta.url));

const node = (version: number) => `node_modules/node${version}/bin/node`;

interface Runtime {
  readonly name: string;
  /** The package that brings it. */
  readonly packageName: string;
  readonly command: Omit<Command, 'cwd'>;
  /** Cases of the contract that this runtime's own server decides before the adapter can, and why. */
  readonly outOfReach?: Readonly<Record<string, string>>;
}

const CLOSES = 'its server closes a connection whose body was not read';

const RUNTIMES: readonly Runtime[] = [
  ...[20, 22, 24, 26].map((version) => ({
    name: 'Node',
    packageName: `node${version}`,
    command: { program: node(version), args: ['dist/node.js'] },
  })),
  { name: 'Bun', packageName: 'bun', command: { program: 'node_modules/.bin/bun', args: ['dist/bun.js'] } },
  {
    name: 'Deno',
    packageName: 'deno',
    command: { program: 'node_modules/.bin/deno', args: ['run', '--allow-all', 'dist/deno.js'] },
    outOfReach: {
      'a body that never ends is answered 500 ERR_BODY_TIMEOUT, and its connection is closed':
        'its server answers, and leaves the connection open until the sender closes it',
    },
  },
  {
    name: 'workerd',
    packageName: 'workerd',
    command: { args: ['workerd-host.mjs', 'dist/worker.js'] },
    outOfReach: {
      'a connection serves the next delivery after a forged one whose body was not read': CLOSES,
      'a connection serves the next delivery after a body that was too large': CLOSES,
    },
  },
];

/** Runs all checks on a runtime. `ran` gets the names of those that ran inside. */
async function prove({ command, outOfReach = {} }: Runtime, ran: string[]): Promise<readonly string[]> {
  const server = await listenAsProcess({ ...command, cwd: folder });
  try {
    const origin = new URL(server.address).origin;
    const inside = (await (await fetch(`${origin}/checks`)).json()) as Checked;
    ran.push(...inside.ran);
    const cases = adapterContract.filter(({ name }) => !(name in outOfReach));
    const outside = await failuresAt(`${origin}/hooks`, cases);
    return [...inside.failures, ...outside];
  } finally {
    await server.stop();
  }
}

/** What a runtime has shown: the adapter contract, and the inbox contract on its own inboxes. */
function resultsOf(
  { name, packageName, outOfReach = {} }: Runtime,
  ran: readonly string[],
): readonly Result[] {
  const version = versionOf(packageName, folder);
  const runtime = `${name} ${version}`;
  const adapters = adapterContract.length - Object.keys(outOfReach).length;
  const inboxes = ['memory', 'node:sqlite', 'bun:sqlite'].filter((inbox) =>
    inboxContract.every((check) => ran.includes(`${inbox}: ${check.name}`)),
  );
  return [
    {
      kind: 'runtime',
      what: name,
      packageName: '',
      version,
      contract: 'adapterContract',
      runtime,
      checks: adapters,
    },
    ...inboxes.map(
      (what): Result => ({
        ...{ kind: 'inbox', what, packageName: '', version: '', contract: 'inboxContract', runtime },
        checks: inboxContract.length,
      }),
    ),
  ];
}

const RUN = { script: 'test:runtimes', tree: hashTree() };

async function proveRuntime(runtime: Runtime): Promise<void> {
  const ran: string[] = [];
  const name = `${runtime.name} ${versionOf(runtime.packageName, folder)}`;
  if (await report(name, () => prove(runtime, ran))) record(RUN, resultsOf(runtime, ran));
}

async function proveDurableObjects(): Promise<void> {
  if (!(await report('durableObjectInbox in workerd', () => contractFailures(folder)))) return;
  const runtime = `workerd ${versionOf('workerd', folder)}`;
  const inbox = { kind: 'inbox', what: 'Durable Objects', packageName: '', version: '' } as const;
  const checks = inboxContract.length;
  record(RUN, [{ ...inbox, contract: 'inboxContract', runtime, checks }]);
}

async function proveExample(): Promise<void> {
  await report('examples/durable-object.ts in workerd, which is killed', () => exampleFailures(folder));
}

/** How many run at once. */
const AT_ONCE = 3;

const tarballs = await packTarballs();
try {
  // Without a lockfile, npm installs the newest of each line, as users do.
  await npm(['install', '--no-save', '--no-package-lock', tarballs.stablehooks, tarballs.kit], folder);
  await buildServers(folder);
  await report('the fetch adapter and durableObjectInbox bundle without Node', () => assertBundles(folder));
  // Contracts and the example wait for timeouts most of the time.
  const steps = [
    proveExample,
    ...RUNTIMES.map((runtime) => () => proveRuntime(runtime)),
    proveDurableObjects,
  ];
  const work = async () => {
    for (let next = steps.shift(); next !== undefined; next = steps.shift()) await next();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
} finally {
  await tarballs.remove();
}
