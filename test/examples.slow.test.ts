/** Each example, started as a process of its own, takes a signed event of the sandbox and refuses a forged one. */
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { type Listening, listenAsProcess } from './child.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const secret = 'whsec_example';

let running: Listening | undefined;
afterEach(() => running?.stop());

test.each(['express', 'fastify', 'fetch', 'node'])('examples/%s.ts', async (name) => {
  const args = ['--import', 'tsx', `examples/${name}.ts`];
  running = await listenAsProcess({ args, cwd: root, env: { PORT: '0', WEBHOOK_SECRET: secret } });

  const sandbox = createSandbox({ secret, endpoints: [{ url: running.address }], maxAttempts: 1 });
  sandbox.faults.set({ corruptSignature: { next: 1 } });
  sandbox.transfer({ failsWith: 'routing' });
  await sandbox.settled();
  sandbox.transfer({ failsWith: 'routing' });
  await sandbox.settled();
  expect(sandbox.attempts().map(({ response }) => response?.status)).toEqual([401, 200]);
  await sandbox.close();
});

test('examples/wallets.ts', async () => {
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
  async function reconcile(sandbox: Sandbox, { since }: { readonly since: string }) {
    const { url } = await sandbox.listen(0);
    const INBOX = join(mkdtempSync(join(tmpdir(), 'reconcile-')), 'events.db');
    const run = fork(join(root, 'examples/reconcile.ts'), {
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
    const { code, printed } = await reconcile(sandbox, { since });
    expect(printed).toMatch(
      /booked accept\.confirmed[\s\S]*listed 1, new 1, recovered 1, failed 0[\s\S]*proven up to/,
    );
    expect(code).toBe(0);
  });

  test('exits with 1 on a gap that nothing can prove away', async () => {
    // Two hundred events of one type behind a cap of sixty, oldest first: the same window for ever.
    const sandbox = createSandbox({ faults: { listOrder: 'oldest', listCap: 60 } });
    for (let count = 0; count < 200; count++) sandbox.accept();
    const { code, printed } = await reconcile(sandbox, { since });
    expect(printed).toMatch(/gap: .* may be missing\nnot proven/);
    expect(code).toBe(1);
  });

  test('exits with 2 when the service fails', async () => {
    const { code, printed } = await reconcile(createSandbox({ faults: { apiServerError: 1 } }), { since });
    expect(printed).toContain('problem: ERR_API_STATUS');
    expect(code).toBe(2);
  });
});
