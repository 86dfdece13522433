import { symlink, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import Database from 'libsql';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { serve } from '../http-server.js';
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
    expect((await run(args)).stdout).toBe('No event is done for 0ms or longer, so nothing was pruned.\n');
  });

  test('inbox prune where nobody can be asked deletes nothing and is exit 2', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    await fill(path);
    const { exitCode } = await run(['inbox', 'prune', '--inbox', path, '--older-than', '0']);
    expect(exitCode).toBe(2);
    expect(await countUnpruned(path)).toBe(2);
  });

  test.for([
    ['y\r', 0, 0],
    ['n\r', 1, 2],
    ['\r', 1, 2],
    ['\u0003', 130, 2],
    ['\u0004', 1, 2],
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

describe.concurrent('inbox list', () => {
  test('inbox list shows the events of all states, each row in 80 columns', async () => {
    await using folder = await makeFolder();
    const id = await fill(folder.at('events.db'));
    const { stdout, stderr } = await run(['inbox', 'list', '--inbox', folder.at('events.db')]);
    expect(stdout).toMatch(/^TYPE +ID +STATE +AGE\n/);
    expect(stdout.match(/ done /g)).toHaveLength(2);
    expect(stdout).toMatch(
      new RegExp(
        `\ntransfer\\.failed +${id} +dead +\\S+\n {2}1 attempt: ERR_HANDLER_PERMANENT: the account was closed\n$`,
      ),
    );
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    expect(stderr).toBe('');
  });

  test('inbox list says that there is more only where the limit left something out', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'));
    const args = ['inbox', 'list', '--inbox', folder.at('events.db'), '--limit'];
    expect((await run([...args, '2'])).stderr).toBe('');
    expect((await run([...args, '1'])).stderr).toBe('There are more that are done. Raise --limit.\n');
  });
});

describe.concurrent('inbox redrive', () => {
  test.for([
    ['dead', 'dead'],
    ['ignored', 'ignored'],
    ['parked', 'parked'],
    ['ignored', 'duplicate'],
  ] as const)(
    'inbox redrive to an endpoint that answers 200 %s and then 200 %s is exit 1, and the event stays dead',
    async ([first, second]) => {
      await using folder = await makeFolder();
      const id = await fill(folder.at('events.db'));
      let outcome = '';
      await using server = await serve((_, response) => void response.end(JSON.stringify({ outcome })));
      const args = ['inbox', 'redrive', '--all-dead', '--inbox', folder.at('events.db'), '--to', server.url];
      for (outcome of [first, second]) {
        const { stdout, stderr, exitCode } = await run(args);
        expect(stdout).toContain(`200 ${outcome}`);
        expect(stderr).toContain('Events that no handler ran are still in the inbox');
        expect(exitCode).toBe(1);
        using inbox = await openSqlite(folder.at('events.db'));
        expect(await inbox.find(id)).toMatchObject({ state: 'dead' });
      }
    },
  );

  test('inbox redrive --all-dead without dead events says that it sent nothing, and is exit 1', async () => {
    await using folder = await makeFolder();
    (await openSqlite(folder.at('events.db')))[Symbol.dispose]();
    const args = [
      'inbox',
      'redrive',
      '--all-dead',
      '--inbox',
      folder.at('events.db'),
      '--to',
      'http://127.0.0.1:1',
    ];
    expect(await run(args)).toEqual({
      stdout: 'There are no dead events, so nothing was sent.\n',
      stderr: '',
      exitCode: 1,
    });
    expect(await run([...args, '--json'])).toEqual({ stdout: '{"sent":0}\n', stderr: '', exitCode: 1 });
  });
});

describe.concurrent('the file of an inbox', () => {
  test('a database of another program is refused, and gets no tables', async () => {
    await using folder = await makeFolder();
    const db = new Database(folder.at('app.db'));
    db.exec('CREATE TABLE users (id INTEGER)');
    const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', folder.at('app.db')]);
    expect(stderr).toMatch(/app\.db: this SQLite file is no inbox\. Check the path\.\n$/);
    expect(exitCode).toBe(2);
    expect(db.prepare('SELECT name FROM sqlite_master').all()).toEqual([{ name: 'users' }]);
    db.close();
  });

  test.for(['libsql', 'better-sqlite3'])(
    'a folder that does not exist is exit 2 with its name: %s',
    async (driver) => {
      await using folder = await makeFolder();
      // A project that has only this driver.
      const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
      await writeFile(folder.at('package.json'), '{}');
      const { mkdir } = await import('node:fs/promises');
      await mkdir(folder.at('node_modules'));
      await symlink(`${modules}/${driver}`, folder.at(`node_modules/${driver}`));
      const args = ['catch-up', '--to', 'http://127.0.0.1:1', '--inbox', 'missing/app.db'];
      const env = { STABLEHOOKS_BASE_URL: 'http://127.0.0.1:1', STABLEHOOKS_TOKEN: 'x' };
      const { stderr, exitCode } = await run(args, { env, cwd: folder.path });
      expect(stderr).toBe(
        'stablehooks: missing/app.db: there is no folder missing. Create it, or check the path.\n',
      );
      expect(exitCode).toBe(2);
    },
  );
});
