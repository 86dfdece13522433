import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenAsProcess, run } from './child.js';
import { blocksOf, sectionOf } from './project/markdown.js';
import { textOf } from './project/source.js';
import { freePort } from './services/free-port.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const secret = 'whsec_example';

test.each(['express', 'fastify', 'fetch', 'node'])(
  'examples/%s.ts handles a delivery of the sandbox and refuses a forged one',
  async (name) => {
    const args = ['--import', 'tsx', `examples/${name}.ts`];
    const running = await listenAsProcess({ args, cwd: root, env: { PORT: '0', WEBHOOK_SECRET: secret } });
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

describe('the README', () => {
  const readme = textOf('README.md');

  /** A folder of a user who has installed both packages, with `npx` that runs the command line. */
  function makeProject(): string {
    const folder = mkdtempSync(join(tmpdir(), 'readme-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    mkdirSync(join(folder, 'bin'));
    const npx = `#!/bin/sh\nshift\nexec '${process.execPath}' '${join(root, 'kit/dist/main.js')}' "$@"\n`;
    writeFileSync(join(folder, 'bin/npx'), npx);
    chmodSync(join(folder, 'bin/npx'), 0o755);
    return folder;
  }

  /** Saves the first program of a section, on a free port, and starts it as it is. */
  async function startBlock(heading: string, folder: string) {
    const [program = ''] = blocksOf(sectionOf(readme, heading), 'ts');
    expect(program).toContain('3000');
    const port = String(await freePort());
    writeFileSync(join(folder, 'receiver.mjs'), program.replaceAll('3000', port));
    const env = { WEBHOOK_SECRET: secret };
    const running = await listenAsProcess({ args: ['receiver.mjs'], cwd: folder, env });
    onTestFinished(running.stop);
    return { ...running, port };
  }

  test.each(['Express 4 and 5', 'Fastify 5', 'fetch: Hono, Workers, Deno, Bun, SvelteKit, Remix'])(
    'the quick start "%s" listens, handles a signed delivery and refuses a forged one',
    async (heading) => {
      const { address: url } = await startBlock(heading, makeProject());
      const send = async (key: string) => {
        const signed = await signedRequest(exampleEvent('transfer.settled'), { secret: key, url });
        const response = await fetch(url, signed);
        return `${response.status} ${await response.text()}`;
      };
      expect(await send(secret)).toBe('200 {"outcome":"handled"}');
      expect(await send('forged')).toMatch(/^401 .*"ERR_SIGNATURE_MISMATCH"/);
    },
  );

  test('the steps of "Try it" work as pasted: the sandbox delivers what trigger fires, and the handler runs once', async () => {
    const folder = makeProject();
    const { port } = await startBlock('Try it', folder);
    const [sandbox = '', trigger = ''] = blocksOf(sectionOf(readme, 'Try it'), 'sh');
    const sandboxPort = String(await freePort());
    const shell = (text: string) => ({
      program: 'bash',
      args: ['-c', text.replaceAll('3000', port).replaceAll('4010', sandboxPort)],
      cwd: folder,
      env: { PATH: `${join(folder, 'bin')}:${process.env['PATH']}` },
    });

    const line = sandbox
      .trim()
      .replace('npx stablehooks sandbox', 'exec npx stablehooks sandbox --port 4010');
    const service = await listenAsProcess(shell(line));
    onTestFinished(service.stop);
    const printed = await run(shell(trigger));
    expect(printed).toMatch(/200 handled.*\n.*200 duplicate/);
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
    const { url } = await sandbox.listen(0);
    const folder = mkdtempSync(join(tmpdir(), 'reconcile-'));
    const env = {
      BASE_URL: url,
      TOKEN: sandbox.token,
      INBOX: join(folder, 'events.db'),
      LEDGER: join(folder, 'ledger.csv'),
      SINCE: new Date(Date.now() - 3_600_000).toISOString(),
    };
    const job = fork(join(root, 'examples/reconcile.ts'), {
      execArgv: ['--import', 'tsx'],
      env: { ...process.env, ...env },
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
    const ledger = readFileSync(env.LEDGER, 'utf8');
    rmSync(folder, { recursive: true });
    return { code, printed, ledger };
  }

  test('books what the list has, and exits with 0 when the poll is proven and the books agree', async () => {
    const sandbox = createSandbox();
    const { id, payload } = sandbox.emit('transfer.settled');
    const { code, printed, ledger } = await runReconcile(sandbox);
    expect(ledger).toBe(`${id},${payload['amount']}\n`);
    expect(printed).toMatch(
      // The event is so new that later ones of its time can still be listed.
      /^Every event created from 20\S+Z up to 20\S+Z is in the inbox\.\nNothing was compared: /,
    );
    expect(code).toBe(0);
  });

  test('prints the open gap and exits with 1 when the list is cut', async () => {
    const sandbox = createSandbox({ faults: { listOrder: 'oldest', listCap: 60 } });
    for (let count = 0; count < 200; count++) sandbox.accept();
    const { code, printed } = await runReconcile(sandbox);
    expect(printed).toMatch(/\ngap: Events .*can be missing/);
    expect(code).toBe(1);
  });
});

describe('examples/cron-poll.ts', () => {
  async function runCronPoll(sandbox: Sandbox, { since }: { readonly since: string }) {
    const { url } = await sandbox.listen(0);
    const INBOX = join(mkdtempSync(join(tmpdir(), 'cron-poll-')), 'events.db');
    const run = fork(join(root, 'examples/cron-poll.ts'), {
      execArgv: ['--import', 'tsx'],
      env: { ...process.env, BASE_URL: url, TOKEN: sandbox.token, INBOX, SINCE: since },
      silent: true,
    });
    let printed = '';
    run.stdout?.on('data', (chunk) => {
      printed += chunk;
    });
    const [code] = await once(run, 'close');
    await sandbox.close();
    rmSync(dirname(INBOX), { recursive: true });
    return { code, printed };
  }

  const since = new Date(Date.now() - 3_600_000).toISOString();

  test('exits with 0 when nothing is missing', async () => {
    const sandbox = createSandbox();
    sandbox.accept();
    const { code, printed } = await runCronPoll(sandbox, { since });
    expect(printed).toMatch(
      /booked accept\.confirmed[\s\S]*listed 1, older than SINCE 0, new 1, recovered 1, failed 0[\s\S]*proven up to/,
    );
    expect(code).toBe(0);
  });

  test('exits with 1 on a gap that no poll can close', async () => {
    // Two hundred events of one type behind a cap of sixty, oldest first: the list always shows the same sixty.
    const sandbox = createSandbox({ faults: { listOrder: 'oldest', listCap: 60 } });
    for (let count = 0; count < 200; count++) sandbox.accept();
    const { code, printed } = await runCronPoll(sandbox, { since });
    expect(printed).toContain('not proven');
    expect(code).toBe(1);
  });

  test('exits with 2 when the service fails', async () => {
    const { code, printed } = await runCronPoll(createSandbox({ faults: { apiServerError: 1 } }), { since });
    expect(printed).toContain('problem: ERR_API_STATUS');
    expect(code).toBe(2);
  });
});
