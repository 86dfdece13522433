import { createReceiver, type UnknownEvent } from 'stablehooks';
import { createPoller, readPollState } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { openCatchUp } from '../own-inbox.js';
import { fire, SILENT, startService, TOKEN } from '../service.js';
import { openSqlite } from '../sqlite-file.js';

/** An app with its inbox in a file, and the ids of the events whose handler ran. */
async function startApp(path: string) {
  const ran: string[] = [];
  const inbox = await openSqlite(path);
  const handlers = { 'transfer.settled': ({ id }: UnknownEvent) => void ran.push(id) };
  const receiver = createReceiver({ secret: SECRET, inbox, logger: SILENT, handlers });
  const server = await serve(toNodeHandler(receiver));
  return {
    url: `${server.url}/hooks`,
    ran,
    inbox,
    receiver,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await receiver.close();
      inbox[Symbol.dispose]();
    },
  };
}

describe.concurrent('catch-up and listen with the place of the app', () => {
  test('catch-up keeps its own events and watermark there, and the app runs every event once', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    await using app = await startApp(path);
    const [first = ''] = fire(service.sandbox, 1);
    const client = createClient({ baseUrl: service.url, token: TOKEN });
    const since = new Date(Date.now() - 60_000);
    await createPoller({ client, receiver: app.receiver, since, logger: SILENT }).pollOnce();
    const polled = await readPollState(app.inbox);
    const missed = fire(service.sandbox, 2);

    const args = ['catch-up', '--to', app.url, '--inbox', path, '--since', '1h'];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(/\ndelivered +3 now, 0 before, 0 failed\n/);
    expect(exitCode).toBe(0);
    expect(app.ran.toSorted()).toEqual([first, ...missed].toSorted());
    expect(await readPollState(app.inbox)).toEqual(polled);
    for (const id of [first, ...missed]) {
      expect(await app.inbox.find(id)).toMatchObject({ state: 'done', attempts: 1 });
    }
    using own = await openCatchUp(path);
    expect((await readPollState(own)).since).toBeLessThan(polled.since ?? 0);
  });

  test('listen delivers to the app and does not hold its events', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const path = folder.at('app.db');
    await using app = await startApp(path);
    const ids = fire(service.sandbox, 3);
    const command = start(['listen', '--to', app.url, '--inbox', path, '--since', '1h'], service);
    for (const id of ids) await command.printed(id);
    command.interrupt();
    expect((await command.ended).stderr).toContain('3 delivered, 0 waiting');
    expect(app.ran.toSorted()).toEqual(ids.toSorted());
  });

  test('other commands read the app there, and catch-up by --namespace or in a file of its own', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using app = await startApp(folder.at('app.db'));
    fire(service.sandbox, 1);
    const stats = async (name: string, ...flags: readonly string[]) => {
      const { stdout, stderr } = await run(['inbox', 'stats', '--inbox', folder.at(name), ...flags]);
      return stdout + stderr;
    };
    for (const name of ['app.db', 'catch-up.db']) {
      await run(['catch-up', '--to', app.url, '--inbox', folder.at(name), '--since', '1h'], service);
    }
    expect(await stats('app.db', '--namespace', 'stablehooks_catch_up')).toMatch(/\ndone +1\n/);
    expect(await stats('catch-up.db')).toMatch(/\ndone +1\n/);
    expect(await stats('catch-up.db', '--namespace', 'stablehooks')).toContain('has no inbox');
    expect(await stats('app.db', '--namespace', 'other')).toContain('no inbox with the prefix other');
  });
});
