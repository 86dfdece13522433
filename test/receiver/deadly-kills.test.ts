/** An event whose handler ends its process at every attempt, while it is delivered again and again and the poller runs. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, onTestFinished, test } from 'vitest';
import { bundle } from '../bundle.js';

const secret = 'whsec_deadly';

test('an event that ends its process at every attempt is dead after maxAttempts counted runs', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-deadly-'));
  const program = await bundle(new URL('./deadly-process.ts', import.meta.url));
  const FILE = join(folder, 'inbox.db');
  const db = new Database(FILE);
  const inbox = sqliteInbox(db, { busyTimeoutMs: 60_000 });
  const events = [
    exampleEvent('transfer.settled'),
    { ...exampleEvent('transfer.settled'), id: 'evt_deadly' },
  ];
  const list = createServer((_, response) => response.end(JSON.stringify(events))).listen(0, '127.0.0.1');
  await once(list, 'listening');
  const urlOf = ({ port }: AddressInfo) => `http://127.0.0.1:${port}/`;
  let child: ChildProcess | undefined;
  onTestFinished(async () => {
    child?.kill('SIGKILL');
    list.close();
    db.close();
    rmSync(folder, { recursive: true });
    await program.remove();
  });

  const env = { ...process.env, FILE, LIST: urlOf(list.address() as AddressInfo), SECRET: secret };
  let starts = 0;
  for (; (await inbox.find('evt_deadly'))?.state !== 'dead'; starts++) {
    expect(starts).toBeLessThan(50);
    child = fork(program.file, { env, execArgv: [] });
    const ended = once(child, 'exit');
    const [address] = await Promise.race([once(child, 'message'), ended.then(() => [undefined])]);
    if (address === undefined) continue;
    // It listens, so it is delivered until it ends the process, or is dead.
    let isRunning = true;
    void ended.then(() => {
      isRunning = false;
    });
    while (isRunning && (await inbox.find('evt_deadly'))?.state !== 'dead') {
      for (const event of events) {
        const { url, ...request } = await signedRequest(event, {
          secret,
          url: urlOf(address as AddressInfo),
        });
        await fetch(url, { ...request, body: new Uint8Array(request.body) }).catch(() => undefined);
      }
    }
  }
  expect(await inbox.find('evt_deadly')).toMatchObject({
    attempts: 4,
    lastError: expect.stringContaining('recorded no result'),
  });
  expect((await inbox.find('evt_deadly'))?.history.filter(({ result }) => result === 'lapsed')).toHaveLength(
    3,
  );
  expect(await inbox.find(events[0]?.id ?? '')).toMatchObject({ state: 'done' });
  console.log(`dead after ${starts} starts`);
});
