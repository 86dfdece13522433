import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenAsProcess, run } from './child.js';
import { paste } from './first-run/terminal.js';
import { blocksOf, sectionOf } from './project/markdown.js';
import { textOf } from './project/source.js';
import { freePort } from './services/free-port.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const secret = 'whsec_example';

/** A folder where both packages are installed, which is removed when the test ends. */
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'examples-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
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

  const [trial = ''] = blocksOf(readme, 'ts');

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
    const [command = '', ...output] = block
      .trimEnd()
      .replaceAll(/ \\\n */g, ' ')
      .split('\n');
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
