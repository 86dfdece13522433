import { open, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import Database from 'libsql';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { findClosedUrl, serve } from '../http-server.js';
import { complete, fail } from '../inbox-states.js';
import { SILENT, startEndpoint } from '../service.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';
import { runInTerminal } from '../terminal.js';

/** A file with two events done and one dead; answers the id of that one. */
async function fill(path: string): Promise<string> {
  const dead = exampleEvent('transfer.failed');
  await deliverToFile(path, [exampleEvent('accept.confirmed'), exampleEvent('redeem.failed'), dead]);
  return dead.id;
}

/** How many done events still have their JSON. */
async function countUnpruned(path: string): Promise<number> {
  using inbox = await openSqlite(path);
  const done = await inbox.list({ state: 'done', limit: 10 });
  return done.filter(({ event }) => event !== null).length;
}

/** Runs `inbox prune` in a terminal, and types a line once it asks. */
function pruneInTerminal(path: string, typed: string) {
  return runInTerminal(['inbox', 'prune', '--inbox', path, '--older-than', '0'], {
    columns: 80,
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    type: { at: '[y/N]', text: typed },
  });
}

/** A file with one event done, two dead and one parked. */
async function fillTwoDead(path: string): Promise<readonly string[]> {
  const dead = [exampleEvent('transfer.failed'), exampleEvent('transfer.failed')];
  const unknown = { ...exampleEvent('redeem.failed'), type: 'card.issued' };
  await deliverToFile(path, [exampleEvent('accept.confirmed'), ...dead, unknown]);
  return dead.map(({ id }) => id).toSorted();
}

describe.concurrent('inbox', () => {
  test('inbox list, inbox show and inbox stats print times as ISO 8601 strings under --json', async () => {
    await using folder = await makeFolder();
    const [id = ''] = await fillTwoDead(folder.at('events.db'));
    const print = async (...args: readonly string[]) => {
      const { stdout } = await run(['inbox', ...args, '--inbox', folder.at('events.db'), '--json']);
      return JSON.parse(stdout.split('\n')[0] ?? '');
    };
    const time = expect.stringMatching(/^20\d\d-\d\d-\d\dT[\d:.]+Z$/);
    const shown = await print('show', id);
    expect(shown).toMatchObject({
      receivedAt: time,
      updatedAt: time,
      dueAt: null,
      history: [{ attempt: 1, startedAt: time, endedAt: time, result: 'dead', error: expect.any(String) }],
    });
    const listed = await print('list', '--state', 'dead');
    expect([listed, (await print('list', '--state', 'done')).receivedAt]).toEqual([
      listed.id === id ? shown : await print('show', listed.id),
      time,
    ]);
    const counts: readonly { readonly state: string; readonly oldest: unknown }[] = await print('stats');
    expect(counts.find(({ state }) => state === 'dead')?.oldest).toEqual(time);
    expect(counts.find(({ state }) => state === 'failed')?.oldest).toBeNull();
  });

  test('an ignored event is marked, and requeue --ignored makes it due, by its id or with all others', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    const [first, second, handled] = ['evt_1', 'evt_2', 'evt_3'].map((id) =>
      exampleEvent('transfer.settled', { id }),
    );
    if (!first || !second || !handled) throw new Error('There are three events.');
    await inbox.ignore([first, second], { origin: 'push' });
    await complete(inbox, handled);
    const inboxRun = (name: string, ...flags: readonly string[]) =>
      run(['inbox', name, '--inbox', path, ...flags]);
    const listed = await inboxRun('list', '--ignored');
    expect(listed.stdout.match(/evt_\d +done \(ignored\)/g)).toHaveLength(2);
    expect((await inboxRun('show', 'evt_3')).stdout).toContain('"ignored": false');
    expect((await inboxRun('requeue', 'evt_1')).exitCode).toBe(2);
    expect((await inboxRun('requeue', 'evt_1', 'evt_3', '--ignored', '--wait', '0s')).stdout).toContain(
      '1 event requeued',
    );
    expect((await inboxRun('requeue', '--ignored', '--wait', '0s')).stdout).toContain('1 event requeued');
    expect((await inbox.count({ state: 'received' })).find(({ state }) => state === 'received')?.count).toBe(
      2,
    );
  });

  test('inbox show prints the steps of an event, and requeue --step states what happened to one without a result', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    const event = exampleEvent('redeem.completed');
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state !== 'claimed') throw new Error(`The event is ${claim.state}.`);
    await inbox.saveStep?.(claim.lease, 'mail', '"sent"');
    await inbox.saveStep?.(claim.lease, 'payout', null);
    await inbox.fail(claim.lease, { retryAfterMs: null, error: 'Step payout began.' });

    const show = async (...flags: readonly string[]) =>
      JSON.parse((await run(['inbox', 'show', '--inbox', path, event.id, ...flags])).stdout).steps;
    const at = expect.stringMatching(/^\d{4}-.*Z$/);
    expect(await show()).toEqual([
      { name: 'mail', attempt: 1, at, hasResult: true },
      { name: 'payout', attempt: 1, at, hasResult: false },
    ]);
    expect(await show('--json')).toMatchObject([{ result: '"sent"' }, { result: null }]);

    const requeue = (...flags: readonly string[]) =>
      run(['inbox', 'requeue', '--inbox', path, '--wait', '0s', event.id, ...flags]);
    const refused = await requeue();
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain('its step payout began but recorded no result');
    const wrong = await requeue('--step', 'mail=again');
    expect([wrong.exitCode, wrong.stderr]).toEqual([
      2,
      expect.stringContaining('has no step mail without a result'),
    ]);
    expect((await requeue('--step', 'payout')).exitCode).toBe(2);
    expect((await requeue('--step', 'payout=done')).exitCode).toBe(0);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received' });
    expect(await show('--json')).toMatchObject([{ result: '"sent"' }, { result: '' }]);
  });

  test.for([
    ['a foreign receiver', async () => serve((_request, response) => response.end('OK')), '200'],
    ['an app with another inbox', async () => startEndpoint(), '200 handled'],
  ] as const)(
    'an event of an app is dead as before when inbox run sends it to %s, which answers 200',
    async ([, start, answer]) => {
      await using folder = await makeFolder();
      const path = folder.at('events.db');
      const [id = ''] = await fillTwoDead(path);
      await using endpoint = await start();
      const { stderr, exitCode } = await run(['inbox', 'run', '--inbox', path, id, '--to', endpoint.url]);
      expect(stderr).toContain('but this inbox did not change');
      expect(exitCode).toBe(1);
      using inbox = await openSqlite(path);
      expect(await inbox.find(id)).toMatchObject({
        state: 'dead',
        lastError: `ERR_HANDLER_PERMANENT: the account was closed; inbox run: ${answer}, by an endpoint that does not use this inbox`,
      });
    },
  );

  test('inbox run says that an event runs in the app when the app took it first', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    const [id = ''] = await fillTwoDead(path);
    using inbox = await openSqlite(path);
    let end = () => {};
    const held = new Promise<void>((resolve) => {
      end = resolve;
    });
    const receiver = createReceiver({
      secret: SECRET,
      inbox,
      handlers: { 'transfer.failed': () => held },
      logger: SILENT,
    });
    let redriven: Promise<unknown> | undefined;
    const handler = toNodeHandler(receiver);
    await using server = await serve(async (request, response) => {
      // The app's own look for due events comes before the delivery.
      redriven ??= receiver.redrive();
      while ((await inbox.find(id))?.state !== 'leased') await new Promise(setImmediate);
      await handler(request, response);
    });
    const { stderr, exitCode } = await run(['inbox', 'run', '--inbox', path, id, '--to', server.url]);
    expect(stderr).toContain('Still running in the app');
    expect(stderr).not.toContain('still dead or failed');
    expect(exitCode).toBe(1);
    end();
    await redriven;
    expect(await inbox.find(id)).toMatchObject({ state: 'done' });
  });

  test.for(['a queue', 'no handler for its type'])(
    'an event that inbox run sends to an app with %s is left to a worker, which runs it once',
    async (app) => {
      await using folder = await makeFolder();
      const path = folder.at('events.db');
      const [id = ''] = await fillTwoDead(path);
      using inbox = await openSqlite(path);
      const queued: UnknownEvent[] = [];
      const handled: string[] = [];
      const options = { secret: SECRET, inbox, logger: SILENT };
      const receiver = createReceiver({
        ...options,
        ...(app === 'a queue' && { queue: { enqueue: async (event) => void queued.push(event) } }),
        handlers: {},
      });
      const worker = createReceiver({
        ...options,
        handlers: { 'transfer.failed': (event) => void handled.push(event.id) },
      });
      await using server = await serve(toNodeHandler(receiver));
      const { stderr, exitCode } = await run(['inbox', 'run', '--inbox', path, id, '--to', server.url]);
      expect(stderr).toContain('1 of 1 sent: 1 × 202 queued');
      expect(stderr).toContain('Queued for a worker');
      expect(exitCode).toBe(1);
      expect(await inbox.find(id)).toMatchObject({ state: 'received' });
      for (const event of [...queued, ...queued]) await worker.handle(event, 'queue');
      await worker.redrive();
      expect(handled).toEqual([id]);
      expect(await inbox.find(id)).toMatchObject({ state: 'done' });
    },
  );

  test.for([
    ['failed until its retry time', 3_600_000],
    ['failed and due', 0],
    ['dead', null],
  ] as const)('an event that is %s stays so when inbox run does not reach the endpoint', async (row) => {
    const [, retryAfterMs] = row;
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    using inbox = await openSqlite(path);
    const event = exampleEvent('redeem.failed');
    await fail(inbox, event, { retryAfterMs, error: 'the ledger is down' });
    const before = await inbox.find(event.id);
    const args = ['inbox', 'run', '--inbox', path, event.id, '--to', await findClosedUrl()];
    const { stderr, exitCode } = await run(args);
    expect(stderr).toContain('still dead or failed, as before');
    expect(exitCode).toBe(3);
    const after = await inbox.find(event.id);
    expect(after).toMatchObject({
      state: before?.state,
      lastError: 'the ledger is down; inbox run: nothing is listening there (ECONNREFUSED)',
    });
    const [dueBefore, dueAfter] = [before?.dueAt ?? 0, after?.dueAt ?? 0];
    if (retryAfterMs === 0) expect(dueAfter).toBeLessThanOrEqual(Date.now());
    // The time from the reading of the clock to the writing of the record is added.
    else expect(Math.abs(dueAfter - dueBefore)).toBeLessThan(60_000);
  });

  test('inbox run sends an id once, and skips an event that has been requeued meanwhile', async () => {
    await using folder = await makeFolder();
    const [id = '', other = ''] = await fillTwoDead(folder.at('events.db'));
    using inbox = await openSqlite(folder.at('events.db'));
    // Another process ends the second one while the first is on its way.
    const handled: string[] = [];
    const receiver = createReceiver({
      ...{ secret: SECRET, inbox, logger: SILENT },
      handlers: {
        'transfer.failed': async (event) => {
          handled.push(event.id);
          await inbox.discard({ ids: [other], by: 'ada', reason: 'booked by hand' });
        },
      },
    });
    await using endpoint = await serve(toNodeHandler(receiver));
    const args = ['inbox', 'run', '--inbox', folder.at('events.db'), id, id, other, '--to', endpoint.url];
    const { stderr, exitCode } = await run(args);
    expect(handled).toEqual([id]);
    expect(stderr).toContain(`${other} was skipped`);
    expect(exitCode).toBe(1);
  });

  test('a file of another release is refused, and stays as it was', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    await fillTwoDead(path);
    const db = new Database(path);
    db.exec('UPDATE stablehooks_schema SET version = version - 1');
    const versionOf = () => db.prepare('SELECT version FROM stablehooks_schema').all();
    const before = versionOf();
    const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', path]);
    expect(stderr).toContain(`${path}: this file was written by another release of stablehooks`);
    expect(exitCode).toBe(2);
    expect(versionOf()).toEqual(before);
    db.close();
  });

  test('inbox says what is wrong with a file that is not an inbox', async () => {
    await using folder = await makeFolder();
    await writeFile(
      folder.at('notes.txt'),
      'this is no database, but it is long enough to be taken for one'.repeat(20),
    );
    const noDatabase = await run(['inbox', 'stats', '--inbox', folder.at('notes.txt')]);
    expect(noDatabase.stderr).toMatch(/^stablehooks: .*not an SQLite database.*\n$/);
    expect(noDatabase.exitCode).toBe(2);
  });
});

test('a damaged file of an inbox is exit 3', async () => {
  await using folder = await makeFolder();
  const path = folder.at('events.db');
  await fill(path);
  const db = new Database(path);
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const root = "(SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_stablehooks_notes_1')";
  const sizes = db.prepare(`SELECT page_size AS size, ${root} AS root FROM pragma_page_size`).all();
  db.close();
  const [page] = sizes as readonly { readonly size: number; readonly root: number }[];
  if (page === undefined) throw new Error('The table has no page.');
  const file = await open(path, 'r+');
  await file.write(Buffer.alloc(page.size, 1), 0, page.size, (page.root - 1) * page.size);
  await file.close();
  const { stderr, exitCode } = await run(['gaps', 'list', '--inbox', path]);
  expect(stderr).toContain('(SQLITE_CORRUPT)');
  expect(exitCode).toBe(3);
});

describe.concurrent('inbox prune', () => {
  test('inbox prune --dry-run counts what it would prune, and changes nothing', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    await fill(path);
    const args = ['inbox', 'prune', '--inbox', path, '--dry-run'];
    const all = await run([...args, '--older-than', '0']);
    expect(all.stdout).toBe('2 events done for 0ms or longer would be pruned; nothing was changed.\n');
    const none = await run([...args, '--older-than', '30d', '--json']);
    expect(JSON.parse(none.stdout)).toEqual({ prunable: 0 });
    expect(await countUnpruned(path)).toBe(2);
  });

  test('inbox prune --yes deletes the JSON of done events, keeps their ids, and says when there are none', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    await fill(path);
    const args = ['inbox', 'prune', '--inbox', path, '--older-than', '0', '--yes'];
    expect(await run(args)).toEqual({
      stdout: '2 events pruned; their ids are kept.\n',
      stderr: '',
      exitCode: 0,
    });
    expect(await countUnpruned(path)).toBe(0);
    expect((await run(args)).stdout).toBe(
      'No event has been done for 0ms or longer, so nothing was pruned.\n',
    );
  });

  test.for([
    ['y\r', 0, 0],
    ['\r', 1, 2],
    ['\u0003', 130, 2],
  ] as const)(
    'inbox prune asks on a terminal: after %j the exit code is %i',
    async ([typed, exitCode, left]) => {
      await using folder = await makeFolder();
      const path = folder.at('events.db');
      await fill(path);
      const screen = await pruneInTerminal(path, typed);
      expect(screen.rows.join('\n')).toContain('Delete the JSON of 2 events done for 0ms or longer? [y/N]');
      expect(screen.exitCode).toBe(exitCode);
      expect(await countUnpruned(path)).toBe(left);
    },
  );
});

test('inbox list says that there is more only where the limit left something out', async () => {
  await using folder = await makeFolder();
  await fill(folder.at('events.db'));
  const args = ['inbox', 'list', '--inbox', folder.at('events.db'), '--limit'];
  expect((await run([...args, '3'])).stderr).toBe('');
  expect((await run([...args, '1'])).stderr).toBe(
    'Showing 1 of 3 matching events. Raise --limit to see more.\n',
  );
});
