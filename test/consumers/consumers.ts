/** The projects: how each is built and started, and which URLs must pass the adapter contract. */
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import type { Gateway } from '../adapters/lambda-bridge.js';
import { listenAsProcess, run } from '../child.js';
import { adapterContract } from '../contracts/index.js';
import { blocksOf, sectionOf } from '../project/markdown.js';
import { failuresAt } from '../report.js';
import { GATEWAYS } from './gateways.js';
import { proveModules } from './modules.js';
import { proveRecorded } from './recorded.js';

const here = fileURLToPath(new URL('.', import.meta.url));

/** One project under this folder; `prove` returns what failed. */
export interface Consumer {
  readonly name: string;
  /** The folder of the project. @default the name */
  readonly folder?: string;
  /** Packages to install in other versions than those of the project. */
  readonly packages?: readonly string[];
  /** Whether only the nightly workflow runs it: another version of a framework, or an adapter that others show as well. */
  readonly nightly?: boolean;
  readonly prove: (folder: string) => Promise<readonly string[]>;
}

interface Server {
  readonly build?: readonly string[];
  readonly start?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A cron route that must poll with the secret `cron-secret`, and whose service does not answer. */
  readonly cron?: string;
  /** Paths that must pass the whole contract. @default ['/hooks'] */
  readonly whole?: readonly string[];
  /** Cases that the framework's own server decides before the adapter can, and why. */
  readonly outOfReach?: Readonly<Record<string, string>>;
  /** Paths where the framework itself answers a part of the contract: only a signed and a forged delivery are sent. */
  readonly partly?: readonly string[];
  /** Whether it answers once an event is recorded, at the paths of `recorded.ts`. */
  readonly recorded?: boolean;
}

const TSC = ['node_modules/typescript/bin/tsc'];
const CLOSES = 'it closes a connection whose body was not read';
/** A build runs where no environment variable of the app exists. */
const BARE = [
  '-i',
  `PATH=${process.env['PATH']}`,
  `HOME=${process.env['HOME']}`,
  'NEXT_TELEMETRY_DISABLED=1',
];
const NEXT = 'node_modules/next/dist/bin/next';

const NEXT_SERVER: Server = {
  build: [NEXT, 'build'],
  start: [NEXT, 'start', '--port', '0', '--hostname', '127.0.0.1'],
  whole: ['/hooks', '/api/hooks'],
  partly: ['/edge'],
  cron: '/cron',
  recorded: true,
  env: {
    STABLEHOOKS_SECRET: 'whsec_consumer',
    CRON_SECRET: 'cron-secret',
    DATABASE_URL: 'postgres://localhost/app',
    STABLEHOOKS_BASE_URL: 'http://127.0.0.1:9',
    STABLEHOOKS_TOKEN: 'token',
  },
};

/** Gateways read complete bodies, and a load balancer without multi-value headers passes on only the last value. */
const casesBehind = ({ shape }: Gateway) =>
  adapterContract.filter(
    ({ name }) =>
      !/before any of the body|body that never ends/.test(name) &&
      !(shape === 'a load balancer' && /right signature twice|before the right one/.test(name)),
  );

export const CONSUMERS: readonly Consumer[] = [
  // The longest begin first.
  { name: 'modules', prove: proveModules },
  serverOf('next', NEXT_SERVER),
  { ...serverOf('next15', NEXT_SERVER), folder: 'next', packages: ['next@^15.0.0'], nightly: true },
  { name: 'jest', prove: proveJest, nightly: true },
  { name: 'nest11', prove: proveNest, nightly: true },
  { name: 'nest12', prove: proveNest },
  { ...serverOf('express4'), folder: 'express', packages: ['express@^4.0.0'], nightly: true },
  { ...serverOf('express5'), folder: 'express' },
  serverOf('fastify'),
  serverOf('hono'),
  serverOf('koa'),
  serverOf('commonjs'),
  {
    ...serverOf('sveltekit', {
      build: ['node_modules/vite/bin/vite.js', 'build'],
      // Its Node server refuses bodies over 512 kB by default.
      env: { BODY_SIZE_LIMIT: 'Infinity' },
      outOfReach: {
        'a delivery without a content-type is handled':
          'it drops the body of a request without a content-type; we answer 500',
        'a connection serves the next delivery after a forged one whose body was not read': CLOSES,
        'a connection serves the next delivery after a body that was too large': CLOSES,
      },
    }),
    nightly: true,
  },
  { name: 'lambda', prove: proveLambda },
  { name: 'openapi', prove: proveOpenapi, nightly: true },
];

function serverOf(name: string, server: Server = {}): Consumer {
  return { name, prove: (folder) => proveServer(folder, server) };
}

async function proveServer(cwd: string, server: Server): Promise<readonly string[]> {
  const { build, start = ['server.js'], env = {}, whole = ['/hooks'], partly = [], outOfReach = {} } = server;
  const cases = adapterContract.filter(({ name }) => !(name in outOfReach));
  if (build !== undefined) await run({ program: 'env', args: [...BARE, process.execPath, ...build], cwd });
  const running = await listenAsProcess({ args: start, cwd, env });
  try {
    const at = (path: string) => new URL(path, running.address).href;
    const failures: string[] = [];
    for (const path of whole) failures.push(...(await failuresAt(at(path), cases)));
    for (const path of partly) failures.push(...(await deliveriesFailing(at(path))));
    if (server.cron !== undefined) failures.push(...(await cronFailing(at(server.cron))));
    if (failures.length > 0 || !server.recorded) return failures;
  } finally {
    // A server that closes its receiver would wait for the leases of the handlers that never settle.
    await running.kill();
  }
  await proveRecorded(cwd, (more) => listenAsProcess({ args: start, cwd, env: { ...env, ...more } }));
  return [];
}

/** One program, as a CommonJS module on Nest 11 and as an ES module on Nest 12, on both platforms. */
async function proveNest(cwd: string): Promise<readonly string[]> {
  await cp(join(here, 'nest11/server.ts'), join(cwd, 'server.ts'));
  const onExpress = { build: TSC, start: ['dist/server.js', 'express'], partly: ['/controller'] };
  const onFastify = { start: ['dist/server.js', 'fastify'] };
  return [...(await proveServer(cwd, onExpress)), ...(await proveServer(cwd, onFastify))];
}

/** A request with the secret polls, and one without it does not. */
async function cronFailing(url: string): Promise<readonly string[]> {
  const refused = await fetch(url);
  const polled = await fetch(url, { headers: { authorization: 'Bearer cron-secret' } });
  const report = (await polled.json()) as { readonly requests?: number };
  const said = `${refused.status}, ${polled.status} after ${report.requests} requests`;
  return said === '401, 500 after 1 requests' ? [] : [`${url} answered ${said}`];
}

/** A signed delivery takes effect once, a forged one not at all. */
async function deliveriesFailing(url: string): Promise<readonly string[]> {
  const event = exampleEvent('transfer.settled');
  const honest = await signedRequest(event, { secret: 'contract-secret-old', url });
  const forged = await signedRequest(event, { secret: 'guessed', url });
  const statuses: string[] = [];
  for (const signed of [forged, honest, honest]) {
    const reply = await fetch(url, signed);
    statuses.push(`${reply.status} ${(await reply.json()).outcome}`);
  }
  const said = statuses.join(', ');
  return said === '401 rejected, 200 handled, 200 duplicate' ? [] : [`${url} answered ${said}`];
}

async function proveLambda(folder: string): Promise<readonly string[]> {
  await run({ args: TSC, cwd: folder });
  const args = ['--import', 'tsx', fileURLToPath(new URL('gateways.ts', import.meta.url)), folder];
  const gateways = await listenAsProcess({ args, cwd: here });
  const failures: string[] = [];
  try {
    for (const [path, gateway] of GATEWAYS) {
      const failed = await failuresAt(new URL(path, gateways.address).href, casesBehind(gateway));
      failures.push(...failed.map((failure) => `${path}: ${failure}`));
    }
  } finally {
    await gateways.stop();
  }
  return failures;
}

/** The types of the client, and those that openapi-typescript makes of the document in the package. */
async function proveOpenapi(cwd: string): Promise<readonly string[]> {
  const generator = 'node_modules/openapi-typescript/bin/cli.js';
  const document = 'node_modules/stablehooks/openapi.json';
  await run({ args: [generator, document, '--immutable', '--output', 'service.d.ts'], cwd });
  await run({ args: TSC, cwd });
  return [];
}

/** Takes every name that begins with `#`, in packages as well. */
const ALIASES = { '^#(.*)$': '<rootDir>/$1' };

/** Its tests pass with the configuration that the docs show, as it stands there, and with aliases of the app. */
async function proveJest(cwd: string): Promise<readonly string[]> {
  const page = await readFile(new URL('../../docs/modules.md', import.meta.url), 'utf8');
  const [settings = '', compiler = ''] = blocksOf(sectionOf(page, 'Jest'), 'json');
  const manifest = join(cwd, 'package.json');
  const { jest } = JSON.parse(settings);
  const merged = {
    ...JSON.parse(await readFile(manifest, 'utf8')),
    jest: { ...jest, moduleNameMapper: ALIASES },
  };
  await writeFile(manifest, JSON.stringify(merged));
  await writeFile(join(cwd, 'tsconfig.json'), compiler);
  await run({ args: ['node_modules/jest/bin/jest.js'], cwd });
  return [];
}
