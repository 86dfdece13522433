import { createReceiver } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { openCatchUp } from '../own-inbox.js';
import { SILENT, startEndpoint, startService } from '../service.js';

/** An endpoint whose receiver has a handler for `transfer.settled` only. */
function startSettledOnly() {
  const handlers = { 'transfer.settled': () => undefined };
  return serve(toNodeHandler(createReceiver({ secret: SECRET, logger: SILENT, handlers })));
}

/** The report of `catch-up --json`, which is its last line. */
function readReport({ stdout }: { readonly stdout: string }): unknown {
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
}

describe.concurrent('types that --type leaves out', () => {
  test('catch-up delivers in a later run what --type left out in an earlier one', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const { id: failed } = service.sandbox.emit('transfer.failed');
    const { id: settled } = service.sandbox.emit('transfer.settled');
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];

    const selected = await run([...args, '--type', 'transfer.settled'], service);
    expect(endpoint.handled()).toEqual([settled]);
    expect(selected.stdout).toMatch(/\nfound +2 not yet in this inbox\n/);
    expect(selected.stdout).toMatch(/\ndelivered +1 now, 0 before, 0 failed\n/);
    expect(selected.stdout).toContain('\nleft out    1 event of transfer.failed (--type).');
    expect(selected.exitCode).toBe(0);

    const all = await run([...args, '--json'], service);
    expect(endpoint.handled()).toEqual([settled, failed]);
    expect(readReport(all)).toMatchObject({
      proven: true,
      handled: 1,
      duplicates: 1,
      failed: 0,
      undelivered: {},
      leftOut: {},
    });
    expect(all.exitCode).toBe(0);
  });

  test('an event that no handler ran counts again in a run of all types after a run whose --type left it out', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using server = await startSettledOnly();
    service.sandbox.emit('transfer.settled');
    const { id } = service.sandbox.emit('transfer.failed');
    const inbox = ['--inbox', folder.at('events.db')];
    const args = ['catch-up', '--to', server.url, ...inbox, '--since', '1h'];
    const noHandler =
      '\nno handler  The endpoint ran no handler for 1 event of transfer.failed. Add a handler for future events. ';

    const first = await run(args, service);
    expect(first.stdout).toContain(noHandler);
    expect(first.exitCode).toBe(1);

    // As the first run advises; while the event is due, and while it is not.
    const dueAgain = () => run(['inbox', 'requeue', id, ...inbox, '--wait', '0']);
    await dueAgain();
    for (const _ of ['due', 'not due']) {
      const advised = await run([...args, '--type', 'transfer.settled'], service);
      expect(advised.stdout).toContain('\nleft out    1 event of transfer.failed (--type).');
      expect(advised.stdout).not.toMatch(/run again|no handler|waiting/);
      expect(advised.exitCode).toBe(0);
    }

    const last = await run(args, service);
    expect(last.stdout).toContain(noHandler);
    expect(last.stdout).not.toContain('\nproven');
    expect(last.exitCode).toBe(1);
  });

  test('an event that --type leaves out does not hide one that is due after it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const path = folder.at('events.db');
    {
      using inbox = await openCatchUp(path);
      // More than a receiver takes at a time.
      const failed = Array.from({ length: 100 }, () => service.sandbox.emit('transfer.failed'));
      for (const events of [failed, [service.sandbox.emit('transfer.settled')]])
        await inbox.record(events, { dueInMs: 0, origin: 'pull' });
    }
    const args = ['catch-up', '--to', endpoint.url, '--inbox', path, '--since', '1h', '--json'];
    const report = readReport(await run([...args, '--type', 'transfer.settled'], service));
    expect(report).toMatchObject({
      redriven: { handled: 1, ignored: 0, busy: 0 },
      failed: 0,
      leftOut: { 'transfer.failed': 100 },
    });
    expect(endpoint.outcomes).toHaveLength(1);
  });

  test('listen prints an event that no handler runs once, until a handler runs it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    let outcome = 'ignored';
    let requests = 0;
    await using server = await serve((_, response) => {
      requests += 1;
      if (requests === 4) outcome = 'handled';
      response.end(JSON.stringify({ outcome }));
    });
    const args = ['listen', '--to', server.url, '--inbox', folder.at('listen.db'), '--interval', '50ms'];
    const listening = start(args, service);
    await listening.printed('Listening since');
    const { id } = service.sandbox.emit('transfer.failed');
    await listening.printed(new RegExp(`${id} +200 handled .* attempt 4`));
    listening.interrupt();
    const { stdout, stderr } = await listening.ended;
    expect(stdout.match(/200 ignored/g)).toHaveLength(1);
    expect(stderr).toContain('\nStopped: 1 delivered, 0 waiting.');
  });
});
