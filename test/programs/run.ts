/**
 * `npm run test:programs`: writes each program with `init` of the packed kit into an empty folder, installs the tarballs, and
 * runs it beside the sandbox, as its README says. Deliveries are lost, repeated and refused, the process is killed, a handler
 * fails. In the end, the ledger must equal the service's list, with nothing twice, and `status` and `/healthz` must be green.
 * Words select programs by their names; NIGHTLY=1 runs all of them, with ten kills each.
 */
import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { until } from '../child.js';
import { paste, type Running } from '../first-run/terminal.js';
import { atNight } from '../nightly.js';
import { report } from '../report.js';
import { freePort } from '../services/free-port.js';
import { startPostgres } from '../services/postgres.js';
import { packTarballs, type Tarballs } from '../tarball.js';
import { adaptEnv, type Place, PROGRAMS, type Program } from './programs.js';
import { proveNight } from './reconcile-nightly.js';
import { proveRotation } from './rotation.js';
import { LIMIT_MS, succeed, toEnv, write } from './write.js';

const KILLS = atNight(10, 1);

async function prove(program: Program, tarballs: Tarballs, postgresUrl: string): Promise<readonly string[]> {
  const { start, prepare = [], ledger, status = true, beside, poll, certify } = program;
  const types = program.types ?? ['accept.confirmed', 'transfer.settled', 'redeem.completed'];
  const folder = await write(program.init, tarballs);
  // Two attempts, close together: what is pushed while the program is down is lost.
  const sandbox = createSandbox({
    faults: { drop: 0.2, duplicate: 0.2 },
    maxAttempts: 2,
    retryBaseMs: 50,
    movementMs: 0,
  });
  const started: Running[] = [];
  const begin = async (lines: string, ready: RegExp) => {
    const running = paste(lines, folder);
    started.push(running);
    await running.printed(ready, AbortSignal.timeout(LIMIT_MS));
    return running;
  };
  try {
    const { url } = await sandbox.listen(0);
    const [PORT, BANK_PORT] = [String(await freePort()), String(await freePort())];
    const given = { PORT, BANK_PORT, STABLEHOOKS_BASE_URL: url, BANK_URL: `http://localhost:${BANK_PORT}/` };
    const env = await adaptEnv(
      folder,
      program.needsPostgres ? { ...given, DATABASE_URL: postgresUrl } : given,
    );
    await writeFile(join(folder, '.env'), toEnv(env));
    const place: Place = { folder, env, origin: `http://localhost:${PORT}` };
    const lines = (command: string) => `export PORT=${PORT}\n${command}`;
    if (program.sql !== undefined)
      await runSql(postgresUrl, await readFile(join(folder, program.sql), 'utf8'));
    for (const command of prepare) await succeed(`${PRISMA}\n${command}`, folder);
    if (atNight(true, false)) await succeed(`${PRISMA}\nnpm run check`, folder);

    // As in an image: an operator's commands are not development dependencies.
    if (status) await succeed('npm prune --omit=dev --no-audit --no-fund', folder);

    if (beside !== undefined) await begin(lines(beside), /listens on http/);
    const startServer = () => begin(lines(start), new RegExp(`http://\\S+:${PORT}`));
    let server = await startServer();
    // The first poll stores the start date.
    if (poll !== undefined) await succeed(lines(poll), folder);
    else await fetch(`${place.origin}/healthz`);
    sandbox.endpoints.add({ url: `${place.origin}/hooks` });

    const fired: string[] = [];
    const fire = (count: number) => {
      for (let index = 0; index < count; index++) {
        const type = types[index % types.length] ?? 'transfer.settled';
        const { id, payload } = sandbox.emit(type);
        fired.push(beside === undefined ? id : String(payload['redeem_id']));
      }
    };
    const isEven = async () => {
      if (poll !== undefined) await paste(lines(poll), folder).ended(AbortSignal.timeout(LIMIT_MS));
      return new Set(await ledger.read(place)).size >= fired.length;
    };
    for (let kill = 0; kill < KILLS; kill++) {
      fire(20);
      await until('a first entry', async () => (await ledger.read(place)).length > kill * 25);
      await server.kill();
      fire(5);
      await sandbox.settled();
      server = await startServer();
    }
    await until('the ledger to have every event of the list', isEven);

    if (ledger.fault !== undefined) {
      await ledger.fault.breaks(place);
      fire(1);
      await sandbox.settled();
      await ledger.fault.mend(place);
      await until('the failed event to be redriven', isEven);
    }

    const listed = sandbox
      .events({ limit: 10_000 })
      .map(({ id, payload }) => (beside === undefined ? id : String(payload['redeem_id'])));
    assert.deepEqual([...(await ledger.read(place))].sort(), [...listed].sort());
    assert.equal(listed.length, fired.length);
    await until('/healthz to be green', async () => (await fetch(`${place.origin}/healthz`)).ok);
    if (status) await succeed('npm run status', folder);

    if (certify !== undefined) {
      await server.stop();
      const database = program.needsPostgres ? 'env:DATABASE_URL' : 'app.db';
      const flags = `--url ${place.origin}/hooks --database ${database} ${CERTIFY}`;
      const command = `npx stablehooks certify --app '${start}' ${flags}`;
      const { code, output } = await paste(lines(command), folder).ended(AbortSignal.timeout(2 * LIMIT_MS));
      assert.equal(code, certify.code, output);
      assert.match(output, certify.prints);
    }
    return [];
  } finally {
    for (const running of started.reverse()) await running.stop();
    await sandbox.close();
    await rm(join(folder, '..'), { recursive: true, maxRetries: 5 });
  }
}

const CERTIFY = "--env-file .env --start 1m --effects 'SELECT event_id, type, amount FROM ledger'";

/** Prisma 7 downloads its schema engine even to generate a client, which does not use it. */
const PRISMA = 'export PRISMA_SCHEMA_ENGINE_BINARY=/bin/true';

async function runSql(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

/** A database of its own for each program, because several run at the same time. */
async function createDatabase(server: string, name: string): Promise<string> {
  const database = name.replaceAll(/\W+/g, '_');
  await runSql(server, `CREATE DATABASE ${database}`);
  return Object.assign(new URL(server), { pathname: `/${database}` }).href;
}

/** Each installs, then mostly waits for deliveries, retries and polls. */
const AT_ONCE = 3;

const only = process.argv.slice(2);
const isChosen = (name: string, nightly = false) =>
  only.length === 0 ? atNight(true, !nightly) : only.some((word) => name.includes(word));
const tarballs = await packTarballs();
const postgres = await startPostgres();
const steps = PROGRAMS.filter(({ name, nightly }) => isChosen(name, nightly)).map(
  (program) => () =>
    report(program.name, async () => {
      const url = program.needsPostgres ? await createDatabase(postgres.url, program.name) : '';
      return prove(program, tarballs, url);
    }),
);
if (isChosen('rotation', true))
  steps.push(() => report('rotation of the secret', () => proveRotation(tarballs)));
if (isChosen('reconcile-nightly', true))
  steps.push(() => report('reconcile-nightly', () => proveNight(tarballs)));
if (steps.length === 0) throw new Error(`The programs are ${PROGRAMS.map(({ name }) => name).join('; ')}.`);
const work = async () => {
  for (let next = steps.shift(); next !== undefined; next = steps.shift()) await next();
};
try {
  await Promise.all(Array.from({ length: AT_ONCE }, work));
} finally {
  await postgres.stop();
  await tarballs.remove();
}
