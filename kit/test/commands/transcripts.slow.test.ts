import { execFile } from 'node:child_process';
import { chmod, readFile, symlink, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { createReceiver, PermanentError, type UnknownPayload } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { makeFolder, start } from '../command.js';
import { serve } from '../http-server.js';
import { openSqlite } from '../sqlite-file.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const ENDPOINT = 'http://localhost:3000/hooks';
const handlers = {
  'transfer.settled': ({ payload }: { readonly payload: UnknownPayload }) => {
    if (payload['doctor'] === 'failing-handler') throw new Error('doctor asked for it');
  },
  'transfer.failed': () => undefined,
};

/** One `$` line, and what it prints. */
interface Step {
  readonly command: string;
  readonly output: string;
}

function readSteps(markdown: string): readonly Step[] {
  const blocks = [...markdown.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text);
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((step) => {
        const [command = '', ...output] = step.replaceAll(/ \\\n */g, ' ').split('\n');
        return { command, output: output.join('\n').trim() };
      }),
  );
}

/** Patterns that differ between runs, and the word that replaces each. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  // The page breaks long lines, as a terminal does.
  [/\s+/g, ' '],
  [/\b(evt|wal)_[\w-]+/g, '$1_ID'],
  [/\b0x[0-9a-f]{40}\b/g, 'ADDRESS'],
  [/\b[0-9a-f]{64}\b/g, 'SIGNATURE'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'],
  [/\b\d\d:\d\d:\d\dZ/g, 'CLOCK'],
  [/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT'],
  [/\?token=[\w-]+/g, '?token=TOKEN'],
  [/--seed \d+/g, '--seed N'],
  [/\b\d+ ms\b/g, 'N ms'],
  [/\b\d+(ms|[dhms])( \d+[hms])?(?= |$)/g, 'AGE'],
  [/\d+ × (200 duplicate|503 ERR_EVENT_BUSY)/g, 'N × BUSY'],
];

function normalise(text: string): string {
  return VARIABLE.reduce((all, [pattern, word]) => all.replaceAll(pattern, word), text.trim());
}

const IDS = /\b(?:evt|wal)_[\w-]+|\b[0-9a-f]{64}\b|\bSIGNATURE\b/g;

async function fillAppInbox(path: string): Promise<void> {
  using inbox = await openSqlite(path);
  const giveUp = () => {
    throw new PermanentError('the account was closed');
  };
  const receiver = createReceiver({
    secret: 'x',
    inbox,
    onOutcome: () => undefined,
    handlers: { 'transfer.failed': giveUp },
  });
  const events = [
    exampleEvent('accept.confirmed'),
    exampleEvent('transfer.failed', { payload: { transfer_id: 'trf_01', amount: '10.50' } }),
    { ...exampleEvent('redeem.failed'), type: 'new' },
  ];
  for (const event of events) await receiver.accept(event, 'push');
}

test('the documented commands print what their transcripts show', async () => {
  await using folder = await makeFolder();
  await symlink(`${ROOT}node_modules`, folder.at('node_modules'));
  await writeFile(
    folder.at('stablehooks'),
    `#!/bin/sh\nexec '${process.execPath}' '${ROOT}kit/dist/main.js' "$@"\n`,
  );
  await chmod(folder.at('stablehooks'), 0o755);
  await fillAppInbox(folder.at('app.db'));
  const receiver = createReceiver({ secret: 'sandbox-secret', onOutcome: () => undefined, handlers });
  await using server = await serve(toNodeHandler(receiver));
  const endpoint = `${server.url}/hooks`;
  using inbox = await openSqlite(folder.at('app.db'));
  const app = createReceiver({ secret: 'sandbox-secret', onOutcome: () => undefined, handlers, inbox });
  await using appServer = await serve(toNodeHandler(app));

  const env: Record<string, string> = { PATH: `${folder.path}:${process.env['PATH']}` };
  const actual = new Map<string, string>();
  const background: ReturnType<typeof start>[] = [];

  async function runLine(command: string, { output }: Step): Promise<string> {
    const [, name] = command.split(' ');
    if (name !== 'sandbox' && name !== 'listen') {
      return new Promise((resolve) => {
        const options = { env, cwd: folder.path };
        execFile('bash', ['--norc', '-c', `{ ${command}\n} 2>&1`], options, (_, stdout) => resolve(stdout));
      });
    }
    // These two do not end by themselves: their output is complete with its last line.
    const args = [...command.split(' ').slice(1), ...(name === 'sandbox' ? ['--port', '0'] : [])];
    const running = start(args, { env: { STABLEHOOKS_SECRET: undefined, ...env }, cwd: folder.path });
    background.push(running);
    const last = normalise(output.split('\n').at(-1) ?? '');
    for (
      let printed = '', pattern = /\n/;
      ;
      pattern = new RegExp(`^[\\s\\S]{${printed.length}}[\\s\\S]*\n`)
    ) {
      printed = await running.printed(pattern);
      if (!normalise(printed.replaceAll(endpoint, ENDPOINT)).includes(last)) continue;
      for (const [, key = '', value = ''] of printed.matchAll(/^export (\w+)=(.*)$/gm)) env[key] = value;
      return printed;
    }
  }

  const steps = readSteps(await readFile(`${ROOT}docs/command-line.md`, 'utf8'));
  try {
    for (const step of steps) {
      // It runs what the inbox of the app has, in the app.
      const to = step.command.includes(' inbox run ') ? `${appServer.url}/hooks` : endpoint;
      const command = step.command.replaceAll(ENDPOINT, to).replaceAll(IDS, (id) => actual.get(id) ?? id);
      const printed = (await runLine(command, step)).replaceAll(endpoint, ENDPOINT);
      expect(`$ ${step.command}\n${normalise(printed)}`).toBe(`$ ${step.command}\n${normalise(step.output)}`);
      const ids = printed.match(IDS) ?? [];
      for (const [index, id] of (step.output.match(IDS) ?? []).entries()) actual.set(id, ids[index] ?? id);
    }
  } finally {
    for (const running of background) running.interrupt();
    await Promise.all(background.map(({ ended }) => ended));
  }
  expect(new Set(steps.map(({ command }) => command.split(' ')[1])).size).toBeGreaterThan(10);
});
