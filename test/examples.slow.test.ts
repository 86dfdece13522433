import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver, PermanentError } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import ts from 'typescript';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { listenAsProcess, run } from './child.js';
import { paste } from './first-run/terminal.js';
import { blocksOf, sectionOf } from './project/markdown.js';
import { textOf } from './project/source.js';
import { freePort } from './services/free-port.js';
import { startPostgres } from './services/postgres.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const secret = 'whsec_example';

test.each(['express', 'fastify', 'fetch', 'node'])(
  'examples/%s.ts handles a delivery of the sandbox and refuses a forged one',
  async (name) => {
    const args = ['--import', 'tsx', `examples/${name}.ts`];
    const running = await listenAsProcess({
      args,
      cwd: root,
      env: { PORT: '0', STABLEHOOKS_SECRET: secret },
    });
    onTestFinished(running.stop);

    const sandbox = createSandbox({ secret, endpoints: [{ url: running.address }], maxAttempts: 1 });
    sandbox.faults.set({ corruptSignature: { next: 1 } });
    sandbox.transfer({ failsWith: 'routing' });
    await sandbox.settled();
    sandbox.transfer({ failsWith: 'routing' });
    await sandbox.settled();
    expect(sandbox.attempts().map(({ response }) => response?.status)).toEqual([401, 200]);
    await sandbox.close();
  },
);

/** A folder where both packages are installed, which is removed when the test ends. */
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'examples-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Runs an example against a sandbox, and returns its exit code and all that it printed. */
async function runExample(name: string, sandbox: Sandbox, files: Readonly<Record<string, string>>) {
  const { url } = await sandbox.listen(0);
  const SINCE = new Date(Date.now() - 3_600_000).toISOString();
  const job = fork(join(root, `examples/${name}.ts`), {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, BASE_URL: url, TOKEN: sandbox.token, SINCE, ...files },
    silent: true,
  });
  let printed = '';
  for (const stream of [job.stdout, job.stderr]) {
    stream?.on('data', (chunk) => {
      printed += chunk;
    });
  }
  const [code] = await once(job, 'close');
  await sandbox.close();
  return { code, printed };
}

describe('the README', () => {
  const readme = textOf('README.md');

  /** A folder where both packages are installed, with `npx` that runs the command line. */
  function makeProject(): string {
    const folder = makeFolder();
    mkdirSync(join(folder, 'bin'));
    const npx = `#!/bin/sh\nshift\nexec '${process.execPath}' '${join(root, 'kit/dist/main.js')}' "$@"\n`;
    writeFileSync(join(folder, 'bin/npx'), npx);
    chmodSync(join(folder, 'bin/npx'), 0o755);
    return folder;
  }

  const [trial = '', production = '', postgresLines = '', next = ''] = blocksOf(readme, 'ts');

  /** Saves a program on a free port, and starts it. */
  async function startProgram(
    program: string,
    { folder, env = {} }: { readonly folder: string; readonly env?: Readonly<Record<string, string>> },
  ) {
    expect(program).toContain('3000');
    const port = String(await freePort());
    writeFileSync(join(folder, 'server.mjs'), program.replaceAll('3000', port));
    const running = paste(
      `${Object.entries({ STABLEHOOKS_SECRET: 'sandbox-secret', ...env })
        .map(([name, value]) => `export ${name}='${value}'`)
        .join('\n')}\nexec node server.mjs`,
      folder,
    );
    onTestFinished(running.stop);
    return { ...running, port };
  }

  /** Runs the command that the README shows below a heading, and returns what it prints and what the README shows. */
  async function runShown(heading: string, folder: string, change: (line: string) => string) {
    const [block = ''] = blocksOf(sectionOf(readme, heading), 'console');
    const [command = '', ...output] = block.trimEnd().split('\n');
    const line = `${change(command.replace(/^\$ /, ''))} 2>&1`;
    const PATH = `${join(folder, 'bin')}:${process.env['PATH']}`;
    const printed = await run({ program: 'bash', args: ['-c', line], cwd: folder, env: { PATH } });
    return { printed: printed.trimEnd(), shown: output.join('\n') };
  }

  /** The words that differ between runs. */
  const normalise = (text: string) => text.replaceAll(/evt_[\w-]+/g, 'EVENT').replaceAll(/\d+ ms/g, 'N ms');

  test('the two terminals of "Try it" print what the README shows, and the handler runs once', async () => {
    const folder = makeProject();
    const server = await startProgram(trial, { folder });
    await server.printed(/Listening on/, AbortSignal.timeout(30_000));
    const { printed, shown } = await runShown('Try it', folder, (line) => line.replace('3000', server.port));
    expect(normalise(printed)).toBe(normalise(shown));
    await server.stop();
    expect((await server.ended(AbortSignal.timeout(30_000))).output.match(/^settled /gm)).toHaveLength(1);
  });

  /** Runs the production program beside the service: a delivery, its copy, health and the end. */
  async function produce(
    program: string,
    env: Readonly<Record<string, string>>,
  ): Promise<{ id: string; folder: string }> {
    const folder = makeProject();
    const sandbox = createSandbox();
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen(0);
    const server = await startProgram(program, {
      folder,
      env: { STABLEHOOKS_BASE_URL: url, STABLEHOOKS_TOKEN: sandbox.token, ...env },
    });
    await server.printed(/Listening on/, AbortSignal.timeout(30_000));
    const origin = `http://localhost:${server.port}`;
    sandbox.endpoints.add({ url: `${origin}/hooks` });
    const { id } = sandbox.emit('transfer.settled', { amount: '12.50' });
    await sandbox.settled();
    sandbox.redeliver(id);
    await sandbox.settled();
    // While a poll runs the event that it found in the list, a push of it is asked to come again.
    const statuses = sandbox.attempts().map(({ response }) => response?.status);
    expect(statuses.filter((status) => status !== 503)).toEqual([200, 200]);
    // Its first poll may not have ended.
    const checkHealth = async () => expect((await fetch(`${origin}/healthz`)).status).toBe(200);
    await vi.waitFor(checkHealth, { timeout: 60_000 });
    await server.stop();
    expect((await server.ended(AbortSignal.timeout(60_000))).code).toBe(0);
    return { id, folder };
  }

  test('the program of "In production" books an event once, is healthy, and ends on SIGTERM', async () => {
    const { id, folder } = await produce(production, {});
    const ledger = new Database(join(folder, 'app.db')).prepare('SELECT event_id, amount FROM ledger').all();
    expect(ledger).toEqual([{ event_id: id, amount: '12.50' }]);
  });

  test('status prints what the README shows of a dead event', async () => {
    const folder = makeProject();
    const db = new Database(join(folder, 'app.db'));
    const receiver = createReceiver({
      secret,
      inbox: sqliteInbox(db, { transactional: true }),
      handlers: {
        'transfer.settled': () => {
          throw new PermanentError('no such account');
        },
      },
      logger: { warn: () => undefined, error: () => undefined },
    });
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    expect((await toFetchHandler(receiver)(signed.toRequest())).status).toBe(200);
    db.close();
    // No poller has run.
    const change = (line: string) => line.replace(' --require-poll', '');
    const { printed, shown } = await runShown('In production', folder, change);
    const undated = (text: string) => text.replaceAll(/\d{4}-\S+Z/g, 'TIME');
    expect(undated(printed)).toBe(undated(shown));
  });

  test('the same with the lines for Postgres', async () => {
    const postgres = await startPostgres();
    onTestFinished(() => postgres.stop());
    const pool = new pg.Pool({ connectionString: postgres.url });
    onTestFinished(() => pool.end());
    await pool.query('CREATE TABLE ledger (event_id TEXT PRIMARY KEY, amount TEXT NOT NULL)');
    const [statement = ''] = /tx\.query\([^`]*\)/.exec(readme) ?? [];
    const program = production
      .replace(/^import (?:Database|\{ sqliteInbox).*\n/gm, '')
      .replace(/^const db[\s\S]*?^const inbox.*$/m, () => postgresLines.replace('export const', 'const'))
      .replace(
        /\(\{ id, payload \}, \{ tx \}\) =>\n.*,$/m,
        () => `async ({ id, payload }, { tx }) => { await ${statement}; },`,
      )
      .replace('db.close()', 'await pool.end()');
    const { id } = await produce(program, { DATABASE_URL: postgres.url });
    const { rows } = await pool.query('SELECT event_id, amount FROM ledger');
    expect(rows).toEqual([{ event_id: id, amount: '12.50' }]);
  });

  test('its quick start for Next makes a receiver at the first delivery', async () => {
    const { outputText } = ts.transpileModule(next, { compilerOptions: { module: ts.ModuleKind.CommonJS } });
    const route: { POST?: (request: Request) => Promise<Response> } = {};
    new Function('require', 'exports', 'process', 'console', outputText)(
      createRequire(import.meta.url),
      route,
      { env: { STABLEHOOKS_SECRET: secret } },
      { log: () => undefined },
    );
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    expect((await route.POST?.(signed.toRequest()))?.status).toBe(200);
  });
});

describe('docs/frameworks.md', () => {
  test.each(['Hono', 'node:http'])('the program for %s handles a delivery', async (heading) => {
    const folder = makeFolder();
    const [program = ''] = blocksOf(sectionOf(textOf('docs/frameworks.md'), heading), 'ts');
    writeFileSync(join(folder, 'server.mjs'), program.replaceAll('3000', String(await freePort())));
    const running = await listenAsProcess({
      args: ['server.mjs'],
      cwd: folder,
      env: { STABLEHOOKS_SECRET: secret },
    });
    onTestFinished(running.stop);
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    expect((await fetch(running.address, signed)).status).toBe(200);
  });
});

test('examples/wallets.ts creates a wallet, sends within and over its limits, and lists the events', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', 'examples/wallets.ts'], {
    cwd: root,
  });
  expect(stdout.split('\n')).toEqual(
    expect.arrayContaining([
      'created base wallet with limits 10.00 and 15.00',
      'sent 10.00 settled',
      'refused 10.01 ERR_SANDBOX_OVER_PER_TX',
      'refused 5.01 ERR_SANDBOX_OVER_DAILY',
      'refused 1.00 ERR_SANDBOX_NOT_ALLOWED',
      'raised the limits to 100.00 and 200.00',
      'sent 10.01 settled',
      'received: deposit of 250.00',
      'received: settled 10.00',
      'received: settled 10.01',
      'listed 3 events, 3 delivered',
    ]),
  );
});

describe('examples/reconcile.ts', () => {
  async function runReconcile(sandbox: Sandbox) {
    const folder = makeFolder();
    const LEDGER = join(folder, 'ledger.csv');
    const ended = await runExample('reconcile', sandbox, { INBOX: join(folder, 'events.db'), LEDGER });
    return { ...ended, ledger: readFileSync(LEDGER, 'utf8') };
  }

  test('books what the list has, and exits with 0 when the poll is proven and the books agree', async () => {
    const sandbox = createSandbox();
    const { id, payload } = sandbox.emit('transfer.settled');
    const { code, printed, ledger } = await runReconcile(sandbox);
    expect(ledger).toBe(`${id},${payload['amount']}\n`);
    expect(printed).toMatch(
      // The event is so new that later ones of its time can still be listed.
      /^Every event created from 20\S+Z up to 20\S+Z that the service still lists is in the inbox\. .*\nNothing was compared: /,
    );
    expect(code).toBe(0);
  });

  test('says that the list can be cut, and exits with 1, because the books are not shown to be whole', async () => {
    const sandbox = createSandbox({ faults: { listOrder: 'oldest', listCap: 60 } });
    for (let count = 0; count < 200; count++) sandbox.accept();
    const { code, printed } = await runReconcile(sandbox);
    expect(printed).toMatch(/The list cannot be told apart from a cap/);
    expect(code).toBe(1);
  });
});

describe('examples/cron-poll.ts', () => {
  const runCronPoll = (sandbox: Sandbox) =>
    runExample('cron-poll', sandbox, { INBOX: join(makeFolder(), 'events.db') });

  test('exits with 0 when nothing is missing', async () => {
    const sandbox = createSandbox();
    sandbox.accept();
    const { code, printed } = await runCronPoll(sandbox);
    expect(printed).toMatch(
      /booked accept\.confirmed[\s\S]*listed 1, older than SINCE 0, new 1, recovered 1, failed 0[\s\S]*proven up to/,
    );
    expect(code).toBe(0);
  });

  test('exits with 0 while the list can be complete, and says what is not confirmed', async () => {
    // Two hundred events of one type behind a cap of sixty, oldest first: the list always shows the same sixty.
    const sandbox = createSandbox({ faults: { listOrder: 'oldest', listCap: 60 } });
    for (let count = 0; count < 200; count++) sandbox.accept();
    const { code, printed } = await runCronPoll(sandbox);
    expect(printed).toContain('unconfirmed: The list cannot be told apart from a cap');
    expect(code).toBe(0);
  });

  test('exits with 2 when the service fails', async () => {
    const { code, printed } = await runCronPoll(createSandbox({ faults: { apiServerError: 1 } }));
    expect(printed).toContain('problem: ERR_API_STATUS');
    expect(code).toBe(2);
  });
});
