import Database from 'libsql';
import { writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { openCatchUp } from '../own-inbox.js';
import { fire, startEndpoint, startService } from '../service.js';

describe.concurrent('catch-up', () => {
  test('catch-up delivers what was missed, proves it, and delivers nothing twice', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const ids = fire(service.sandbox, 3);
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    const first = await run(args, service);
    expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
    expect(first.stdout).toMatch(/found +3 not yet in this inbox\n/);
    expect(first.stdout).toMatch(/\nproven +Every event created from 20/);
    expect(first.exitCode).toBe(0);

    const second = await run([...args, '--json'], service);
    expect(JSON.parse(second.stdout)).toMatchObject({ proven: true, new: 0, duplicates: 3, handled: 0 });
    expect(endpoint.outcomes).toHaveLength(3);
  });

  test('catch-up is exit 1 and not proven when the list has different events with one id', async () => {
    await using folder = await makeFolder();
    const event = {
      ...exampleEvent('transfer.settled'),
      created_at: new Date(Date.now() - 60_000).toISOString(),
    };
    const listed = [event, { ...event, delivered: true }];
    await using service = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(listed));
    });
    await using endpoint = await startEndpoint();
    const env = { STABLEHOOKS_BASE_URL: service.url, STABLEHOOKS_TOKEN: 'token', STABLEHOOKS_SECRET: SECRET };
    const catchUp = (inbox: string) =>
      run(['catch-up', '--to', endpoint.url, '--inbox', folder.at(inbox), '--since', '1h', '--lag', '0s'], {
        env,
      });
    const copies = await catchUp('copies.db');
    expect([copies.exitCode, copies.stdout]).toEqual([0, expect.stringMatching(/\nproven /)]);

    listed.push({ ...event, payload: { amount: '1000.00' } });
    const first = await catchUp('events.db');
    expect(first.stdout).toMatch(new RegExp(`\\nproblem +ERR_EVENT_CONFLICT ${event.id}: `));
    const second = await catchUp('events.db');
    for (const { stdout, exitCode } of [first, second]) {
      expect(stdout).toMatch(/\nrecorded /);
      expect(stdout).not.toMatch(/\nproven /);
      expect(exitCode).toBe(1);
    }
    expect(endpoint.handled()).toEqual([event.id]);
  });

  test('catch-up is exit 1 and prints the gap when completeness is not proven', async () => {
    await using folder = await makeFolder();
    await using service = await startService({ faults: { listOrder: 'oldest', listCap: 50 } });
    await using endpoint = await startEndpoint();
    fire(service.sandbox, 60);
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    {
      // A clock that was two hours fast.
      using inbox = await openCatchUp(folder.at('events.db'));
      const [since, watermark] = [Date.now() - 3_600_000, Date.now() + 7_200_000];
      await writePollState(inbox, { since, watermark, gaps: [], limit: 50, oldest: null });
    }
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(/\nunproven {4}[A-Z].*\.\n/);
    // The diagnosis above has the advice.
    expect(stdout).toMatch(/\ngap opened {2}Events .* may be missing\.\n/);
    expect(exitCode).toBe(1);

    // The next poll says that the gap is still open, and not that it opened.
    const next = await run(args, service);
    expect(next.stdout).toMatch(/\ngap open {4}Events .*may be missing/);
    expect(next.stdout).not.toContain('gap opened');
    expect(next.exitCode).toBe(1);
  });

  test('catch-up prints the gap that the list has proven now, and is exit 0', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    fire(service.sandbox, 2);
    const minutesAgo = (minutes: number) => Date.now() - minutes * 60_000;
    using inbox = await openCatchUp(folder.at('events.db'));
    const gap = {
      from: minutesAgo(50),
      until: { 'transfer.settled': minutesAgo(40) },
      reason: 'no-answer' as const,
      openedAt: minutesAgo(35),
      acknowledged: null,
    };
    const state = { since: minutesAgo(60), watermark: minutesAgo(30), gaps: [gap], limit: 50, oldest: null };
    await writePollState(inbox, state);

    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db')];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(/\ngap closed {2}Events of transfer\.settled .*are all in the inbox now/);
    expect(stdout).toMatch(/\nproven {6}Every event created from 20/);
    expect(exitCode).toBe(0);
    expect((await run([...args, '--json'], service)).stdout).toContain('"gapsClosed":[]');
  });

  test('catch-up keeps what the endpoint refuses, and a later run delivers it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    let down = true;
    await using endpoint = await startEndpoint(() => {
      if (down) throw new Error('down');
    });
    const ids = fire(service.sandbox, 2);
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    const failed = await run(args, service);
    expect(failed.stdout).toMatch(/delivered +0 now, 0 before, 2 failed\n/);
    expect(failed.exitCode).toBe(1);
    expect(failed.stdout).toMatch(/\nwaiting +Not delivered yet: 2 failed\. Run `stablehooks doctor`/);
    expect(failed.stdout).not.toContain('\nproven');
    expect(failed.stdout).toMatch(/\nrecorded +Every event created from /);
    expect(failed.stdout).not.toContain('threw');
    down = false;
    // The retry time of one event comes, and then that of the other.
    const db = new Database(folder.at('events.db'));
    const later = Date.now() + 3_600_000;
    for (const [before, id] of ids.entries()) {
      db.prepare('UPDATE stablehooks_catch_up_events SET due_at = iif(id = ?, 0, ?) WHERE due_at > 0').run(
        id,
        later,
      );
      const again = await run([...args, '--json'], service);
      // An event that this run delivered was not delivered before.
      expect(JSON.parse(again.stdout.trim().split('\n').at(-1) ?? '')).toMatchObject({
        handled: 1,
        duplicates: before,
      });
      expect(again.exitCode).toBe(before === 0 ? 1 : 0);
    }
    db.close();
    expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
  });

  test('catch-up counts an event that no handler ran in each later run, until a handler runs it', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    let outcome = 'ignored';
    await using server = await serve((_, response) => void response.end(JSON.stringify({ outcome })));
    const [id = ''] = fire(service.sandbox, 1);
    const inbox = ['--inbox', folder.at('events.db')];
    const args = ['catch-up', '--to', server.url, ...inbox, '--since', '1h'];
    expect((await run(args, service)).exitCode).toBe(1);

    const early = await run(args, service);
    expect(early.stdout).toContain('\nno handler  The endpoint ran no handler for 1 event');
    expect(early.stdout).not.toMatch(/\nproven|\nwaiting/);
    expect(early.exitCode).toBe(1);

    // An endpoint that records what it ignores answers `duplicate` to it, and has run nothing. Nor has one that fails.
    for (outcome of ['ignored', 'duplicate', 'dead', 'duplicate']) {
      await run(['inbox', 'requeue', id, ...inbox, '--wait', '0']);
      const { stdout, exitCode } = await run([...args, '--json'], service);
      const [attempt = '', report = ''] = stdout.split('\n');
      expect(JSON.parse(attempt)).toMatchObject({ id, outcome });
      expect(JSON.parse(report)).toMatchObject({ handled: 0, undelivered: { failed: 1 }, withoutHandler: 1 });
      expect(exitCode).toBe(1);
    }

    outcome = 'handled';
    await run(['inbox', 'requeue', id, ...inbox, '--wait', '0']);
    const last = await run(args, service);
    expect(last.stdout).toContain('\nproven');
    expect(last.exitCode).toBe(0);
  });

  test('catch-up is exit 1 while it cannot forward an event of an unknown type, unless --type leaves it out', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    service.sandbox.emit('transfer.reversed');
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    for (const _ of ['first', 'second']) {
      const { stdout, exitCode } = await run(args, service);
      expect(stdout).toContain('\nparked      Not forwarded: 1 event');
      expect(stdout).not.toMatch(/\nproven|\nwaiting/);
      expect(exitCode).toBe(1);
    }
    const selected = await run([...args, '--type', 'transfer.settled'], service);
    expect(selected.stdout).toContain('\nproven');
    expect(selected.exitCode).toBe(0);
  });

  test('catch-up and listen leave a database of another program alone', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const db = new Database(folder.at('app.db'));
    db.exec('CREATE TABLE customers (id INTEGER)');
    for (const command of ['catch-up', 'listen']) {
      const args = [command, '--to', endpoint.url, '--inbox', folder.at('app.db')];
      const { stderr, exitCode } = await run(args, service);
      expect(stderr).toMatch(/app\.db: this SQLite file has no inbox/);
      expect(exitCode).toBe(2);
    }
    expect(db.prepare('SELECT name FROM sqlite_master').all()).toEqual([{ name: 'customers' }]);
    db.close();
  });

  test.for([
    ['dead-letters each event', 200, '{"outcome":"dead"}', '200 dead'],
    ['has no such path', 404, 'Not found', '404'],
  ] as const)('catch-up to an endpoint that %s is exit 1, and the inbox keeps its answer', async (row) => {
    const [, status, body, says] = row;
    await using folder = await makeFolder();
    await using service = await startService();
    await using server = await serve((_, response) => void response.writeHead(status).end(body));
    const [id = ''] = fire(service.sandbox, 1);
    const args = ['catch-up', '--to', server.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(new RegExp(`^transfer\\.settled {2}${id} {2}${says} {2}`));
    expect(stdout).toMatch(/\ndelivered +0 now, 0 before, 1 failed\n/);
    expect(stdout).not.toMatch(/threw|\nproven/);
    expect(exitCode).toBe(1);
    using inbox = await openCatchUp(folder.at('events.db'));
    expect(await inbox.find(id)).toMatchObject({
      state: 'failed',
      lastError: `ERR_HANDLER_FAILED: The endpoint: ${says}.`,
    });
  });

  test('catch-up whose watermark is still at the start date is exit 1, because nothing is proven', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    await using endpoint = await startEndpoint();
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db')];
    const { stdout, exitCode } = await run(args, service);
    expect(stdout).toMatch(/\nnot shown {3}Nothing is proven yet: the start date is 20\S+Z, /);
    expect(exitCode).toBe(1);
  });

  test('catch-up stopped by Ctrl-C prints how to continue, and continues', async () => {
    await using folder = await makeFolder();
    await using service = await startService();
    const ids = fire(service.sandbox, 12);
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    await using endpoint = await startEndpoint((id) => (ids.indexOf(id) < 4 ? undefined : gate));
    const args = ['catch-up', '--to', endpoint.url, '--inbox', folder.at('events.db'), '--since', '1h'];
    const command = start(args, service);
    await command.printed(ids[3] ?? '');
    command.interrupt();
    await command.printed('Finishing the current step.');
    release();
    const { stderr, exitCode } = await command.ended;
    expect(stderr).toContain('To continue, run the same command again.');
    expect(exitCode).toBe(130);
    expect((await run(args, service)).exitCode).toBe(0);
    expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
    expect(endpoint.outcomes).toHaveLength(12);
  });
});
