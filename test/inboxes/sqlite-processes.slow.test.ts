import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { connect, freshPath } from './sqlite-drivers.js';

const SCRIPT = fileURLToPath(new URL('sqlite-process.ts', import.meta.url));
const HOUR_MS = 3_600_000;

function start(path: string, { task }: { readonly task: string }): ChildProcess {
  const child = fork(SCRIPT, [path, task], { execArgv: ['--import', 'tsx'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}

async function message(child: ChildProcess): Promise<unknown> {
  const [value] = await once(child, 'message');
  return value;
}

test('four processes that open a new file at the same time claim each event once', async () => {
  const path = freshPath();
  const children = Array.from({ length: 4 }, () => start(path, { task: 'race' }));
  await Promise.all(children.map(message));
  const results = children.map(message);
  for (const child of children) child.send('go');
  const won = (await Promise.all(results)).flat();
  expect(won).toHaveLength(200);
  expect(new Set(won).size).toBe(200);
});

test('a claim waits while another process writes', async () => {
  const path = freshPath();
  const inbox = sqliteInbox(connect(path));
  const child = start(path, { task: 'lock' });
  expect(await message(child)).toBe('locked');
  // The claim blocks this process until the lock is free, so the message must be sent before.
  await new Promise((resolve) => child.send('unlock', resolve));
  const event = { id: 'a', type: 'transfer.settled', created_at: '2026-01-02T03:04:05Z', payload: {} };
  expect((await inbox.claim(event, { leaseMs: HOUR_MS, origin: 'push' })).state).toBe('claimed');
});
